// For tests and benches: writes a tokenizer.json from a list of merges.
#pragma once

#include <boost/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace yoke::engine {

/// The split pattern of the GLM family.
inline constexpr std::string_view kGlmSplitPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline std::string symbols_of(std::string_view bytes) {
  std::string symbols;
  for (const char c : bytes) append_utf8(symbols, byte_symbol(static_cast<uint8_t>(c)));
  return symbols;
}

/// Ids: the 256 bytes, then one per distinct result of `merges` in order, then `added`.
struct GeneratedTokenizer {
  std::vector<std::pair<std::string, std::string>> merges = {};  ///< of raw bytes
  std::vector<std::string> added = {};  ///< the first half of them is special
  std::string pattern = std::string(kGlmSplitPattern);
  bool ignore_merges = true;
  bool merges_as_text = false;  ///< "a b" instead of ["a", "b"]

  /// Merges that make one token of 2^k repetitions of `unit`, for k up to `doublings`.
  void add_doublings(std::string unit, int doublings) {
    for (size_t i = 1; i < unit.size(); ++i)
      merges.emplace_back(unit.substr(0, i), unit.substr(i, 1));
    for (int k = 0; k < doublings; ++k) {
      merges.emplace_back(unit, unit);
      unit += unit;
    }
  }

  boost::json::value json() const {
    namespace json = boost::json;
    json::object vocabulary;
    const auto add = [&](std::string_view bytes) {
      const auto id = static_cast<int64_t>(vocabulary.size());
      vocabulary.emplace(symbols_of(bytes), id);  // not if it is there
    };
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    json::array rules;
    for (const auto& [left, right] : merges) {
      add(left + right);
      const std::string a = symbols_of(left), b = symbols_of(right);
      if (merges_as_text) {
        rules.emplace_back(a + " " + b);
      } else {
        rules.push_back(json::array{a, b});
      }
    }
    json::array added_tokens;
    for (size_t i = 0; i < added.size(); ++i) {
      added_tokens.push_back(json::object{{"id", static_cast<int64_t>(vocabulary.size() + i)},
                                          {"content", added[i]},
                                          {"single_word", false},
                                          {"lstrip", false},
                                          {"rstrip", false},
                                          {"normalized", false},
                                          {"special", i < (added.size() + 1) / 2}});
    }
    const json::object split = {{"type", "Split"},
                                {"pattern", {{"Regex", pattern}}},
                                {"behavior", "Isolated"},
                                {"invert", false}};
    const json::object byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", false}};
    return json::object{{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", std::move(added_tokens)},
                        {"normalizer", nullptr},
                        {"pre_tokenizer",
                         {{"type", "Sequence"}, {"pretokenizers", json::array{split, byte_level}}}},
                        {"post_processor", byte_level},
                        {"decoder", byte_level},
                        {"model",
                         {{"type", "BPE"},
                          {"dropout", nullptr},
                          {"unk_token", nullptr},
                          {"continuing_subword_prefix", nullptr},
                          {"end_of_word_suffix", nullptr},
                          {"fuse_unk", false},
                          {"byte_fallback", false},
                          {"ignore_merges", ignore_merges},
                          {"vocab", std::move(vocabulary)},
                          {"merges", std::move(rules)}}}};
  }

  /// Aborts if the file is refused.
  Tokenizer build() const {
    return std::move(Tokenizer::parse(boost::json::serialize(json()), "generated")).value();
  }
};

}  // namespace yoke::engine
