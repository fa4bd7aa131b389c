#include "server/bench/event_reader.h"

#include <utility>

namespace yoke::server {
namespace {
constexpr size_t kMaxEvent = 16 << 20;
}

void EventReader::feed(std::string_view bytes, std::vector<std::string>& out) {
  for (const char c : bytes) {
    if (overflowed_) return;
    const bool second_half = std::exchange(after_cr_, c == '\r') && c == '\n';
    if (second_half) continue;  // of "\r\n"
    if (c == '\n' || c == '\r') {
      line(line_, out);
      line_.clear();
    } else {
      line_ += c;
    }
    overflowed_ = line_.size() + data_.size() > kMaxEvent;
  }
}

void EventReader::line(std::string_view text, std::vector<std::string>& out) {
  if (text.empty()) {
    if (std::exchange(has_data_, false)) out.push_back(std::exchange(data_, {}));
    return;
  }
  if (!text.starts_with("data:")) return;
  text.remove_prefix(5);
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += text;
  has_data_ = true;
}

}  // namespace yoke::server
