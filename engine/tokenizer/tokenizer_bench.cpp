// 10 MB texts that once made tokenizers quadratic, ordinary text, and loading. One thread; read the
// CPU column. Acceptance: each 10 MB text in less than 3 s.
#include <benchmark/benchmark.h>

#include <boost/json.hpp>
#include <random>
#include <string>

#include "engine/tokenizer/generated_tokenizer.h"

namespace yoke::engine {
namespace {

constexpr size_t kTextBytes = 10'000'000;

std::string repeated(std::string_view unit) {
  std::string text;
  text.reserve(kTextBytes + unit.size());
  while (text.size() < kTextBytes) text += unit;
  return text;
}

/// Words of 1 to 12 letters; the first ones are used most.
std::vector<std::string> make_words(std::mt19937& random, size_t count) {
  constexpr std::string_view kLetters[] = {"a", "e", "i", "o", "n", "r", "s", "t", "l", "d",
                                           "c", "m", "u", "p", "g", "é", "ü", "д", "и", "日"};
  std::vector<std::string> words(count);
  for (auto& word : words)
    for (size_t i = 1 + random() % 12; i > 0; --i) word += kLetters[random() % std::size(kLetters)];
  return words;
}

/// Sentences, source lines, numbers, blank runs, a few emoji.
std::string make_mixed(std::mt19937& random, const std::vector<std::string>& words) {
  constexpr std::string_view kPunctuation[] = {", ",       ". ",      " = ",        "(",  ");\n",
                                               " {\n    ", "\n}\n\n", "->",         "::", "'s ",
                                               " \"",      "\" ",     "\n        ", " 😀 "};
  std::string text;
  while (text.size() < kTextBytes) {
    const double share = std::generate_canonical<double, 32>(random);
    text += words[static_cast<size_t>(share * share * share * static_cast<double>(words.size()))];
    if (random() % 12 == 0) text += std::to_string(random() % 100'000);
    text += random() % 3 == 0 ? kPunctuation[random() % std::size(kPunctuation)] : " ";
  }
  return text;
}

/// Runs of letters, blanks and emoji merge fully; so do the `common` first words, with a blank
/// before.
GeneratedTokenizer make_tokenizer(const std::vector<std::string>& words, size_t common) {
  GeneratedTokenizer generated;
  for (const std::string_view unit : {"x", " ", "7", "😀"})
    generated.add_doublings(std::string(unit), 20);
  for (size_t i = 0; i < common; ++i) {
    std::string token = " ";
    for (const char c : words[i]) {
      generated.merges.emplace_back(token, std::string(1, c));
      token += c;
    }
  }
  generated.added = {"<|user|>", "<|assistant|>", "<think>", "</think>", "[gMASK]", "<sop>"};
  return generated;
}

void encode(benchmark::State& state, const std::string& text) {
  std::mt19937 random(1);
  static const Tokenizer tokenizer = make_tokenizer(make_words(random, 60'000), 15'000).build();
  size_t tokens = 0;
  for (auto _ : state) {
    const auto encoded = tokenizer.encode(text);
    if (!encoded) return state.SkipWithError(encoded.error().message.c_str());
    tokens = encoded->ids.size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size()) * state.iterations());
  state.counters["tokens"] = static_cast<double>(tokens);
}

void one_letter(benchmark::State& state) {
  encode(state, repeated("x"));
}
void one_letter_without_merges(benchmark::State& state) {
  encode(state, repeated("q"));
}
void one_digit(benchmark::State& state) {
  encode(state, repeated("7"));
}
void one_blank(benchmark::State& state) {
  encode(state, repeated(" "));
}
void one_emoji(benchmark::State& state) {
  encode(state, repeated("😀"));
}
void one_tag(benchmark::State& state) {
  encode(state, repeated("<think>"));
}
void half_a_tag(benchmark::State& state) {
  encode(state, repeated("<|assistant"));
}
void one_letter_and_blank(benchmark::State& state) {
  encode(state, repeated("x "));
}
void mixed_text(benchmark::State& state) {
  std::mt19937 random(1);
  encode(state, make_mixed(random, make_words(random, 60'000)));
}

/// About the size of the real file: 320,000 merges.
void load(benchmark::State& state) {
  std::mt19937 random(2);
  GeneratedTokenizer generated;
  std::vector<std::string> tokens;
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  while (generated.merges.size() < 320'000) {
    const auto pick = [&] { return tokens[random() % std::min<size_t>(tokens.size(), 2000)]; };
    const std::string a = pick(), b = pick(), c = pick();
    if (a.size() + b.size() + c.size() > 12) continue;
    generated.merges.insert(generated.merges.end(), {{a, b}, {b, c}, {a + b, c}, {a, b + c}});
    tokens.insert(tokens.end(), {a + b, a + b + c});
  }
  const std::string json = boost::json::serialize(generated.json());
  int32_t size = 0;
  for (auto _ : state) size = Tokenizer::parse(json, "generated").value().size();
  state.SetBytesProcessed(static_cast<int64_t>(json.size()) * state.iterations());
  state.counters["tokens"] = size;
}

BENCHMARK(one_letter)->Unit(benchmark::kMillisecond);
BENCHMARK(one_letter_without_merges)->Unit(benchmark::kMillisecond);
BENCHMARK(one_digit)->Unit(benchmark::kMillisecond);
BENCHMARK(one_blank)->Unit(benchmark::kMillisecond);
BENCHMARK(one_emoji)->Unit(benchmark::kMillisecond);
BENCHMARK(one_tag)->Unit(benchmark::kMillisecond);
BENCHMARK(half_a_tag)->Unit(benchmark::kMillisecond);
BENCHMARK(one_letter_and_blank)->Unit(benchmark::kMillisecond);
BENCHMARK(mixed_text)->Unit(benchmark::kMillisecond);
BENCHMARK(load)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace yoke::engine
