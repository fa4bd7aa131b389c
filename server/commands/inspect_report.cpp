#include "server/commands/inspect_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/json/json.h"

namespace yoke::server {

using engine::AttentionKind;
using engine::Census;
using engine::Checkpoint;
using engine::Json;
using engine::MlpKind;
using engine::ModelConfig;

namespace {

/// 175622979576 → "175,622,979,576".
std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string two_decimals(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

double bits_per_parameter(uint64_t bytes, uint64_t parameters) {
  return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
}

uint64_t vision_tensors(const Census& census) {
  for (const Census::Class& line : census.classes)
    if (line.name == "vision") return line.tensors;
  return 0;
}

int64_t count(const std::vector<AttentionKind>& kinds, AttentionKind kind) {
  return std::count(kinds.begin(), kinds.end(), kind);
}
int64_t count(const std::vector<MlpKind>& kinds, MlpKind kind) {
  return std::count(kinds.begin(), kinds.end(), kind);
}

void add_line(std::string& out, std::string_view label, const std::string& text) {
  out += "  ";
  out += label;
  out.append(label.size() < 14 ? 14 - label.size() : 1, ' ');
  out += text + "\n";
}

std::string architecture_text(const Checkpoint& checkpoint) {
  const ModelConfig& c = checkpoint.config();
  const Census& census = checkpoint.census();
  const auto number = [](int64_t n) { return std::to_string(n); };
  std::string out;
  add_line(out, "architecture",
           "glm5_next, " + (census.exl3_matrices == 0
                                ? "unquantised"
                                : grouped(census.exl3_matrices) + " matrices in EXL3"));
  add_line(out, "layers",
           number(c.num_layers) + ": " + number(count(c.attention, AttentionKind::kda)) + " KDA, " +
               number(count(c.attention, AttentionKind::dsa)) + " DSA; " +
               number(count(c.mlp, MlpKind::dense)) + " dense MLP, " +
               number(count(c.mlp, MlpKind::sparse)) + " MoE");
  add_line(out, "hidden",
           number(c.hidden_size) + " in " + number(c.hc_streams) + " streams, vocabulary " +
               grouped(static_cast<uint64_t>(c.vocab_size)));
  add_line(out, "context", grouped(static_cast<uint64_t>(c.max_positions)) + " tokens");
  add_line(out, "attention",
           "KDA " + number(c.kda_heads) + " heads of " + number(c.kda_head_dim) + "; MLA " +
               number(c.num_heads) + " heads of " + number(c.qk_head_dim) + " over a latent of " +
               number(c.kv_lora_rank) + "; index top " + number(c.index_topk) + " in pools of " +
               number(c.index_kpool));
  add_line(out, "experts",
           number(c.num_experts) + " of width " + number(c.moe_intermediate_size) + ", " +
               number(c.experts_per_token) + " per token, " + number(c.num_shared_experts) +
               " shared");
  add_line(out, "MTP layer", census.has_mtp ? "yes" : "no");
  add_line(out, "vision tower",
           census.has_vision
               ? "skipped (" + number(static_cast<int64_t>(vision_tensors(census))) + " tensors)"
               : "no");
  add_line(out, "files", number(static_cast<int64_t>(checkpoint.shards().size())));
  add_line(out, "identity", checkpoint.identity());
  return out;
}

/// First column to the left, the others to the right.
std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    out += "  " + row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (size_t i = 1; i < row.size(); ++i)
      out += std::string(2 + widths[i] - row[i].size(), ' ') + row[i];
    out += "\n";
  }
  return out;
}

std::string class_table(const Census& census) {
  std::vector<std::vector<std::string>> rows = {
      {"class", "tensors", "parameters", "bytes", "bits/parameter"}};
  for (const Census::Class& line : census.classes)
    rows.push_back({line.name, grouped(line.tensors), grouped(line.parameters), grouped(line.bytes),
                    two_decimals(line.bits_per_parameter)});
  rows.push_back({"total", grouped(census.tensors), grouped(census.parameters),
                  grouped(census.bytes),
                  two_decimals(bits_per_parameter(census.bytes, census.parameters))});
  return table(rows);
}

Json unsigned_json(uint64_t number) {
  return Json::number(std::to_string(number));
}

Json bits_json(double bits) {
  return Json::number(two_decimals(bits));
}

Json architecture_json(const Checkpoint& checkpoint) {
  const ModelConfig& c = checkpoint.config();
  return Json::object({
      {"model_type", Json::string("glm5_next")},
      {"exl3_matrices", unsigned_json(checkpoint.census().exl3_matrices)},
      {"layers", Json::integer(c.num_layers)},
      {"kda_layers", Json::integer(count(c.attention, AttentionKind::kda))},
      {"dsa_layers", Json::integer(count(c.attention, AttentionKind::dsa))},
      {"dense_mlp_layers", Json::integer(count(c.mlp, MlpKind::dense))},
      {"moe_layers", Json::integer(count(c.mlp, MlpKind::sparse))},
      {"hidden_size", Json::integer(c.hidden_size)},
      {"streams", Json::integer(c.hc_streams)},
      {"vocab_size", Json::integer(c.vocab_size)},
      {"max_positions", Json::integer(c.max_positions)},
      {"kda_heads", Json::integer(c.kda_heads)},
      {"kda_head_dim", Json::integer(c.kda_head_dim)},
      {"mla_heads", Json::integer(c.num_heads)},
      {"kv_lora_rank", Json::integer(c.kv_lora_rank)},
      {"index_topk", Json::integer(c.index_topk)},
      {"index_kpool", Json::integer(c.index_kpool)},
      {"experts", Json::integer(c.num_experts)},
      {"experts_per_token", Json::integer(c.experts_per_token)},
      {"shared_experts", Json::integer(c.num_shared_experts)},
      {"moe_intermediate_size", Json::integer(c.moe_intermediate_size)},
      {"mtp", Json::boolean(checkpoint.census().has_mtp)},
      {"vision", Json::boolean(checkpoint.census().has_vision)},
  });
}

Json problems_json(const std::vector<std::string>& problems) {
  Json::Array items;
  for (const std::string& problem : problems) items.push_back(Json::string(problem));
  return Json::array(std::move(items));
}

}  // namespace

