#include "tests/exactness/serial.h"

#include <algorithm>
#include <stdexcept>

#include "engine/testing/step_driver.h"

namespace yoke::tests {

using engine::LoadedModel;
using engine::StepPlan;
using engine::StepResult;
using kernels::testing::Random;

namespace {

/// One client's way through serial decoding.
class SerialClient {
 public:
  SerialClient(LoadedModel& model, OpWatch& watch, const Client& client, int32_t sequence)
      : model_(model),
        watch_(watch),
        client_(client),
        sequence_(sequence),
        counts_(client.prompt),
        driver_(model, 0),
        tokens_(client.prompt) {}

  std::vector<int32_t> run() {
    const size_t end = tokens_.size() + static_cast<size_t>(client_.output);
    int32_t computed = 0;
    while (tokens_.size() < end) {
      const int32_t rows = static_cast<int32_t>(tokens_.size()) - computed;
      step(computed, rows);
      computed += rows;
    }
    return tokens_;
  }

 private:
  void step(int32_t start, int32_t rows) {
    const std::vector<int32_t> input(tokens_.begin() + start, tokens_.begin() + start + rows);
    std::vector<WatchedRow> watched;
    for (int32_t i = 0; i < rows; ++i) watched.push_back({sequence_, start + i, true});
    const std::vector<int32_t> all = engine::all_rows(input);
    watch_.begin(Pass::trunk, watched, all);
    StepPlan plan{{driver_.next(input, -1, all)}};
    const StepResult result = model_.step(plan);
    tokens_.push_back(sample(result.row(rows - 1), client_, counts_, tokens_.size()));
    counts_.add_output(tokens_.back());
    if (!model_.has_mtp()) return;
    const std::vector<float> hidden = hidden_rows(model_.hidden(), 0, rows);
    plan.sequences[0].tokens.assign(tokens_.begin() + start + 1, tokens_.end());
    watch_.begin(Pass::mtp, watched, all);
    model_.mtp_step(plan, hidden);
  }

  LoadedModel& model_;
  OpWatch& watch_;
  const Client& client_;
  int32_t sequence_;
  engine::TokenCounts counts_;
  engine::SequenceDriver driver_;
  std::vector<int32_t> tokens_;
};

}  // namespace

int32_t at_random(Random& random, int32_t low, int32_t high) {
  return low + static_cast<int32_t>(random.below(high - low + 1));
}

std::vector<float> hidden_rows(kernels::ConstTensorView hidden, int64_t first, int64_t count) {
  const int64_t width = hidden.dim(1);
  std::vector<float> out(static_cast<size_t>(count * width));
  for (int64_t i = 0; i < count * width; ++i)
    out[static_cast<size_t>(i)] = kernels::load_float(hidden, first * width + i);
  return out;
}

int32_t sample(std::span<const float> logits, const Client& client,
               const engine::TokenCounts& counts, size_t position) {
  const auto token = engine::sample_token(logits, client.sampling, counts,
                                          static_cast<int32_t>(logits.size()), position);
  if (!token) throw std::runtime_error("a logit is not finite");
  return *token;
}

std::vector<Client> random_clients(uint64_t seed, const engine::ModelConfig& config,
                                   const ClientShape& shape) {
  Random random(seed);
  std::vector<Client> clients;
  for (int32_t i = 0; i < shape.count; ++i) {
    Client c;
    const int32_t length = i == 0 && shape.long_prompt > 0
                               ? shape.long_prompt
                               : at_random(random, shape.prompt_min, shape.prompt_max);
    for (int32_t t = 0; t < length; ++t)
      c.prompt.push_back(static_cast<int32_t>(random.below(config.vocab_size)));
    c.output = at_random(random, shape.output_min, shape.output_max);
    c.sampling.temperature = 0;
    if (i % 2 == 1) {
      c.sampling.temperature = i % 4 == 1 ? 0.8 : 1.3;
      c.sampling.seed = random.bits();
      c.sampling.top_p = i % 4 == 1 ? 0.9 : 1.0;
      c.sampling.frequency_penalty = i % 4 == 3 ? 0.4 : 0.0;
    }
    clients.push_back(std::move(c));
  }
  return clients;
}

Truth serial_decoding(const Subject& subject, const std::vector<Client>& clients) {
  engine::ModelOptions options = traffic_options(subject, clients);
  options.max_slots = 1;
  options.num_blocks = 0;
  options.max_rows = options.max_logit_rows = options.max_model_len;
  kernels::ThreadPool one(1);
  const auto model = subject.load(options, one);
  Truth truth;
  truth.with_mtp = model->has_mtp();
  OpWatch watch(*model, truth.digests, OpWatch::Mode::learn);
  for (size_t i = 0; i < clients.size(); ++i) {
    SerialClient client(*model, watch, clients[i], static_cast<int32_t>(i));
    truth.tokens.push_back(client.run());
  }
  return truth;
}

engine::ModelOptions traffic_options(const Subject& subject, const std::vector<Client>& clients) {
  engine::ModelOptions options;
  size_t longest = 0, all = 0;
  for (const Client& c : clients) {
    const size_t tokens = c.prompt.size() + static_cast<size_t>(c.output);
    longest = std::max(longest, tokens);
    all += tokens;
  }
  options.max_slots = 5;
  options.max_window = 6;
  options.max_rows = 96;
  options.max_logit_rows = 96;
  options.max_model_len = static_cast<int32_t>(longest) + options.max_window;
  // Enough for the longest, and for about half of the clients at once.
  const auto blocks_for = [&](size_t tokens) { return static_cast<int32_t>(tokens / 64) + 2; };
  options.num_blocks = std::max(blocks_for(longest), blocks_for(all / 2));
  options.with_mtp = subject.config().num_mtp_layers > 0;
  options.max_snapshots = static_cast<int32_t>(clients.size());
  return options;
}

}  // namespace yoke::tests
