#include "server/commands/settings_flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "config/keys.h"

extern char** environ;  // POSIX

namespace yoke::server {
namespace {

std::vector<std::pair<std::string, std::string>> environment() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

/// `max_model_len` → `max-model-len`.
std::string dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

/// `max_model_len` → `--max-model-len,--max_model_len`.
std::string flag_names(const config::Key& key) {
  std::string names;
  const auto add = [&](std::string_view name) {
    for (const std::string& spelled : {dashed(name), std::string(name)}) {
      if (("," + names + ",").find(",--" + spelled + ",") != std::string::npos) continue;
      names += (names.empty() ? "--" : ",--") + spelled;
    }
  };
  add(key.name);
  for (const std::string_view alias : key.aliases) add(alias);
  return names;
}

const char* value_name(config::ValueKind kind) {
  switch (kind) {
    case config::ValueKind::boolean:
      return "[BOOL]";
    case config::ValueKind::integer:
      return "INT";
    case config::ValueKind::number:
      return "NUMBER";
    case config::ValueKind::text:
    case config::ValueKind::list:
      break;
  }
  return "TEXT";
}

uint64_t gib(double count) {
  return static_cast<uint64_t>(count * static_cast<double>(uint64_t{1} << 30));
}

}  // namespace

void SettingsFlags::add_to(CLI::App& command, const std::vector<std::string_view>& only) {
  command.add_option("--config", config_file_,
                     "Settings file (default: $YOKE_CONFIG, else ./yoke.toml if it is there)");
  const auto named = [&](std::string_view name) {
    return std::find(only.begin(), only.end(), name) != only.end();
  };
  for (const config::Key& key : config::keys()) {
    if (!only.empty() && !named(key.section) && !named(key.name)) continue;
    auto& setting = settings_.emplace_back(dashed(key.name), std::vector<std::string>{});
    CLI::Option* option =
        command.add_option(flag_names(key), setting.second, std::string(key.help))
            ->group(std::string(key.section))
            ->type_name(value_name(key.kind));
    const std::string standard = config::format_value(key.get(config::Config{}));
    if (!standard.empty() && standard != "\"\"" && standard != "[]") option->default_str(standard);
    if (key.kind == config::ValueKind::list) {
      option->allow_extra_args(false);  // one value a flag; repeat the flag for more
      continue;
    }
    option->expected(key.kind == config::ValueKind::boolean ? 0 : 1, 1);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

config::Result<config::LoadedConfig> SettingsFlags::load() const {
  config::Sources sources;
  sources.environment = environment();
  if (!config_file_.empty()) {
    sources.file = config_file_;
  } else {
    sources.file = config::default_config_file(sources.environment);
  }
  for (const auto& [flag, values] : settings_) {
    if (!values.empty()) sources.flags.push_back({flag, values});
  }
  return config::load_config(sources);
}

engine::RuntimeOptions runtime_options(const config::Config& config,
                                       const std::filesystem::path& folder) {
  engine::RuntimeOptions options;
  options.folder = folder;
  options.precision =
      config.model.precision == "fp32" ? engine::Precision::fp32 : engine::Precision::bf16;
  options.max_sequences = static_cast<int32_t>(config.engine.max_num_seqs);
  options.max_batched_tokens = static_cast<int32_t>(config.engine.max_num_batched_tokens);
  options.max_model_len = static_cast<int32_t>(config.engine.max_model_len);
  options.max_waiting = static_cast<int32_t>(config.engine.max_queue);
  options.threads = static_cast<int32_t>(config.engine.threads);
  options.time_limit = config.engine.request_timeout;
  options.prompt_cache_bytes = gib(config.engine.prompt_cache_gib);
  options.kv_tokens = config.engine.kv_cache_tokens;
  options.host_bytes = static_cast<uint64_t>(config.server.max_buffered_mib) << 20;
  if (config.engine.memory_reserve_gib)
    options.reserve_bytes = gib(*config.engine.memory_reserve_gib);
  return options;
}

}  // namespace yoke::server
