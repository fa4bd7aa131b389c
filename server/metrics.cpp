#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>

namespace yoke::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

const Histogram::BucketBoundaries kLatencySeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};
const Histogram::BucketBoundaries kTokenSeconds = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5, 5};

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::stop:
      return "stop";
    case Outcome::length:
      return "length";
    case Outcome::tool_calls:
      return "tool_calls";
    case Outcome::cancelled:
      return "cancelled";
    case Outcome::error:
      return "error";
    case Outcome::rejected:
      return "rejected";
  }
  return "error";
}

const char* name_of(Rejection reason) {
  switch (reason) {
    case Rejection::queue_full:
      return "queue_full";
    case Rejection::context:
      return "context";
    case Rejection::invalid:
      return "invalid";
    case Rejection::auth:
      return "auth";
    case Rejection::rate:
      return "rate";
    case Rejection::draining:
      return "draining";
  }
  return "invalid";
}

const char* name_of(DisconnectStage stage) {
  switch (stage) {
    case DisconnectStage::queued:
      return "queued";
    case DisconnectStage::prefill:
      return "prefill";
    case DisconnectStage::decode:
      return "decode";
    case DisconnectStage::writing:
      return "writing";
  }
  return "decode";
}

Family<Counter>& counters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& gauges(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
Histogram& histogram(Registry& registry, const char* name, const char* help,
                     const Histogram::BucketBoundaries& bounds) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
}

