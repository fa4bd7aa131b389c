// Reads tokenizer.json (the "fast tokenizer" file of Hugging Face) and refuses, by name, every
// stage that yoke would not reproduce exactly (spec/tokenizer_chat.md 1.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/tokenizer/merge_table.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace yoke::engine {

/// A tokenizer.json, checked: ids unique and in range, every byte a token, merges within the
/// vocabulary, added tokens distinct.
struct TokenizerFile {
  Vocabulary vocabulary;  ///< ordinary and added tokens
  std::vector<Merge> merges;
  std::vector<AddedToken> added_tokens;
  std::string split_pattern;   ///< Oniguruma syntax, not yet compiled
  bool ignore_merges = false;  ///< a piece that is a token is that token, whatever the merges say
};

/// `origin` (a path) begins every message. Of a repeated member the last counts, as in the
/// reference.
config::Result<TokenizerFile> read_tokenizer_json(std::string_view json, std::string_view origin);

}  // namespace yoke::engine
