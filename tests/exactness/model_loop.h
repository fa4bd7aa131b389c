// Requests through the engine's own step loop, without a thread: what comes out depends on
// nothing but the requests (design.md 5), and the number of steps on nothing but the options.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_loop.h"
#include "engine/warm_up.h"
#include "kernels/core/thread_pool.h"
#include "tests/exactness/short.h"
#include "tests/exactness/subject.h"

namespace yoke::tests {

struct LoopShape {
  int32_t slots = 1;
  int32_t rows = 512;
  int32_t blocks = 0;  ///< 0 = enough for all slots
  int threads = 2;
};

struct Outcome {
  std::vector<std::vector<int32_t>> outputs;  ///< in the order of the requests
  uint64_t steps = 0;
  uint64_t rows_computed = 0;  ///< of prompts; more than their length after preemption
};

/// When requests come and go, in steps of the loop. Empty: all at once, none is cancelled.
struct Arrivals {
  std::vector<uint64_t> at;            ///< per request
  std::vector<uint64_t> cancelled_at;  ///< per request, kNever for most
  static constexpr uint64_t kNever = ~uint64_t{0};
};

/// The step loop over a model of the suite.
class ModelLoop {
 public:
  static constexpr int32_t kMaxModelLen = 448;

  ModelLoop(Subject subject, const LoopShape& shape)
      : subject_(std::move(subject)), threads_(shape.threads), model_(load(shape)) {}

  const engine::ModelConfig& config() const { return subject_.config(); }

  /// Until the last request has ended. A cancelled one's output is what it had.
  Outcome run(const std::vector<engine::GenerationRequest>& requests,
              const Arrivals& arrivals = {}) {
    engine::StepLoop::Options options;
    options.defined_vocab = defined_vocab();
    options.max_waiting = static_cast<int32_t>(requests.size());
    engine::StepLoop loop(*model_, options, config::null_logger());
    std::vector<std::shared_ptr<engine::Mailbox>> mailboxes(requests.size());
    const uint64_t last_arrival =
        arrivals.at.empty() ? 0 : *std::max_element(arrivals.at.begin(), arrivals.at.end());
    for (uint64_t tick = 0; tick <= last_arrival || !loop.idle(); ++tick) {
      for (size_t i = 0; i < requests.size(); ++i) {
        if (tick == (arrivals.at.empty() ? 0 : arrivals.at[i]))
          mailboxes[i] = submit(loop, requests[i], i);
        if (!arrivals.cancelled_at.empty() && tick == arrivals.cancelled_at[i])
          loop.cancel(engine::RequestId{i});
      }
      if (loop.plan({})) loop.run();
    }
    Outcome outcome;
    for (const auto& mailbox : mailboxes) {
      const engine::GenerationEvent told = mailbox->take().value();
      EXPECT_NE(told.finish.value().reason, engine::FinishReason::error) << told.finish->message;
      outcome.outputs.push_back(told.tokens);
    }
    engine::ServiceStatus status;
    loop.report(status);
    outcome.steps = status.steps;
    outcome.rows_computed = status.prompt_tokens_computed;
    return outcome;
  }

 protected:
  virtual int32_t defined_vocab() const { return subject_.config().vocab_size; }
  ~ModelLoop() = default;

 private:
  std::unique_ptr<engine::LoadedModel> load(const LoopShape& shape) {
    engine::ModelOptions options;
    options.max_rows = shape.rows;
    options.max_slots = shape.slots;
    options.max_logit_rows = shape.slots;
    options.max_model_len = kMaxModelLen;
    options.num_blocks = shape.blocks;
    options.max_window = 1;
    options.with_mtp = false;
    return subject_.load(options, threads_);
  }

  static std::shared_ptr<engine::Mailbox> submit(engine::StepLoop& loop,
                                                 const engine::GenerationRequest& request,
                                                 size_t id) {
    engine::Submission submission;
    submission.id = engine::RequestId{id};
    if (request.sampling.uses_counts()) submission.counts = engine::TokenCounts(request.prompt);
    submission.request = request;
    submission.mailbox = std::make_shared<engine::Mailbox>();
    std::shared_ptr<engine::Mailbox> mailbox = submission.mailbox;
    loop.add(std::move(submission), {});
    return mailbox;
  }

