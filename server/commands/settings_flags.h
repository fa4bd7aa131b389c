// The settings of config/keys.cpp as flags of a command, together with the file and the
// environment.
#pragma once

#include <CLI/App.hpp>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/load.h"
#include "engine/runtime.h"

namespace yoke::server {

/// Must outlive the parsing of the command line: CLI11 keeps addresses.
class SettingsFlags {
 public:
  /// `--config FILE`, and a flag for each setting that `only` names, itself or by its section; for
  /// all when empty.
  void add_to(CLI::App& command, const std::vector<std::string_view>& only = {});
  /// Flag over environment over file over default.
  config::Result<config::LoadedConfig> load() const;

 private:
  std::string config_file_;
  std::deque<std::pair<std::string, std::vector<std::string>>>
      settings_;  // flag as spelled, values
};

/// What the settings mean for the engine.
engine::RuntimeOptions runtime_options(const config::Config& config,
                                       const std::filesystem::path& folder);

}  // namespace yoke::server
