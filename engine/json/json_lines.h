// JSON Lines: one JSON text per line, blank lines skipped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "config/result.h"
#include "engine/json/json.h"

namespace yoke::engine {

/// Calls `take` with each line's value, its place ("file:3") and its number (from 1). Ends with the
/// first error: a line that is no JSON, or what `take` returns.
config::Result<void> each_json_line(
    std::string_view text, std::string_view file,
    const std::function<config::Result<void>(const Json& value, const std::string& where,
                                             size_t number)>& take);

}  // namespace yoke::engine
