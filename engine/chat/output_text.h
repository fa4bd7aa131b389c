// Two small tools of the output parser: trimming the head of a text in pieces, and joining events.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/chat/output_parser.h"

namespace yoke::engine {

/// Drops one newline, or one newline and one blank line, from the start of a text in pieces.
class HeadTrim {
 public:
  void arm() noexcept {
    newlines_left_ = 2;
    carriage_return_ = false;
  }
  void disarm() noexcept { newlines_left_ = 0; }

  /// What is left of a piece.
  std::string operator()(std::string_view piece) {
    size_t at = 0;
    while (newlines_left_ > 0 && at < piece.size()) {
      if (piece[at] == '\n') {
        carriage_return_ = false;
        --newlines_left_;
      } else if (piece[at] == '\r' && !carriage_return_) {
        carriage_return_ = true;  // half a newline, if '\n' follows
      } else {
        newlines_left_ = 0;
        break;
      }
      ++at;
    }
    std::string rest;
    if (newlines_left_ == 0) rest = flush();
    return rest.append(piece.substr(at));
  }

  /// A carriage return that turned out to stand alone.
  std::string flush() noexcept {
    return std::exchange(carriage_return_, false) ? std::string("\r") : std::string();
  }

 private:
  int newlines_left_ = 0;
  bool carriage_return_ = false;
};

/// Joins with the last event where that carries on the same text.
class EventSink {
 public:
  explicit EventSink(std::vector<OutputEvent>& events) : events_(events) {}

  void reasoning(std::string_view text) {
    if (text.empty()) return;
    if (auto* last = back<ReasoningText>()) {
      last->text += text;
    } else {
      events_.push_back(ReasoningText{std::string(text)});
    }
  }
  void content(std::string_view text) {
    if (text.empty()) return;
    if (auto* last = back<ContentText>()) {
      last->text += text;
    } else {
      events_.push_back(ContentText{std::string(text)});
    }
  }
  void arguments(int32_t index, std::string_view json) {
    if (json.empty()) return;
    if (auto* last = back<ToolCallArguments>(); last != nullptr && last->index == index) {
      last->json += json;
    } else {
      events_.push_back(ToolCallArguments{index, std::string(json)});
    }
  }
  void begin(int32_t index, std::string name) {
    events_.push_back(ToolCallBegin{index, std::move(name)});
  }
  // In place: with a temporary variant g++ 12 warns at -O2 of a string that is not there.
  void end(int32_t index) {
    events_.emplace_back(std::in_place_type<ToolCallEnd>, ToolCallEnd{index});
  }

 private:
  template <class Event>
  Event* back() {
    return events_.empty() ? nullptr : std::get_if<Event>(&events_.back());
  }

  std::vector<OutputEvent>& events_;
};

}  // namespace yoke::engine
