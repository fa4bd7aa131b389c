// A server over nano's tokenizer and a scripted engine, on a free port of the loopback.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "server/server.h"
#include "tests/fakes/http_client.h"
#include "tests/fakes/scripted_engine.h"

namespace yoke::tests {

/// nano's tokenizer, loaded once.
const engine::Tokenizer& nano_tokenizer();

/// The ids of a text in which tags are tags; `end` appends the end-of-turn token.
std::vector<int32_t> ids_of(std::string_view text, bool end = false);
/// The same, cut into steps of so many tokens.
std::vector<std::vector<int32_t>> steps_of(std::string_view text, size_t step = 1, bool end = true);

/// A configuration for tests: a free port, no joining of tokens over time.
config::Config test_config();

/// A request with one user message; `more` is put behind it: `,"stream":true`.
std::string chat_body(std::string_view more = "", std::string_view text = "hi");

/// Silent, unless YOKE_TEST_LOG is a level: to watch a failing scenario.
config::Logger test_logger();

struct TestServer {
  static constexpr int32_t kContext = 4096;

  explicit TestServer(config::Config config = test_config(), bool with_model = true,
                      config::Logger log = test_logger());
  ~TestServer();

  uint16_t port() const { return server.port(); }
  void set_model();
  HttpReply chat(std::string_view body, std::string_view headers = "") {
    return ask(port(), "POST", "/v1/chat/completions", body, headers);
  }

  ScriptedEngine engine;
  server::ServedModel model;
  server::Server server;
};

}  // namespace yoke::tests
