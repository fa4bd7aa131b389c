// Small JSON files (config, index) as boost::json values, with what the library does not check:
// duplicate keys are errors, and every error says where.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "config/result.h"

namespace yoke::engine {

/// Parses one JSON text. `name` begins every message. Errors: syntax, invalid UTF-8, nesting deeper
/// than 32, a key twice in one object, a text that is no object.
config::Result<boost::json::object> parse_strict_json_object(std::string_view text,
                                                             std::string_view name);

}  // namespace yoke::engine
