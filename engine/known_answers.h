// What checkpoints that we know must answer, so that a start with broken weights, kernels or
// tokenizer ends in a message and not in nonsense (design.md 3).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace yoke::engine {

struct KnownAnswer {
  std::string_view identity;  ///< Checkpoint::identity()
  std::string_view name;      ///< for people
  std::string_view question;  ///< one user turn, rendered at reasoning effort `high`
  /// The greedy completion begins so. Chosen where no step is a near tie, so that every backend
  /// must give it.
  std::string_view answer;
  int32_t tokens;  ///< how many tokens to generate: enough for `answer`
};

/// All of a checkpoint; empty for one that we do not know. `yoke eval` asks them all.
std::span<const KnownAnswer> known_answers(std::string_view identity);
/// The first of them, which the start waits for; nullopt for a checkpoint that we do not know.
std::optional<KnownAnswer> known_answer(std::string_view identity);

}  // namespace yoke::engine
