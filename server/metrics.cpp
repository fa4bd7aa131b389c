#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

namespace yoke::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;
using prometheus::Registry;

// spec/api.md 4.2. Below vLLM's borders of a token three more: drafting yields several per step.
const Histogram::BucketBoundaries kFirstTokenSeconds = {.001, .005, .01, .02, .04, .06, .08, .1,
                                                        .25,  .5,   .75, 1,   2.5, 5,   7.5, 10,
                                                        20,   40,   80,  160, 640, 2560};
const Histogram::BucketBoundaries kTokenSeconds = {.001, .0025, .005, .01, .025, .05, .075, .1,
                                                   .15,  .2,    .3,   .4,  .5,   .75, 1,    2.5,
                                                   5,    7.5,   10,   20,  40,   80};
const Histogram::BucketBoundaries kRequestSeconds = {
    .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Histogram::BucketBoundaries kCancelSeconds = {.001, .005, .01, .025, .05, .1,
                                                    .25,  .5,   1,   2.5,  5,   10};

constexpr std::array kRejections = {Rejection::queue_full, Rejection::context, Rejection::invalid,
                                    Rejection::auth,       Rejection::origin,  Rejection::loading,
                                    Rejection::draining,   Rejection::failed};

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
    case Rejection::origin:
      return "origin";
    case Rejection::loading:
      return "loading";
    case Rejection::draining:
      return "draining";
    case Rejection::failed:
      return "failed";
  }
  return "invalid";
}

Family<Counter>& counters(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Histogram& histogram(Registry& registry, const char* name, const char* help,
                     const Histogram::BucketBoundaries& bounds) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
}

