// Runs a model over texts and questions. Thread: the caller's, which owns the model meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/eval/divergence.h"
#include "engine/eval/reference_file.h"
#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {

/// Teacher-forced: calls `row` with the logits after each token, over ids [0, vocab). Stops at the
/// first error. The text must fit the model's context (invalid_input otherwise).
using RowVisitor = std::function<config::Result<void>(size_t position, std::span<const float>)>;
config::Result<void> visit_rows(Model& model, std::span<const int32_t> tokens, int32_t vocab,
                                const RowVisitor& row);

/// Runs all texts and stores their logits. Error: a logit that is not finite, I/O.
config::Result<void> save_reference(Model& model, const ReferenceOrigin& origin,
                                    std::span<const ReferenceText> texts,
                                    const std::filesystem::path& path);

/// One result per text of the reference. Errors: a vocabulary of another size, a logit that is not
/// finite (named), I/O.
config::Result<std::vector<Divergence>> compare_with_reference(Model& model, int32_t vocab,
                                                               const ReferenceFile& reference);

/// A question and what a greedy answer to it must hold.
struct Question {
  enum class Match {
    beginning,  ///< the completion, reasoning included, begins so
    anywhere,   ///< the completion holds this text
  };
  std::string question;
  std::string answer;
  std::string effort = "high";  ///< none, low, high, max
  int32_t max_tokens = 2048;
  Match match = Match::anywhere;
};

struct QuestionResult {
  bool right = false;
  std::string completion;  ///< as generated, up to the end of turn
  int32_t tokens = 0;
};

/// Known answers of this checkpoint; empty for one that we do not know.
std::vector<Question> known_questions(std::string_view identity);
/// One JSON object per line: `question` and `answer`, optionally `effort` and `max_tokens`. Blank
/// lines are skipped. Errors name the line.
config::Result<std::vector<Question>> read_questions(std::string_view text, std::string_view file);

/// Greedy, until an id of `eos` (sorted) or the question's limit.
config::Result<QuestionResult> ask(Model& model, const Tokenizer& tokenizer,
                                   std::span<const int32_t> eos, const Question& question);

}  // namespace yoke::engine
