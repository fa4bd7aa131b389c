// What a serving bench asks. Four kinds of our own, in the style of spec/performance.md 6.1, which
// the demo model knows too; a file for comparisons with others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace yoke::server {

struct BenchPrompt {
  std::string kind;
  std::string text;
};

/// structured, code, prose, json: predictable to surprising, which is what drafting and batching
/// care about.
std::vector<BenchPrompt> built_in_prompts();

/// One JSON object per line: `prompt` and optionally `kind` (else "line N"). Blank lines are
/// skipped. Errors name the line.
config::Result<std::vector<BenchPrompt>> read_prompts(std::string_view text, std::string_view file);

struct BenchRequestOptions {
  std::string model;
  int32_t max_tokens = 256;
  bool thinking = false;
  /// Every request gets a prefix that no cache has seen; without it all send the same text.
  bool cold = true;
};

/// The body of a streamed chat completion, greedy, with running usage. `tag` is the random prefix
/// of cold requests.
std::string bench_body(const BenchPrompt& prompt, const BenchRequestOptions& options,
                       std::string_view tag);

}  // namespace yoke::server
