#include "config/keys.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace yoke::config {

namespace {

constexpr std::string_view kAtStart = "at start";
constexpr std::string_view kReload = "at start and on SIGHUP";
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

template <class T>
struct MemberOf;
template <class S, class F>
struct MemberOf<F S::*> {
  using Struct = S;
  using Field = F;
};

// One section of Config, found by its type: so a row names the field only.
template <class S>
S& section_of(Config& c) {
  if constexpr (std::is_same_v<S, ServerConfig>) return c.server;
  if constexpr (std::is_same_v<S, AccessConfig>) return c.access;
  if constexpr (std::is_same_v<S, ModelSettings>) return c.model;
  if constexpr (std::is_same_v<S, EngineConfig>) return c.engine;
  if constexpr (std::is_same_v<S, ApiConfig>) return c.api;
  if constexpr (std::is_same_v<S, SamplingConfig>) return c.sampling;
  if constexpr (std::is_same_v<S, LogConfig>) return c.log;
}
template <class S>
const S& section_of(const Config& c) {
  return section_of<S>(const_cast<Config&>(c));
}

template <class S>
constexpr std::string_view section_name() {
  if constexpr (std::is_same_v<S, ServerConfig>) return "server";
  if constexpr (std::is_same_v<S, AccessConfig>) return "access";
  if constexpr (std::is_same_v<S, ModelSettings>) return "model";
  if constexpr (std::is_same_v<S, EngineConfig>) return "engine";
  if constexpr (std::is_same_v<S, ApiConfig>) return "api";
  if constexpr (std::is_same_v<S, SamplingConfig>) return "sampling";
  if constexpr (std::is_same_v<S, LogConfig>) return "log";
}

std::string range_text(double low, double high) {
  const std::string from = format_value(low);
  if (high >= static_cast<double>(kMaxInt)) return from + " or more";
  return from + " to " + format_value(high);
}

template <auto Member>
Key row(std::string_view name, ValueKind kind, std::string_view takes_effect,
        std::string_view help) {
  Key key;
  key.section = section_name<typename MemberOf<decltype(Member)>::Struct>();
  key.name = name;
  key.kind = kind;
  key.takes_effect = takes_effect;
  key.help = help;
  return key;
}

template <auto Member>
auto& field(Config& c) {
  return section_of<typename MemberOf<decltype(Member)>::Struct>(c).*Member;
}
template <auto Member>
const auto& field(const Config& c) {
  return section_of<typename MemberOf<decltype(Member)>::Struct>(c).*Member;
}

template <auto Member>
Key boolean(std::string_view name, std::string_view help) {
  Key key = row<Member>(name, ValueKind::boolean, kAtStart, help);
  key.get = [](const Config& c) -> Value { return field<Member>(c); };
  key.set = [](Config& c, const Value& v) -> Result<void> {
    if (!std::holds_alternative<bool>(v)) return want("true or false", v);
    field<Member>(c) = std::get<bool>(v);
    return {};
  };
  return key;
}

/// int64_t or optional<int64_t>.
template <auto Member>
Key integer(std::string_view name, int64_t low, int64_t high, std::string_view help) {
  Key key = row<Member>(name, ValueKind::integer, kAtStart, help);
  key.get = [](const Config& c) -> Value {
    const auto& f = field<Member>(c);
    if constexpr (std::is_same_v<std::decay_t<decltype(f)>, std::optional<int64_t>>) {
      return f ? Value(*f) : Value();
    } else {
      return f;
    }
  };
  key.set = [low, high](Config& c, const Value& v) -> Result<void> {
    const auto* i = std::get_if<int64_t>(&v);
    if (i == nullptr || *i < low || *i > high)
      return want("an integer, " + range_text(static_cast<double>(low), static_cast<double>(high)),
                  v);
    field<Member>(c) = *i;
    return {};
  };
  return key;
}

std::optional<double> as_number(const Value& v) {
  if (const auto* d = std::get_if<double>(&v); d != nullptr && std::isfinite(*d)) return *d;
  if (const auto* i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
  return std::nullopt;
}

/// double or optional<double>.
template <auto Member>
Key number(std::string_view name, double low, double high, std::string_view help) {
  Key key = row<Member>(name, ValueKind::number, kAtStart, help);
  key.get = [](const Config& c) -> Value {
    const auto& f = field<Member>(c);
    if constexpr (std::is_same_v<std::decay_t<decltype(f)>, std::optional<double>>) {
      return f ? Value(*f) : Value();
    } else {
      return f;
    }
  };
  key.set = [low, high](Config& c, const Value& v) -> Result<void> {
    const auto d = as_number(v);
    if (!d || *d < low || *d > high) return want("a number, " + range_text(low, high), v);
    field<Member>(c) = *d;
    return {};
  };
  return key;
}

/// A duration; the key counts units of `unit` (name ends in _s or _ms), fractions allowed.
template <auto Member>
Key duration(std::string_view name, std::chrono::milliseconds unit, double low, double high,
             std::string_view help) {
  Key key = row<Member>(name, ValueKind::number, kAtStart, help);
  const double per_unit = static_cast<double>(unit.count());
  key.get = [per_unit](const Config& c) -> Value {
    return static_cast<double>(field<Member>(c).count()) / per_unit;
  };
  key.set = [low, high, per_unit](Config& c, const Value& v) -> Result<void> {
    const auto d = as_number(v);
    if (!d || *d < low || *d > high) return want("a number, " + range_text(low, high), v);
    field<Member>(c) = std::chrono::milliseconds(std::llround(*d * per_unit));
    return {};
  };
  return key;
}

template <auto Member>
Key text(std::string_view name, std::string_view help) {
  Key key = row<Member>(name, ValueKind::text, kAtStart, help);
  key.get = [](const Config& c) -> Value { return field<Member>(c); };
  key.set = [](Config& c, const Value& v) -> Result<void> {
    if (!std::holds_alternative<std::string>(v)) return want("a text", v);
    field<Member>(c) = std::get<std::string>(v);
    return {};
  };
  return key;
}

template <auto Member>
Key choice(std::string_view name, std::vector<std::string> words, std::string_view help) {
  Key key = text<Member>(name, help);
  key.set = [words = std::move(words)](Config& c, const Value& v) -> Result<void> {
    const auto* word = std::get_if<std::string>(&v);
    if (word == nullptr || std::find(words.begin(), words.end(), *word) == words.end()) {
      std::string list = "one of";
      for (const std::string& w : words) list += (&w == &words.front() ? " " : ", ") + w;
      return want(list, v);
    }
    field<Member>(c) = *word;
    return {};
  };
  return key;
}

template <auto Member>
Key list(std::string_view name, std::string_view help) {
  Key key = row<Member>(name, ValueKind::list, kAtStart, help);
  key.get = [](const Config& c) -> Value { return field<Member>(c); };
  key.set = [](Config& c, const Value& v) -> Result<void> {
    const auto* items = std::get_if<std::vector<std::string>>(&v);
    if (items == nullptr) return want("a list of texts", v);
    if (std::find(items->begin(), items->end(), "") != items->end())
      return want("a list without empty texts", v);
    field<Member>(c) = *items;
    return {};
  };
  return key;
}

Key with_aliases(Key key, std::vector<std::string_view> aliases) {
  key.aliases = std::move(aliases);
  return key;
}

Key reloaded(Key key) {
  key.takes_effect = kReload;
  return key;
}

Key secret(Key key) {
  key.secret = true;
  return key;
}

using std::chrono::milliseconds;
constexpr milliseconds kSecond{1000};
constexpr milliseconds kMillisecond{1};
constexpr double kDay = 86'400;

std::vector<Key> server_keys() {
  using S = ServerConfig;
  return {
      text<&S::host>("host",
                     "Address to listen on. 127.0.0.1 answers this machine only; 0.0.0.0 answers "
                     "the network: set api_keys then."),
      integer<&S::port>("port", 0, 65535, "TCP port; 0 takes any free one."),
      integer<&S::max_connections>(
          "max_connections", 1, 1'000'000,
          "Open client connections. Idle ones are closed first when it is reached. The limit of "
          "open files is raised to fit, or the start fails with the number that is missing."),
      integer<&S::max_body_mib>("max_body_mib", 1, 4096,
                                "Largest request body in MiB; more is answered with 413."),
      integer<&S::max_header_kib>("max_header_kib", 1, 1024,
                                  "Largest request header in KiB; more is answered with 431."),
      integer<&S::max_buffered_mib>("max_buffered_mib", 1, kMaxInt,
                                    "Memory in MiB for all request bodies together; a request "
                                    "beyond it is answered with 503."),
      integer<&S::io_threads>("io_threads", 1, 256, "Threads that read and write sockets."),
      integer<&S::worker_threads>("worker_threads", 0, 1024,
                                  "Threads that parse, render and tokenise requests; 0 means half "
                                  "of the cores."),
      duration<&S::header_timeout>("header_timeout_s", kSecond, 0.001, kDay,
                                   "Seconds until a request's header must be complete (408)."),
      duration<&S::body_timeout>("body_timeout_s", kSecond, 0.001, kDay,
                                 "Seconds that a request's body may stand still (408)."),
      duration<&S::idle_timeout>(
          "idle_timeout_s", kSecond, 0.001, kDay,
          "Seconds that a connection may wait for its next request. Clients pool connections: "
          "below 120 they meet closed ones."),
      duration<&S::write_timeout>("write_timeout_s", kSecond, 0.001, kDay,
                                  "Seconds that a client may take nothing of its answer before "
                                  "the request is cancelled."),
      with_aliases(duration<&S::shutdown_timeout>(
                       "shutdown_timeout_s", kSecond, 0, kDay,
                       "Seconds that running requests get to finish after SIGTERM or SIGINT; 0 "
                       "ends them at once. A second signal does too."),
                   {"shutdown_timeout"}),
  };
}

std::vector<Key> access_keys() {
  using A = AccessConfig;
  return {
      secret(with_aliases(
          list<&A::api_keys>("api_keys",
                             "Keys that clients must send (`Authorization: Bearer KEY`), each "
                             "`KEY` or `label:KEY`; labels appear in logs and metrics. None: "
                             "everybody who reaches the port may ask."),
          {"api_key"})),
      reloaded(text<&A::api_key_file>(
          "api_key_file",
          "File with further keys, lines `label: KEY`, `#` begins a comment. Only its owner may "
          "read it (mode 0600). Its content is read again on SIGHUP.")),
      list<&A::allowed_origins>("allowed_origins",
                                "Web origins beside loopback ones that browsers may call from, "
                                "such as `https://chat.example`; `*` allows all."),
      boolean<&A::metrics_open>("metrics_open", "Serve /metrics without a key."),
      boolean<&A::models_open>("models_open", "Serve /v1/models without a key."),
  };
}

std::vector<Key> model_keys() {
  using M = ModelSettings;
  return {
      with_aliases(text<&M::path>("model",
                                  "Checkpoint folder (config.json, safetensors, tokenizer.json). "
                                  "Empty: the small demo model that comes with yoke."),
                   {"model_path"}),
      with_aliases(list<&M::served_model_name>(
                       "served_model_name",
                       "Names under which clients may ask for the model; the first is the one "
                       "that answers carry. Empty: the name of the folder."),
                   {"name", "alias"}),
      boolean<&M::accept_any_model>("accept_any_model",
                                    "Answer requests for any model name with this model, and echo "
                                    "the name that was asked for."),
      choice<&M::precision>("precision", {"bf16", "fp32"},
                            "Type of activations and caches: bf16, or fp32 for comparisons."),
  };
}

std::vector<Key> engine_keys() {
  using E = EngineConfig;
  return {
      with_aliases(integer<&E::max_model_len>("max_model_len", 0, kMaxInt,
                                              "Context in tokens, prompt and answer together; 0 "
                                              "means what the checkpoint allows."),
                   {"context"}),
      with_aliases(integer<&E::max_num_seqs>("max_num_seqs", 1, 4096,
                                             "Requests that run at the same time; others queue."),
                   {"parallel"}),
      integer<&E::max_num_batched_tokens>(
          "max_num_batched_tokens", 1, kMaxInt,
          "Rows of one step. Long prompts are computed in chunks that fit beside the running "
          "answers."),
      integer<&E::max_queue>("max_queue", 0, 1'000'000,
                             "Requests that may wait; one more is answered with 429."),
      number<&E::prompt_cache_gib>(
          "prompt_cache_gib", 0, 1024,
          "Memory in GiB for states after prompts, from which later prompts that begin with the "
          "same messages go on; 0 computes every prompt from its first token."),
      integer<&E::kv_cache_tokens>("kv_cache_tokens", 0, std::numeric_limits<int32_t>::max(),
                                   "Tokens of the paged caches, for running requests and kept "
                                   "prompts together, at least max_model_len; 0 means 32768 for "
                                   "each of max_num_seqs, and max_model_len at least. See yoke "
                                   "plan."),
      number<&E::memory_reserve_gib>("memory_reserve_gib", 0, 1024,
                                     "Memory in GiB that is left to the operating system; unset: "
                                     "a thirty-second of the machine, at most 4."),
      duration<&E::request_timeout>("request_timeout_s", kSecond, 0, kDay,
                                    "Seconds from a request's arrival after which it ends with an "
                                    "error, whatever it is doing; 0 means for ever."),
      integer<&E::threads>("threads", 0, 4096, "Threads that compute; 0 means all cores."),
      with_aliases(duration<&E::watchdog>("watchdog_s", kSecond, 1, kDay,
                                          "Seconds without a finished step, although there is "
                                          "work, after which /health answers 503."),
                   {"watchdog"}),
  };
}

std::vector<Key> api_keys() {
  using A = ApiConfig;
  return {
      integer<&A::max_tokens>("max_tokens", 0, kMaxInt,
                              "Most tokens of one answer, reasoning included; 0 means until the "
                              "context is full."),
      boolean<&A::strict_max_tokens>("strict_max_tokens",
                                     "Refuse requests whose prompt and max_tokens together exceed "
                                     "the context, instead of lowering max_tokens."),
      with_aliases(boolean<&A::force_include_usage>("force_include_usage",
                                                    "Send token counts in every stream."),
                   {"enable_force_include_usage"}),
      choice<&A::reasoning_field>(
          "reasoning_field", {"reasoning_content", "reasoning", "reasoning_text", "both"},
          "Field of answers that holds the reasoning: reasoning_content, reasoning, "
          "reasoning_text, or both (the first two)."),
      choice<&A::reasoning_effort>(
          "reasoning_effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"},
          "Effort for requests that do not name one: none, minimal, low, medium, high, xhigh, "
          "max."),
      with_aliases(duration<&A::heartbeat_interval>(
                       "heartbeat_interval_s", kSecond, 0.01, 3600,
                       "Seconds of silence after which a stream gets a comment line, so that no "
                       "client or proxy gives up."),
                   {"heartbeat_interval"}),
      duration<&A::stream_interval>("stream_interval_ms", kMillisecond, 0, 10'000,
                                    "Milliseconds over which the tokens of a stream are joined "
                                    "into one event."),
      with_aliases(duration<&A::queue_timeout>("queue_timeout_s", kSecond, 0, kDay,
                                               "Seconds that a request may wait for its turn "
                                               "before it fails with 504; 0 means for ever."),
                   {"queue_timeout"}),
  };
}

std::vector<Key> sampling_keys() {
  using S = SamplingConfig;
  return {
      number<&S::temperature>("temperature", 0, 2,
                              "Randomness, 0 to 2; 0 takes the likeliest token."),
      number<&S::top_p>("top_p", 0, 1, "Smallest set of tokens with this probability."),
      integer<&S::top_k>("top_k", -1, kMaxInt, "Only the k likeliest tokens; 0 or -1: off."),
      number<&S::min_p>("min_p", 0, 1, "Only tokens at least this likely, relative to the best."),
      number<&S::presence_penalty>("presence_penalty", -2, 2,
                                   "Subtracted from tokens that were used."),
      number<&S::frequency_penalty>("frequency_penalty", -2, 2,
                                    "Subtracted once per use of a token."),
      number<&S::repetition_penalty>("repetition_penalty", 0.01, 100,
                                     "Divides the score of tokens that occurred; 1: off."),
  };
}

std::vector<Key> log_keys() {
  using L = LogConfig;
  return {
      choice<&L::level>("log_level", {"debug", "info", "warn", "error", "off"},
                        "debug, info, warn, error or off."),
      choice<&L::format>("log_format", {"text", "json"}, "text or json, one line per event."),
      choice<&L::requests>("log_requests", {"none", "meta", "full"},
                           "none; meta: one line at admission and one at the end, numbers only; "
                           "full: also the texts of prompts and answers."),
  };
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> all = [] {
    std::vector<Key> out;
    for (auto&& part : {server_keys(), access_keys(), model_keys(), engine_keys(), api_keys(),
                        sampling_keys(), log_keys()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return all;
}

const Key* find_key(std::string_view name) {
  const std::string wanted_name = normalised_name(name);
  for (const Key& key : keys()) {
    if (key.name == wanted_name) return &key;
    for (const std::string_view alias : key.aliases)
      if (alias == wanted_name) return &key;
  }
  return nullptr;
}

std::string_view nearest_key(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Key& key : keys()) names.push_back(key.name);
  return nearest(name, names);
}

}  // namespace yoke::config