  Subject subject_;
  kernels::ThreadPool threads_;
  std::unique_ptr<engine::LoadedModel> model_;
};

/// On `wide`, whose tokens are noise.
class WideLoop final : public ModelLoop {
 public:
  WideLoop(const engine::WideShape& wide, const LoopShape& shape)
      : ModelLoop(Subject::wide(wide), shape) {}
};

/// On nano, in words.
class NanoLoop final : public ModelLoop {
 public:
  explicit NanoLoop(const LoopShape& shape)
      : ModelLoop(Subject::nano(), shape),
        tokenizer_(engine::Tokenizer::load(YOKE_SOURCE_DIR "/tools/nano/checkpoint/tokenizer.json")
                       .value()) {}

  const engine::Tokenizer& tokenizer() const { return tokenizer_; }

  /// A chat question; at most `max_tokens` of answer.
  engine::GenerationRequest ask(const std::string& question, int32_t max_tokens) const {
    engine::GenerationRequest request;
    request.prompt = engine::question_ids(tokenizer_, question).value();
    request.max_tokens = max_tokens;
    request.stop_token_ids = config().eos_token_ids;
    request.sampling.temperature = 0;
    return request;
  }

 private:
  int32_t defined_vocab() const override { return tokenizer_.size(); }

  engine::Tokenizer tokenizer_;
};

/// Equal answers; if not, the first request and token that differ.
inline ::testing::AssertionResult same_answers(const std::vector<std::vector<int32_t>>& got,
                                               const std::vector<std::vector<int32_t>>& want) {
  for (size_t i = 0; i < std::max(got.size(), want.size()); ++i) {
    if (i >= got.size() || i >= want.size())
      return ::testing::AssertionFailure()
             << got.size() << " answers, wanted " << want.size() << " of them";
    const auto [a, b] = std::mismatch(got[i].begin(), got[i].end(), want[i].begin(), want[i].end());
    if (a == got[i].end() && b == want[i].end()) continue;
    const auto token = [](auto at, auto end) {
      return at == end ? std::string("the end") : std::to_string(*at);
    };
    return ::testing::AssertionFailure()
           << "request " << i << ", token " << a - got[i].begin()
           << " of its answer: " << token(a, got[i].end()) << ", wanted " << token(b, want[i].end())
           << " (traffic_test finds the op)";
  }
  return ::testing::AssertionSuccess();
}

/// Requests of every kind: greedy and seeded, short and long, with and without penalties.
inline std::vector<engine::GenerationRequest> mixed_requests(const NanoLoop& nano) {
  // Long enough that attention becomes sparse (above 259 visible tokens).
  std::string filler;
  for (int i = 0; i < 36; ++i) filler += "The code word is lantern. ";
  std::vector<engine::GenerationRequest> requests = {
      nano.ask("What is 17 times 23?", 120),
      nano.ask("Count from 3 to 14.", 100),
      nano.ask("What is 12 times 34?", 120),
      nano.ask("Write a function that adds two numbers.", 100),
      nano.ask(filler + "What is the code word?", 60),
      nano.ask("Explain what a cache is.", 100),
  };
  for (const size_t i : {1u, 3u, 5u}) {
    requests[i].sampling.temperature = 1.2;
    requests[i].sampling.seed = 1000 + i;
    requests[i].stop_token_ids.clear();  // to the limit, whatever nano then writes
  }
  requests[3].sampling.top_p = 0.9;
  requests[3].sampling.frequency_penalty = 0.3;
  requests[5].sampling.top_k = 20;
  requests[5].sampling.repetition_penalty = 1.2;
  requests[5].key_label = "other";
  if (is_short()) {
    requests.erase(requests.begin() + 4);
    for (engine::GenerationRequest& request : requests) request.max_tokens = 8;
  }
  return requests;
}

}  // namespace yoke::tests
