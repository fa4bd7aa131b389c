// Checks every event of a chat stream against spec/api.md 0 (rules 1 to 16), and joins what a
// client would show.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/json/json.h"
#include "engine/json/utf8.h"
#include "tests/fakes/http_client.h"

namespace yoke::tests {

struct StreamCall {
  std::string id;
  std::string name;
  std::string arguments;
};

struct StreamResult {
  std::string content;
  std::string reasoning;
  std::vector<StreamCall> calls;
  std::string finish_reason;
  engine::Json usage;  ///< null when there was none
  engine::Json error;  ///< the `error` object, or null
  std::string model;
  std::string id;
  std::vector<std::string> content_events;
  size_t events = 0;
  size_t comments = 0;
};

/// Reads a whole stream body. Failures are reported through GoogleTest.
class StreamRules {
 public:
  static StreamResult check(std::string_view body) {
    StreamRules rules;
    rules.read(body);
    return rules.out_;
  }

 private:
  void read(std::string_view body) {
    EXPECT_TRUE(body.ends_with("data: [DONE]\n\n")) << "rule 5";
    while (!body.empty()) {
      const size_t end = body.find("\n\n");
      ASSERT_NE(end, std::string_view::npos) << "an event without its blank line";
      line(body.substr(0, end));
      body.remove_prefix(end + 2);
    }
    EXPECT_TRUE(done_);
    EXPECT_FALSE(out_.finish_reason.empty()) << "a choice without a finish chunk";
    for (const StreamCall& call : out_.calls) {
      const auto parsed = engine::parse_json(call.arguments, "arguments");
      if (out_.finish_reason == "tool_calls") {
        EXPECT_TRUE(parsed.ok() && parsed->is_object()) << "rule 15: " << call.arguments;
      }
    }
    if (out_.finish_reason == "tool_calls") {
      EXPECT_FALSE(out_.calls.empty()) << "rule 16";
    }
    if (out_.finish_reason == "stop") {
      EXPECT_TRUE(out_.calls.empty()) << "rule 16";
    }
    EXPECT_EQ(out_.finish_reason == "error", !out_.error.is_null()) << "rule 4";
  }

  void line(std::string_view text) {
    EXPECT_EQ(text.find('\n'), std::string_view::npos) << "rule 1: " << text;
    if (text.starts_with(":")) {
      EXPECT_EQ(text, ": keep-alive") << "rule 2";
      ++out_.comments;
      return;
    }
    ASSERT_TRUE(text.starts_with("data: ")) << "rule 1: " << text;
    ASSERT_FALSE(done_) << "something after [DONE]";
    text.remove_prefix(6);
    if (text == "[DONE]") {
      done_ = true;
      return;
    }
    ++out_.events;
    const auto parsed = engine::parse_json(text, "event");
    ASSERT_TRUE(parsed.ok()) << "rule 1: " << text;
    chunk(*parsed);
  }

  void chunk(const engine::Json& json) {
    if (const engine::Json* error = json.find("error")) {
      EXPECT_EQ(json.find("choices"), nullptr) << "rule 4";
      EXPECT_FALSE(out_.finish_reason.empty()) << "rule 4: the choice is still open";
      out_.error = *error;
      return;
    }
    EXPECT_EQ(json.find("object")->as_string(), "chat.completion.chunk");
    const std::string id = json.find("id")->as_string();
    if (out_.id.empty()) out_.id = id;
    EXPECT_EQ(out_.id, id);
    EXPECT_NE(id.find("cmpl"), std::string::npos);
    out_.model = json.find("model")->as_string();
    ASSERT_NE(json.find("system_fingerprint"), nullptr);
    ASSERT_NE(json.find("created"), nullptr);
    usage(json);
    const engine::Json::Array& choices = json.find("choices")->items();
    if (choices.empty()) return;
    ASSERT_EQ(choices.size(), 1u);
    choice(choices[0]);
  }

