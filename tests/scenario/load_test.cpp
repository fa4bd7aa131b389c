// Many streams and idle connections at once, with readers that are slow, reset, or leave: nothing
// stays behind. The short form runs everywhere; the long one (label `slow`) has the numbers of a
// busy server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "server/http/http_server.h"
#include "tests/scenario/chat_script.h"

namespace yoke::tests {
namespace {

using engine::RequestId;
using testing::HasSubstr;

constexpr unsigned kSeed = 20261201;

struct Load {
  size_t streams;
  size_t idle;
  size_t slow_readers;  ///< of the streams: more output than a connection may hold back
};

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// The server closes its end a moment after the client has closed its own.
void wait_for_descriptors(size_t count) {
  const auto limit = config::Clock::now() + std::chrono::minutes(1);
  while (open_descriptors() != count)
    ASSERT_LT(config::Clock::now(), limit) << open_descriptors() << " are open, wanted " << count;
}

/// Asks /metrics until it shows every line.
void wait_for_metrics(TestServer& server, const std::vector<std::string>& lines) {
  const auto limit = config::Clock::now() + std::chrono::minutes(1);
  for (;;) {
    const std::string page = ask(server.port(), "GET", "/metrics").body;
    std::string missing;
    for (const std::string& line : lines)
      if (page.find("\n" + line + "\n") == std::string::npos) missing = line;
    if (missing.empty()) return;
    ASSERT_LT(config::Clock::now(), limit) << "never came: " << missing << "\n" << page;
  }
}

/// About 64 kB in 5,000 tokens; pages differ, so that they do not look like a repetition.
std::string page(size_t number) {
  std::string out = std::to_string(number);
  for (int i = 0; i < 5000; ++i) out += " parallelism";
  return out;
}

/// One load from the first connection to the last close.
class Crowd {
 public:
  Crowd(TestServer& server, const Load& load) : server_(server), load_(load), random_(kSeed) {
    server_.engine.hold_all();
    server_.engine.set_max_live(load.streams);
    first_ = server_.engine.submitted();
  }

  void open_idle() {
    for (size_t i = 0; i < load_.idle; ++i) {
      idle_.emplace_back(server_.port());
      if (i % 3 == 1) {
        idle_.back().request("GET", "/health");
        EXPECT_EQ(idle_.back().read_reply().status, 200);
      } else if (i % 3 == 2) {
        idle_.back().send("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 5000\r\n\r\n{");
      }
    }
  }

  void open_streams() {
    for (size_t i = 0; i < load_.streams; ++i) {
      streams_.emplace_back(server_.port());
      streams_.back().request("POST", "/v1/chat/completions", chat_body(kStream));
      server_.engine.wait_for_request(first_ + i);
    }
    for (HttpClient& stream : streams_) EXPECT_EQ(stream.read_head().status, 200);
    EXPECT_EQ(server_.engine.live(), load_.streams);
    EXPECT_EQ(server_.chat(chat_body()).status, 429) << "every slot is taken";
    for (size_t i = 0; i < load_.streams; ++i)
      server_.engine.emit(id_of(i), ids_of("r</think>stream " + std::to_string(i)));
  }

  /// Streams that do not read while the engine goes on, until the server waits for each of them.
  void stall_slow_readers() {
    const std::vector<int32_t> more = ids_of(page(0));
    const auto limit = config::Clock::now() + std::chrono::minutes(2);
    for (size_t n = 0; stalls() < load_.slow_readers; ++n) {
      // 400 pages are more than socket buffers take, but the server may need a while to get there.
      if (n < 400 || n % 100 == 0) {
        for (size_t i = 0; i < load_.slow_readers; ++i) server_.engine.emit(id_of(i), more);
      }
      EXPECT_EQ(ask(server_.port(), "GET", "/live").status, 200) << "others are served";
      ASSERT_LT(config::Clock::now(), limit) << stalls() << " readers stall the server";
    }
  }

