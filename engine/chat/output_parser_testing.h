// Shared by the tests and the fuzzer of the output parser: scripts of tags and text, a collector
// that joins events as a client does, and a second parser that sees the whole output at once.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/check.h"
#include "engine/chat/blanks.h"
#include "engine/chat/output_parser.h"
#include "engine/chat/tags.h"
#include "engine/chat/tool_schema.h"
#include "engine/json/json.h"
#include "engine/json/utf8.h"

namespace yoke::engine::testing {

/// Generated output as the model means it. Strings are not empty and may be any bytes.
using Item = std::variant<Tag, std::string>;
using Script = std::vector<Item>;

/// Every tag that `text` spells is a tag.
inline Script script_of(std::string_view text) {
  TagSet all;
  for (size_t i = 0; i < kTagCount; ++i) all.add(static_cast<Tag>(i));
  Script script;
  while (!text.empty()) {
    const TagMatch match = find_tag(text, all);
    const std::string_view before = text.substr(0, match.at);
    if (!before.empty()) script.emplace_back(std::string(before));
    if (match.at == text.npos) break;
    script.emplace_back(match.tag);
    text.remove_prefix(match.at + tag_text(match.tag).size());
  }
  return script;
}

struct CallOutcome {
  std::string name;
  std::string arguments;
  bool complete = false;
  friend bool operator==(const CallOutcome&, const CallOutcome&) = default;
};

/// What a client holds at the end.
struct Outcome {
  std::string reasoning;
  std::string content;
  std::vector<CallOutcome> calls;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

inline std::string to_string(const Outcome& outcome) {
  Json::Array calls;
  for (const CallOutcome& call : outcome.calls) {
    calls.push_back(Json::array(
        {Json::string(call.name), Json::string(call.arguments), Json::boolean(call.complete)}));
  }
  return to_json(Json::object({{"reasoning", Json::string(outcome.reasoning)},
                               {"content", Json::string(outcome.content)},
                               {"calls", Json::array(std::move(calls))}}));
}

inline bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

/// A JSON object, or the beginning of one.
inline bool begins_json_object(std::string_view text) {
  if (text.empty()) return true;
  if (text.front() != '{') return false;
  const auto parsed = parse_json(text, "arguments");
  return parsed.ok() || parsed.error().message.ends_with("found the end of the text");
}

/// Joins events as a client does. Aborts on what no stream may hold: empty pieces, pieces that are
/// no UTF-8, interleaved or reopened calls, a call after content that followed a call, arguments
/// that stop being the beginning of a JSON object.
class Collector {
 public:
  void take(const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      std::visit([this](const auto& e) { take(e); }, event);
    }
  }
  /// Arguments that are the beginning of an object now were so at every step before.
  const Outcome& outcome() const {
    for (const CallOutcome& call : outcome_.calls) {
      YOKE_CHECK(begins_json_object(call.arguments), "arguments that are no JSON object");
    }
    return outcome_;
  }

 private:
  static void append(std::string& to, const std::string& piece) {
    YOKE_CHECK(!piece.empty(), "an empty piece");
    YOKE_CHECK(is_utf8(piece), "a piece that is no UTF-8 on its own");
    to += piece;
  }
  CallOutcome& open_call(int32_t index) {
    YOKE_CHECK(index >= 0 && static_cast<size_t>(index) + 1 == outcome_.calls.size(),
               "calls come one after another");
    YOKE_CHECK(!outcome_.calls.back().complete, "nothing follows the end of a call");
    return outcome_.calls.back();
  }
  void take(const ReasoningText& e) { append(outcome_.reasoning, e.text); }
  void take(const ContentText& e) {
    append(outcome_.content, e.text);
    content_after_call_ = !outcome_.calls.empty();
  }
  void take(const ToolCallBegin& e) {
    YOKE_CHECK(!content_after_call_, "content between calls");
    YOKE_CHECK(outcome_.calls.empty() || outcome_.calls.back().complete, "interleaved calls");
    outcome_.calls.push_back({e.name, "", false});
    open_call(e.index);
  }
  void take(const ToolCallArguments& e) { append(open_call(e.index).arguments, e.json); }
  void take(const ToolCallEnd& e) {
    CallOutcome& call = open_call(e.index);
    YOKE_CHECK(parse_json(call.arguments, "arguments").ok(), "a call without whole arguments");
    call.complete = true;
  }