std::string inspect_text(const Checkpoint& checkpoint) {
  const Census& census = checkpoint.census();
  std::string out =
      checkpoint.name() + "\n" + architecture_text(checkpoint) + "\n" + class_table(census) + "\n";
  if (census.problem_count == 0) return out + "can be served\n";
  return out + "cannot be served: " + grouped(census.problem_count) +
         (census.problem_count == 1 ? " problem\n" : " problems\n") +
         engine::problem_summary(census);
}

std::string inspect_json(const Checkpoint& checkpoint) {
  const Census& census = checkpoint.census();
  Json::Array classes;
  for (const Census::Class& line : census.classes)
    classes.push_back(Json::object({{"name", Json::string(line.name)},
                                    {"tensors", unsigned_json(line.tensors)},
                                    {"parameters", unsigned_json(line.parameters)},
                                    {"bytes", unsigned_json(line.bytes)},
                                    {"bits_per_parameter", bits_json(line.bits_per_parameter)}}));
  const double bits = bits_per_parameter(census.bytes, census.parameters);
  return engine::to_json(Json::object({
             {"name", Json::string(checkpoint.name())},
             {"servable", Json::boolean(census.problem_count == 0)},
             {"identity", Json::string(checkpoint.identity())},
             {"files", unsigned_json(checkpoint.shards().size())},
             {"architecture", architecture_json(checkpoint)},
             {"classes", Json::array(std::move(classes))},
             {"tensors", unsigned_json(census.tensors)},
             {"parameters", unsigned_json(census.parameters)},
             {"bytes", unsigned_json(census.bytes)},
             {"bits_per_parameter", bits_json(bits)},
             {"problem_count", unsigned_json(census.problem_count)},
             {"problems", problems_json(census.problems)},
         })) +
         "\n";
}

std::string inspect_json(const config::Error& error) {
  return engine::to_json(Json::object({{"servable", Json::boolean(false)},
                                       {"problem_count", Json::integer(1)},
                                       {"problems", problems_json({error.message})}})) +
         "\n";
}

}  // namespace yoke::server