  /// A third is read to its end, a third resets, a third just closes; slow readers do not wait for
  /// what is still to come.
  void end_streams() {
    std::vector<size_t> order(load_.streams);
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (const size_t i : order) {
      const bool slow = i < load_.slow_readers;
      if (!slow && i % 3 == 0) {
        server_.engine.emit(id_of(i), ids_of("", true));
        server_.engine.finish(id_of(i));
        EXPECT_EQ(StreamRules::check(streams_[i].read_until("[DONE]\n\n")).content,
                  "stream " + std::to_string(i));
        ++finished_;
      } else if (i % 3 == 1) {
        streams_[i].reset();
      } else {
        streams_[i].close();
      }
    }
    server_.engine.wait_until_no_live();
    EXPECT_EQ(server_.engine.live(), 0u);
  }

  void close_idle() {
    for (size_t i = 0; i < idle_.size(); ++i) i % 2 == 0 ? idle_[i].close() : idle_[i].reset();
    streams_.clear();
    idle_.clear();
  }

  size_t finished() const { return finished_; }

 private:
  RequestId id_of(size_t stream) const { return RequestId{first_ + stream}; }
  size_t stalls() const {
    const std::string metrics = ask(server_.port(), "GET", "/metrics").body;
    const std::string name = "\nyoke_slow_reader_stalls_total ";
    const size_t at = metrics.find(name);
    return at == std::string::npos ? 0 : std::stoul(metrics.substr(at + name.size()));
  }

  TestServer& server_;
  Load load_;
  std::mt19937 random_;
  size_t first_ = 0;
  size_t finished_ = 0;
  std::vector<HttpClient> idle_;
  std::vector<HttpClient> streams_;
};

void leaves_nothing_behind(const Load& load) {
  std::printf("seed %u\n", kSeed);
  // Both ends of every connection are in this process.
  const auto descriptors = server::reserve_descriptors(2 * (load.streams + load.idle));
  if (!descriptors.ok()) GTEST_SKIP() << "LOUD SKIP: " << descriptors.error().message;
  config::Config config = test_config();
  config.server.io_threads = 2;
  TestServer server(config);
  const size_t descriptors_before = open_descriptors();

  Crowd crowd(server, load);
  crowd.open_idle();
  crowd.open_streams();
  EXPECT_GE(open_descriptors(), descriptors_before + 2 * (load.streams + load.idle));
  EXPECT_EQ(ask(server.port(), "GET", "/health").status, 200);
  crowd.stall_slow_readers();
  crowd.end_streams();
  crowd.close_idle();

  const size_t left = load.streams - crowd.finished();
  wait_for_metrics(
      server, {"yoke_http_connections 1",  // the one that asks
               "yoke_requests_running 0", "yoke_requests_waiting 0", "yoke_request_body_bytes 0",
               "yoke_sse_buffer_bytes 0",
               "yoke_requests_total{outcome=\"stop\"} " + std::to_string(crowd.finished()),
               "yoke_requests_total{outcome=\"cancelled\"} " + std::to_string(left)});
  EXPECT_EQ(server.engine.cancelled(), left);
  // The request for metrics ends a moment after its answer is read.
  EXPECT_TRUE(server.server.wait_until_idle(config::Clock::now() + std::chrono::seconds(30)));
  wait_for_descriptors(descriptors_before);
  answer_with(server, "</think>still here");
  EXPECT_EQ(stream(server).content, "still here");
}

TEST(Load, streams_and_idle_connections_leave_nothing_behind) {
  leaves_nothing_behind({.streams = 32, .idle = 100, .slow_readers = 2});
}

TEST(SlowLoad, streams_and_idle_connections_leave_nothing_behind) {
  leaves_nothing_behind({.streams = 256, .idle = 1000, .slow_readers = 8});
}

}  // namespace
}  // namespace yoke::tests
