#include "config/log.h"

#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdio>

namespace yoke::config {

Logger make_logger(std::string_view level) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("yoke", std::move(sink));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  const auto parsed = spdlog::level::from_str(std::string(level));
  // from_str answers `off` for words it does not know.
  const bool unknown = parsed == spdlog::level::off && level != "off";
  logger->set_level(unknown ? spdlog::level::info : parsed);
  logger->flush_on(spdlog::level::warn);
  return logger;
}

Logger null_logger() {
  return std::make_shared<spdlog::logger>("null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

std::string log_safe(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      out += c;
      continue;
    }
    char escaped[5];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += escaped;
  }
  return out;
}

}  // namespace yoke::config