  Outcome outcome_;
  bool content_after_call_ = false;
};

/// The rules of the README over the whole output, by looking ahead instead of holding back.
class WholeParser {
 public:
  WholeParser(const Script& script, const OutputParserOptions& options, bool cut)
      : script_(script),
        tools_(options.extract_calls ? options.tools : nullptr),
        thinking_(options.thinking || options.starts_in_reasoning),
        in_reasoning_(options.starts_in_reasoning),
        single_(options.single_call),
        cut_(cut) {}

  /// The arguments of a call that stays open are those it would have if it ended here.
  Outcome run() {
    if (!thinking_ && at(0, Tag::think_end)) {
      trim_head_ = true;
      at_ = 1;
    }
    while (at_ < script_.size()) {
      if (in_reasoning_) {
        reasoning();
      } else {
        content();
      }
      if (stopped_) break;
      if (at(at_, Tag::tool_call) && !tools_.empty()) call();
      if (stopped_) break;
    }
    add_segment();
    out_.content += trailing_;
    return out_;
  }

 private:
  bool at(size_t i, Tag tag) const {
    return i < script_.size() && std::holds_alternative<Tag>(script_[i]) &&
           std::get<Tag>(script_[i]) == tag;
  }
  bool at_any(size_t i, TagSet tags) const {
    return i < script_.size() && std::holds_alternative<Tag>(script_[i]) &&
           tags.has(std::get<Tag>(script_[i]));
  }
  size_t next(size_t from, TagSet tags) const {
    while (from < script_.size() && !at_any(from, tags)) ++from;
    return from;
  }
  /// Text of [begin, end), tags spelled out.
  std::string text(size_t begin, size_t end) const {
    std::string raw;
    for (size_t i = begin; i < end; ++i) {
      const auto* tag = std::get_if<Tag>(&script_[i]);
      raw += tag != nullptr ? tag_text(*tag) : std::get<std::string>(script_[i]);
    }
    std::string valid;
    Utf8Assembler utf8;
    utf8.feed(raw, valid);
    utf8.finish(valid);
    return valid;
  }
  static std::string strip(const std::string& raw) { return std::string(python_strip(raw)); }
  TagSet content_tags() const {
    TagSet tags;
    if (thinking_) tags = {Tag::think, Tag::think_end};
    if (!tools_.empty()) tags.add(Tag::tool_call);
    return tags;
  }

  void reasoning() {
    std::string all;
    for (;;) {
      const size_t end = next(at_, content_tags());
      all += text(at_, end);
      at_ = end;
      if (!at(end, Tag::think)) break;
      ++at_;
    }
    while (!all.empty() && (all.back() == '\n' || all.back() == '\r')) all.pop_back();
    out_.reasoning += all;
    in_reasoning_ = false;
    trim_head_ = at(at_, Tag::think_end);
    if (trim_head_) ++at_;
  }

  void content() {
    std::string all;
    for (;;) {
      const size_t end = next(at_, content_tags());
      all += text(at_, end);
      at_ = end;
      if (!at(end, Tag::think_end)) break;
      ++at_;
    }
    for (int i = 0; trim_head_ && i < 2; ++i) {
      if (all.starts_with("\n")) {
        all.erase(0, 1);
      } else if (all.starts_with("\r\n")) {
        all.erase(0, 2);
      }
    }
    trim_head_ = false;
    segment_ += all;
    in_reasoning_ = at(at_, Tag::think) && thinking_;
    if (in_reasoning_) ++at_;
  }

