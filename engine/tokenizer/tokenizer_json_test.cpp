#include "engine/tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "engine/tokenizer/generated_tokenizer.h"

namespace yoke::engine {
namespace {

namespace json = boost::json;
using config::ErrorKind;

GeneratedTokenizer small() {
  GeneratedTokenizer generated;
  generated.merges = {{"a", "b"}, {"ab", "c"}};  // ids 256, 257
  generated.added = {"<s>", "<t>"};              // ids 258, 259
  return generated;
}

config::Result<TokenizerFile> read(const json::value& value) {
  return read_tokenizer_json(json::serialize(value), "t.json");
}

TEST(TokenizerJson, reads_vocabulary_merges_added_tokens_and_pattern) {
  const auto file = read(small().json());
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->vocabulary.size(), 260);
  EXPECT_EQ(file->vocabulary.bytes(257), "abc");
  EXPECT_EQ(file->vocabulary.find("abc"), 257);
  EXPECT_EQ(file->vocabulary.byte_token('\n'), '\n');
  EXPECT_EQ(file->vocabulary.find("<s>"), std::nullopt);
  EXPECT_EQ(file->vocabulary.kind(258), Vocabulary::Kind::special);
  EXPECT_EQ(file->vocabulary.kind(259), Vocabulary::Kind::added);
  ASSERT_EQ(file->merges.size(), 2u);
  EXPECT_EQ(file->merges[1].left, 256);
  EXPECT_EQ(file->merges[1].right, 'c');
  EXPECT_EQ(file->merges[1].result, 257);
  EXPECT_EQ(file->split_pattern, kGlmSplitPattern);
  EXPECT_TRUE(file->ignore_merges);
}

TEST(TokenizerJson, both_spellings_of_merges_mean_the_same) {
  GeneratedTokenizer as_text = small();
  as_text.merges.emplace_back(" ", "a");
  as_text.merges_as_text = true;
  const auto file = read(as_text.json());
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->merges.size(), 3u);
  EXPECT_EQ(file->merges[0].result, 256);
  EXPECT_EQ(file->vocabulary.bytes(file->merges[2].result), " a");
}

TEST(TokenizerJson, a_vocabulary_entry_outside_the_byte_alphabet_only_decodes) {
  json::value value = small().json();
  value.at("model").at("vocab").as_object().emplace("日 本", 300);
  const auto file = read(value);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->vocabulary.bytes(300), "日 本");
  EXPECT_EQ(file->vocabulary.find("日 本"), std::nullopt);
  EXPECT_EQ(file->vocabulary.kind(299), Vocabulary::Kind::undefined);
}

TEST(TokenizerJson, an_added_token_that_is_listed_in_the_vocabulary_too_stays_a_control_token) {
  json::value value = small().json();
  value.at("model").at("vocab").as_object().emplace("<s>", 258);
  const auto file = read(value);
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->vocabulary.find("<s>"), std::nullopt);
  EXPECT_EQ(file->vocabulary.kind(258), Vocabulary::Kind::special);
}

// A change of the small file (what stands at a JSON pointer; "absent" removes it), and what the
// message must hold.
struct Refusal {
  const char* name;
  std::string at;
  std::string becomes;
  ErrorKind kind;
  std::vector<std::string> says;
};

constexpr auto kUnsupported = ErrorKind::unsupported;
constexpr auto kInvalid = ErrorKind::invalid_input;

