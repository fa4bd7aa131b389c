// Requests through the engine's own step loop on nano, without a thread: what comes out depends on
// nothing but the requests (design.md 5), and the number of steps on nothing but the options.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/step_loop.h"
#include "engine/warm_up.h"
#include "kernels/core/thread_pool.h"

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

class NanoLoop {
 public:
  static constexpr int32_t kMaxModelLen = 448;

  explicit NanoLoop(const LoopShape& shape)
      : threads_(shape.threads),
        checkpoint_(engine::Checkpoint::open(folder()).value()),
        tokenizer_(engine::Tokenizer::load(folder() + "/tokenizer.json").value()) {
    engine::ModelOptions options;
    options.max_rows = shape.rows;
    options.max_slots = shape.slots;
    options.max_logit_rows = shape.slots;
    options.max_model_len = kMaxModelLen;
    options.num_blocks = shape.blocks;
    options.max_window = 1;
    options.with_mtp = false;
    model_ = engine::Model::load(checkpoint_, options, threads_).value();
  }

  const engine::Tokenizer& tokenizer() const { return tokenizer_; }

  /// A chat question; at most `max_tokens` of answer.
  engine::GenerationRequest ask(const std::string& question, int32_t max_tokens) const {
    engine::GenerationRequest request;
    request.prompt = engine::question_ids(tokenizer_, question).value();
    request.max_tokens = max_tokens;
    request.stop_token_ids = checkpoint_.config().eos_token_ids;
    request.sampling.temperature = 0;
    return request;
  }

  /// All requests at once, until the last has ended.
  Outcome run(const std::vector<engine::GenerationRequest>& requests) {
    engine::StepLoop::Options options;
    options.defined_vocab = tokenizer_.size();
    options.max_waiting = static_cast<int32_t>(requests.size());
    engine::StepLoop loop(*model_, options, config::null_logger());
    std::vector<std::shared_ptr<engine::Mailbox>> mailboxes;
    for (const engine::GenerationRequest& request : requests) {
      engine::Submission submission;
      submission.id = engine::RequestId{mailboxes.size()};
      if (request.sampling.uses_counts()) submission.counts = engine::TokenCounts(request.prompt);
      submission.request = request;
      submission.mailbox = mailboxes.emplace_back(std::make_shared<engine::Mailbox>());
      loop.add(std::move(submission), {});
    }
    while (loop.plan({})) loop.run();
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

 private:
  static std::string folder() { return std::string(YOKE_SOURCE_DIR) + "/tools/nano/checkpoint"; }

  kernels::ThreadPool threads_;
  engine::Checkpoint checkpoint_;
  engine::Tokenizer tokenizer_;
  std::unique_ptr<engine::Model> model_;
};

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
  return requests;
}

}  // namespace yoke::tests
