// What open streams cost the I/O threads: 64 streams at 20 tokens/s each, the engine replaced by a
// fake. The counter `io_core` is the share of one core that the I/O threads used, by their own CPU
// clocks; the aim is below 0.10 on a release build (a figure, not a test: machines differ).
#include <benchmark/benchmark.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/fakes/test_server.h"

namespace yoke::tests {
namespace {

using config::Clock;
using engine::RequestId;

constexpr size_t kStreams = 64;
constexpr int kTokensPerSecond = 20;
constexpr auto kTime = std::chrono::seconds(5);

/// Reads whatever comes on all streams until told to stop; its CPU time is not the server's.
class Readers {
 public:
  explicit Readers(std::vector<HttpClient> clients)
      : clients_(std::move(clients)), thread_([this] { run(); }) {}
  ~Readers() {
    stop_ = true;
    thread_.join();
  }
  size_t bytes() const { return bytes_; }

 private:
  void run() {
    std::vector<pollfd> waiting;
    for (const HttpClient& client : clients_) waiting.push_back({client.fd(), POLLIN, 0});
    std::vector<char> buffer(64 << 10);
    while (!stop_) {
      if (::poll(waiting.data(), waiting.size(), 50) <= 0) continue;
      for (const pollfd& one : waiting) {
        if ((one.revents & POLLIN) == 0) continue;
        const ssize_t n = ::read(one.fd, buffer.data(), buffer.size());
        if (n > 0) bytes_ += static_cast<size_t>(n);
      }
    }
  }

  std::vector<HttpClient> clients_;
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// `state.range(0)`: 0 = all streams get their token in the same step, as batching does it; 1 =
/// every stream has steps of its own, the worst case for wake-ups.
void io_threads_of_64_streams(benchmark::State& state) {
  const bool spread = state.range(0) == 1;
  config::Config config = test_config();
  config.api.stream_interval = config::ApiConfig{}.stream_interval;
  TestServer server(config);
  server.engine.hold_all();
  std::vector<HttpClient> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.emplace_back(server.port());
    clients.back().request("POST", "/v1/chat/completions", chat_body(R"(,"stream":true)"));
    server.engine.wait_for_request(i);
    server.engine.emit(RequestId{i}, ids_of("r</think>"));
  }
  const Readers readers(std::move(clients));
  std::vector<int32_t> text;
  for (int i = 0; i < 40; ++i)
    for (const int32_t id : ids_of(" the word " + std::to_string(i))) text.push_back(id);

  double io_core = 0;
  for (auto _ : state) {
    const auto begin = Clock::now();
    const auto cpu = server.server.io_cpu_time();
    const auto token_time =
        std::chrono::duration_cast<config::Duration>(std::chrono::seconds(1)) / kTokensPerSecond;
    const auto pause = spread ? token_time / static_cast<int>(kStreams) : token_time;
    size_t emitted = 0;
    for (auto due = begin; due < begin + kTime; due += pause) {
      std::this_thread::sleep_until(due);  // the engine's pace, not a wait for something
      for (size_t k = 0; k < (spread ? 1 : kStreams); ++k, ++emitted)
        server.engine.emit(RequestId{emitted % kStreams},
                           {text[(emitted / kStreams) % text.size()]});
    }
    const double seconds = config::seconds(Clock::now() - begin);
    io_core = config::seconds(server.server.io_cpu_time() - cpu) / seconds;
    state.SetIterationTime(seconds);
    state.counters["tokens_per_s"] = static_cast<double>(emitted) / seconds;
  }
  state.counters["io_core"] = io_core;
  state.counters["bytes"] = static_cast<double>(readers.bytes());
  state.counters["streams"] = static_cast<double>(server.engine.live());
}
BENCHMARK(io_threads_of_64_streams)
    ->ArgName("spread")
    ->Arg(0)
    ->Arg(1)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace yoke::tests
