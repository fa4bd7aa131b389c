// `yoke serve`: listen first, then load, warm up, print the READY block, serve until a signal.
// Parts are built in dependency order and end in reverse.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/load.h"
#include "config/log.h"
#include "engine/runtime.h"
#include "server/commands/commands.h"
#include "server/commands/default_model.h"
#include "server/commands/settings_flags.h"
#include "server/commands/signals.h"
#include "server/ready_block.h"
#include "server/server.h"

namespace yoke::server {
namespace {

using namespace std::chrono_literals;

constexpr int kFailed = 1;
constexpr int kEngineDied = 3;
constexpr auto kLook = 100ms;  // how often a waiting serve looks at the engine and the signals
constexpr int32_t kAdvisedOutputTokens = 32768;

struct ServeFlags {
  SettingsFlags settings;
  bool print_config = false;
};

int complain(const config::Error& error) {
  std::fprintf(stderr, "yoke serve: %s\n", error.message.c_str());
  return kFailed;
}

/// The folder to serve, and the name it is served under when the settings name none.
struct ModelChoice {
  std::filesystem::path folder;
  std::string name;
};
config::Result<ModelChoice> choose_model(const config::ModelSettings& settings) {
  if (settings.path.empty()) {
    auto folder = default_model_folder();
    if (!folder.ok()) return folder.error();
    return ModelChoice{std::move(*folder), "nano"};
  }
  std::filesystem::path folder(settings.path);
  std::error_code ignored;
  const auto whole = std::filesystem::weakly_canonical(folder, ignored);
  return ModelChoice{folder, (whole.empty() ? folder : whole).filename().string()};
}

/// The operator's sampling defaults over those of the checkpoint.
engine::SamplingParams sampling_defaults(const config::SamplingConfig& settings,
                                         engine::SamplingParams params) {
  if (settings.temperature) params.temperature = *settings.temperature;
  if (settings.top_p) params.top_p = *settings.top_p;
  if (settings.top_k) params.top_k = static_cast<int32_t>(*settings.top_k);
  if (settings.min_p) params.min_p = *settings.min_p;
  if (settings.presence_penalty) params.presence_penalty = *settings.presence_penalty;
  if (settings.frequency_penalty) params.frequency_penalty = *settings.frequency_penalty;
  if (settings.repetition_penalty) params.repetition_penalty = *settings.repetition_penalty;
  return params;
}

std::shared_ptr<const ServedModel> served_model(const config::Config& config,
                                                const std::vector<std::string>& names,
                                                engine::Runtime& runtime) {
  const engine::Checkpoint& checkpoint = runtime.checkpoint();
  auto model = std::make_shared<ServedModel>();
  model->names = names;
  model->root = checkpoint.name();
  model->fingerprint = "fp_" + checkpoint.identity().substr(0, 12);
  model->max_model_len = runtime.max_model_len();
  model->max_positions = checkpoint.config().max_positions;
  model->vocab_size = runtime.tokenizer().size();
  model->parameters = checkpoint.census().parameters;
  model->bytes = checkpoint.census().bytes;
  model->max_num_seqs = static_cast<int32_t>(config.engine.max_num_seqs);
  model->eos_token_ids = runtime.eos_token_ids();
  model->sampling = sampling_defaults(config.sampling, runtime.default_sampling());
  if (const auto limit = checkpoint.generation().max_new_tokens) model->default_max_tokens = *limit;
  model->tokenizer = &runtime.tokenizer();
  model->service = &runtime.engine();
  return model;
}

std::string read_licence(const std::filesystem::path& folder) {
  std::ifstream file(folder / "LICENSE");
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

ReadyFacts ready_facts(const config::Config& config, const Server& server, bool has_keys,
                       const ServedModel& model, const std::filesystem::path& folder) {
  ReadyFacts facts;
  facts.host = config.server.host;
  facts.lan_address = lan_address();
  facts.port = server.port();
  facts.loopback_only = server.loopback_only();
  facts.has_keys = has_keys;
  facts.model = model.names.front();
  facts.context_tokens = model.max_model_len;
  facts.max_output_tokens = std::min(kAdvisedOutputTokens, model.max_model_len / 4);
  facts.reasoning_effort = config.api.reasoning_effort;
  facts.weights_licence = weights_licence(folder.filename().string(), read_licence(folder));
  return facts;
}

/// Progress of loading, as the engine tells it: on a terminal one line that overwrites itself, else
/// a log line every few seconds.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(config::Logger log)
      : log_(std::move(log)), terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~ProgressPrinter() {
    if (shown_ && terminal_) std::fputs("\r\x1b[K", stderr);
  }
  void show(const std::string& detail, config::TimePoint now) {
    if (detail.empty() || detail == last_) return;
    if (terminal_) {
      std::fprintf(stderr, "\r\x1b[K%s", detail.c_str());
    } else if (!shown_ || now - printed_ >= 5s) {
      log_->info("load.progress {}", detail);
      printed_ = now;
    } else {
      return;
    }
    shown_ = true;
    last_ = detail;
  }

 private:
  config::Logger log_;
  bool terminal_;
  bool shown_ = false;
  std::string last_;
  config::TimePoint printed_;
};

/// Waits for READY. False: a signal asked to end.
config::Result<bool> wait_for_ready(engine::Engine& engine, Signals& signals,
                                    const config::Logger& log) {
  ProgressPrinter progress(log);
  while (!engine.wait_for_start(kLook)) {
    if (signals.end_requested()) return false;
    progress.show(engine.status().detail, config::Clock::now());
  }
  if (auto ready = engine.wait_until_ready(); !ready.ok()) return ready.error();
  return true;
}

void reload_keys(const config::AccessConfig& access, Server& server, const config::Logger& log) {
  auto keys = KeyRing::load(access);
  if (!keys.ok()) {
    log->error("keys.reload_failed kept=old reason={}", keys.error().message);
    return;
  }
  log->info("keys.reloaded count={}", keys->size());
  server.set_keys(std::move(*keys));
}

/// Serves until a signal or the engine's end; the exit code.
int serve_until_end(const config::Config& config, Server& server, engine::Engine& engine,
                    Signals& signals, const config::Logger& log) {
  for (;;) {
    signals.wait(kLook);
    if (signals.take_reload()) reload_keys(config.access, server, log);
    if (signals.end_requested()) break;
    const engine::ServiceStatus status = engine.status();
    if (status.state == engine::ReadyState::failed) {
      log->error("engine.failed reason={}", status.detail);
      server.drain();
      server.wait_until_idle(config::Clock::now() + 2s);  // answers in flight get their errors out
      return kEngineDied;
    }
  }
  log->info("shutdown.begin running={} timeout_s={}", server.active_requests(),
            config.server.shutdown_timeout.count() / 1000);
  server.drain();
  engine.drain();
  const config::TimePoint deadline = config::Clock::now() + config.server.shutdown_timeout;
  while (config::Clock::now() < deadline && !signals.end_requested_twice()) {
    if (server.wait_until_idle(config::Clock::now() + kLook)) break;
  }
  return 0;
}

int run_serve(const ServeFlags& flags) {
  const config::TimePoint began = config::Clock::now();
  auto loaded = flags.settings.load();
  if (!loaded.ok()) return complain(loaded.error());
  const config::Config& config = loaded->config;
  if (flags.print_config) {
    std::fputs(config::to_toml(*loaded).c_str(), stdout);
    return 0;
  }
  const config::Logger log = config::make_logger(config.log.level, config.log.format);
  for (const std::string& warning : loaded->warnings) log->warn("config {}", warning);
  for (const std::string& setting : config::changed_settings(*loaded))
    log->info("config {}", setting);

  auto choice = choose_model(config.model);
  if (!choice.ok()) return complain(choice.error());
  std::vector<std::string> names = config.model.served_model_name;
  if (names.empty()) names.push_back(choice->name);

  auto keys = KeyRing::load(config.access);
  if (!keys.ok()) return complain(keys.error());
  const bool has_keys = !keys->empty();
  if (auto descriptors = reserve_descriptors(static_cast<size_t>(config.server.max_connections));
      !descriptors.ok())
    return complain(descriptors.error());

  Signals signals;  // before any thread, so that all of them inherit the mask
  // The runtime outlives the server's threads, which use it.
  std::unique_ptr<engine::Runtime> runtime;
  Server server(config, std::move(*keys), log);
  server.set_names(names);
  if (auto started = server.start(); !started.ok()) return complain(started.error());
  if (!server.loopback_only() && !has_keys)
    log->warn(
        "access.open host={}: every machine that reaches this address may use it; add "
        "--api-key KEY",
        config.server.host);

  auto opened = engine::Runtime::open(runtime_options(config, choice->folder), log);
  if (!opened.ok()) return complain(opened.error());
  runtime = std::move(*opened);
  const auto model = served_model(config, names, *runtime);
  server.set_model(model);

  int exit_code = 0;
  auto ready = wait_for_ready(runtime->engine(), signals, log);
  if (!ready.ok()) {
    exit_code = complain(ready.error());
  } else if (*ready) {
    ReadyFacts facts = ready_facts(config, server, has_keys, *model, choice->folder);
    facts.seconds_to_ready = config::seconds(config::Clock::now() - began);
    std::fputs(ready_block(facts).c_str(), stdout);
    std::fflush(stdout);
    exit_code = serve_until_end(config, server, runtime->engine(), signals, log);
  }
  server.stop();
  runtime->engine().stop();
  log->info("shutdown.done code={}", exit_code);
  return exit_code;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* serve = app.add_subcommand("serve", "Serve a model over the OpenAI API");
  serve->add_flag("--print-config", flags->print_config,
                  "Print the settings in effect as a file, and leave");
  flags->settings.add_to(*serve);
  serve->footer(
      "Each setting is also an environment variable (YOKE_PORT) and a key of yoke.toml; flags win "
      "over variables, variables over the file.\n"
      "Signals: TERM or INT finish running requests and end, a second one ends at once; HUP reads "
      "the key file again.\n"
      "Exit codes: 0 ended by a signal, 1 could not start, 3 the engine failed.");
  serve->callback([flags, &exit_code] { exit_code = run_serve(*flags); });
}

}  // namespace yoke::server
