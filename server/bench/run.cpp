#include "server/bench/run.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <thread>
#include <utility>

#include "server/bench/answer_reader.h"

namespace yoke::server {

using config::Clock;
using config::ErrorKind;
using engine::Json;

namespace {

constexpr auto kRetry = std::chrono::milliseconds(200);

std::string help_for(int status) {
  switch (status) {
    case 401:
    case 403:
      return "; give a key with --api-key or YOKE_BENCH_API_KEY";
    case 503:
      return "; --wait SECONDS waits until it is ready";
    default:
      return "";
  }
}

config::Error refused(const BenchPlan& plan, int status, const std::string& body) {
  const ErrorKind kind = status == 503 ? ErrorKind::unavailable : ErrorKind::invalid_input;
  return {kind, plan.target.endpoint.url() + " answers " + std::to_string(status) + ": " +
                    error_text(body) + help_for(status)};
}

/// The ids of GET /models; empty when the endpoint has no such list.
config::Result<std::vector<std::string>> listed_models(const BenchPlan& plan) {
  const auto reply = bench_get(plan.target, "/models");
  if (!reply.ok())
    return config::Error{reply.error().kind,
                         reply.error().message + "; --wait SECONDS waits until it answers"};
  std::vector<std::string> ids;
  if (reply->status == 404 || reply->status == 405) return ids;
  if (reply->status != 200) return refused(plan, reply->status, reply->body);
  const auto json = engine::parse_json(reply->body, "model list");
  const Json* data = json.ok() ? json->find("data") : nullptr;
  if (data == nullptr || !data->is_array())
    return config::invalid_input(plan.target.endpoint.url() +
                                 "/models is no model list: is this an OpenAI-style endpoint?");
  for (const Json& model : data->items()) {
    const Json* id = model.find("id");
    if (id != nullptr && id->is_string()) ids.push_back(id->as_string());
  }
  return ids;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

config::Result<std::string> choose_model(const BenchPlan& plan) {
  const auto ids = listed_models(plan);
  if (!ids.ok()) return ids.error();
  const std::string& wanted = plan.request.model;
  if (wanted.empty()) {
    if (ids->empty())
      return config::invalid_input(plan.target.endpoint.url() +
                                   " lists no models; name one with --model");
    return ids->front();
  }
  if (ids->empty() || std::find(ids->begin(), ids->end(), wanted) != ids->end()) return wanted;
  return config::Error{ErrorKind::not_found, plan.target.endpoint.url() + " has no model \"" +
                                                 wanted + "\"; it serves: " + joined(*ids)};
}

/// One short answer: it shows that the endpoint is ready and takes our requests.
config::Result<void> probe(const BenchPlan& plan, const std::string& model) {
  BenchRequestOptions request = plan.request;
  request.model = model;
  request.max_tokens = 1;
  const Wave wave = bench_wave(plan.target, {bench_body(plan.prompts.front(), request, "0")});
  const std::string& failure = wave.front().failure;
  if (failure.empty()) return {};
  const bool not_ready = failure.starts_with("HTTP 503");
  return config::Error{not_ready ? ErrorKind::unavailable : ErrorKind::invalid_input,
                       plan.target.endpoint.url() + ": a first request failed: " + failure +
                           (not_ready ? help_for(503) : "")};
}

config::Result<std::string> check_once(const BenchPlan& plan) {
  auto model = choose_model(plan);
  if (!model.ok()) return model;
  if (auto answered = probe(plan, *model); !answered.ok()) return answered.error();
  return model;
}

std::string server_version(const BenchTarget& target) {
  BenchTarget root = target;
  root.endpoint.base.clear();
  const auto reply = bench_get(root, "/version");
  if (!reply.ok() || reply->status != 200) return "";
  const auto json = engine::parse_json(reply->body, "version");
  const Json* version = json.ok() ? json->find("version") : nullptr;
  return version != nullptr && version->is_string() ? version->as_string() : "";
}

/// Different in every request of every run: no cache may know it.
std::string random_tag(std::mt19937_64& random) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random()));
  return text;
}

}  // namespace

bool BenchResult::failed() const {
  return std::any_of(cells.begin(), cells.end(),
                     [](const Cell& cell) { return cell.line.failed > 0; });
}

config::Result<std::string> check_endpoint(const BenchPlan& plan) {
  const config::TimePoint deadline = Clock::now() + plan.patience;
  for (;;) {
    auto model = check_once(plan);
    if (model.ok() || model.error().kind != ErrorKind::unavailable) return model;
    if (Clock::now() + kRetry > deadline) {
      if (plan.patience.count() == 0) return model;
      return config::Error{ErrorKind::unavailable,
                           model.error().message + " (waited " +
                               std::to_string(static_cast<int>(config::seconds(plan.patience))) +
                               " s)"};
    }
    std::this_thread::sleep_for(kRetry);
  }
}

config::Result<BenchResult> run_bench(BenchPlan plan, const BenchProgress& progress) {
  auto model = check_endpoint(plan);
  if (!model.ok()) return model.error();
  plan.request.model = *model;
  BenchResult result;
  result.endpoint = plan.target.endpoint.url();
  result.model = *model;
  result.server_version = server_version(plan.target);
  std::random_device device;
  std::mt19937_64 random((uint64_t{device()} << 32) | device());
  for (const BenchPrompt& prompt : plan.prompts) {
    for (const int32_t concurrency : plan.concurrency) {
      progress(prompt.kind, concurrency);
      std::vector<Wave> waves;
      for (int32_t run = 0; run <= plan.runs; ++run) {
        std::vector<std::string> bodies;
        for (int32_t i = 0; i < concurrency; ++i)
          bodies.push_back(bench_body(prompt, plan.request, random_tag(random)));
        Wave wave = bench_wave(plan.target, bodies);
        if (run > 0) waves.push_back(std::move(wave));
      }
      result.cells.push_back({prompt.kind, concurrency, summarise(waves)});
    }
  }
  result.plan = std::move(plan);
  return result;
}

}  // namespace yoke::server