double now_unix() {
  using std::chrono::duration;
  return duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Other methods are the client's words.
std::string known_method(std::string_view method) {
  for (const std::string_view known : {"GET", "HEAD", "POST", "DELETE", "OPTIONS"})
    if (method == known) return std::string(known);
  return "other";
}

/// `}` ends the labels for simple readers of the format.
std::string label_safe(std::string text) {
  std::replace(text.begin(), text.end(), '}', ')');
  return text;
}

// --- what is known only when somebody asks ---

using Labels = std::vector<prometheus::ClientMetric::Label>;

void add_value(std::vector<MetricFamily>& families, MetricType type, std::string name,
               std::string help, double value, Labels labels = {}) {
  if (families.empty() || families.back().name != name) {
    MetricFamily family;
    family.name = std::move(name);
    family.help = std::move(help);
    family.type = type;
    families.push_back(std::move(family));
  }
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  if (type == MetricType::Counter)
    metric.counter.value = value;
  else
    metric.gauge.value = value;
  families.back().metric.push_back(std::move(metric));
}

template <class Number>
void add_gauge(std::vector<MetricFamily>& families, const char* name, const char* help,
               Number value, Labels labels = {}) {
  add_value(families, MetricType::Gauge, name, help, static_cast<double>(value), std::move(labels));
}
template <class Number>
void add_counter(std::vector<MetricFamily>& families, const char* name, const char* help,
                 Number value, Labels labels = {}) {
  add_value(families, MetricType::Counter, name, help, static_cast<double>(value),
            std::move(labels));
}

void add_engine(std::vector<MetricFamily>& out, const engine::ServiceStatus& status) {
  add_gauge(out, "yoke_requests_running", "requests that hold a sequence slot", status.running);
  add_gauge(out, "yoke_requests_waiting", "requests in the queue", status.waiting);
  add_gauge(out, "yoke_requests_prefilling", "running requests still reading their prompt",
            status.prefilling);
  const char* prompt = "prompt tokens, computed or from the cache";
  add_counter(out, "yoke_prompt_tokens_total", prompt, status.prompt_tokens_computed,
              {{"source", "computed"}});
  add_counter(out, "yoke_prompt_tokens_total", prompt, status.prompt_tokens_cached,
              {{"source", "cached"}});
  add_counter(out, "yoke_engine_steps_total", "finished engine steps", status.steps);
  add_counter(out, "yoke_engine_tokens_total", "tokens sampled by the engine",
              status.generated_tokens);
  add_gauge(out, "yoke_engine_last_step_age_seconds",
            "time since the last finished step while there is work",
            config::seconds(status.stalled));
  add_counter(out, "yoke_nonfinite_rows_total", "rows of logits with a value that is not finite",
              status.nonfinite_rows);
  add_gauge(out, "yoke_kv_cache_usage_ratio", "share of KV blocks in use", status.cache_usage,
            {{"pool", "latent"}});
  add_gauge(out, "yoke_prefix_cache_snapshots", "states after prompts that are kept",
            status.snapshots);
  add_gauge(out, "yoke_prefix_cache_snapshots_max", "states after prompts that fit",
            status.max_snapshots);
  add_gauge(out, "yoke_prefix_cache_tokens", "tokens in KV blocks that only the prefix cache holds",
            status.idle_tokens);
  add_counter(out, "yoke_prefix_cache_evictions_total",
              "states after prompts that were given up for others or for blocks",
              status.snapshot_evictions);
}

double resident_bytes() {
  std::ifstream stream("/proc/self/statm");
  double total = 0;
  double resident = 0;
  stream >> total >> resident;
  return stream ? resident * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

double open_descriptors() {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  double count = 0;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  return count;
}

void add_process(std::vector<MetricFamily>& out) {
  add_counter(out, "process_cpu_seconds_total", "user and system CPU time",
              static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
  add_gauge(out, "process_resident_memory_bytes", "resident memory", resident_bytes());
  add_gauge(out, "process_open_fds", "open file descriptors", open_descriptors());
}

}  // namespace

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

struct Metrics::Impl {
  Registry registry;

  Build build;
  double started = now_unix();
  Family<Counter>& http =
      counters(registry, "yoke_http_requests_total", "HTTP requests by route, method and status");
  Family<Counter>& ended = counters(registry, "yoke_requests_total", "requests by how they ended");
  Family<Counter>& rejected =
      counters(registry, "yoke_requests_rejected_total", "requests refused, by reason");
  Family<Counter>& disconnects = counters(registry, "yoke_client_disconnects_total",
                                          "clients that left before their answer was complete");
  Histogram& cancel = histogram(registry, "yoke_cancel_latency_seconds",
                                "from the socket's close to the slot's release", kCancelSeconds);
  Family<Counter>& generated =
      counters(registry, "yoke_generated_tokens_total", "generated tokens by kind");
  Histogram& first_token = histogram(registry, "yoke_time_to_first_token_seconds",
                                     "from the request to its first token", kFirstTokenSeconds);
  Histogram& between = histogram(registry, "yoke_inter_token_seconds",
                                 "between tokens of one request", kTokenSeconds);
  Histogram& queue =
      histogram(registry, "yoke_queue_seconds", "time in the queue", kRequestSeconds);
  Histogram& prefill = histogram(registry, "yoke_prefill_seconds",
                                 "from the first prompt row to the first token", kRequestSeconds);
  Histogram& decode = histogram(registry, "yoke_decode_seconds", "from the first token to the last",
                                kRequestSeconds);
  Histogram& request =
      histogram(registry, "yoke_request_seconds", "from request to answer", kRequestSeconds);
  Counter& tool_calls = counters(registry, "yoke_tool_calls_total", "complete tool calls").Add({});
  Counter& stalls = counters(registry, "yoke_slow_reader_stalls_total",
                             "streams paused because the reader did not take their bytes")
                        .Add({});
  Gauge& buffered = prometheus::BuildGauge()
                        .Name("yoke_sse_buffer_bytes")
                        .Help("answer bytes that readers have not taken")
                        .Register(registry)
                        .Add({});
};

Metrics::Metrics(const Build& build) : impl_(std::make_unique<Impl>()) {
  impl_->build = build;
  // Series that exist from the start can be alerted on before anything happened.
  for (const Outcome o : {Outcome::stop, Outcome::length, Outcome::tool_calls, Outcome::cancelled,
                          Outcome::error, Outcome::rejected})
    impl_->ended.Add({{"outcome", name_of(o)}});
  for (const Rejection r : kRejections) impl_->rejected.Add({{"reason", name_of(r)}});
  for (const DisconnectStage s : {DisconnectStage::queued, DisconnectStage::prefill,
                                  DisconnectStage::decode, DisconnectStage::writing})
    impl_->disconnects.Add({{"stage", name_of(s)}});
  generated_tokens(0, 0, 0);
}

Metrics::~Metrics() = default;

void Metrics::http_request(std::string_view route, std::string_view method, int status) {
  impl_->http
      .Add({{"route", std::string(route)},
            {"method", known_method(method)},
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
void Metrics::tool_calls(int64_t complete) {
  impl_->tool_calls.Increment(static_cast<double>(complete));
}
void Metrics::slow_reader_stall() {
  impl_->stalls.Increment();
}
void Metrics::stream_buffer(int64_t more_bytes) {
  impl_->buffered.Increment(static_cast<double>(more_bytes));
}

std::string Metrics::text(const Snapshot& snapshot) const {
  std::vector<MetricFamily> families = impl_->registry.Collect();
  add_gauge(families, "yoke_build_info", "1, with what is running as labels", 1,
            {{"version", impl_->build.version},
             {"model", label_safe(snapshot.model)},
             {"backend", impl_->build.backend}});
  add_gauge(families, "yoke_process_start_time_seconds", "Unix time of the start", impl_->started);
  add_gauge(families, "yoke_http_connections", "open sockets", snapshot.http_connections);
  add_gauge(families, "yoke_request_body_bytes", "request bodies in memory",
            snapshot.request_body_bytes);
  if (snapshot.engine) add_engine(families, *snapshot.engine);
  add_process(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace yoke::server
