// Stop strings over text that arrives in pieces (spec/api.md 2.8, 5.3 F). A pure state machine: the
// result does not depend on how the text is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::server {

/// The first stop string that is completed ends the text; of several completed by the same byte the
/// longest counts. Text that may become a stop string is held back.
class StopMatcher {
 public:
  /// `stops`: non-empty strings. `keep_stop`: the stop string itself stays in the text.
  StopMatcher(std::vector<std::string> stops, bool keep_stop);

  /// Appends to `out` what is certain not to belong to a stop string. After a match the rest of
  /// the input is dropped.
  void feed(std::string_view text, std::string& out);
  /// The text is over, or other output comes between: what was held back is text, and a stop string
  /// must begin anew.
  void finish(std::string& out);

  bool matched() const noexcept { return matched_; }

 private:
  /// Knuth-Morris-Pratt: `length` bytes of `text` are matched; `fallback[i]` is the longest proper
  /// prefix of text[0..i] that is also its suffix.
  struct Automaton {
    std::string text;
    std::vector<uint32_t> fallback;
    size_t length = 0;
  };
  static Automaton automaton(std::string text);
  static void advance(Automaton& a, char byte);

  std::vector<Automaton> automata_;  // longest first
  bool keep_stop_ = false;
  bool matched_ = false;
  std::string held_;
};

}  // namespace yoke::server
