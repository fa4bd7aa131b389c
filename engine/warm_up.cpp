#include "engine/warm_up.h"

#include <algorithm>

#include "config/check.h"
#include "engine/chat/render.h"
#include "engine/json/json.h"
#include "engine/sampling/sampling.h"

namespace yoke::engine {
namespace {

constexpr std::string_view kQuestion = "What is 17 times 23?";
constexpr int32_t kUnknownTokens = 8;  // of an unknown checkpoint; each may cost tens of ms

/// One row's outcome of one step over `tokens`, which follow what slot 0 holds.
std::optional<int32_t> run_rows(Model& model, std::span<const int32_t> tokens, int32_t start,
                                int32_t defined_vocab) {
  StepPlan plan;
  StepSequence& sequence = plan.sequences.emplace_back();
  sequence.start_position = start;
  sequence.tokens.assign(tokens.begin(), tokens.end());
  sequence.commit = static_cast<int32_t>(tokens.size());
  sequence.logit_rows = {sequence.commit - 1};
  const int32_t block_tokens = model.block_tokens();
  const int32_t blocks = (start + sequence.commit + block_tokens - 1) / block_tokens;
  for (int32_t block = 0; block < blocks; ++block) sequence.blocks.push_back(block);
  SamplingParams greedy;
  greedy.temperature = 0;
  const StepResult result = model.step(plan);
  return sample_token(result.row(0), greedy, {}, defined_vocab, 0);
}

std::string json_quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

config::Result<std::vector<int32_t>> greedy_continuation(Model& model,
                                                         std::span<const int32_t> prompt,
                                                         int32_t count, int32_t defined_vocab,
                                                         int32_t chunk_rows) {
  YOKE_CHECK(!prompt.empty() && count >= 1 && chunk_rows >= 1, "nothing to continue");
  if (prompt.size() + static_cast<size_t>(count) >
      static_cast<size_t>(model.options().max_model_len))
    return config::invalid_input("warm-up: the context of " +
                                 std::to_string(model.options().max_model_len) +
                                 " tokens is too short for " + std::to_string(prompt.size()) +
                                 " prompt tokens and " + std::to_string(count) + " more");
  std::vector<int32_t> output;
  std::optional<int32_t> next;
  int32_t done = 0;
  const auto run = [&](std::span<const int32_t> tokens) -> config::Result<void> {
    next = run_rows(model, tokens, done, defined_vocab);
    done += static_cast<int32_t>(tokens.size());
    if (next) return {};
    return config::Error{config::ErrorKind::internal,
                         "warm-up: a logit after " + std::to_string(done) +
                             " tokens is not finite: the weights or the computation are broken"};
  };
  for (std::span<const int32_t> rest = prompt; !rest.empty();) {
    const size_t rows = std::min(rest.size(), static_cast<size_t>(chunk_rows));
    if (auto ran = run(rest.first(rows)); !ran.ok()) return ran.error();
    rest = rest.subspan(rows);
  }
  output.push_back(*next);
  while (static_cast<int32_t>(output.size()) < count) {
    if (auto ran = run(std::span(output).last(1)); !ran.ok()) return ran.error();
    output.push_back(*next);
  }
  return output;
}

config::Result<std::vector<int32_t>> question_ids(const Tokenizer& tokenizer,
                                                  std::string_view question) {
  const Json messages = Json::array({Json::object(
      {{"role", Json::string("user")}, {"content", Json::string(std::string(question))}})});
  const Json effort = Json::string("high");
  const Json yes = Json::boolean(true);
  ChatInput input;
  input.messages = &messages;
  input.reasoning_effort = &effort;
  input.add_generation_prompt = &yes;
  auto rendered = render_chat(input);
  if (!rendered.ok()) return rendered.error();
  auto encoded = tokenizer.encode(rendered->text, rendered->literal);
  if (!encoded.ok()) return encoded.error();
  return std::move(encoded->ids);
}

config::Result<void> warm_up(Model& model, const Tokenizer& tokenizer, const KnownAnswer* known) {
  auto prompt = question_ids(tokenizer, known != nullptr ? known->question : kQuestion);
  if (!prompt.ok()) return prompt.error();
  const int32_t vocab = model.config().vocab_size;
  const int32_t defined_vocab = std::min(tokenizer.size(), vocab);
  for (const int32_t id : *prompt) {
    if (id >= vocab)
      return config::invalid_input("tokenizer.json: token " + std::to_string(id) +
                                   " is beyond the model's vocabulary of " + std::to_string(vocab));
  }
  const auto run = [&](int32_t count) {
    return greedy_continuation(model, *prompt, count, defined_vocab, model.options().max_rows);
  };
  if (known == nullptr) {
    auto first = run(kUnknownTokens);
    if (!first.ok()) return first.error();
    auto second = run(kUnknownTokens);
    if (!second.ok()) return second.error();
    if (*first == *second) return {};
    return config::Error{
        config::ErrorKind::internal,
        "warm-up: two greedy runs of one prompt differ: " + json_quoted(tokenizer.decode(*first)) +
            ", then " + json_quoted(tokenizer.decode(*second))};
  }
  auto answer = run(known->tokens);
  if (!answer.ok()) return answer.error();
  const std::string text = tokenizer.decode(*answer);
  if (text.starts_with(known->answer)) return {};
  return config::Error{config::ErrorKind::internal,
                       "warm-up: the answer of " + std::string(known->name) + " to " +
                           json_quoted(known->question) + " must begin with " +
                           json_quoted(known->answer) + ", got " + json_quoted(text) +
                           ": the checkpoint's files are damaged, or this build computes wrongly"};
}

}  // namespace yoke::engine
