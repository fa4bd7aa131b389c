#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/bench/answer_reader.h"
#include "server/bench/endpoint.h"
#include "server/bench/event_reader.h"
#include "server/bench/prompts.h"
#include "server/bench/run.h"
#include "server/bench/statistics.h"

namespace yoke::server {
namespace {

using config::TimePoint;
using engine::Json;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TimePoint at(int ms) {
  return TimePoint{} + milliseconds(1'000'000 + ms);
}

// --- endpoints
// -------------------------------------------------------------------------------------------

TEST(Endpoint, what_people_paste_means_the_same) {
  for (const char* url :
       {"http://10.0.0.5:8080", "http://10.0.0.5:8080/", "http://10.0.0.5:8080/v1",
        "http://10.0.0.5:8080/v1/", "http://10.0.0.5:8080/v1/chat/completions",
        "http://10.0.0.5:8080/v1/chat/completions/?beta=true"}) {
    const auto endpoint = parse_endpoint(url);
    ASSERT_TRUE(endpoint.ok()) << url;
    EXPECT_EQ(endpoint->url(), "http://10.0.0.5:8080/v1") << url;
    EXPECT_FALSE(endpoint->tls);
  }
}

TEST(Endpoint, scheme_gives_the_port_and_brackets_hold_ipv6) {
  const auto tls = parse_endpoint("https://api.example/openai/v1");
  ASSERT_TRUE(tls.ok());
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(tls->port, 443);
  EXPECT_EQ(tls->authority(), "api.example");
  EXPECT_EQ(tls->base, "/openai/v1");
  const auto v6 = parse_endpoint("http://[::1]:9/chat/completions");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->authority(), "[::1]:9");
  EXPECT_EQ(v6->base, "");
}

TEST(Endpoint, errors_say_what_a_url_looks_like) {
  for (const char* url :
       {"", "localhost:8080", "ftp://a", "http://", "http://:80", "http://a:0", "http://a:99999",
        "http://a:8x", "http://[::1", "http://[::1]x", "http://user:pw@a/", "http://a b/"}) {
    const auto endpoint = parse_endpoint(url);
    ASSERT_FALSE(endpoint.ok()) << url;
    EXPECT_THAT(endpoint.error().message, HasSubstr("http://127.0.0.1:8080/v1"));
  }
}

// --- events
// ----------------------------------------------------------------------------------------------

TEST(EventReader, events_are_the_same_however_the_bytes_are_cut) {
  const std::string body =
      ": keep-alive\n\ndata: one\n\nevent: x\nid: 4\ndata: two\ndata: lines\r\n\r\n"
      "data:tight\r\rdata:\n\ndata: never ended";
  for (size_t size = 1; size <= body.size(); ++size) {
    EventReader reader;
    std::vector<std::string> events;
    for (size_t i = 0; i < body.size(); i += size) reader.feed(body.substr(i, size), events);
    EXPECT_THAT(events, ElementsAre("one", "two\nlines", "tight", "")) << size;
    EXPECT_FALSE(reader.overflowed());
  }
}

TEST(EventReader, an_event_without_end_is_given_up) {
  EventReader reader;
  std::vector<std::string> events;
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 20 && !reader.overflowed(); ++i) reader.feed(piece, events);
  EXPECT_TRUE(reader.overflowed());
}

// --- prompts
// ---------------------------------------------------------------------------------------------

TEST(Prompts, four_kinds_and_files_of_lines) {
  std::vector<std::string> kinds;
  for (const BenchPrompt& prompt : built_in_prompts()) kinds.push_back(prompt.kind);
  EXPECT_THAT(kinds, ElementsAre("structured", "code", "prose", "json"));
  const auto prompts = read_prompts("{\"prompt\":\"a\"}\n\n{\"prompt\":\"b\",\"kind\":\"k\"}", "f");
  ASSERT_TRUE(prompts.ok());
  ASSERT_EQ(prompts->size(), 2u);
  EXPECT_EQ((*prompts)[0].kind, "line 1");
  EXPECT_EQ((*prompts)[1].kind, "k");
}

TEST(Prompts, errors_name_file_and_line) {
  for (const char* text :
       {"{}", "{\"prompt\":\"\"}", "{\"prompt\":\"a\",\"kind\":1}", "nonsense"}) {
    const auto prompts = read_prompts(std::string("{\"prompt\":\"a\"}\n") + text, "my.jsonl");
    ASSERT_FALSE(prompts.ok()) << text;
    EXPECT_THAT(prompts.error().message, HasSubstr("my.jsonl:2"));
  }
  EXPECT_FALSE(read_prompts("\n \n", "f").ok());
}

