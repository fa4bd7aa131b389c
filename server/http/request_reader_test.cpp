#include "server/http/request_reader.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace yoke::server {
namespace {

using State = RequestReader::State;

/// Feeds `wire` in pieces of `step` bytes, offering unread bytes again; returns what was not taken.
std::string feed_in_steps(RequestReader& reader, std::string_view wire, size_t step) {
  std::string pending;
  size_t offered = 0;
  while (reader.state() == State::header || reader.state() == State::body) {
    const State before = reader.state();
    const size_t taken = reader.feed(pending);
    pending.erase(0, taken);
    if (taken > 0 || reader.state() != before) continue;
    if (offered == wire.size()) break;
    const size_t n = std::min(step, wire.size() - offered);
    pending += wire.substr(offered, n);
    offered += n;
  }
  return pending + std::string(wire.substr(offered));
}

const std::string kPost =
    "POST http://h:1/v1/chat/completions?beta=true HTTP/1.1\r\nHost: h:1\r\n"
    "X-Request-Id: r1\r\nContent-Length: 11\r\n\r\nhello world";
const std::string kChunked =
    "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5;ext=1\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: t\r\n\r\n";

TEST(RequestReader, result_does_not_depend_on_how_the_bytes_are_cut) {
  for (const std::string& wire : {kPost, kChunked}) {
    for (size_t step = 1; step <= wire.size(); ++step) {
      RequestReader reader{{}};
      EXPECT_EQ(feed_in_steps(reader, wire + "NEXT", step), "NEXT") << step;
      ASSERT_EQ(reader.state(), State::done) << step << reader.problem_text();
      const Request request = reader.take();
      EXPECT_EQ(request.body, "hello world") << step;
      EXPECT_EQ(request.head.method, "POST");
      EXPECT_FALSE(request.head.headers.contains("trailer"));
    }
  }
}

TEST(RequestReader, target_is_split_into_path_and_query) {
  RequestReader reader{{}};
  feed_in_steps(reader, kPost, 1000);
  EXPECT_EQ(reader.head().path, "/v1/chat/completions");
  EXPECT_EQ(reader.head().query, "beta=true");
  EXPECT_EQ(*reader.head().headers.find("x-request-id"), "r1");
  EXPECT_EQ(reader.head().content_length, 11u);
}

TEST(RequestReader, stops_after_the_header_so_that_it_can_be_refused) {
  RequestReader reader{{}};
  const size_t taken = reader.feed(kPost);
  EXPECT_EQ(reader.state(), State::body);
  EXPECT_EQ(kPost.substr(taken), "hello world");
}

TEST(RequestReader, request_without_body_is_done_after_its_header) {
  RequestReader reader{{}};
  const std::string wire = "GET / HTTP/1.0\r\n\r\n";
  EXPECT_EQ(feed_in_steps(reader, wire, 3), "");
  EXPECT_EQ(reader.state(), State::done);
  EXPECT_EQ(reader.head().version, 10);
  EXPECT_FALSE(reader.head().keep_alive);
}

TEST(RequestReader, header_limit_counts_the_whole_header_however_it_arrives) {
  std::string wire = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 100; ++i) wire += "X-Filler-" + std::to_string(i) + ": 0123456789\r\n";
  for (const size_t step : {size_t{1}, size_t{24}, size_t{25}, size_t{100}, wire.size()}) {
    RequestReader reader{{.header_bytes = 1024, .body_bytes = 10}};
    feed_in_steps(reader, wire, step);
    ASSERT_EQ(reader.state(), State::failed) << step;
    EXPECT_EQ(reader.problem(), HttpProblem::header_too_large) << step;
  }
}

TEST(RequestReader, body_limit_holds_for_both_framings) {
  for (const std::string& wire : {kPost, kChunked}) {
    RequestReader reader{{.header_bytes = 1024, .body_bytes = 10}};
    feed_in_steps(reader, wire, 7);
    ASSERT_EQ(reader.state(), State::failed);
    EXPECT_EQ(reader.problem(), HttpProblem::body_too_large);
    RequestReader exact{{.header_bytes = 1024, .body_bytes = 11}};
    feed_in_steps(exact, wire, 7);
    EXPECT_EQ(exact.state(), State::done);
  }
}

TEST(RequestReader, discarded_bodies_are_counted_and_not_kept) {
  RequestReader reader{{.header_bytes = 1024, .body_bytes = 1}};
  std::string rest = kPost.substr(reader.feed(kPost));
  reader.discard_body();
  EXPECT_EQ(reader.feed(rest), rest.size());
  EXPECT_EQ(reader.state(), State::done);
  EXPECT_EQ(reader.body_bytes(), 11u);
  EXPECT_EQ(reader.take().body, "");
}

TEST(RequestReader, ambiguous_or_broken_framing_is_refused) {
  const char* bad[] = {
      "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\nx",
      "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n\r\n",
      "GET / HTTP/3.0\r\n\r\n",
      "GET /\x01 HTTP/1.1\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
      "GET / HTTP/1.1\r\nA b: c\r\n\r\n",
      "GET / HTTP/1.1\nHost: x\n\n",
  };
  for (const char* wire : bad) {
    RequestReader reader{{}};
    feed_in_steps(reader, wire, 1000);
    EXPECT_EQ(reader.state(), State::failed) << wire;
    EXPECT_EQ(reader.problem(), HttpProblem::malformed) << wire;
  }
}

TEST(RequestReader, a_claimed_length_allocates_nothing) {
  RequestReader reader{{.header_bytes = 1024, .body_bytes = size_t{1} << 40}};
  const std::string wire = "POST / HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\nx";
  EXPECT_EQ(feed_in_steps(reader, wire, 1000), "");
  EXPECT_EQ(reader.state(), State::body);
  EXPECT_EQ(reader.body_bytes(), 1u);
}

TEST(RequestReader, expectation_is_seen_on_http_1_1_only) {
  for (const char version : {'0', '1'}) {
    RequestReader reader{{}};
    reader.feed(std::string("POST / HTTP/1.") + version +
                "\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n");
    EXPECT_EQ(reader.head().expects_continue, version == '1');
  }
}

}  // namespace
}  // namespace yoke::server
