// What the log says of a request, and what it never says (spec/api.md 6.3).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

#include "tests/fakes/test_server.h"

namespace yoke::tests {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The log of one plain request with hostile text in every place, after the server has stopped.
std::string log_of(const std::string& log_requests) {
  std::ostringstream out;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(out);
  auto logger = std::make_shared<spdlog::logger>("test", sink);
  logger->set_level(spdlog::level::info);
  config::Config config = test_config();
  config.log.requests = log_requests;
  config.access.api_keys = {"alice:secret-key"};
  {
    TestServer server(config, true, logger);
    server.engine.set_director([](const engine::GenerationRequest&) {
      Script script;
      script.steps = steps_of("thought</think>reply\nrequest.done forged");
      return script;
    });
    server.chat(chat_body("", "question\nrequest.done forged"),
                "x-api-key: secret-key\r\nX-Request-Id: id-1\r\n");
    server.chat(R"({"messages":[{"role":"rob\not"}]})", "x-api-key: secret-key\r\n");
  }
  return out.str();
}

TEST(Log, two_lines_per_request_without_texts_or_keys) {
  const std::string log = log_of("meta");
  EXPECT_THAT(log, HasSubstr("request.start id=id-1 key=alice model=nano prompt_tokens="));
  EXPECT_THAT(log, HasSubstr("request.done id=id-1 key=alice route=/chat/completions model=nano "
                             "status=200 outcome=stop"));
  EXPECT_THAT(log, HasSubstr("request.rejected id=req_"));
  EXPECT_THAT(log, HasSubstr("rob\\x0aot")) << "a message that quotes the request stays one line";
  for (const char* secret : {"question", "reply", "thought", "secret-key", "forged"})
    EXPECT_THAT(log, Not(HasSubstr(secret)));
}

TEST(Log, texts_only_on_demand_and_on_one_line) {
  const std::string log = log_of("full");
  EXPECT_THAT(log, HasSubstr("question\\x0arequest.done forged"));
  EXPECT_THAT(log, HasSubstr("reasoning=thought content=reply\\x0arequest.done forged"));
  EXPECT_THAT(log, Not(HasSubstr("\nrequest.done forged")));
  EXPECT_THAT(log, Not(HasSubstr("secret-key")));
}

TEST(Log, none_is_none) {
  const std::string log = log_of("none");
  EXPECT_THAT(log, Not(HasSubstr("request.")));
}

}  // namespace
}  // namespace yoke::tests
