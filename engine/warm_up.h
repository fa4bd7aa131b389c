// What must hold before the first request is let in (design.md 3): the known answer of the
// checkpoint, or, for one that we do not know, finite logits and two equal greedy runs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/known_answers.h"
#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {

/// Greedy continuation of `prompt` by `count` tokens, without scheduler: one sequence in slot 0 and
/// the first blocks, prompt in chunks of at most `chunk_rows`. Uses nothing that later sequences
/// read. Errors: a row with non-finite logits, a sequence longer than the model allows. Thread:
/// engine.
config::Result<std::vector<int32_t>> greedy_continuation(Model& model,
                                                         std::span<const int32_t> prompt,
                                                         int32_t count, int32_t defined_vocab,
                                                         int32_t chunk_rows);

/// Token ids of one user turn at reasoning effort `high`, with the generation prompt.
config::Result<std::vector<int32_t>> question_ids(const Tokenizer& tokenizer,
                                                  std::string_view question);

/// The gate; an error says what was wanted and what came. `known` may be null. Thread: engine.
config::Result<void> warm_up(Model& model, const Tokenizer& tokenizer, const KnownAnswer* known);

}  // namespace yoke::engine