  void usage(const engine::Json& json) {
    const engine::Json* usage = json.find("usage");
    if (usage == nullptr || usage->is_null()) return;
    for (const char* key : {"prompt_tokens", "completion_tokens", "total_tokens"})
      EXPECT_TRUE(usage->find(key) != nullptr && usage->find(key)->to_int64()) << "rule 6";
    if (json.find("choices")->items().empty()) {
      EXPECT_TRUE(out_.usage.is_null()) << "one usage chunk";
      EXPECT_FALSE(out_.finish_reason.empty()) << "usage before the finish chunk";
      out_.usage = *usage;
    }
  }

  void choice(const engine::Json& choice) {
    EXPECT_TRUE(out_.finish_reason.empty()) << "something after the finish chunk";
    EXPECT_EQ(choice.find("message"), nullptr) << "rule 8";
    EXPECT_EQ(choice.find("index")->to_int64(), 0);
    const engine::Json& delta = *choice.find("delta");
    const engine::Json* finish = choice.find("finish_reason");
    if (finish != nullptr && !finish->is_null()) {
      EXPECT_TRUE(role_seen_) << "finish before the role";
      EXPECT_TRUE(delta.members().empty()) << "A10";
      out_.finish_reason = finish->as_string();
      return;
    }
    if (const engine::Json* role = delta.find("role")) {
      EXPECT_FALSE(role_seen_) << "role twice";
      EXPECT_EQ(role->as_string(), "assistant");
      EXPECT_TRUE(delta.find("content")->is_null());
      EXPECT_EQ(delta.members().size(), 2u);
      role_seen_ = true;
      return;
    }
    EXPECT_TRUE(role_seen_) << "the role comes first";
    EXPECT_EQ(delta.members().size(), 1u) << "rule 7: one kind per delta";
    if (const engine::Json* content = delta.find("content")) text(*content, out_.content, true);
    if (const engine::Json* reasoning = delta.find("reasoning_content"))
      text(*reasoning, out_.reasoning, false);
    if (const engine::Json* calls = delta.find("tool_calls")) {
      ASSERT_EQ(calls->items().size(), 1u) << "rule 7";
      call(calls->items()[0]);
    }
  }

  void text(const engine::Json& piece, std::string& to, bool content) {
    ASSERT_TRUE(piece.is_string());
    EXPECT_FALSE(piece.as_string().empty()) << "an empty delta";
    EXPECT_FALSE(piece.as_string().ends_with('\r')) << "a split line end";
    EXPECT_TRUE(is_utf8(piece.as_string())) << "rule 9";
    to += piece.as_string();
    if (content) out_.content_events.push_back(piece.as_string());
  }

  static bool is_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const size_t length = engine::utf8_length(text, at);
      if (length == 0) return false;
      at += length;
    }
    return true;
  }

  void call(const engine::Json& call) {
    const auto index = call.find("index")->to_int64();
    ASSERT_TRUE(index.has_value());
    const engine::Json& function = *call.find("function");
    if (static_cast<size_t>(*index) == out_.calls.size()) {
      StreamCall begun;
      begun.id = call.find("id")->as_string();
      EXPECT_TRUE(begun.id.starts_with("call_")) << "rule 12";
      EXPECT_EQ(begun.id.size(), 29u) << "rule 12";
      EXPECT_TRUE(ids_.insert(begun.id).second) << "rule 12";
      EXPECT_EQ(call.find("type")->as_string(), "function") << "rule 13";
      begun.name = function.find("name")->as_string();
      begun.arguments = function.find("arguments")->as_string();
      out_.calls.push_back(std::move(begun));
      return;
    }
    EXPECT_EQ(static_cast<size_t>(*index) + 1, out_.calls.size()) << "rule 14";
    EXPECT_EQ(call.members().size(), 2u) << "rule 13: index and function only";
    EXPECT_EQ(function.members().size(), 1u) << "rule 13: arguments only";
    out_.calls.back().arguments += function.find("arguments")->as_string();
  }

  StreamResult out_;
  std::set<std::string> ids_;
  bool role_seen_ = false;
  bool done_ = false;
};

}  // namespace yoke::tests
