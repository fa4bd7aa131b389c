#include "engine/known_answers.h"

#include <algorithm>
#include <iterator>

namespace yoke::engine {
namespace {

constexpr KnownAnswer kKnownAnswers[] = {
    // golden/nano, case `known`: its smallest margin of logits is 7.1.
    {"f090514d7d37fc4e4181294a5b19fccd", "nano", "What is 17 times 23?",
     "I need 17 times 23. 20 times 10 is 200. 3 times 10 is 30. 200 plus", 40},
};

}  // namespace

std::optional<KnownAnswer> known_answer(std::string_view identity) {
  const auto found = std::find_if(std::begin(kKnownAnswers), std::end(kKnownAnswers),
                                  [&](const KnownAnswer& k) { return k.identity == identity; });
  if (found == std::end(kKnownAnswers)) return std::nullopt;
  return *found;
}

}  // namespace yoke::engine
