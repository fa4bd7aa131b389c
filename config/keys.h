// The table of all keys: one row gives a key its names, type, range, texts and place in Config.
// File, environment, flags, `--help`, example.toml and the printed configuration all come from it.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/result.h"
#include "config/value.h"

namespace yoke::config {

struct Key {
  std::string_view section;
  std::string_view name;                  ///< unique over all sections; the unit comes last
  std::vector<std::string_view> aliases;  ///< further names of the flag and the variable
  ValueKind kind = ValueKind::text;
  std::string_view help;          ///< sentences; unit and range are in it
  std::string_view takes_effect;  ///< "at start" or "at start and on SIGHUP"
  bool secret = false;            ///< never printed
  std::function<Value(const Config&)> get;
  /// Checks type and range; the error says wanted and found, without naming the key.
  std::function<Result<void>(Config&, const Value&)> set;
};

/// All keys, in the order of example.toml.
std::span<const Key> keys();

/// By name or alias; `-` counts as `_`. nullptr when there is none.
const Key* find_key(std::string_view name);

/// The name of the key nearest to `name` by edit distance, or empty when none is near.
std::string_view nearest_key(std::string_view name);

}  // namespace yoke::config