TEST(Prompts, cold_bodies_differ_and_reused_ones_do_not) {
  const BenchPrompt prompt{"k", "Hello \"you\""};
  BenchRequestOptions options;
  options.model = "m";
  EXPECT_NE(bench_body(prompt, options, "1"), bench_body(prompt, options, "2"));
  options.cold = false;
  EXPECT_EQ(bench_body(prompt, options, "1"), bench_body(prompt, options, "2"));
  const auto body = engine::parse_json(bench_body(prompt, options, "1"), "body");
  ASSERT_TRUE(body.ok());
  EXPECT_EQ(body->find("messages")->items().size(), 1u);
  EXPECT_EQ(body->find("temperature")->to_int64(), 0);
  EXPECT_TRUE(body->find("stream_options")->find("continuous_usage_stats")->as_boolean());
}

// --- answers
// ---------------------------------------------------------------------------------------------

std::string chunk(const std::string& delta, const std::string& more = "") {
  return "data: {\"choices\":[{\"index\":0,\"delta\":" + delta + ",\"finish_reason\":null}]" +
         more + "}\n\n";
}
std::string usage(int prompt, int output, int cached) {
  return ",\"usage\":{\"prompt_tokens\":" + std::to_string(prompt) +
         ",\"completion_tokens\":" + std::to_string(output) +
         ",\"total_tokens\":0,\"prompt_tokens_details\":{\"cached_tokens\":" +
         std::to_string(cached) + "}}";
}
const std::string kFinish =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kEnd = "data: [DONE]\n\n";

TEST(AnswerReader, pieces_have_times_and_running_counts) {
  RequestRecord record;
  AnswerReader reader(record);
  reader.feed(": keep-alive\n\n", at(1));
  reader.feed(chunk(R"({"role":"assistant","content":null})", usage(10, 1, 4)) +
                  chunk(R"({"reasoning_content":"r"})", usage(10, 1, 4)),
              at(20));
  reader.feed(
      chunk(R"({"content":"a"})", usage(10, 3, 4)) + chunk(R"({"content":"b"})", usage(10, 4, 4)),
      at(30));
  reader.feed(chunk(R"({"tool_calls":[{"index":0}]})", usage(10, 6, 4)), at(50));
  reader.feed(kFinish + kEnd, at(60));
  reader.finish(at(61));
  EXPECT_EQ(record.failure, "");
  ASSERT_EQ(record.pieces.size(), 3u);
  EXPECT_EQ(record.pieces[0].at, at(20));
  EXPECT_EQ(record.pieces[1].tokens, 4);
  EXPECT_EQ(record.ended, at(50)) << "the last token, not the end of the stream";
  EXPECT_EQ(record.prompt_tokens, 10);
  EXPECT_EQ(record.output_tokens, 6);
  EXPECT_EQ(record.cached_tokens, 4);
  EXPECT_EQ(record.finish_reason, "stop");
}

TEST(AnswerReader, what_is_missing_or_wrong_is_a_failure) {
  const auto failure_of = [](const std::string& body) {
    RequestRecord record;
    AnswerReader reader(record);
    reader.feed(body, at(1));
    reader.finish(at(2));
    return record.failure;
  };
  EXPECT_EQ(failure_of(chunk(R"({"content":"a"})")), "the stream ended without [DONE]");
  EXPECT_EQ(failure_of(chunk(R"({"content":"a"})") + kEnd), "the stream has no finish_reason");
  EXPECT_EQ(failure_of("data: {\"error\":{\"message\":\"no more\"}}\n\n" + kEnd), "no more");
  EXPECT_THAT(failure_of("data: {broken\n\n" + kFinish + kEnd), HasSubstr("event"));
  EXPECT_EQ(failure_of(kFinish + kEnd), "") << "an empty answer is an answer";
}

TEST(AnswerReader, without_usage_pieces_stand_for_tokens) {
  RequestRecord record;
  AnswerReader reader(record);
  reader.feed(chunk(R"({"content":"a"})"), at(1));
  reader.feed(chunk(R"({"content":"b"})") + kFinish + kEnd, at(2));
  reader.finish(at(3));
  EXPECT_EQ(record.output_tokens, 2);
  EXPECT_EQ(record.pieces[0].tokens, std::nullopt);
}

TEST(ErrorText, is_the_message_or_the_beginning_of_the_body) {
  EXPECT_EQ(error_text(R"({"error":{"message":"model not found","code":1}})"), "model not found");
  EXPECT_EQ(error_text("<html>" + std::string(500, 'x')).size(), 200u);
}

// --- statistics
// ------------------------------------------------------------------------------------------

RequestRecord record(int sent, std::vector<AnswerPiece> pieces, int64_t tokens,
                     int64_t cached = 0) {
  RequestRecord out;
  out.sent = at(sent);
  out.ended = pieces.back().at;
  out.pieces = std::move(pieces);
  out.prompt_tokens = 100;
  out.output_tokens = tokens;
  out.cached_tokens = cached;
  out.finish_reason = "stop";
  return out;
}

