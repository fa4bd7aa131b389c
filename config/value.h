// One value of a setting, between its spelling and its typed place in Config.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/result.h"

namespace yoke::config {

/// A value as files hold it. `monostate` is an optional key that is not set.
using Value =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>>;

enum class ValueKind { boolean, integer, number, text, list };

/// A value written in a flag or an environment variable. Lists: `["a","b"]` or `a,b`. An empty
/// text means true for a boolean: a flag without a value.
Result<Value> parse_value(ValueKind kind, std::string_view text);

/// As TOML writes it; an unset value gives an empty text.
std::string format_value(const Value& value);

/// The error `want <what>, found <value>`.
Error want(std::string_view what, const Value& found);

/// `-` counts as `_`.
std::string normalised_name(std::string_view name);

/// The known name with the smallest edit distance to `name`, or empty when none is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

}  // namespace yoke::config
