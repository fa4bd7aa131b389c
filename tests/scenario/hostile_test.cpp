// Ten thousand damaged requests over sockets, then a good one. The damage is seeded: a failure
// names the seed and the request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/fakes/test_server.h"

namespace yoke::tests {
namespace {

using engine::Json;

constexpr unsigned kSeed = 20261201;
constexpr int kRequests = 10'000;

const std::vector<std::string>& good_bodies() {
  static const std::vector<std::string> bodies = {
      chat_body(), chat_body(R"(,"stream":true,"stream_options":{"include_usage":true})"),
      chat_body(R"(,"temperature":0.5,"top_p":0.9,"top_k":5,"seed":7,"stop":["a","b"],
                    "logit_bias":{"5":-1},"max_tokens":9)"),
      R"({"model":"nano","messages":[{"role":"system","content":"s"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c",
           "type":"function","function":{"name":"f","arguments":"{\"x\":[1,2.0,null]}"}}]},
          {"role":"tool","tool_call_id":"c","content":"out \u00e9 \ud83d\ude00"}],
          "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",
          "properties":{"x":{"type":"array"}}}}}],"tool_choice":"auto"})",
      chat_body(R"(,"chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low",
                    "thinking":{"type":"enabled"},"reasoning":{"effort":"high"})")};
  return bodies;
}

class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  const std::string& body() { return good_bodies()[below(good_bodies().size())]; }

  /// Bytes flipped, cut, doubled, or replaced by what parsers trip over.
  std::string bytes(std::string text) {
    static const std::vector<std::string> kPieces = {"{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     "\"",
                                                     "\\",
                                                     "\\u",
                                                     "\\ud800",
                                                     ":",
                                                     ",",
                                                     "null",
                                                     "true",
                                                     "-",
                                                     "1e999",
                                                     "99999999999999999999",
                                                     "-0",
                                                     "\r\n",
                                                     "\r\n\r\n",
                                                     std::string(1, '\0'),
                                                     "\xff",
                                                     "\xC3",
                                                     "\xF0\x9F",
                                                     "0\r\n\r\n",
                                                     "ffffffffffffffff\r\n",
                                                     "Content-Length: 5\r\n",
                                                     "Transfer-Encoding: chunked\r\n",
                                                     " HTTP/1.1\r\n",
                                                     "%00",
                                                     "/../",
                                                     std::string(300, '['),
                                                     std::string(2000, 'A')};
    for (size_t i = 0; i < 1 + below(4); ++i) {
      const size_t at = below(text.size() + 1);
      const size_t n = std::min(below(40), text.size() - at);
      switch (below(5)) {
        case 0:
          if (at < text.size()) text[at] = static_cast<char>(random_());
          break;
        case 1:
          text.erase(at, n);
          break;
        case 2:
          text.insert(at, text.substr(at, n));
          break;
        case 3:
          text.insert(at, kPieces[below(kPieces.size())]);
          break;
        case 4:
          text.replace(at, n, kPieces[below(kPieces.size())]);
          break;
      }
    }
    return text;
  }

  /// Valid JSON with some values replaced, removed or nested.
  std::string json() {
    auto parsed = engine::parse_json(body(), "good body");
    YOKE_CHECK(parsed.ok(), "a good body is JSON");
    for (size_t i = 0; i < 1 + below(3); ++i) change(*parsed, 0);
    return to_json(*parsed);
  }

 private:
  Json value() {
    switch (below(9)) {
      case 0:
        return {};
      case 1:
        return Json::boolean(true);
      case 2:
        return Json::integer(static_cast<int64_t>(random_()) - 1'000'000);
      case 3:
        return Json::number("1e400");
      case 4:
        return Json::number("-0.0");
      case 5:
        return Json::string(std::string("x\0\n\xEF\xBF\xBD</think><|user|>", 22));
      case 6:
        return Json::array({Json::integer(1), Json()});
      case 7:
        return Json::object({{"role", Json::string("user")}});
      default:
        return Json::string("");
    }
  }
  void change(Json& node, int depth) {
    if (node.is_object() && !node.members().empty() && below(6) != 0 && depth < 12) {
      auto& member = node.members()[below(node.members().size())];
      if (below(8) == 0) {
        const std::string key = member.first;
        std::erase_if(node.members(), [&](const Json::Member& m) { return m.first == key; });
      } else {
        change(member.second, depth + 1);
      }
    } else if (node.is_array() && !node.items().empty() && below(6) != 0 && depth < 12) {
      Json& item = node.items()[below(node.items().size())];
      if (below(8) == 0)
        node.items().push_back(Json(item));
      else
        change(item, depth + 1);
    } else {
      node = value();
    }
  }

  std::mt19937 random_;
};

std::string framed(std::string_view body) {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

/// A whole request with a damaged body: it must be answered, as success or as the client's fault.
void expect_answer(HttpClient& client, const std::string& body) {
  client.send(framed(body));
  const HttpReply reply = client.read_reply();
  ASSERT_TRUE(reply.status == 200 || reply.status == 400 || reply.status == 404)
      << reply.status << " " << reply.body << "\nfor " << body;
  if (reply.status == 200) return;
  const Json json = reply.json();
  ASSERT_NE(json.find("error"), nullptr) << reply.body;
  ASSERT_EQ(json.find("error")->members().size() >= 4, true) << reply.body;
}

TEST(Hostile, ten_thousand_damaged_requests_and_then_a_good_one) {
  TestServer server;
  server.engine.set_director([](const engine::GenerationRequest&) {
    Script script;
    script.steps = steps_of("r</think>fine");
    return script;
  });
  Damage damage(kSeed);
  auto client = std::make_unique<HttpClient>(server.port());
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " request " + std::to_string(i));
    switch (damage.below(4)) {
      case 0:
        expect_answer(*client, damage.bytes(damage.body()));
        break;
      case 1:
        expect_answer(*client, damage.json());
        break;
      case 2: {  // broken HTTP: an answer or an end, but never silence
        HttpClient broken(server.port());
        broken.send(damage.bytes(framed(damage.body())));
        broken.finish_sending();
        broken.wait_for_end();
        break;
      }
      case 3: {  // leaves without listening
        HttpClient rude(server.port());
        rude.send(damage.bytes(framed(damage.body())));
        if (damage.below(2) == 0) rude.reset();
        break;
      }
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  server.engine.wait_until_no_live();
  client->send(framed(chat_body()));
  const Json good = client->read_reply().json();
  EXPECT_EQ(good.find("choices")->items()[0].find("message")->find("content")->as_string(), "fine");
  const std::string metrics = ask(server.port(), "GET", "/metrics").body;
  EXPECT_THAT(metrics, testing::HasSubstr("yoke_requests_running 0\n"));
  EXPECT_THAT(metrics, testing::HasSubstr("yoke_requests_rejected_total{reason=\"failed\"} 0\n"));
}

}  // namespace
}  // namespace yoke::tests
