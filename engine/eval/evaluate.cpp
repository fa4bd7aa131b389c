#include "engine/eval/evaluate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "config/check.h"
#include "engine/chat/render.h"
#include "engine/json/json.h"
#include "engine/sampling/sampling.h"

namespace yoke::engine {
namespace {

/// One step of one sequence in slot 0 and the first blocks; every row's logits when `all`, else the
/// last row's.
StepResult run(Model& model, std::span<const int32_t> tokens, int32_t start, bool all) {
  StepPlan plan;
  StepSequence& sequence = plan.sequences.emplace_back();
  sequence.start_position = start;
  sequence.tokens.assign(tokens.begin(), tokens.end());
  const auto rows = static_cast<int32_t>(tokens.size());
  sequence.commit = rows;
  for (int32_t row = all ? 0 : rows - 1; row < rows; ++row) sequence.logit_rows.push_back(row);
  const int32_t block_tokens = model.block_tokens();
  const int32_t blocks = (start + rows + block_tokens - 1) / block_tokens;
  for (int32_t block = 0; block < blocks; ++block) sequence.blocks.push_back(block);
  return model.step(plan);
}

config::Error not_finite(const std::string& where) {
  return {config::ErrorKind::internal,
          where + ": a logit is not finite: the weights or the computation are broken"};
}

std::string place(const ReferenceText& text, size_t position) {
  return text.name + ", token " + std::to_string(position);
}

}  // namespace

config::Result<void> visit_rows(Model& model, std::span<const int32_t> tokens, int32_t vocab,
                                const RowVisitor& row) {
  const ModelOptions& options = model.options();
  YOKE_CHECK(vocab >= 1 && vocab <= model.config().vocab_size, "vocabulary beyond the model's");
  if (tokens.size() > static_cast<size_t>(options.max_model_len))
    return config::invalid_input("a text of " + std::to_string(tokens.size()) +
                                 " tokens does not fit the context of " +
                                 std::to_string(options.max_model_len));
  const auto chunk = static_cast<size_t>(std::min(options.max_rows, options.max_logit_rows));
  for (size_t start = 0; start < tokens.size(); start += chunk) {
    const size_t rows = std::min(chunk, tokens.size() - start);
    const StepResult result =
        run(model, tokens.subspan(start, rows), static_cast<int32_t>(start), true);
    for (size_t i = 0; i < rows; ++i) {
      const auto logits = result.row(static_cast<int32_t>(i)).first(static_cast<size_t>(vocab));
      if (auto done = row(start + i, logits); !done.ok()) return done;
    }
  }
  return {};
}

config::Result<void> save_reference(Model& model, const ReferenceOrigin& origin,
                                    std::span<const ReferenceText> texts,
                                    const std::filesystem::path& path) {
  auto writer = ReferenceWriter::create(path, origin, texts);
  if (!writer.ok()) return writer.error();
  for (const ReferenceText& text : texts) {
    const auto store = [&](size_t position, std::span<const float> row) -> config::Result<void> {
      if (!compare_rows(row, row, std::nullopt)) return not_finite(place(text, position));
      return writer->add(row);
    };
    if (auto done = visit_rows(model, text.tokens, origin.vocab, store); !done.ok()) return done;
  }
  return writer->finish();
}

config::Result<std::vector<Divergence>> compare_with_reference(Model& model, int32_t vocab,
                                                               const ReferenceFile& reference) {
  if (reference.origin().vocab != vocab)
    return config::invalid_input("the reference was made with a vocabulary of " +
                                 std::to_string(reference.origin().vocab) +
                                 " ids, this checkpoint has " + std::to_string(vocab));
  std::vector<float> stored(static_cast<size_t>(vocab));
  std::vector<Divergence> out;
  for (size_t i = 0; i < reference.texts().size(); ++i) {
    const ReferenceText& text = reference.texts()[i];
    Divergence& sum = out.emplace_back();
    const auto compare = [&](size_t position, std::span<const float> row) -> config::Result<void> {
      if (auto read = reference.read_row(i, position, stored); !read.ok()) return read;
      std::optional<int32_t> next;
      if (position + 1 < text.tokens.size()) next = text.tokens[position + 1];
      const auto divergence = compare_rows(stored, row, next);
      if (!divergence) return not_finite(place(text, position));
      sum.add(*divergence, next.has_value());
      return {};
    };
    if (auto done = visit_rows(model, text.tokens, vocab, compare); !done.ok()) return done.error();
  }
  return out;
}

config::Result<QuestionResult> ask(Model& model, const Tokenizer& tokenizer,
                                   std::span<const int32_t> eos, const Question& question) {
  const Json messages = Json::array({Json::object(
      {{"role", Json::string("user")}, {"content", Json::string(question.question)}})});
  const bool thinks = question.effort != "none";
  const Json effort = Json::string(thinks ? question.effort : "high");
  const Json thinking = Json::boolean(thinks);
  const Json yes = Json::boolean(true);
  ChatInput input;
  input.messages = &messages;
  input.reasoning_effort = &effort;
  input.add_generation_prompt = &yes;
  input.enable_thinking = &thinking;
  const auto rendered = render_chat(input);
  if (!rendered.ok()) return rendered.error();
  const auto prompt = tokenizer.encode(rendered->text, rendered->literal);
  if (!prompt.ok()) return prompt.error();

  const ModelOptions& options = model.options();
  const int32_t vocab = std::min(tokenizer.size(), model.config().vocab_size);
  const auto room = options.max_model_len - static_cast<int32_t>(prompt->ids.size());
  if (room < 1)
    return config::invalid_input("the question has " + std::to_string(prompt->ids.size()) +
                                 " tokens, the context " + std::to_string(options.max_model_len));
  SamplingParams greedy;
  greedy.temperature = 0;
  std::vector<int32_t> output;
  int32_t done = 0;
  std::span<const int32_t> pending = prompt->ids;
  while (static_cast<int32_t>(output.size()) < std::min(room, question.max_tokens)) {
    const size_t rows = std::min(pending.size(), static_cast<size_t>(options.max_rows));
    const StepResult result = run(model, pending.first(rows), done, false);
    done += static_cast<int32_t>(rows);
    pending = pending.subspan(rows);
    if (!pending.empty()) continue;
    const auto next = sample_token(result.row(0), greedy, {}, vocab, 0);
    if (!next) return not_finite(question.question + ", token " + std::to_string(done));
    if (std::binary_search(eos.begin(), eos.end(), *next)) break;
    output.push_back(*next);
    pending = std::span(output).last(1);
  }
  QuestionResult result;
  result.completion = tokenizer.decode(output);
  result.tokens = static_cast<int32_t>(output.size());
  result.right = question.match == Question::Match::beginning
                     ? result.completion.starts_with(question.answer)
                     : result.completion.find(question.answer) != std::string::npos;
  return result;
}

}  // namespace yoke::engine
