// Every setting of yoke, one struct per component; each component receives its own struct, never
// the whole. The defaults stand here; names, ranges and texts for people stand in keys.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yoke::config {

/// [server]: sockets and HTTP.
struct ServerConfig {
  std::string host = "127.0.0.1";
  int64_t port = 8080;  ///< 0 = any free port
  int64_t max_connections = 4096;
  int64_t max_body_mib = 64;
  int64_t max_header_kib = 64;
  int64_t max_buffered_mib = 1024;  ///< all request bodies together
  int64_t io_threads = 2;
  int64_t worker_threads = 0;  ///< 0 = half of the cores, at least 1
  std::chrono::milliseconds header_timeout{30'000};
  std::chrono::milliseconds body_timeout{60'000};    ///< without progress
  std::chrono::milliseconds idle_timeout{180'000};   ///< between requests of one connection
  std::chrono::milliseconds write_timeout{300'000};  ///< a reader that takes nothing
  std::chrono::milliseconds shutdown_timeout{30'000};
};

/// [access]: who may ask.
struct AccessConfig {
  std::vector<std::string> api_keys;         ///< `key` or `label:key`
  std::string api_key_file;                  ///< lines `label: key`; empty = none
  std::vector<std::string> allowed_origins;  ///< beside loopback origins; `*` = all
  bool metrics_open = false;
  bool models_open = false;
};

/// [model]: what is served and under which names.
struct ModelSettings {
  std::string path;  ///< checkpoint folder; empty = the nano model shipped with yoke
  std::vector<std::string> served_model_name;  ///< the first is the main name; empty = folder name
  bool accept_any_model = false;
  std::string precision = "bf16";  ///< bf16 or fp32
};

/// [engine]: scheduling and memory.
struct EngineConfig {
  int64_t max_model_len = 0;  ///< tokens; 0 = what the checkpoint allows
  int64_t max_num_seqs = 4;
  int64_t max_num_batched_tokens = 512;
  int64_t max_queue = 64;
  double prompt_cache_gib = 2;  ///< prefix snapshots; 0 = prompts are not reused
  int64_t kv_cache_tokens = 0;  ///< 0 = enough for sequences of ordinary length
  std::optional<double> memory_reserve_gib;
  std::chrono::milliseconds request_timeout{0};  ///< from arrival to the last token; 0 = none
  int64_t threads = 0;                           ///< compute threads; 0 = all cores
  std::chrono::milliseconds watchdog{120'000};
};

/// [api]: how requests are read and answered.
struct ApiConfig {
  int64_t max_tokens = 0;  ///< 0 = until the context is full
  bool strict_max_tokens = false;
  bool force_include_usage = false;
  std::string reasoning_field = "reasoning_content";
  std::string reasoning_effort = "high";
  std::chrono::milliseconds heartbeat_interval{10'000};
  std::chrono::milliseconds stream_interval{40};
  std::chrono::milliseconds queue_timeout{0};  ///< 0 = none
};

/// [sampling]: defaults for requests that are silent; unset = generation_config.json, else neutral.
struct SamplingConfig {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repetition_penalty;
};

/// [log]
struct LogConfig {
  std::string level = "info";
  std::string format = "text";    ///< text or json
  std::string requests = "meta";  ///< none, meta or full
};

struct Config {
  ServerConfig server;
  AccessConfig access;
  ModelSettings model;
  EngineConfig engine;
  ApiConfig api;
  SamplingConfig sampling;
  LogConfig log;
};

}  // namespace yoke::config