  /// at_ is at <tool_call>; leaves it behind the block, or at the next <tool_call>.
  void call() {
    in_reasoning_ = trim_head_ = false;
    const size_t name_end = next(at_ + 1, {Tag::tool_call, Tag::tool_call_end, Tag::arg_key,
                                           Tag::arg_key_end, Tag::arg_value, Tag::arg_value_end});
    const std::string name = strip(text(at_ + 1, name_end));
    const bool at_end = name_end == script_.size();
    const ToolSchema* schema = tools_.find(name);
    if (schema != nullptr &&
        (at_any(name_end, {Tag::arg_key, Tag::tool_call_end}) || (at_end && !cut_))) {
      return declared_call(name, *schema, name_end);
    }
    if (at_end && cut_ && tools_.has_prefix(name)) {
      stopped_ = true;
      return;
    }
    size_t end = next(at_ + 1, {Tag::tool_call, Tag::tool_call_end});
    if (at(end, Tag::tool_call_end)) ++end;
    segment_ += text(at_, end);
    at_ = end;
    if (at(at_, Tag::tool_call)) return call();
  }

  void declared_call(const std::string& name, const ToolSchema& schema, size_t begin) {
    add_segment();
    const size_t end = next(begin, {Tag::tool_call_end});
    std::string json;
    const bool between = arguments(schema, begin, end, json);
    const bool complete = end < script_.size() || (between && !cut_);
    out_.calls.push_back({name, json, complete});
    at_ = end + 1;
    stopped_ = end == script_.size() || (single_ && complete);
  }

  /// Whether [begin, end) ends between pairs.
  bool arguments(const ToolSchema& schema, size_t begin, size_t end, std::string& json) {
    json = "{";
    std::set<std::string> keys;
    bool between = true;
    size_t i = std::min(end, next(begin, {Tag::arg_key}));
    while (i < end) {
      between = false;
      const size_t key_end = std::min(
          end, next(i + 1, {Tag::arg_key, Tag::arg_key_end, Tag::arg_value, Tag::arg_value_end}));
      size_t value = key_end;
      if (at(key_end, Tag::arg_key_end)) {
        value = std::min(end, next(key_end, {Tag::arg_key, Tag::arg_value, Tag::arg_value_end}));
      }
      if (value < end && at(value, Tag::arg_value)) {
        const size_t value_end = std::min(end, next(value + 1, {Tag::arg_value_end}));
        const std::string key = strip(text(i + 1, key_end));
        if (keys.insert(key).second) {
          json += keys.size() == 1 ? "" : ",";
          append_json_string(json, key);
          json += ":" + schema.coerce(key, text(value + 1, value_end));
        }
        value = value_end;
      }
      between = value < end && at(value, Tag::arg_value_end);
      i = at(value, Tag::arg_key) ? value : std::min(end, next(value, {Tag::arg_key}));
    }
    json += "}";
    return between;
  }

  void add_segment() {
    const bool blank = strip(segment_).empty();
    if (out_.calls.empty()) {
      // Blanks alone stay only when no call follows; who calls this at the end has none.
      if (!blank || at_ >= script_.size() || stopped_) out_.content += segment_;
    } else if (!blank) {
      trailing_ += segment_;
    }
    segment_.clear();
  }

  const Script& script_;
  ToolSet tools_;
  bool thinking_;
  bool in_reasoning_;
  bool single_;
  bool cut_;
  bool trim_head_ = false;
  bool stopped_ = false;
  size_t at_ = 0;
  std::string segment_;
  std::string trailing_;
  Outcome out_;
};

/// Equal, except that the arguments of a call that stayed open may be any beginning.
inline bool agrees(const Outcome& streamed, const Outcome& whole) {
  Outcome a = streamed;
  Outcome b = whole;
  if (a.calls.size() != b.calls.size()) return false;
  for (size_t i = 0; i < a.calls.size(); ++i) {
    if (a.calls[i].complete || b.calls[i].complete) continue;
    if (!b.calls[i].arguments.starts_with(a.calls[i].arguments)) return false;
    a.calls[i].arguments.clear();
    b.calls[i].arguments.clear();
  }
  return a == b;
}

}  // namespace yoke::engine::testing