// clang-format off
const Refusal kStages[] = {
    {"unknown_stage", "/sampler", "1", kUnsupported, {R"("sampler")"}},
    {"version", "/version", R"("2.0")", kUnsupported, {"version", R"("2.0")"}},
    {"truncation", "/truncation", "{}", kUnsupported, {"truncation", "an object"}},
    {"padding", "/padding", "[1]", kUnsupported, {"padding", "an array of 1"}},
    {"normalizer", "/normalizer", R"({"type":"NFC"})", kUnsupported, {"normalizer", R"("NFC")"}},
    {"no_pre_tokenizer", "/pre_tokenizer", "null", kUnsupported, {"pre_tokenizer", "null"}},
    {"other_pre_tokenizer", "/pre_tokenizer", R"({"type":"Whitespace"})",
     kUnsupported, {"pre_tokenizer.type", R"("Whitespace")"}},
    {"one_step", "/pre_tokenizer/pretokenizers/1", "absent", kUnsupported, {"an array of 1"}},
    {"three_steps", "/pre_tokenizer/pretokenizers/-", "null", kUnsupported, {"an array of 3"}},
    {"split_type", "/pre_tokenizer/pretokenizers/0/type", R"("Digits")",
     kUnsupported, {"pretokenizers[0].type", R"("Digits")"}},
    {"split_behavior", "/pre_tokenizer/pretokenizers/0/behavior", R"("Removed")",
     kUnsupported, {"behavior", R"("Isolated")", R"("Removed")"}},
    {"split_invert", "/pre_tokenizer/pretokenizers/0/invert", "true",
     kUnsupported, {"invert", "true"}},
    {"split_string", "/pre_tokenizer/pretokenizers/0/pattern", R"({"String":" "})",
     kUnsupported, {"pattern", "a Regex"}},
    {"split_member", "/pre_tokenizer/pretokenizers/0/limit", "1", kUnsupported, {R"("limit")"}},
    {"prefix_space", "/pre_tokenizer/pretokenizers/1/add_prefix_space", "true",
     kUnsupported, {"add_prefix_space", "true"}},
    {"own_regex", "/pre_tokenizer/pretokenizers/1/use_regex", "absent",
     kUnsupported, {"use_regex", "nothing"}},
    {"post_processor", "/post_processor", R"({"type":"TemplateProcessing"})",
     kUnsupported, {"post_processor.type", R"("TemplateProcessing")"}},
    {"decoder", "/decoder", R"({"type":"Metaspace"})",
     kUnsupported, {"decoder.type", R"("Metaspace")"}},
    {"no_decoder", "/decoder", "absent", kInvalid, {"decoder", "nothing"}},
    {"model_type", "/model/type", R"("Unigram")", kUnsupported, {"model.type", R"("Unigram")"}},
    {"model_member", "/model/magic", "1", kUnsupported, {"model", R"("magic")"}},
    {"dropout", "/model/dropout", "0.5", kUnsupported, {"model.dropout", "5E-1"}},
    {"unk", "/model/unk_token", R"("<unk>")", kUnsupported, {"model.unk_token", R"("<unk>")"}},
    {"prefix", "/model/continuing_subword_prefix", R"("##")",
     kUnsupported, {"continuing_subword_prefix", R"("##")"}},
    {"suffix", "/model/end_of_word_suffix", R"("</w>")", kUnsupported, {"end_of_word_suffix"}},
    {"fuse_unk", "/model/fuse_unk", "true", kUnsupported, {"fuse_unk"}},
    {"byte_fallback", "/model/byte_fallback", "true", kUnsupported, {"byte_fallback"}},
    {"ignore_merges", "/model/ignore_merges", "1", kInvalid, {"ignore_merges"}},
};
// clang-format on

// clang-format off
const Refusal kTables[] = {
    {"no_vocab", "/model/vocab", "absent", kInvalid, {"model.vocab", "nothing"}},
    {"id_text", "/model/vocab/ab", R"("256")", kInvalid, {R"("ab")", "an id from 0", R"("256")"}},
    {"id_negative", "/model/vocab/ab", "-1", kInvalid, {R"("ab")", "-1"}},
    {"id_fraction", "/model/vocab/ab", "2.5", kInvalid, {R"("ab")"}},
    {"id_absurd", "/model/vocab/ab", "2097152", kInvalid, {R"("ab")", "2097152"}},
    {"id_huge", "/model/vocab/ab", "18446744073709551615",
     kInvalid, {R"("ab")", "18446744073709551615"}},
    {"id_twice", "/model/vocab/ab", "257", kInvalid, {R"("abc")", "257", R"("ab")"}},
    {"empty_token", "/model/vocab/", "300", kInvalid, {"300", "empty"}},
    {"missing_byte", "/model/vocab/Ġ", "absent", kInvalid, {"0x20"}},
    {"no_merges", "/model/merges", "absent", kInvalid, {"model.merges", "nothing"}},
    {"merge_unknown_left", "/model/merges/-", R"(["zz","a"])", kInvalid, {"merges[2]", R"("zz")"}},
    {"merge_unknown_result", "/model/merges/-", R"(["a","a"])",
     kInvalid, {"merges[2]", R"("a" + "a")"}},
    {"merge_not_bytes", "/model/merges/-", R"(["日","a"])", kInvalid, {"merges[2]", R"("日")"}},
    {"merge_of_one", "/model/merges/-", R"(["a"])", kInvalid, {"merges[2]", "an array of 1"}},
    {"merge_of_three_words", "/model/merges/-", R"("a b c")", kInvalid, {"merges[2]", R"("b c")"}},
    {"merge_without_right", "/model/merges/-", R"("a ")", kInvalid, {"merges[2]", R"("a ")"}},
    {"merge_number", "/model/merges/-", "7", kInvalid, {"merges[2]", "7"}},
    {"added_not_array", "/added_tokens", "{}", kInvalid, {"added_tokens", "an object"}},
    {"added_empty", "/added_tokens/0/content", R"("")", kInvalid, {"added_tokens[0].content"}},
    {"added_twice", "/added_tokens/0/content", R"("<t>")",
     kInvalid, {"added_tokens[1].content", "twice"}},
    {"added_id_of_word", "/added_tokens/0/id", "256", kInvalid, {R"("<s>")", "256", R"("ab")"}},
    {"added_id_twice", "/added_tokens/0/id", "259", kInvalid, {"259"}},
    {"added_other_id_in_vocab", "/model/vocab/<s>", "400", kInvalid, {R"("<s>")", "258", "400"}},
    {"added_lstrip", "/added_tokens/0/lstrip", "true", kUnsupported, {"added_tokens[0].lstrip"}},
    {"added_rstrip", "/added_tokens/0/rstrip", "true", kUnsupported, {"added_tokens[0].rstrip"}},
    {"added_single_word", "/added_tokens/0/single_word", "true", kUnsupported, {"single_word"}},
    {"added_mixed_normalized", "/added_tokens/0/normalized", "true",
     kUnsupported, {"added_tokens[1].normalized"}},
    {"added_no_special", "/added_tokens/0/special", "absent",
     kInvalid, {"added_tokens[0].special", "nothing"}},
    {"added_member", "/added_tokens/0/weight", "1", kUnsupported, {R"("weight")"}},
};
// clang-format on

/// "-" as the last step appends to an array.
void put(json::value& root, const std::string& pointer, json::value item) {
  const size_t slash = pointer.rfind('/');
  json::value& parent = root.at_pointer(pointer.substr(0, slash));
  const std::string key = pointer.substr(slash + 1);
  if (parent.is_object()) {
    parent.get_object()[key] = std::move(item);
  } else {
    ASSERT_EQ(key, "-");
    parent.as_array().push_back(std::move(item));
  }
}

/// A member of an object, or the last item of an array.
void remove(json::value& root, const std::string& pointer) {
  const size_t slash = pointer.rfind('/');
  json::value& parent = root.at_pointer(pointer.substr(0, slash));
  if (parent.is_array()) return parent.get_array().pop_back();
  ASSERT_EQ(parent.as_object().erase(pointer.substr(slash + 1)), 1u);
}

class TokenizerJsonRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(TokenizerJsonRefuses, and_names_what_it_found) {
  const Refusal& refusal = GetParam();
  json::value value = small().json();
  if (refusal.becomes == "absent") {
    remove(value, refusal.at);
  } else {
    put(value, refusal.at, json::parse(refusal.becomes));
  }
  const auto file = read(value);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().kind, refusal.kind) << file.error().message;
  for (const std::string& part : refusal.says)
    EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message;
  EXPECT_TRUE(file.error().message.starts_with("t.json: ")) << file.error().message;
}

std::string name_of(const testing::TestParamInfo<Refusal>& refusal) {
  return refusal.param.name;
}

INSTANTIATE_TEST_SUITE_P(Stages, TokenizerJsonRefuses, testing::ValuesIn(kStages), name_of);
INSTANTIATE_TEST_SUITE_P(Tables, TokenizerJsonRefuses, testing::ValuesIn(kTables), name_of);

TEST(TokenizerJson, a_file_that_is_no_object_and_oversized_added_tokens_are_refused) {
  EXPECT_FALSE(read(json::array{}).ok());
  json::value value = small().json();
  put(value, "/added_tokens/0/content", json::string(4097, 'x'));
  EXPECT_FALSE(read(value).ok());
}

TEST(TokenizerJson, an_added_token_cannot_take_a_byte_away) {
  json::value value = small().json();
  put(value, "/added_tokens/0/content", "a");
  put(value, "/added_tokens/0/id", int{'a'});
  const auto file = read(value);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().message.find("0x61"), std::string::npos) << file.error().message;
}

