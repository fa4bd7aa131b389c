// Logging: one line, event first, then key=value (style.md 2.10). No prompt or output text at any
// level but an explicit switch.
#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <string_view>

namespace yoke::config {

using Logger = std::shared_ptr<spdlog::logger>;

/// A logger to stderr at `level` (trace, debug, info, warn, error, off). Thread safe. An unknown
/// level means info. `format` is "text", or "json": one object per line with time, level, message.
Logger make_logger(std::string_view level, std::string_view format = "text");

/// A logger that writes nothing: for tests and library use.
Logger null_logger();

/// `text` with control characters written as \xNN, so that a client cannot forge log lines.
std::string log_safe(std::string_view text);

}  // namespace yoke::config
