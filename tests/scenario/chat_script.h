// What chat scenarios share: tools, a call as the model writes it, and short ways to ask.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/fakes/test_server.h"
#include "tests/scenario/stream_rules.h"

namespace yoke::tests {

inline constexpr std::string_view kTools =
    R"(,"tools":[{"type":"function","function":{"name":"read_file","parameters":{"type":"object",
    "properties":{"filePath":{"type":"string"},"startLine":{"type":"number"}},
    "required":["filePath","startLine"]}}},
    {"type":"function","function":{"name":"list_dir","parameters":{"type":"object",
    "properties":{}}}}])";
inline constexpr std::string_view kStream =
    R"(,"stream":true,"stream_options":{"include_usage":true})";
inline const std::string kCall =
    "<tool_call>read_file<arg_key>filePath</arg_key><arg_value>/src/a.ts</arg_value>"
    "<arg_key>startLine</arg_key><arg_value>1</arg_value></tool_call>";

/// The engine answers every request with this text, in steps of so many tokens.
inline void answer_with(TestServer& server, std::string text, size_t step = 1,
                        engine::FinishReason reason = engine::FinishReason::stop,
                        int32_t cached = 0) {
  Script script;
  script.steps = steps_of(text, step, reason == engine::FinishReason::stop);
  script.reason = reason;
  script.cached_tokens = cached;
  server.engine.set_director([script](const engine::GenerationRequest&) { return script; });
}

inline StreamResult stream(TestServer& server, std::string_view more = "") {
  const HttpReply reply = server.chat(chat_body(std::string(kStream) + std::string(more)));
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.header("content-type"), "text/event-stream; charset=utf-8");
  return StreamRules::check(reply.body);
}

inline const engine::Json& choice_of(const engine::Json& answer) {
  return answer.find("choices")->items()[0];
}
inline const engine::Json& message_of(const engine::Json& answer) {
  return *choice_of(answer).find("message");
}

inline int64_t number(const engine::Json& object, std::string_view key) {
  const engine::Json* value = object.find(key);
  return value == nullptr ? -1 : value->to_int64().value_or(-1);
}

}  // namespace yoke::tests
