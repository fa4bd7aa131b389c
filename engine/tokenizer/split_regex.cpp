#include "engine/tokenizer/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>

#include "engine/tokenizer/split_pattern.h"
#include "engine/tokenizer/utf8.h"

namespace yoke::engine {
namespace {

using config::Error;
using config::ErrorKind;
using config::Result;

// GLM's pattern needs about two steps per byte: blanks are scanned and then given back one by one.
constexpr uint64_t kStepsPerByte = 64;
constexpr uint64_t kFirstReach = 256;
constexpr uint64_t kReachGrowth = 8;
// In bytes of reach. GLM's pattern pays for blanks after a newline, once, and at most growth-fold.
constexpr uint64_t kBudgetBase = 1'000'000;
constexpr uint64_t kBudgetPerByte = 64;
// Only the interpreter (where JIT is not available) keeps backtracking points on the heap.
constexpr uint32_t kHeapKibibytesMax = 256 * 1024;

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(code, text, sizeof(text)) < 0) return fmt::format("code {}", code);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

void SplitRegex::CodeFree::operator()(pcre2_code* code) const noexcept {
  pcre2_code_free(code);
}

void SplitScratch::MatchFree::operator()(pcre2_match_data* data) const noexcept {
  pcre2_match_data_free(data);
}
void SplitScratch::MatchFree::operator()(pcre2_match_context* context) const noexcept {
  pcre2_match_context_free(context);
}

Result<SplitRegex> SplitRegex::compile(std::string_view pattern) {
  auto translated = pcre2_pattern(pattern);
  if (!translated) return translated.error();
  // Anchored: piece_end() tries one start after the other itself, so that each has a limit.
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
  int code = 0;
  PCRE2_SIZE offset = 0;
  SplitRegex regex;
  regex.code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()),
                                  translated->size(), kOptions, &code, &offset, nullptr));
  if (!regex.code_) {
    return Error{
        ErrorKind::unsupported,
        fmt::format("PCRE2 refuses the translated pattern at {}: {}", offset, message_of(code))};
  }
  uint32_t may_match_empty = 0;
  pcre2_pattern_info(regex.code_.get(), PCRE2_INFO_MATCHEMPTY, &may_match_empty);
  if (may_match_empty != 0)
    return Error{ErrorKind::unsupported, "a pattern that can match the empty string"};
  // Where JIT is not available, pcre2_match interprets: slower, same result.
  pcre2_jit_compile(regex.code_.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  return regex;
}

SplitScratch::SplitScratch(const SplitRegex& regex, size_t text_bytes)
    : regex_(regex),
      match_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      budget_(kBudgetBase + kBudgetPerByte * text_bytes) {
  if (!match_ || !context_) throw std::bad_alloc();
  pcre2_set_heap_limit(context_.get(), kHeapKibibytesMax);
  set_reach(kFirstReach);
}

void SplitScratch::set_reach(uint64_t bytes) {
  if (bytes == reach_) return;
  reach_ = bytes;
  const uint64_t steps = std::min<uint64_t>(bytes * kStepsPerByte, UINT32_MAX);
  pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(steps));
}

Result<size_t> SplitScratch::piece_end(std::string_view run, size_t begin) {
  // Characters that no match covers form a piece up to the next match.
  for (size_t at = begin; at < run.size(); at += utf8_step(run.substr(at)).bytes) {
    auto end = match_end(run, at);
    if (!end) return end.error();
    if (*end > at) return at == begin ? *end : at;
  }
  return run.size();
}

Result<size_t> SplitScratch::match_end(std::string_view run, size_t begin) {
  uint32_t options = PCRE2_NO_UTF_CHECK;
  for (uint64_t reach = kFirstReach;;) {
    set_reach(reach);
    size_t visible = static_cast<size_t>(std::min<uint64_t>(run.size(), begin + reach));
    while (visible < run.size() && is_continuation(run[visible])) --visible;
    const bool whole = visible == run.size();
    const int code =
        pcre2_match(regex_.code(), reinterpret_cast<PCRE2_SPTR>(run.data()), visible, begin,
                    options | (whole ? 0 : PCRE2_PARTIAL_HARD), match_.get(), context_.get());
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) {
      options |= PCRE2_NO_JIT;  // the interpreter's backtracking points live on the heap
      continue;
    }
    if ((code == PCRE2_ERROR_PARTIAL || code == PCRE2_ERROR_MATCHLIMIT) && !whole) {
      reach *= kReachGrowth;
      continue;
    }
    if (code < 0 && code != PCRE2_ERROR_NOMATCH) {
      return Error{ErrorKind::exhausted,
                   fmt::format("splitting text at byte {} of a run of {} takes too much work: {}",
                               begin, run.size(), message_of(code))};
    }
    const size_t end = code < 0 ? begin : pcre2_get_ovector_pointer(match_.get())[1];
    // More than reach / growth bytes were looked at, or as many times the steps per byte.
    if (reach / kReachGrowth > kFirstReach + kStepsPerByte * (end - begin)) {
      if (reach > budget_) {
        return Error{ErrorKind::exhausted,
                     fmt::format("splitting text takes too much work for its length: stopped at "
                                 "byte {} of a run of {}",
                                 begin, run.size())};
      }
      budget_ -= reach;
    }
    return end;
  }
}

}  // namespace yoke::engine
