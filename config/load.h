// From file, environment and flags to one checked Config. Nothing here reads the process's
// environment: the caller hands it over.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/result.h"

namespace yoke::config {

/// One setting as it was given on the command line: `flag` as spelled, without dashes.
struct FlagSetting {
  std::string flag;
  std::vector<std::string> values;  ///< several only for lists
};

/// Where settings come from; later ones win: file, environment, flags.
struct Sources {
  std::optional<std::filesystem::path> file;
  /// All variables of the process; those that do not begin with `YOKE_` are ignored.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<FlagSetting> flags;
};

struct LoadedConfig {
  Config config;
  /// Key name → `yoke.toml:12`, `YOKE_PORT`, `--port`; keys at their default are absent.
  std::map<std::string, std::string, std::less<>> origins;
  std::vector<std::string> warnings;  ///< one line each
};

/// Errors: unreadable file, unknown key (with the nearest one), wrong type, out of range, two keys
/// that contradict each other; always with the place (`yoke.toml:12`, `YOKE_PORT`, `--port`).
Result<LoadedConfig> load_config(const Sources& sources);

/// The file to read when `--config` is silent: $YOKE_CONFIG, else ./yoke.toml if there is one.
std::optional<std::filesystem::path> default_config_file(
    const std::vector<std::pair<std::string, std::string>>& environment);

/// The whole configuration as a TOML file that loads back to itself; secrets are left out. Without
/// any settings this is example.toml.
std::string to_toml(const LoadedConfig& loaded);

/// One line `key=value (origin)` for each key that is not at its default.
std::vector<std::string> changed_settings(const LoadedConfig& loaded);

}  // namespace yoke::config
