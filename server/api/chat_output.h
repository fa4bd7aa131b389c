// Generated tokens → deltas: output parser, stop strings and call ids in one pure state machine.
// Streams send the deltas, plain answers join them, so that both say the same. The result does not
// depend on how the tokens are grouped.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/output_parser.h"
#include "server/api/delta.h"
#include "server/api/stop_matcher.h"

namespace yoke::server {

struct ChatOutputOptions {
  engine::OutputParserOptions parser;  ///< `tools` is read during construction only
  std::vector<std::string> stop;
  bool include_stop = false;
  /// Ids that end generation and have no text: EOS and the request's stop tokens.
  std::vector<int32_t> end_tokens;
  bool include_reasoning = true;
  std::function<std::string()> new_call_id;
};

/// Why no more tokens come.
enum class Ending {
  stop,    ///< the model stopped, or wants_stop() was obeyed
  length,  ///< max_tokens or the context
  error,   ///< the server could not go on
};

class ChatOutput {
 public:
  /// The tokenizer must outlive this.
  ChatOutput(const engine::Tokenizer& tokenizer, ChatOutputOptions options);

  /// Appends to `out`. Tokens after an end (end token, stop string, single call) are ignored and
  /// not counted.
  void feed(std::span<const int32_t> tokens, std::vector<Delta>& out);
  /// A stop string or the only allowed call is complete: generation can end.
  bool wants_stop() const noexcept { return stop_.matched() || parser_.wants_stop(); }
  /// Flushes what was held back and gives the finish_reason: stop, length, tool_calls or error.
  std::string_view finish(Ending ending, std::vector<Delta>& out);

  /// Sampled tokens, with markup, reasoning and the end token.
  int64_t completion_tokens() const noexcept { return completion_tokens_; }
  int64_t reasoning_tokens() const noexcept { return parser_.reasoning_tokens(); }
  int64_t tool_tokens() const noexcept { return tool_tokens_; }
  int32_t calls_begun() const noexcept { return calls_begun_; }
  int32_t complete_calls() const noexcept { return parser_.complete_calls(); }

 private:
  void take(const std::vector<engine::OutputEvent>& events, std::vector<Delta>& out);
  void take(const engine::ReasoningText& event, std::vector<Delta>& out);
  void take(const engine::ContentText& event, std::vector<Delta>& out);
  void take(const engine::ToolCallBegin& event, std::vector<Delta>& out);
  void take(const engine::ToolCallArguments& event, std::vector<Delta>& out);
  void take(const engine::ToolCallEnd&, std::vector<Delta>&) {}
  void add_content(std::string text, std::vector<Delta>& out);

  engine::OutputParser parser_;
  StopMatcher stop_;
  std::vector<int32_t> end_tokens_;  // sorted
  bool include_reasoning_;
  std::function<std::string()> new_call_id_;
  bool ended_ = false;
  int64_t completion_tokens_ = 0;
  int64_t tool_tokens_ = 0;
  int32_t calls_begun_ = 0;
};

}  // namespace yoke::server
