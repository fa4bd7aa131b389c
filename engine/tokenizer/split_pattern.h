// Split patterns of tokenizer.json are written for Oniguruma (Ruby syntax), yoke matches with
// PCRE2. This translates the constructs that can be given the same meaning and refuses the rest by
// name: a pattern that means something else would silently give other ids.
#pragma once

#include <string>
#include <string_view>

#include "config/result.h"

namespace yoke::engine {

/// The pattern for PCRE2 (UTF, no extended mode). What is known, and what is rewritten:
///   \s \S      Unicode White_Space as an explicit set (PCRE2 adds U+180E)
///   \p{L} \p{N} with what Unicode 15 and 16 added (PCRE2 10.42 has Unicode 14), also \P{…}
///   [...]      characters, ranges, \s, \p{…}; no nested sets
///   (?i:…)     ASCII text and `|` only, without letter pairs that Oniguruma folds to one character
///   ( (?: (?= (?! | ? * + lazy, possessive, {n} {n,} {n,m}, escaped punctuation, \r \n \t \f \a \e
/// Errors (unsupported): anything else, with its byte offset.
config::Result<std::string> pcre2_pattern(std::string_view oniguruma);

}  // namespace yoke::engine
