// A whole serving bench: looks at the endpoint, then runs every prompt at every concurrency.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/clock.h"
#include "config/result.h"
#include "engine/json/json.h"
#include "server/bench/client.h"
#include "server/bench/prompts.h"
#include "server/bench/statistics.h"

namespace yoke::server {

struct BenchPlan {
  BenchTarget target;
  BenchRequestOptions request;
  std::vector<BenchPrompt> prompts;
  std::vector<int32_t> concurrency = {1, 2, 4, 8};
  int32_t runs = 3;  ///< waves that count; one more before them is discarded
  /// How long a start of the endpoint may take: refused connections and 503 are tried again.
  config::Duration patience{};
};

struct BenchResult {
  std::string endpoint;
  std::string model;
  std::string server_version;  ///< what GET /version says, when it says something
  BenchPlan plan;
  struct Cell {
    std::string kind;
    int32_t concurrency = 1;
    BenchLine line;
  };
  std::vector<Cell> cells;
  bool failed() const;
};

/// The endpoint answers, knows the key and the model, and is ready. Gives the model to ask: the
/// plan's, or the first that the endpoint lists. Errors name what is wrong and the flag that helps.
config::Result<std::string> check_endpoint(const BenchPlan& plan);

/// `progress` is told before each cell.
using BenchProgress = std::function<void(const std::string& kind, int32_t concurrency)>;
config::Result<BenchResult> run_bench(BenchPlan plan, const BenchProgress& progress);

std::string bench_text(const BenchResult& result);
engine::Json bench_json(const BenchResult& result);

}  // namespace yoke::server
