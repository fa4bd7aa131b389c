// HTTP/1.1 over real sockets: framing, limits, error shapes (spec/api.md 2.1, 2.4, 3.7).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/test_server.h"
#include "tests/scenario/stream_rules.h"

namespace yoke::tests {
namespace {

using engine::Json;
using testing::HasSubstr;

std::string post(std::string_view body, std::string_view headers = "") {
  return "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

/// The engine answers every request with "yes".
struct YesServer : TestServer {
  explicit YesServer(config::Config config = test_config()) : TestServer(std::move(config)) {
    engine.set_director([](const engine::GenerationRequest&) {
      Script script;
      script.steps = steps_of("r</think>yes");
      return script;
    });
  }
};

std::string content_of(const HttpReply& reply) {
  const Json answer = reply.json();
  const Json* choices = answer.find("choices");
  if (choices == nullptr) return reply.body;
  return choices->items()[0].find("message")->find("content")->as_string();
}

void expect_error(const HttpReply& reply, int status, std::string_view code) {
  EXPECT_EQ(reply.status, status);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_FALSE(reply.header("x-request-id").empty());
  const Json json = reply.json();
  ASSERT_NE(json.find("error"), nullptr);
  for (const char* key : {"message", "type", "param", "code"})
    EXPECT_NE(json.find("error")->find(key), nullptr) << key;
  const Json* found = json.find("error")->find("code");
  if (code.empty()) {
    EXPECT_TRUE(found->is_null());
  } else {
    EXPECT_EQ(found->as_string(), code);
  }
}

// --- framing
// -------------------------------------------------------------------------------------------

TEST(Http, request_delivered_one_byte_at_a_time_works) {  // I10
  YesServer server;
  HttpClient client(server.port());
  for (const char byte : post(chat_body())) client.send({&byte, 1});
  EXPECT_EQ(content_of(client.read_reply()), "yes");
}

TEST(Http, pipelined_requests_are_answered_in_order) {
  YesServer server;
  HttpClient client(server.port());
  client.send(post(chat_body(), "X-Request-Id: one\r\n") +
              "GET /health HTTP/1.1\r\nX-Request-Id: two\r\n\r\n" +
              post(chat_body(R"(,"stream":true)"), "X-Request-Id: three\r\n") +
              "GET /v1/models HTTP/1.1\r\nX-Request-Id: four\r\n\r\n");
  const HttpReply one = client.read_reply();
  EXPECT_EQ(one.header("x-request-id"), "one");
  EXPECT_EQ(content_of(one), "yes");
  EXPECT_EQ(client.read_reply().header("x-request-id"), "two");
  const HttpReply three = client.read_reply();
  EXPECT_EQ(three.header("x-request-id"), "three");
  EXPECT_EQ(StreamRules::check(three.body).content, "yes");
  EXPECT_EQ(client.read_reply().header("x-request-id"), "four");
}

TEST(Http, bytes_of_a_next_request_are_not_a_close) {
  TestServer server;
  server.engine.hold_all();
  HttpClient client(server.port());
  client.send(post(chat_body()));
  const engine::RequestId id = server.engine.wait_for_request(0);
  client.send("GET /health HTTP/1.1\r\nX-Request-Id: next\r\n");
  // A second connection's answer shows that the server has had time to see these bytes.
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
  EXPECT_EQ(server.engine.cancelled(), 0u);
  server.engine.emit(id, ids_of("r</think>late", true));
  server.engine.finish(id);
  EXPECT_EQ(content_of(client.read_reply()), "late");
  client.send("\r\n");
  EXPECT_EQ(client.read_reply().header("x-request-id"), "next");
}

TEST(Http, chunked_bodies_work_however_they_are_cut) {
  YesServer server;
  const std::string body = chat_body();
  for (const size_t size : {size_t{1}, size_t{7}, body.size()}) {
    HttpClient client(server.port());
    client.send("POST /chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t i = 0; i < body.size(); i += size) {
      const std::string piece = body.substr(i, size);
      char length[16];
      std::snprintf(length, sizeof length, "%zx\r\n", piece.size());
      client.send(length + piece + "\r\n");
    }
    client.send("0\r\nSome-Trailer: x\r\n\r\n");
    EXPECT_EQ(content_of(client.read_reply()), "yes");
    client.request("GET", "/health");
    EXPECT_EQ(client.read_reply().status, 200);
  }
}

TEST(Http, expect_100_continue_is_answered_before_the_body) {  // I4
  YesServer server;
  HttpClient client(server.port());
  const std::string body = chat_body();
  client.send("POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 100);
  client.send(body);
  EXPECT_EQ(content_of(client.read_reply()), "yes");
}

TEST(Http, expectation_of_a_refused_request_gets_the_final_status_at_once) {
  config::Config config = test_config();
  config.server.max_body_mib = 1;
  YesServer server(config);
  HttpClient client(server.port());
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\n"
      "Content-Length: 2000000\r\n\r\n");
  expect_error(client.read_reply(), 413, "request_too_large");
  EXPECT_TRUE(client.wait_for_end());
}

TEST(Http, paths_work_with_and_without_version_slash_and_query) {  // rule 23
  YesServer server;
  for (const char* path : {"/v1/chat/completions", "/chat/completions", "/v1/chat/completions/",
                           "/v1/chat/completions?beta=true", "//v1/chat/completions"})
    EXPECT_EQ(content_of(ask(server.port(), "POST", path, chat_body())), "yes") << path;
  HttpClient client(server.port());
  client.send("GET http://127.0.0.1/v1/models?x=y HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST(Http, content_type_is_not_enforced_and_codings_are_refused) {
  YesServer server;
  HttpClient client(server.port());
  client.send(post(chat_body(), "Content-Type: text/plain\r\n"));
  EXPECT_EQ(content_of(client.read_reply()), "yes");
  client.send(post(chat_body(), "Content-Encoding: gzip\r\n"));
  expect_error(client.read_reply(), 415, "");
  client.send(post(chat_body(), "Content-Encoding: identity\r\n"));
  EXPECT_EQ(content_of(client.read_reply()), "yes") << "the connection lives on";
}

TEST(Http, request_ids_are_echoed_if_usable_and_drawn_if_not) {
  YesServer server;
  EXPECT_EQ(
      ask(server.port(), "GET", "/health", "", "X-Request-Id: a-1\r\n").header("x-request-id"),
      "a-1");
  EXPECT_THAT(
      ask(server.port(), "GET", "/health", "", "X-Request-Id: " + std::string(129, 'a') + "\r\n")
          .header("x-request-id"),
      testing::StartsWith("req_"));
  EXPECT_NE(ask(server.port(), "GET", "/health").header("x-request-id"),
            ask(server.port(), "GET", "/health").header("x-request-id"));
}

TEST(Http, connection_close_is_honoured_and_1_0_closes_by_default) {
  YesServer server;
  HttpClient client(server.port());
  client.request("GET", "/health", "", "Connection: close\r\n");
  EXPECT_EQ(client.read_reply().header("connection"), "close");
  EXPECT_TRUE(client.wait_for_end());
  HttpClient old(server.port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_reply().status, 200);
  EXPECT_TRUE(old.wait_for_end());
  HttpClient kept(server.port());
  kept.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.read_reply().header("connection"), "keep-alive");
}

// --- methods and routes
// ----------------------------------------------------------------------------------

TEST(HttpRoutes, head_has_the_headers_of_get_and_no_body) {
  YesServer server;
  HttpClient client(server.port());
  for (const char* path : {"/health", "/v1/models", "/version", "/", "/metrics"}) {
    client.request("HEAD", path);
    const HttpReply head = client.read_reply(true);
    EXPECT_EQ(head.status, 200) << path;
    EXPECT_GT(std::stoul(head.header("content-length")), 0u) << path;
  }
  client.request("GET", "/health");
  EXPECT_EQ(client.read_reply().status, 200) << "nothing is left of the HEADs";
}

TEST(HttpRoutes, unknown_paths_are_404_and_wrong_methods_405_with_allow) {  // rules 24 and 30
  YesServer server;
  HttpClient client(server.port());
  for (const char* path : {"/nope", "/slots", "/get_server_info", "/server_info", "/v1/nope"}) {
    client.request("GET", path);
    expect_error(client.read_reply(), 404, "not_found");
  }
  client.request("GET", "/v1/chat/completions");
  const HttpReply get = client.read_reply();
  expect_error(get, 405, "method_not_allowed");
  EXPECT_EQ(get.header("allow"), "POST, OPTIONS");
  client.request("DELETE", "/health");
  expect_error(client.read_reply(), 405, "method_not_allowed");
  client.request("BREW", "/health");
  expect_error(client.read_reply(), 405, "method_not_allowed");
}

TEST(HttpRoutes, known_routes_that_are_not_offered_are_501) {
  YesServer server;
  for (const char* path : {"/v1/embeddings", "/v1/completions", "/v1/responses", "/v1/rerank"}) {
    const HttpReply reply = ask(server.port(), "POST", path, "{}");
    expect_error(reply, 501, "");
    EXPECT_EQ(reply.header("x-should-retry"), "false");
  }
  const HttpReply messages = ask(server.port(), "POST", "/v1/messages", "{}");
  EXPECT_EQ(messages.status, 501);
  EXPECT_THAT(messages.body, testing::StartsWith(R"({"type":"error","error":{)"));
}

TEST(HttpRoutes, models_list_names_sizes_and_capabilities) {  // I9
  YesServer server;
  const Json list = ask(server.port(), "GET", "/v1/models").json();
  EXPECT_EQ(list.find("object")->as_string(), "list");
  const Json& first = list.find("data")->items().at(0);
  EXPECT_EQ(first.find("id")->as_string(), "nano");
  EXPECT_EQ(first.find("max_model_len")->to_int64(), TestServer::kContext);
  EXPECT_EQ(first.find("context_length")->to_int64(), TestServer::kContext);
  EXPECT_EQ(first.find("owned_by")->as_string(), "yoke");
  EXPECT_TRUE(first.find("capabilities")->find("tools")->as_boolean());
  EXPECT_EQ(list.find("data")->items().size(), 2u);
  for (const char* path : {"/v1/models/org/alias", "/models/org%2Falias"})
    EXPECT_EQ(ask(server.port(), "GET", path).json().find("id")->as_string(), "org/alias");
  expect_error(ask(server.port(), "GET", "/v1/models/gpt-4"), 404, "model_not_found");
}

TEST(HttpRoutes, information_pages_answer) {
  YesServer server;
  EXPECT_THAT(ask(server.port(), "GET", "/version").body, HasSubstr("\"version\":"));
  const HttpReply page = ask(server.port(), "GET", "/");
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("yoke"));
  const HttpReply health = ask(server.port(), "GET", "/health");
  EXPECT_EQ(health.json().find("status")->as_string(), "ok");
  EXPECT_EQ(health.json().find("requests_running")->to_int64(), 0);
  for (const char* path : {"/health/live", "/live", "/livez", "/healthz", "/health/ready", "/ready",
                           "/readyz", "/ping"})
    EXPECT_EQ(ask(server.port(), "GET", path).status, 200) << path;
}

TEST(HttpRoutes, metrics_are_prometheus_text_and_count_what_happened) {
  YesServer server;
  server.chat(chat_body());
  server.chat("{");
  const HttpReply reply = ask(server.port(), "GET", "/metrics");
  EXPECT_EQ(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line :
       {"yoke_requests_total{outcome=\"stop\"} 1", "yoke_requests_total{outcome=\"rejected\"} 1",
        "yoke_requests_rejected_total{reason=\"invalid\"} 1",
        "yoke_http_requests_total{code=\"200\",method=\"POST\",route=\"/chat/completions\"} 1",
        "yoke_requests_running 0", "yoke_time_to_first_token_seconds_count 1",
        "yoke_generated_tokens_total{kind=\"content\"}", "yoke_build_info{", "model=\"nano\""})
    EXPECT_THAT(reply.body, HasSubstr(line));
}

// --- limits
// ----------------------------------------------------------------------------------------------

TEST(HttpLimits, oversized_bodies_are_413_with_either_framing) {
  config::Config config = test_config();
  config.server.max_body_mib = 1;
  YesServer server(config);
  const std::string big(1'100'000, ' ');
  HttpClient fixed(server.port());
  fixed.send(post(big));
  expect_error(fixed.read_reply(), 413, "request_too_large");
  HttpClient chunked(server.port());
  chunked.send("POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  char length[16];
  std::snprintf(length, sizeof length, "%zx\r\n", big.size());
  chunked.send(length + big + "\r\n");
  expect_error(chunked.read_reply(), 413, "request_too_large");
  EXPECT_TRUE(chunked.wait_for_end());
  EXPECT_EQ(content_of(server.chat(chat_body())), "yes");
}

TEST(HttpLimits, small_bodies_of_refused_requests_leave_the_connection_usable) {
  YesServer server;
  HttpClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.request("POST", "/v1/embeddings", std::string(10'000, 'x'));
    EXPECT_EQ(client.read_reply().status, 501);
  }
  client.send(post(chat_body()));
  EXPECT_EQ(content_of(client.read_reply()), "yes");
}

TEST(HttpLimits, oversized_headers_are_431) {
  config::Config config = test_config();
  config.server.max_header_kib = 1;
  YesServer server(config);
  HttpClient client(server.port());
  client.send("GET /health HTTP/1.1\r\nX-Big: " + std::string(2000, 'a') + "\r\n\r\n");
  expect_error(client.read_reply(), 431, "");
  EXPECT_TRUE(client.wait_for_end());
}

TEST(HttpLimits, unfinished_requests_are_408_in_time) {
  config::Config config = test_config();
  config.server.header_timeout = std::chrono::milliseconds(50);
  config.server.body_timeout = std::chrono::milliseconds(50);
  YesServer server(config);
  HttpClient header(server.port());
  header.send("GET /health HTT");
  expect_error(header.read_reply(), 408, "request_timeout");
  EXPECT_TRUE(header.wait_for_end());
  HttpClient body(server.port());
  body.send("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  expect_error(body.read_reply(), 408, "request_timeout");
  EXPECT_TRUE(body.wait_for_end());
}

TEST(HttpLimits, idle_connections_close_silently) {
  config::Config config = test_config();
  config.server.idle_timeout = std::chrono::milliseconds(50);
  YesServer server(config);
  HttpClient silent(server.port());
  EXPECT_TRUE(silent.wait_for_end());
  HttpClient used(server.port());
  used.request("GET", "/health");
  EXPECT_EQ(used.read_reply().status, 200);
  EXPECT_TRUE(used.wait_for_end());
}

TEST(HttpLimits, what_is_not_http_is_400_and_closes) {
  YesServer server;
  for (const char* bytes :
       {"\x16\x03\x01\x02\x01\x01\x01\xfc", "hello\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n"}) {
    HttpClient client(server.port());
    client.send(bytes);
    expect_error(client.read_reply(), 400, "malformed_request");
    EXPECT_TRUE(client.wait_for_end());
  }
}

TEST(HttpLimits, longest_idle_connection_makes_room_for_a_new_one) {
  config::Config config = test_config();
  config.server.max_connections = 2;
  config.server.io_threads = 1;  // a connection is idle before the next one's request is read
  YesServer server(config);
  HttpClient first(server.port());
  first.request("GET", "/health");
  EXPECT_EQ(first.read_reply().status, 200);
  HttpClient second(server.port());
  second.request("GET", "/health");
  EXPECT_EQ(second.read_reply().status, 200);
  EXPECT_EQ(content_of(server.chat(chat_body())), "yes");
  EXPECT_TRUE(first.wait_for_end());
  second.request("GET", "/health");
  EXPECT_EQ(second.read_reply().status, 200) << "nobody needed its place";
}

TEST(HttpLimits, bodies_share_one_budget) {
  config::Config config = test_config();
  config.server.max_body_mib = 1;
  config.server.max_buffered_mib = 1;
  YesServer server(config);
  HttpClient holder(server.port());
  holder.send("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" +
              std::string(900'000, ' '));
  // The budget is taken once the server has read these bytes; metrics show it.
  while (ask(server.port(), "GET", "/metrics").body.find("yoke_request_body_bytes 900000") ==
         std::string::npos) {
  }
  HttpClient second(server.port());
  second.send(post(std::string(300'000, ' ')));
  const HttpReply refused = second.read_reply();
  expect_error(refused, 503, "overloaded");
  EXPECT_FALSE(refused.header("retry-after").empty());
  holder.reset();
  while (ask(server.port(), "GET", "/metrics").body.find("yoke_request_body_bytes 0") ==
         std::string::npos) {
  }
  EXPECT_EQ(content_of(server.chat(chat_body())), "yes");
}

}  // namespace
}  // namespace yoke::tests