double now_unix() {
  using std::chrono::duration;
  return duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

struct Metrics::Impl {
  Registry registry;

  Family<Gauge>& build = gauges(registry, "yoke_build_info", "1, with what is running as labels");
  Gauge& started =
      gauges(registry, "yoke_process_start_time_seconds", "Unix time of the start").Add({});
  Family<Counter>& http =
      counters(registry, "yoke_http_requests_total", "HTTP requests by route, method and status");
  Gauge& connections = gauges(registry, "yoke_http_connections", "open sockets").Add({});
  Gauge& running =
      gauges(registry, "yoke_requests_running", "requests that hold a sequence slot").Add({});
  Gauge& waiting = gauges(registry, "yoke_requests_waiting", "requests in the queue").Add({});
  Gauge& prefilling =
      gauges(registry, "yoke_requests_prefilling", "running requests still reading their prompt")
          .Add({});
  Family<Counter>& ended = counters(registry, "yoke_requests_total", "requests by how they ended");
  Family<Counter>& rejected =
      counters(registry, "yoke_requests_rejected_total", "requests refused, by reason");
  Family<Counter>& disconnects = counters(registry, "yoke_client_disconnects_total",
                                          "clients that left before their answer was complete");
  Histogram& cancel = histogram(registry, "yoke_cancel_latency_seconds",
                                "from the socket's close to the slot's release", kLatencySeconds);
  Family<Counter>& prompt =
      counters(registry, "yoke_prompt_tokens_total", "prompt tokens, computed or from the cache");
  Family<Counter>& generated =
      counters(registry, "yoke_generated_tokens_total", "generated tokens by kind");
  Histogram& first_token = histogram(registry, "yoke_time_to_first_token_seconds",
                                     "from the request to its first token", kLatencySeconds);
  Histogram& between = histogram(registry, "yoke_inter_token_seconds",
                                 "between tokens of one request", kTokenSeconds);
  Histogram& queue =
      histogram(registry, "yoke_queue_seconds", "time in the queue", kLatencySeconds);
  Histogram& prefill = histogram(registry, "yoke_prefill_seconds",
                                 "from the first prompt row to the first token", kLatencySeconds);
  Histogram& decode = histogram(registry, "yoke_decode_seconds", "from the first token to the last",
                                kLatencySeconds);
  Histogram& request =
      histogram(registry, "yoke_request_seconds", "from request to answer", kLatencySeconds);
  Counter& tool_calls = counters(registry, "yoke_tool_calls_total", "complete tool calls").Add({});
  Counter& tool_failures =
      counters(registry, "yoke_tool_parse_failures_total", "call blocks returned as text").Add({});
  Counter& stalls = counters(registry, "yoke_slow_reader_stalls_total",
                             "streams paused because the reader did not take their bytes")
                        .Add({});
  Gauge& buffered =
      gauges(registry, "yoke_sse_buffer_bytes", "answer bytes that readers have not taken").Add({});
  Gauge& steps = gauges(registry, "yoke_engine_steps", "steps since the start").Add({});
  Gauge& step_age = gauges(registry, "yoke_engine_last_step_age_seconds",
                           "time since the last finished step while there is work")
                        .Add({});
  Gauge& nonfinite = gauges(registry, "yoke_nonfinite_rows",
                            "rows of logits with a value that is not finite, since the start")
                         .Add({});
  Gauge& cache = gauges(registry, "yoke_kv_cache_usage_ratio", "share of KV blocks in use")
                     .Add({{"pool", "latent"}});
};

Metrics::Metrics(const Build& build) : impl_(std::make_unique<Impl>()) {
  impl_->build
      .Add({{"version", build.version},
            {"commit", build.commit},
            {"model", build.model},
            {"backend", build.backend}})
      .Set(1);
  impl_->started.Set(now_unix());
  // Series that exist from the start can be alerted on before anything happened.
  for (const Outcome o : {Outcome::stop, Outcome::length, Outcome::tool_calls, Outcome::cancelled,
                          Outcome::error, Outcome::rejected})
    impl_->ended.Add({{"outcome", name_of(o)}});
  for (const Rejection r : {Rejection::queue_full, Rejection::context, Rejection::invalid,
                            Rejection::auth, Rejection::rate, Rejection::draining})
    impl_->rejected.Add({{"reason", name_of(r)}});
  for (const DisconnectStage s : {DisconnectStage::queued, DisconnectStage::prefill,
                                  DisconnectStage::decode, DisconnectStage::writing})
    impl_->disconnects.Add({{"stage", name_of(s)}});
  prompt_tokens(0, 0);
  generated_tokens(0, 0, 0);
}

Metrics::~Metrics() = default;

void Metrics::http_request(std::string_view route, std::string_view method, int status) {
  impl_->http
      .Add({{"route", std::string(route)},
            {"method", std::string(method)},
            {"code", std::to_string(status)}})
      .Increment();
}

void Metrics::request_ended(Outcome outcome) {
  impl_->ended.Add({{"outcome", name_of(outcome)}}).Increment();
}

void Metrics::request_rejected(Rejection reason) {
  impl_->rejected.Add({{"reason", name_of(reason)}}).Increment();
  request_ended(Outcome::rejected);
}

void Metrics::client_disconnected(DisconnectStage stage) {
  impl_->disconnects.Add({{"stage", name_of(stage)}}).Increment();
}

void Metrics::cancel_latency(config::Duration d) {
  impl_->cancel.Observe(config::seconds(d));
}

void Metrics::prompt_tokens(int64_t computed, int64_t cached) {
  impl_->prompt.Add({{"source", "computed"}}).Increment(static_cast<double>(computed));
  impl_->prompt.Add({{"source", "cached"}}).Increment(static_cast<double>(cached));
}

void Metrics::generated_tokens(int64_t content, int64_t reasoning, int64_t tool) {
  impl_->generated.Add({{"kind", "content"}}).Increment(static_cast<double>(content));
  impl_->generated.Add({{"kind", "reasoning"}}).Increment(static_cast<double>(reasoning));
  impl_->generated.Add({{"kind", "tool"}}).Increment(static_cast<double>(tool));
}

void Metrics::time_to_first_token(config::Duration d) {
  impl_->first_token.Observe(config::seconds(d));
}
void Metrics::inter_token(config::Duration d) {
  impl_->between.Observe(config::seconds(d));
}
void Metrics::queue_time(config::Duration d) {
  impl_->queue.Observe(config::seconds(d));
}
void Metrics::prefill_time(config::Duration d) {
  impl_->prefill.Observe(config::seconds(d));
}
void Metrics::decode_time(config::Duration d) {
  impl_->decode.Observe(config::seconds(d));
}
void Metrics::request_time(config::Duration d) {
  impl_->request.Observe(config::seconds(d));
}
void Metrics::tool_call() {
  impl_->tool_calls.Increment();
}
void Metrics::tool_parse_failure() {
  impl_->tool_failures.Increment();
}
void Metrics::slow_reader_stall() {
  impl_->stalls.Increment();
}

std::string Metrics::text(const Snapshot& snapshot) {
  impl_->connections.Set(static_cast<double>(snapshot.http_connections));
  impl_->buffered.Set(static_cast<double>(snapshot.sse_buffer_bytes));
  impl_->running.Set(snapshot.engine.running);
  impl_->waiting.Set(snapshot.engine.waiting);
  impl_->prefilling.Set(snapshot.engine.prefilling);
  impl_->steps.Set(static_cast<double>(snapshot.engine.steps));
  impl_->step_age.Set(config::seconds(snapshot.engine.stalled));
  impl_->nonfinite.Set(static_cast<double>(snapshot.engine.nonfinite_rows));
  impl_->cache.Set(snapshot.engine.cache_usage);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace yoke::server
