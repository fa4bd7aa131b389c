// Cuts text into the pieces that byte-pair encoding sees, by the regular expression of the
// tokenizer file ("Isolated": matches and what lies between them are pieces).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "config/result.h"

struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace yoke::engine {

/// Immutable after compile(): any thread may use it, each with its own SplitScratch.
class SplitRegex {
 public:
  /// `pattern` in Oniguruma syntax (split_pattern.h). Errors: what cannot be translated or
  /// compiled; a pattern that can match nothing.
  static config::Result<SplitRegex> compile(std::string_view pattern);

  const pcre2_real_code_8* code() const noexcept { return code_.get(); }

 private:
  struct CodeFree {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  std::unique_ptr<pcre2_real_code_8, CodeFree> code_;
};

/// Matching state of one thread, with the work that the text may still cost.
///
/// A match sees only so many bytes of text, and may take so many steps per byte that it sees; this
/// reach starts low and grows with need: PCRE2 tells when a match looked at the end of what it saw
/// (partial matching). Reach out of proportion to the piece found is charged to a budget that is
/// proportional to the text. So text of any kind ends in time linear in its length, or in an error;
/// under GLM's pattern no text comes near the budget.
class SplitScratch {
 public:
  /// `text_bytes`: of all runs that will be cut with this scratch.
  SplitScratch(const SplitRegex& regex, size_t text_bytes);

  /// End of the piece that begins at `begin` < run.size(). The run must be UTF-8; it is all that
  /// look-ahead sees. Errors (exhausted): too much work.
  config::Result<size_t> piece_end(std::string_view run, size_t begin);

 private:
  struct MatchFree {
    void operator()(pcre2_real_match_data_8* data) const noexcept;
    void operator()(pcre2_real_match_context_8* context) const noexcept;
  };

  /// End of the match that begins at `begin`, or `begin` if none does.
  config::Result<size_t> match_end(std::string_view run, size_t begin);
  void set_reach(uint64_t bytes);

  const SplitRegex& regex_;
  std::unique_ptr<pcre2_real_match_data_8, MatchFree> match_;
  std::unique_ptr<pcre2_real_match_context_8, MatchFree> context_;
  uint64_t reach_ = 0;
  uint64_t budget_;
};

}  // namespace yoke::engine