TEST(Statistics, percentiles_are_samples_by_nearest_rank) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Percentiles p = percentiles(samples);
  EXPECT_EQ(p.p50, 50);
  EXPECT_EQ(p.p90, 90);
  EXPECT_EQ(p.p99, 99);
  std::vector<double> one = {7};
  EXPECT_EQ(percentiles(one).p99, 7);
  std::vector<double> none;
  EXPECT_EQ(percentiles(none).p50, 0);
}

TEST(Statistics, wall_and_active_rates_differ_where_streams_do_not_overlap) {
  // Two streams of 11 tokens, each 10 tokens in 100 ms after its first; the second waits for the
  // first to end.
  const Wave wave = {record(0, {{at(100), 1}, {at(200), 11}}, 11),
                     record(0, {{at(300), 1}, {at(400), 11}}, 11, 50)};
  const std::vector<Wave> waves = {wave, wave};
  const BenchLine line = summarise(waves);
  EXPECT_EQ(line.requests, 4);
  EXPECT_EQ(line.failed, 0);
  EXPECT_DOUBLE_EQ(line.stream_tps, 100);
  EXPECT_DOUBLE_EQ(line.active_tps, 200);
  EXPECT_DOUBLE_EQ(line.wall_tps, 22 / 0.4);
  EXPECT_DOUBLE_EQ(line.ttft_ms.p50, 100);
  EXPECT_DOUBLE_EQ(line.ttft_ms.p99, 300);
  EXPECT_DOUBLE_EQ(line.cached_share, 0.25);
  EXPECT_DOUBLE_EQ(line.output_tokens, 11);
}

TEST(Statistics, a_burst_shares_its_gap_among_its_tokens) {
  const Wave wave = {record(0, {{at(10), 1}, {at(40), 4}, {at(50), 5}}, 5)};
  const BenchLine line = summarise(std::vector<Wave>{wave});
  EXPECT_TRUE(line.counted_tokens);
  EXPECT_DOUBLE_EQ(line.inter_token_ms.p50, 10) << "3 tokens in 30 ms, 1 in 10 ms";
  EXPECT_DOUBLE_EQ(line.inter_token_ms.p99, 10);
}

TEST(Statistics, uncounted_pieces_get_equal_shares_and_it_is_said) {
  const Wave wave = {record(0, {{at(10), std::nullopt}, {at(30), std::nullopt}}, 4)};
  const BenchLine line = summarise(std::vector<Wave>{wave});
  EXPECT_FALSE(line.counted_tokens);
  EXPECT_DOUBLE_EQ(line.inter_token_ms.p50, 10) << "2 of 4 tokens in 20 ms";
}

TEST(Statistics, failed_requests_are_counted_and_in_no_figure) {
  Wave wave = {record(0, {{at(100), 1}, {at(200), 11}}, 11),
               record(0, {{at(5), 1}, {at(900), 99}}, 99)};
  wave[1].failure = "HTTP 500: gone";
  const BenchLine line = summarise(std::vector<Wave>{wave});
  EXPECT_EQ(line.failed, 1);
  EXPECT_EQ(line.failure, "HTTP 500: gone");
  EXPECT_DOUBLE_EQ(line.output_tokens, 11);
  EXPECT_DOUBLE_EQ(line.ttft_ms.p99, 100);
}

// --- report
// ----------------------------------------------------------------------------------------------

TEST(BenchReport, table_and_json_hold_the_figures_and_failures) {
  BenchResult result;
  result.endpoint = "http://h/v1";
  result.model = "m";
  result.server_version = "1.2";
  Wave wave = {record(0, {{at(100), 1}, {at(200), 11}}, 11)};
  result.cells.push_back({"code", 1, summarise(std::vector<Wave>{wave})});
  EXPECT_FALSE(result.failed());
  wave.front().failure = "HTTP 429: full";
  result.cells.push_back({"code", 2, summarise(std::vector<Wave>{wave})});
  EXPECT_TRUE(result.failed());
  const std::string text = bench_text(result);
  for (const char* part : {"http://h/v1, model m, server 1.2", "100.0 / 100.0 / 100.0",
                           "FAILED: code at 2: HTTP 429: full"})
    EXPECT_THAT(text, HasSubstr(part));
  const Json json = bench_json(result);
  const Json& cell = json.find("results")->items().at(0);
  EXPECT_EQ(cell.find("concurrency")->to_int64(), 1);
  EXPECT_EQ(cell.find("ttft_ms")->find("p90")->to_double(), 100);
  EXPECT_EQ(cell.find("stream_tokens_per_s")->to_double(), 100);
  EXPECT_EQ(json.find("results")->items().at(1).find("failure")->as_string(), "HTTP 429: full");
}

}  // namespace
}  // namespace yoke::server
