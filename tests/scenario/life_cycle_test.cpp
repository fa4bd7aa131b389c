// Readiness, cancellation, overload, slow readers and shutdown over real sockets (spec/api.md 0
// rules 27 to 29, 5.3 G and I, 6.3).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/fakes/test_server.h"
#include "tests/scenario/stream_rules.h"

namespace yoke::tests {
namespace {

using engine::FinishReason;
using engine::Json;
using engine::ReadyState;
using engine::RequestId;
using testing::HasSubstr;

std::string code_of(const HttpReply& reply) {
  return reply.json().find("error")->find("code")->as_string();
}

/// Asks /metrics until it shows `line`.
void wait_for_metric(TestServer& server, std::string_view line) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (ask(server.port(), "GET", "/metrics").body.find(line) == std::string::npos)
    ASSERT_LT(std::chrono::steady_clock::now(), limit) << "never came: " << line;
}

// --- readiness
// -------------------------------------------------------------------------------------------

void expect_not_ready(TestServer& server, std::string_view code) {
  for (const char* more : {"", R"(,"stream":true)"})
    for (const char* path : {"/v1/chat/completions", "/chat/completions"}) {
      const HttpReply reply = ask(server.port(), "POST", path, chat_body(more));
      EXPECT_EQ(reply.status, 503);
      EXPECT_EQ(code_of(reply), code);
      EXPECT_FALSE(reply.header("retry-after").empty());
    }
  for (const char* path : {"/health", "/health/ready", "/ready", "/readyz", "/v1/health"})
    EXPECT_EQ(ask(server.port(), "GET", path).status, 503) << path;
  for (const char* path : {"/health/live", "/live", "/livez", "/healthz"})
    EXPECT_EQ(ask(server.port(), "GET", path).status, 200) << path;
  EXPECT_EQ(ask(server.port(), "GET", "/v1/models").status, 200);
  EXPECT_EQ(ask(server.port(), "GET", "/metrics").status, 200);
}

TEST(Readiness, nothing_is_completed_before_ready) {
  TestServer server(test_config(), false);
  expect_not_ready(server, "loading_model");
  server.engine.set_state(ReadyState::loading, "1 of 3 GiB");
  server.set_model();
  expect_not_ready(server, "loading_model");
  EXPECT_THAT(server.chat(chat_body()).body, HasSubstr("1 of 3 GiB"));
  server.engine.set_state(ReadyState::warming_up);
  expect_not_ready(server, "loading_model");
  server.engine.set_state(ReadyState::ready);
  EXPECT_EQ(server.chat(chat_body()).status, 200);
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
}

TEST(Readiness, a_failed_engine_is_503_for_good) {
  TestServer server;
  server.engine.set_state(ReadyState::failed, "the device is gone");
  expect_not_ready(server, "engine_dead");
  EXPECT_THAT(ask(server.port(), "GET", "/health").body, HasSubstr("the device is gone"));
}

TEST(Readiness, a_stuck_engine_fails_health) {  // I6, rule 29
  TestServer server;
  server.engine.set_stalled(std::chrono::seconds(119));
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
  server.engine.set_stalled(std::chrono::seconds(121));
  const HttpReply health = ask(server.port(), "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.body, HasSubstr("has not finished a step"));
}

// --- cancellation
// ----------------------------------------------------------------------------------------

enum class Leave { fin, rst, half_close };
enum class When { queued, prefill, decode };

void leave(HttpClient& client, Leave how) {
  switch (how) {
    case Leave::fin:
      return client.close();
    case Leave::rst:
      return client.reset();
    case Leave::half_close:
      return client.finish_sending();
  }
}

TEST(Cancellation, client_that_leaves_is_cancelled_at_every_stage) {  // rule 28, G1, G2, G3
  TestServer server;
  server.engine.hold_all();
  size_t n = 0;
  for (const char* more : {"", R"(,"stream":true)"})
    for (const Leave how : {Leave::fin, Leave::rst, Leave::half_close})
      for (const When when : {When::queued, When::prefill, When::decode}) {
        HttpClient client(server.port());
        client.request("POST", "/v1/chat/completions", chat_body(more));
        const RequestId id = server.engine.wait_for_request(n++);
        if (when != When::queued) server.engine.start(id);
        if (when == When::decode) server.engine.emit(id, ids_of("r</think>some"));
        if (when == When::decode && *more != '\0') {
          client.read_head();
          client.read_until("some");
        }
        leave(client, how);
        server.engine.wait_until_cancelled(id);
      }
  server.engine.wait_until_no_live();
  wait_for_metric(server, "yoke_requests_total{outcome=\"cancelled\"} 18");
  wait_for_metric(server, "yoke_requests_running 0");
  wait_for_metric(server, "yoke_cancel_latency_seconds_count 18");
}

TEST(Cancellation, reset_behind_done_is_none) {  // rule 5
  TestServer server;
  server.engine.hold_all();
  HttpClient client(server.port());
  client.request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"));
  const RequestId id = server.engine.wait_for_request(0);
  server.engine.emit(id, ids_of("r</think>x", true));
  server.engine.finish(id);
  client.read_head();
  client.read_until("[DONE]");
  client.reset();
  wait_for_metric(server, "yoke_requests_total{outcome=\"stop\"} 1");
  EXPECT_EQ(server.engine.cancelled(), 0u);
}

TEST(Cancellation, a_thousand_leave_nothing_behind) {  // G4
  TestServer server;
  server.engine.hold_all();
  for (size_t i = 0; i < 1000; ++i) {
    HttpClient client(server.port());
    client.request("POST", "/v1/chat/completions", chat_body(i % 2 ? R"(,"stream":true)" : ""));
    server.engine.wait_for_request(i);
    if (i % 3 == 0) server.engine.start(RequestId{i});
    client.close();
  }
  server.engine.wait_until_no_live();
  EXPECT_EQ(server.engine.cancelled(), 1000u);
  wait_for_metric(server, "yoke_requests_total{outcome=\"cancelled\"} 1000");
  wait_for_metric(server, "yoke_sse_buffer_bytes 0");
  wait_for_metric(server, "yoke_request_body_bytes 0");
  EXPECT_EQ(server.chat(R"({"messages":[]})").status, 400);
}

/// Some 20 kB in few tokens, so that the server keeps up with the engine.
std::string page_text(int number) {
  std::string out = std::to_string(number);
  for (int i = 0; i < 1700; ++i) out += " parallelism";
  return out;
}

// --- overload
// --------------------------------------------------------------------------------------------

TEST(Overload, full_queue_is_429_at_once_also_for_streams) {  // rule 27
  TestServer server;
  server.engine.hold_all();
  server.engine.set_max_live(2);
  HttpClient a(server.port());
  HttpClient b(server.port());
  a.request("POST", "/v1/chat/completions", chat_body());
  server.engine.wait_for_request(0);
  b.request("POST", "/v1/chat/completions", chat_body());
  server.engine.wait_for_request(1);
  for (const char* more : {"", R"(,"stream":true)"}) {
    const HttpReply reply = server.chat(chat_body(more));
    EXPECT_EQ(reply.status, 429);
    EXPECT_EQ(code_of(reply), "queue_full");
    const int wait = std::stoi(reply.header("retry-after"));
    EXPECT_GE(wait, 1);
    EXPECT_LE(wait, 30);
  }
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
}

TEST(Overload, requests_wait_only_as_long_as_the_queue_allows) {
  config::Config config = test_config();
  config.api.queue_timeout = std::chrono::milliseconds(30);
  TestServer server(config);
  server.engine.hold_all();
  const HttpReply plain = server.chat(chat_body());
  EXPECT_EQ(plain.status, 504);
  EXPECT_EQ(code_of(plain), "timeout");
  const HttpReply streamed = server.chat(chat_body(R"(,"stream":true)"));
  EXPECT_EQ(streamed.status, 200) << "the head was out already";
  EXPECT_EQ(StreamRules::check(streamed.body).error.find("code")->as_string(), "timeout");
  EXPECT_EQ(server.engine.cancelled(), 2u);
}

TEST(Overload, slow_reader_keeps_its_tokens_in_the_mailbox_and_loses_none) {
  config::Config config = test_config();
  config.server.write_timeout = std::chrono::hours(1);  // however slow this machine is
  TestServer server(config);
  server.engine.hold_all();
  HttpClient slow(server.port());
  slow.request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"));
  const RequestId id = server.engine.wait_for_request(0);
  server.engine.emit(id, ids_of("r</think>"));
  std::string expected;
  // Pages differ: equal ones would be held back as a repetition.
  const auto emit_page = [&](int i) {
    server.engine.emit(id, ids_of(page_text(i)));
    expected += page_text(i);
  };
  // Until the server says that it waits for the reader.
  const auto stalled = [&] {
    return ask(server.port(), "GET", "/metrics").body.find("yoke_slow_reader_stalls_total 1") !=
           std::string::npos;
  };
  // More than all socket buffers take; the server may need a while to get there.
  int pages = 0;
  while (pages < 600) emit_page(pages++);
  for (int asked = 1; !stalled(); ++asked) {
    if (asked % 100 == 0) emit_page(pages++);
  }
  for (int i = 0; i < 50; ++i) emit_page(pages++);
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200) << "others are not disturbed";
  server.engine.emit(id, ids_of("", true));
  server.engine.finish(id);
  EXPECT_EQ(StreamRules::check(slow.read_reply().body).content, expected);
}

TEST(Overload, reader_that_takes_nothing_is_cancelled) {
  config::Config config = test_config();
  config.server.write_timeout = std::chrono::milliseconds(200);
  TestServer server(config);
  server.engine.hold_all();
  HttpClient stuck(server.port());
  stuck.request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"));
  const RequestId id = server.engine.wait_for_request(0);
  server.engine.emit(id, ids_of("r</think>"));
  for (int i = 0; i < 5000 && server.engine.cancelled() == 0; ++i) {
    server.engine.emit(id, ids_of(page_text(i)));
    ask(server.port(), "GET", "/live");
  }
  server.engine.wait_until_cancelled(id);
  wait_for_metric(server, "yoke_client_disconnects_total{stage=\"writing\"} 1");
}

TEST(Overload, eight_streams_are_open_at_once) {  // 1.10
  TestServer server;
  server.engine.hold_all();
  std::vector<HttpClient> clients;
  for (size_t i = 0; i < 8; ++i) {
    clients.emplace_back(server.port());
    clients.back().request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"));
    server.engine.wait_for_request(i);
  }
  for (size_t i = 8; i-- > 0;) {
    server.engine.emit(RequestId{i}, ids_of("r</think>" + std::to_string(i), true));
    server.engine.finish(RequestId{i});
  }
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(StreamRules::check(clients[i].read_reply().body).content, std::to_string(i));
}

// --- shutdown
// --------------------------------------------------------------------------------------------

TEST(Shutdown, running_requests_finish_and_new_ones_get_503) {  // I7
  TestServer server;
  server.engine.hold_all();
  HttpClient running(server.port());
  running.request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"));
  const RequestId id = server.engine.wait_for_request(0);
  running.read_head();
  HttpClient idle(server.port());
  idle.request("GET", "/health");
  idle.read_reply();
  server.server.drain();
  EXPECT_TRUE(idle.wait_for_end()) << "idle connections close";
  const HttpReply refused = server.chat(chat_body());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(code_of(refused), "shutting_down");
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_FALSE(refused.header("retry-after").empty());
  EXPECT_EQ(ask(server.port(), "GET", "/ready").status, 503);
  EXPECT_EQ(ask(server.port(), "GET", "/live").status, 200);
  server.engine.emit(id, ids_of("r</think>to the end", true));
  server.engine.finish(id);
  EXPECT_EQ(StreamRules::check(running.read_until("[DONE]\n\n")).content, "to the end");
  EXPECT_TRUE(server.server.wait_until_idle(config::Clock::now() + std::chrono::minutes(1)));
  server.server.stop();
}

TEST(Shutdown, what_does_not_finish_in_time_gets_an_error_and_its_end) {
  TestServer server;
  server.engine.hold_all();
  HttpClient stream(server.port());
  stream.request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"));
  const RequestId first = server.engine.wait_for_request(0);
  server.engine.emit(first, ids_of("r</think>half"));
  stream.read_head();
  stream.read_until("half");
  HttpClient plain(server.port());
  plain.request("POST", "/v1/chat/completions", chat_body());
  const RequestId second = server.engine.wait_for_request(1);
  server.server.drain();
  EXPECT_FALSE(server.server.wait_until_idle(config::Clock::now()));
  std::thread stopper([&] { server.server.stop(); });
  const StreamResult result = StreamRules::check(stream.read_until("[DONE]\n\n"));
  EXPECT_EQ(result.content, "half");
  EXPECT_EQ(result.error.find("code")->as_string(), "shutting_down");
  EXPECT_EQ(stream.next_chunk(), std::nullopt);
  EXPECT_TRUE(stream.wait_for_end());
  const HttpReply refused = plain.read_reply();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(code_of(refused), "shutting_down");
  plain.close();
  stream.close();
  stopper.join();
  server.engine.wait_until_cancelled(first);
  server.engine.wait_until_cancelled(second);
}

TEST(Shutdown, port_in_use_is_a_clear_error) {
  TestServer server;
  config::Config config = test_config();
  config.server.port = server.port();
  server::Server second(config, {}, config::null_logger());
  const auto started = second.start();
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().message,
              HasSubstr("cannot listen on 127.0.0.1 port " + std::to_string(server.port())));
  EXPECT_THAT(started.error().message, HasSubstr("--port"));
}

}  // namespace
}  // namespace yoke::tests
