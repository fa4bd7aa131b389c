#include "server/api/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace yoke::server {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool keep_stop) : keep_stop_(keep_stop) {
  std::stable_sort(stops.begin(), stops.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  for (std::string& stop : stops) automata_.push_back(automaton(std::move(stop)));
}

StopMatcher::Automaton StopMatcher::automaton(std::string text) {
  Automaton out;
  out.text = std::move(text);
  out.fallback.assign(out.text.size(), 0);
  for (size_t i = 1; i < out.text.size(); ++i) {
    uint32_t k = out.fallback[i - 1];
    while (k > 0 && out.text[k] != out.text[i]) k = out.fallback[k - 1];
    out.fallback[i] = k + (out.text[k] == out.text[i] ? 1 : 0);
  }
  return out;
}

void StopMatcher::advance(Automaton& a, char byte) {
  while (a.length > 0 && a.text[a.length] != byte) a.length = a.fallback[a.length - 1];
  if (a.text[a.length] == byte) ++a.length;
}

void StopMatcher::feed(std::string_view text, std::string& out) {
  if (automata_.empty()) {
    out += text;
    return;
  }
  for (const char byte : text) {
    if (matched_) return;
    held_ += byte;
    size_t longest = 0;
    for (Automaton& a : automata_) {
      advance(a, byte);
      if (a.length == a.text.size()) {
        matched_ = true;
        out.append(held_, 0, held_.size() - (keep_stop_ ? 0 : a.text.size()));
        held_.clear();
        return;
      }
      longest = std::max(longest, a.length);
    }
    if (longest < held_.size()) {
      out.append(held_, 0, held_.size() - longest);
      held_.erase(0, held_.size() - longest);
    }
  }
}

void StopMatcher::finish(std::string& out) {
  if (!matched_) out += held_;
  held_.clear();
  for (Automaton& a : automata_) a.length = 0;
}

}  // namespace yoke::server
