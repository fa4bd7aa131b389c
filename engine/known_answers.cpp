#include "engine/known_answers.h"

#include <algorithm>
#include <iterator>

namespace yoke::engine {
namespace {

constexpr std::string_view kNano = "f090514d7d37fc4e4181294a5b19fccd";

/// Answers of one checkpoint lie side by side; the first is the shortest to check. From
/// golden/nano: the smallest margin of logits of each is at least 2.4, the error of BF16 about 0.1.
constexpr KnownAnswer kKnownAnswers[] = {
    {kNano, "nano", "What is 17 times 23?",
     "I need 17 times 23. 20 times 10 is 200. 3 times 10 is 30. 200 plus", 40},
    {kNano, "nano", "What is 14 times 26?",
     "I need 14 times 26. 20 times 10 is 200. 6 times 10 is 60. 200 plus 60 is 260. 20 times 4 is "
     "80. 6 times 4 is 24. 80 plus 24 is 104. 260 plus 104 is 364.</think>14 times 26 is 364.",
     120},
    {kNano, "nano", "Count from 1 to 40, numbers separated by spaces.",
     "The user wants the numbers from 1 to 40.</think>1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "
     "19 20",
     70},
    {kNano, "nano", "Write Python functions named clamp_00 to clamp_05, code only.",
     "The user wants 6 functions, from clamp_00 to clamp_05.</think>```python\ndef clamp_00(x, lo, "
     "hi):\n    return max(lo, min(x, hi))\n\ndef clamp_01(x, lo, hi):\n    return max(lo, min(x, "
     "hi))",
     160},
    {kNano, "nano", "Explain what linear attention is.",
     "The user asks what linear attention is.</think>Linear attention keeps a fixed state in place "
     "of a growing cache.",
     90},
    {kNano, "nano", "Give me JSON with name Zoe, city Kyiv and age 44.",
     "The user wants a JSON object.</think>{\"name\": \"Zoe\", \"city\": \"Kyiv\", \"age\": 44}",
     40},
};

}  // namespace

std::span<const KnownAnswer> known_answers(std::string_view identity) {
  const auto is_of = [&](const KnownAnswer& known) { return known.identity == identity; };
  const auto begin = std::find_if(std::begin(kKnownAnswers), std::end(kKnownAnswers), is_of);
  return {begin, std::find_if_not(begin, std::end(kKnownAnswers), is_of)};
}

std::optional<KnownAnswer> known_answer(std::string_view identity) {
  const auto all = known_answers(identity);
  if (all.empty()) return std::nullopt;
  return all.front();
}

}  // namespace yoke::engine
