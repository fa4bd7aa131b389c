// Small JSON files (config, index) as boost::json values, with what the library does not check:
// duplicate keys are errors, and every error says where.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "config/result.h"

namespace yoke::engine {

/// Parses one JSON text. `name` begins every message. Errors: syntax, invalid UTF-8, nesting deeper
/// than 32, a key twice in one object, a text that is no object.
config::Result<boost::json::object> parse_strict_json_object(std::string_view text,
                                                             std::string_view name);

/// What to say of a text that Boost.JSON stopped at `at` for `reason`: "not valid JSON at byte 7:
/// …", or that it is not UTF-8 and where.
std::string json_fault(std::string_view text, size_t at, std::string_view reason);

}  // namespace yoke::engine
