// Splits generated tokens into reasoning, content and tool calls (spec/tokenizer_chat.md 5). A pure
// state machine over (id, bytes): a tag counts only as its own id. Feeding tokens one by one or all
// at once gives the same events, joined.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/json/json.h"
#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {

struct OutputParserOptions {
  /// As RenderedChat says; implies `thinking`.
  bool starts_in_reasoning = true;
  /// False when the prompt has thinking switched off: think tags are then plain text, but for an
  /// end tag at the very start.
  bool thinking = true;
  /// Tools of the request (array, as sent), or null: without tools, or with tool_choice "none",
  /// call tags are plain text.
  const Json* tools = nullptr;
  bool extract_calls = true;
  /// Stop after the first complete call (parallel_tool_calls: false).
  bool single_call = false;
};

struct ReasoningText {
  std::string text;
};
struct ContentText {
  std::string text;
};
/// Name complete and declared. Ids are given by the caller.
struct ToolCallBegin {
  int32_t index;
  std::string name;
};
/// Pieces join to exactly the final JSON object.
struct ToolCallArguments {
  int32_t index;
  std::string json;
};
struct ToolCallEnd {
  int32_t index;
};
using OutputEvent =
    std::variant<ReasoningText, ContentText, ToolCallBegin, ToolCallArguments, ToolCallEnd>;

class OutputParser {
 public:
  /// The tokenizer gives the tag ids (text-level matching is used for tags it lacks). It must
  /// outlive the parser; `options.tools` is read during construction only.
  OutputParser(const Tokenizer& tokenizer, const OutputParserOptions& options);
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;
  ~OutputParser();

  /// One generated token; appends events, joining text with the last event of its kind. EOS ids
  /// should not be fed (like every special token but the tags they have no text). Ignored after
  /// finish() and once wants_stop().
  void feed(int32_t id, std::vector<OutputEvent>& events);
  /// Generation is over; flushes what was held back. `cut` = ended by a limit or failure: an open
  /// call stays unclosed. A model that stopped by itself after the name or a whole pair has its
  /// call closed; in the middle of a pair the call stays unclosed too.
  void finish(bool cut, std::vector<OutputEvent>& events);

  bool in_reasoning() const noexcept;
  /// Inside a block that is or may become a call; after finish(): it was left unclosed.
  bool in_call() const noexcept;
  int32_t complete_calls() const noexcept;
  bool wants_stop() const noexcept;  ///< single_call and one call is complete
  /// Tokens fed while in reasoning, the end tag included.
  int64_t reasoning_tokens() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::engine