TEST(TokenizerJson, what_is_not_json_is_refused_with_its_place) {
  const std::string good = json::serialize(small().json());
  const std::string texts[] = {
      "", "{", good + "x", good.substr(0, good.size() / 2), "{\"\xFF\"}", "{\"\\ud800\": 1}",
  };
  for (const std::string& text : texts) {
    const auto file = read_tokenizer_json(text, "t.json");
    ASSERT_FALSE(file.ok());
    EXPECT_NE(file.error().message.find("not JSON at byte"), std::string::npos)
        << file.error().message;
  }
}

TEST(TokenizerJson, deep_nesting_ends_in_an_error) {
  std::string deep(100'000, '[');
  EXPECT_FALSE(read_tokenizer_json("{\"version\":" + deep, "t.json").ok());
}

TEST(TokenizerJson, every_truncation_and_many_mutations_end_in_a_value_or_an_error) {
  const std::string good = json::serialize(small().json());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(read_tokenizer_json(good.substr(0, size), "t.json").ok()) << size;
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string mutated = good;
    mutated[at] = static_cast<char>(mutated[at] ^ 1);
    const auto file = read_tokenizer_json(mutated, "t.json");
    EXPECT_TRUE(file.ok() || !file.error().message.empty());
  }
}

TEST(TokenizerLoad, a_missing_file_and_a_folder_are_errors_that_name_the_path) {
  const auto missing = Tokenizer::load("/nonexistent/tokenizer.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_NE(missing.error().message.find("/nonexistent/tokenizer.json"), std::string::npos);
  EXPECT_FALSE(Tokenizer::load("/").ok());
}

}  // namespace
}  // namespace yoke::engine
