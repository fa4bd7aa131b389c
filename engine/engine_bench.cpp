// One request after the other through the whole engine (threads, scheduler, sampling) on nano with
// one compute thread, greedy. Time is the processor time of the process, which other programs on
// the machine disturb less; the engine thread does nearly all of it.
#include <benchmark/benchmark.h>
#include <time.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "engine/runtime.h"
#include "engine/warm_up.h"
#include "kernels/testing/bench.h"

namespace yoke::engine {
namespace {

const kernels::testing::BenchContext context;

double process_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::unique_ptr<Runtime> open_nano() {
  RuntimeOptions options;
  options.folder = YOKE_SOURCE_DIR "/tools/nano/checkpoint";
  options.max_model_len = 2048;
  options.threads = 1;
  auto runtime = Runtime::open(options, config::null_logger());
  if (!runtime.ok()) throw std::runtime_error(runtime.error().message);
  if (const auto ready = (*runtime)->engine().wait_until_ready(); !ready.ok())
    throw std::runtime_error(ready.error().message);
  return std::move(*runtime);
}

/// Sends one request and waits for its end; the number of tokens that came.
size_t generate(Engine& engine, const GenerationRequest& request) {
  std::mutex mutex;
  std::condition_variable changed;
  bool news = false;
  const auto mailbox = std::make_shared<Mailbox>();
  mailbox->set_notify([&] {
    const std::lock_guard lock(mutex);
    news = true;
    changed.notify_one();
  });
  if (const auto id = engine.submit(request, mailbox); !id.ok())
    throw std::runtime_error(id.error().message);
  for (size_t tokens = 0;;) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return news; });
      news = false;
    }
    const auto event = mailbox->take();
    if (!event) continue;
    tokens += event->tokens.size();
    if (event->finish) return tokens;
  }
}

/// A short question and 256 tokens, whatever they are.
void nano_serial(benchmark::State& state) {
  const std::unique_ptr<Runtime> runtime = open_nano();
  GenerationRequest request;
  request.prompt = question_ids(runtime->tokenizer(), "What is the capital of France?").value();
  request.max_tokens = 256;
  request.sampling.temperature = 0;
  double seconds = 0;
  double tokens = 0;
  for (auto _ : state) {
    const double start = process_seconds();
    tokens += static_cast<double>(generate(runtime->engine(), request));
    const double took = process_seconds() - start;
    seconds += took;
    state.SetIterationTime(took);
  }
  state.counters["tokens/s"] = tokens / seconds;
}
BENCHMARK(nano_serial)->UseManualTime()->Unit(benchmark::kMillisecond);

/// From nothing to the known answer of the warm-up.
void nano_ready(benchmark::State& state) {
  for (auto _ : state) {
    const double start = process_seconds();
    open_nano();
    state.SetIterationTime(process_seconds() - start);
  }
}
BENCHMARK(nano_ready)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace yoke::engine
