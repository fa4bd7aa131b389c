#include "server/commands/plan_report.h"

#include <cstdio>

#include "engine/json/json.h"

namespace yoke::server {
namespace {

using engine::format_count;
using engine::Json;

/// In GiB to three places, so that small classes of a small model show too.
std::string row(const std::string& name, uint64_t bytes, const std::string& detail) {
  char text[160];
  std::snprintf(text, sizeof text, "  %-17s %12.3f", name.c_str(),
                static_cast<double>(bytes) / 0x1p30);
  return text + (detail.empty() ? "" : "  " + detail) + "\n";
}

Json number(uint64_t bytes) {
  return Json::integer(static_cast<int64_t>(bytes));
}

}  // namespace

std::string plan_text(const PlanFacts& facts) {
  std::string out = facts.model + ": " + format_count(facts.max_num_seqs) + " sequences of up to " +
                    format_count(facts.max_model_len) + " tokens, steps of " +
                    format_count(facts.max_num_batched_tokens) + " rows\n\n";
  out += "  memory                     GiB\n";
  for (const engine::MemoryClass& c : facts.plan.classes) out += row(c.name, c.bytes, c.detail);
  out += row("total", facts.plan.total(), "");
  if (!facts.system) return out + "\nThis machine does not say how much memory is available.\n";
  out += row("available here", facts.system->available,
             "of " + engine::format_bytes(facts.system->total));
  if (facts.fits()) return out + "\nIt fits.\n";
  out += "\nIt does not fit: " + engine::format_bytes(facts.missing()) + " are missing.";
  if (!facts.holders.empty()) out += " Most is held by " + describe(facts.holders) + ".";
  return out + "\n";
}

std::string plan_json(const PlanFacts& facts) {
  Json::Array classes, holders;
  for (const engine::MemoryClass& c : facts.plan.classes)
    classes.push_back(Json::object({{"name", Json::string(c.name)},
                                    {"bytes", number(c.bytes)},
                                    {"detail", Json::string(c.detail)}}));
  for (const engine::MemoryHolder& h : facts.holders)
    holders.push_back(Json::object({{"pid", Json::integer(h.pid)},
                                    {"name", Json::string(h.name)},
                                    {"bytes", number(h.bytes)}}));
  const Json out =
      Json::object({{"model", Json::string(facts.model)},
                    {"max_model_len", Json::integer(facts.max_model_len)},
                    {"max_num_seqs", Json::integer(facts.max_num_seqs)},
                    {"max_num_batched_tokens", Json::integer(facts.max_num_batched_tokens)},
                    {"classes", Json::array(std::move(classes))},
                    {"total_bytes", number(facts.plan.total())},
                    {"available_bytes", facts.system ? number(facts.system->available) : Json()},
                    {"fits", Json::boolean(facts.fits())},
                    {"missing_bytes", number(facts.missing())},
                    {"holders", Json::array(std::move(holders))}});
  return engine::to_json(out) + "\n";
}

}  // namespace yoke::server
