// A bench's result as a table for people and as JSON.
#include <cstdio>

#include "server/bench/run.h"

namespace yoke::server {

using engine::Json;

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string triple(const Percentiles& p) {
  return formatted("%.1f / %.1f / %.1f", p.p50, p.p90, p.p99);
}

Json real(double value) {
  return Json::number(formatted("%.6g", value));
}

Json percentiles_json(const Percentiles& p) {
  return Json::object({{"p50", real(p.p50)}, {"p90", real(p.p90)}, {"p99", real(p.p99)}});
}

std::string mode_of(const BenchResult& result) {
  return result.plan.request.cold ? "cold prompts: a random prefix in each"
                                  : "the same prompt in every request";
}

}  // namespace

std::string bench_text(const BenchResult& result) {
  const BenchPlan& plan = result.plan;
  std::string out = result.endpoint + ", model " + result.model;
  if (!result.server_version.empty()) out += ", server " + result.server_version;
  out += "\n" + mode_of(result) + "; greedy, thinking " + (plan.request.thinking ? "on" : "off") +
         ", up to " + std::to_string(plan.request.max_tokens) + " tokens; " +
         std::to_string(plan.runs) + " runs, one before them discarded\n";
  out += formatted("  %-12s %4s %7s %7s  %-24s %-22s %9s %9s %9s %7s %7s\n", "prompt", "at",
                   "prompt", "output", "TTFT ms", "inter-token ms", "tok/s", "tok/s", "tok/s",
                   "cached", "failed");
  out += formatted("  %-12s %4s %7s %7s  %-24s %-22s %9s %9s %9s %7s %7s\n", "", "once", "tokens",
                   "tokens", "p50 / p90 / p99", "p50 / p90 / p99", "a stream", "wall", "active", "",
                   "");
  bool counted = true;
  for (const auto& cell : result.cells) {
    const BenchLine& line = cell.line;
    counted = counted && line.counted_tokens;
    const std::string failed =
        line.failed == 0 ? "-" : std::to_string(line.failed) + "/" + std::to_string(line.requests);
    out += formatted("  %-12s %4d %7.0f %7.1f  %-24s %-22s %9.1f %9.1f %9.1f %5.1f %% %7s\n",
                     cell.kind.c_str(), cell.concurrency, line.prompt_tokens, line.output_tokens,
                     triple(line.ttft_ms).c_str(), triple(line.inter_token_ms).c_str(),
                     line.stream_tps, line.wall_tps, line.active_tps, 100 * line.cached_share,
                     failed.c_str());
  }
  out +=
      "wall: tokens of a run / time from its first request to its last token; active: sum of the "
      "streams' own rates.\n";
  if (!counted)
    out +=
        "This endpoint does not count tokens while it streams: inter-token times give every piece "
        "an equal share.\n";
  for (const auto& cell : result.cells) {
    if (cell.line.failed > 0)
      out += "FAILED: " + cell.kind + " at " + std::to_string(cell.concurrency) + ": " +
             cell.line.failure + "\n";
  }
  return out;
}

Json bench_json(const BenchResult& result) {
  const BenchPlan& plan = result.plan;
  Json::Array cells;
  for (const auto& cell : result.cells) {
    const BenchLine& line = cell.line;
    Json object = Json::object({{"prompt", Json::string(cell.kind)},
                                {"concurrency", Json::integer(cell.concurrency)},
                                {"requests", Json::integer(line.requests)},
                                {"failed", Json::integer(line.failed)},
                                {"prompt_tokens", real(line.prompt_tokens)},
                                {"output_tokens", real(line.output_tokens)},
                                {"ttft_ms", percentiles_json(line.ttft_ms)},
                                {"inter_token_ms", percentiles_json(line.inter_token_ms)},
                                {"inter_token_counted", Json::boolean(line.counted_tokens)},
                                {"stream_tokens_per_s", real(line.stream_tps)},
                                {"wall_tokens_per_s", real(line.wall_tps)},
                                {"active_tokens_per_s", real(line.active_tps)},
                                {"cached_share", real(line.cached_share)}});
    if (line.failed > 0) object.set("failure", Json::string(line.failure));
    cells.push_back(std::move(object));
  }
  return Json::object({{"endpoint", Json::string(result.endpoint)},
                       {"model", Json::string(result.model)},
                       {"server_version", Json::string(result.server_version)},
                       {"cold", Json::boolean(plan.request.cold)},
                       {"thinking", Json::boolean(plan.request.thinking)},
                       {"max_tokens", Json::integer(plan.request.max_tokens)},
                       {"runs", Json::integer(plan.runs)},
                       {"results", Json::array(std::move(cells))}});
}

}  // namespace yoke::server
