#include "server/api/chat_output.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace yoke::server {

ChatOutput::ChatOutput(const engine::Tokenizer& tokenizer, ChatOutputOptions options)
    : parser_(tokenizer, options.parser),
      stop_(std::move(options.stop), options.include_stop),
      end_tokens_(std::move(options.end_tokens)),
      include_reasoning_(options.include_reasoning),
      new_call_id_(std::move(options.new_call_id)) {
  std::sort(end_tokens_.begin(), end_tokens_.end());
}

void ChatOutput::feed(std::span<const int32_t> tokens, std::vector<Delta>& out) {
  std::vector<engine::OutputEvent> events;
  for (const int32_t token : tokens) {
    if (ended_ || wants_stop()) return;
    ++completion_tokens_;
    if (std::binary_search(end_tokens_.begin(), end_tokens_.end(), token)) {
      ended_ = true;
      return;
    }
    if (parser_.in_call()) ++tool_tokens_;
    events.clear();
    parser_.feed(token, events);
    take(events, out);
  }
}

std::string_view ChatOutput::finish(Ending ending, std::vector<Delta>& out) {
  std::vector<engine::OutputEvent> events;
  if (!stop_.matched()) {
    parser_.finish(ending != Ending::stop, events);
    take(events, out);
    std::string held;
    stop_.finish(held);
    add_content(std::move(held), out);
  }
  ended_ = true;
  if (ending == Ending::error) return "error";
  if (ending == Ending::length) return "length";
  // A call whose header went out and that broke off was cut, whatever the model meant.
  if (parser_.complete_calls() < calls_begun_) return "length";
  return parser_.complete_calls() > 0 ? "tool_calls" : "stop";
}

void ChatOutput::take(const std::vector<engine::OutputEvent>& events, std::vector<Delta>& out) {
  for (const engine::OutputEvent& event : events)
    std::visit([&](const auto& e) { take(e, out); }, event);
}

void ChatOutput::take(const engine::ReasoningText& event, std::vector<Delta>& out) {
  if (include_reasoning_) out.push_back({Delta::Kind::reasoning, event.text});
}

void ChatOutput::take(const engine::ContentText& event, std::vector<Delta>& out) {
  std::string text;
  stop_.feed(event.text, text);
  add_content(std::move(text), out);
}

void ChatOutput::take(const engine::ToolCallBegin& event, std::vector<Delta>& out) {
  // Content comes before the calls: what may still become a stop string cannot wait for them.
  std::string held;
  stop_.finish(held);
  add_content(std::move(held), out);
  ++calls_begun_;
  out.push_back({Delta::Kind::call_begin, event.name, event.index, new_call_id_()});
}

void ChatOutput::take(const engine::ToolCallArguments& event, std::vector<Delta>& out) {
  out.push_back({Delta::Kind::call_arguments, event.json, event.index});
}

void ChatOutput::add_content(std::string text, std::vector<Delta>& out) {
  if (!text.empty()) out.push_back({Delta::Kind::content, std::move(text)});
}

}  // namespace yoke::server
