#include "engine/json/json_lines.h"

namespace yoke::engine {

config::Result<void> each_json_line(
    std::string_view text, std::string_view file,
    const std::function<config::Result<void>(const Json& value, const std::string& where,
                                             size_t number)>& take) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = std::string(file) + ":" + std::to_string(number);
    const auto json = parse_json(line, where);
    if (!json.ok()) return json.error();
    if (auto taken = take(*json, where, number); !taken.ok()) return taken;
  }
  return {};
}

}  // namespace yoke::engine
