// Keys, origins and host names over real sockets (spec/api.md 6.2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/test_server.h"

namespace yoke::tests {
namespace {

using engine::Json;
using testing::HasSubstr;

config::Config with_keys() {
  config::Config config = test_config();
  config.access.api_keys = {"alice:secret-a", "secret-b"};
  return config;
}

std::string code_of(const HttpReply& reply) {
  return reply.json().find("error")->find("code")->as_string();
}

TEST(Keys, all_three_headers_open_completions) {
  TestServer server(with_keys());
  for (const char* header :
       {"Authorization: Bearer secret-a\r\n", "Authorization: bearer secret-b\r\n",
        "x-api-key: secret-a\r\n", "api-key: secret-b\r\n"})
    EXPECT_EQ(server.chat(chat_body(), header).status, 200) << header;
  EXPECT_EQ(server.engine.request(engine::RequestId{0}).key_label, "alice");
  EXPECT_EQ(server.engine.request(engine::RequestId{1}).key_label, "key1");
}

TEST(Keys, missing_and_wrong_ones_are_401_before_the_body) {
  TestServer server(with_keys());
  for (const char* header : {"", "Authorization: Bearer \r\n", "Authorization: Bearer secret-\r\n",
                             "Authorization: Basic secret-a\r\n", "x-api-key: alice\r\n"}) {
    const HttpReply reply = server.chat("not json", header);
    EXPECT_EQ(reply.status, 401) << header;
    EXPECT_EQ(code_of(reply), "invalid_api_key");
    EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
    EXPECT_EQ(reply.json().find("error")->find("type")->as_string(), "authentication_error");
  }
  EXPECT_EQ(server.engine.submitted(), 0u);
}

TEST(Keys, health_version_and_options_are_open_and_the_rest_by_choice) {
  TestServer server(with_keys());
  for (const char* path : {"/health", "/live", "/ready", "/version", "/"})
    EXPECT_EQ(ask(server.port(), "GET", path).status, 200) << path;
  EXPECT_EQ(ask(server.port(), "OPTIONS", "/v1/chat/completions").status, 204);
  for (const char* path : {"/metrics", "/v1/models", "/v1/models/nano"})
    EXPECT_EQ(ask(server.port(), "GET", path).status, 401) << path;
  for (const char* path : {"/slots", "/get_server_info", "/nope"})
    EXPECT_EQ(ask(server.port(), "GET", path).status, 404) << "rule 30: " << path;
  config::Config open = with_keys();
  open.access.metrics_open = true;
  open.access.models_open = true;
  TestServer opened(open);
  EXPECT_EQ(ask(opened.port(), "GET", "/metrics").status, 200);
  EXPECT_EQ(ask(opened.port(), "GET", "/v1/models").status, 200);
}

TEST(Keys, load_is_told_only_to_who_has_one) {
  TestServer server(with_keys());
  EXPECT_EQ(ask(server.port(), "GET", "/health").json().find("busy"), nullptr);
  EXPECT_NE(ask(server.port(), "GET", "/health", "", "x-api-key: secret-a\r\n")
                .json()
                .find("requests_running"),
            nullptr);
}

TEST(Keys, without_keys_any_header_is_ignored) {
  TestServer server;
  EXPECT_EQ(server.chat(chat_body(), "Authorization: Bearer whatever\r\n").status, 200);
}

TEST(Keys, rotation_does_not_disturb_a_running_stream) {
  TestServer server(with_keys());
  server.engine.hold_all();
  HttpClient client(server.port());
  client.request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"),
                 "x-api-key: secret-a\r\n");
  const auto id = server.engine.wait_for_request(0);
  client.read_head();
  config::AccessConfig fresh;
  fresh.api_keys = {"bob:secret-c"};
  server.server.set_keys(*server::KeyRing::load(fresh));
  EXPECT_EQ(server.chat(chat_body(), "x-api-key: secret-a\r\n").status, 401);
  server.engine.emit(id, ids_of("r</think>still here", true));
  server.engine.finish(id);
  EXPECT_THAT(client.read_until("[DONE]"), HasSubstr("still here"));
  EXPECT_EQ(ask(server.port(), "GET", "/v1/models", "", "x-api-key: secret-c\r\n").status, 200);
}

TEST(Origins, pages_of_other_sites_may_not_ask_a_server_without_keys) {
  TestServer server;
  const HttpReply evil = server.chat(chat_body(), "Origin: https://evil.example\r\n");
  EXPECT_EQ(evil.status, 403);
  EXPECT_EQ(code_of(evil), "forbidden");
  EXPECT_EQ(evil.header("access-control-allow-origin"), "");
  const HttpReply local = server.chat(chat_body(), "Origin: http://localhost:3000\r\n");
  EXPECT_EQ(local.status, 200);
  EXPECT_EQ(local.header("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_EQ(local.header("vary"), "Origin");
  EXPECT_EQ(server.chat(chat_body(), "Sec-Fetch-Mode: cors\r\n").status, 200)
      << "Node sends that without an Origin";
  EXPECT_EQ(server.engine.submitted(), 2u);
}

TEST(Origins, names_that_could_be_rebound_are_refused_without_keys) {
  TestServer server;
  const auto status = [&](std::string_view host, uint16_t port) {
    HttpClient client(port);
    client.send("GET /v1/models HTTP/1.1\r\nHost: " + std::string(host) + "\r\n" +
                "x-api-key: secret-a\r\n\r\n");
    return client.read_reply().status;
  };
  EXPECT_EQ(status("evil.example:8080", server.port()), 403);
  EXPECT_EQ(status("localhost:8080", server.port()), 200);
  EXPECT_EQ(status("10.0.0.5:8080", server.port()), 200);
  TestServer keyed(with_keys());
  EXPECT_EQ(status("any.example", keyed.port()), 200) << "a page cannot know the key";
}

TEST(Origins, allowed_ones_get_their_headers_also_on_errors_and_streams) {
  config::Config config = test_config();
  config.access.allowed_origins = {"https://chat.example"};
  TestServer server(config);
  const char* origin = "Origin: https://chat.example\r\n";
  for (const std::string& body : {chat_body(), chat_body(R"(,"stream":true)"), std::string("{")}) {
    const HttpReply reply = server.chat(body, origin);
    EXPECT_EQ(reply.header("access-control-allow-origin"), "https://chat.example");
    EXPECT_THAT(reply.header("access-control-expose-headers"), HasSubstr("x-request-id"));
  }
}

TEST(Origins, preflight_is_204_with_what_was_asked) {
  TestServer server;
  const HttpReply reply =
      ask(server.port(), "OPTIONS", "/v1/chat/completions", "",
          "Origin: http://localhost:1\r\nAccess-Control-Request-Method: POST\r\n"
          "Access-Control-Request-Headers: authorization, x-stainless-os\r\n");
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.header("access-control-allow-origin"), "http://localhost:1");
  EXPECT_THAT(reply.header("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_EQ(reply.header("access-control-allow-headers"), "authorization, x-stainless-os");
  EXPECT_EQ(reply.header("access-control-max-age"), "86400");
}

}  // namespace
}  // namespace yoke::tests
