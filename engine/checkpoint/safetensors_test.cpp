// Headers as hostile bytes: each fault has its sentence, and whatever is accepted stays in range.
#include "engine/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/checkpoint/test_folder.h"

namespace yoke::engine {
namespace {

using ::testing::HasSubstr;

/// Header and as much data as it needs at most: `data` bytes.
std::string error_of(const std::string& header, uint64_t data) {
  const auto parsed = parse_safetensors_header(header, 8 + header.size() + data, "f.safetensors");
  return parsed ? "accepted" : parsed.error().message;
}

struct Case {
  const char* name;
  std::string header;
  uint64_t data;
  std::vector<std::string> wanted;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class DamagedHeader : public ::testing::TestWithParam<Case> {};

TEST_P(DamagedHeader, is_refused_with_one_line) {
  const std::string text = error_of(GetParam().header, GetParam().data);
  EXPECT_THAT(text, HasSubstr("f.safetensors: "));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  for (const std::string& fragment : GetParam().wanted) EXPECT_THAT(text, HasSubstr(fragment));
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}
std::string one(const std::string& value) {
  return "{\"x\":" + value + "}";
}

const Case kSyntax[] = {
    {"empty", "", 0, {"not valid JSON at byte 0"}},
    {"cut", "{\"x\":{\"dtype\"", 0, {"not valid JSON at byte"}},
    {"garbage", "\x93NUMPY", 0, {"not UTF-8: byte 0 is 0x93"}},
    {"text_after_the_end", "{} {}", 0, {"not valid JSON at byte 3", "extra data"}},
    {"list_at_the_top", "[]", 0, {"wanted an object at the top", "found an array"}},
    {"number_at_the_top", "7", 0, {"wanted an object at the top"}},
    {"string_at_the_top", "\"x\"", 0, {"wanted an object at the top"}},
    {"invalid_utf8_in_a_name", "{\"\xff\":{}}", 0, {"header not UTF-8: byte 2 is 0xFF"}},
    {"overlong_utf8", "{\"\xc0\xaf\":{}}", 0, {"not UTF-8: byte 2 is 0xC0"}},
    {"lone_surrogate", "{\"\\ud800\":{}}", 0, {"not valid JSON at byte"}},
    {"deep_nesting", one(std::string(100'000, '[')), 0, {"'x' is an array"}},
    {"deep_nesting_in_shape", one("{\"shape\":[[[[[[["), 0, {"shape holds an array"}},
    {"comment", "/* */{}", 0, {"not valid JSON at byte 0"}},
};
INSTANTIATE_TEST_SUITE_P(Syntax, DamagedHeader, ::testing::ValuesIn(kSyntax), case_name);

const Case kKinds[] = {
    {"null_entry", one("null"), 0, {"'x' is null, wanted an object"}},
    {"number_entry", one("1"), 0, {"'x' is a number, wanted an object"}},
    {"empty_entry", one("{}"), 0, {"tensor 'x': dtype is missing"}},
    {"no_shape", one("{\"dtype\":\"I8\"}"), 0, {"tensor 'x': shape is missing"}},
    {"no_offsets", one("{\"dtype\":\"I8\",\"shape\":[]}"), 0, {"'x': data_offsets is missing"}},
    {"unknown_key", one("{\"dtyp\":\"I8\"}"), 0, {"tensor 'x': unknown key 'dtyp'"}},
    {"key_twice", one("{\"shape\":[],\"shape\":[]}"), 0, {"tensor 'x': shape appears twice"}},
    {"dtype_number", one("{\"dtype\":3}"), 0, {"'x': dtype holds a number, wanted a string"}},
    {"dtype_list", one("{\"dtype\":[]}"), 0, {"'x': dtype holds an array, wanted a string"}},
    {"shape_string", one("{\"shape\":\"2\"}"), 0, {"'x': shape holds a string"}},
    {"shape_object", one("{\"shape\":{}}"), 0, {"'x': shape holds an object"}},
    {"shape_of_strings", one("{\"shape\":[\"2\"]}"), 0, {"shape holds a string"}},
    {"shape_of_booleans", one("{\"shape\":[true]}"), 0, {"shape holds a boolean"}},
    {"negative_dimension", one(entry("I8", "[-1]", "[0,1]")), 1, {"shape holds a negative"}},
    {"fractional_dimension", one(entry("I8", "[1.5]", "[0,1]")), 1, {"fractional or too large"}},
    {"dimension_of_2_63", one(entry("I8", "[9223372036854775808]", "[0,1]")), 1, {"too large"}},
    {"dimension_of_2_70", one(entry("I8", "[1180591620717411303424]", "[0,1]")), 1, {"too large"}},
    {"nine_dimensions", one(entry("I8", "[1,1,1,1,1,1,1,1,1]", "[0,1]")), 1, {"more than 8"}},
    {"one_offset", one(entry("I8", "[1]", "[0]")), 1, {"data_offsets has 1 numbers, wanted 2"}},
    {"three_offsets", one(entry("I8", "[1]", "[0,1,1]")), 1, {"has 3 numbers, wanted 2"}},
    {"negative_offset", one(entry("I8", "[1]", "[-1,0]")), 1, {"data_offsets holds a negative"}},
    {"metadata_number", "{\"__metadata__\":{\"a\":1}}", 0, {"'a' is a number, wanted a string"}},
    {"metadata_string", "{\"__metadata__\":\"a\"}", 0, {"'__metadata__' is a string"}},
    {"metadata_key_twice", "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, {"'a' twice"}},
    {"metadata_twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, {"appears twice"}},
    {"name_of_a_mebibyte", "{\"" + std::string(1 << 20, 'n') + "\":{}}", 0, {"longer than 1024"}},
};
INSTANTIATE_TEST_SUITE_P(Kinds, DamagedHeader, ::testing::ValuesIn(kKinds), case_name);

std::string two(const std::string& a, const std::string& b) {
  return "{\"a\":" + a + ",\"b\":" + b + "}";
}

const Case kRanges[] = {
    {"unknown_dtype", one(entry("Q4", "[1]", "[0,1]")), 1, {"tensor 'x': unknown dtype 'Q4'"}},
    {"empty_dtype", one(entry("", "[1]", "[0,1]")), 1, {"unknown dtype ''"}},
    {"backwards", one(entry("I8", "[1]", "[2,1]")), 4, {"'x': data_offsets [2, 1] run backwards"}},
    {"beyond_the_end",
     one(entry("I8", "[9]", "[0,9]")),
     8,
     {"'x': data_offsets [0, 9] reach beyond the file, which has 8 bytes of data", "truncated"}},
    {"far_beyond_the_end",
     one(entry("I8", "[1]", "[18446744073709551614,18446744073709551615]")),
     8,
     {"reach beyond the file"}},
    {"size_against_shape",
     one(entry("F32", "[2,3]", "[0,20]")),
     20,
     {"'x': F32 [2,3] wants 24 bytes, data_offsets [0, 20] hold 20"}},
    {"size_that_overflows",
     one(entry("F32", "[4611686018427387904,4]", "[0,0]")),
     0,
     {"F32 [4611686018427387904,4] wants more than 2^64 bytes"}},
    {"overlap",
     two(entry("I8", "[4]", "[0,4]"), entry("I8", "[4]", "[3,7]")),
     7,
     {"tensors 'a' and 'b' overlap"}},
    {"same_range",
     two(entry("I8", "[4]", "[0,4]"), entry("I8", "[4]", "[0,4]")),
     4,
     {"tensors 'a' and 'b' overlap"}},
    {"empty_tensor_inside_another",
     two(entry("I8", "[4]", "[0,4]"), entry("I8", "[0]", "[2,2]")),
     4,
     {"tensors 'a' and 'b' overlap"}},
    {"hole",
     two(entry("I8", "[4]", "[0,4]"), entry("I8", "[4]", "[6,10]")),
     10,
     {"2 bytes before tensor 'b' belong to no tensor"}},
    {"hole_at_the_start", one(entry("I8", "[4]", "[1,5]")), 5, {"1 bytes before tensor 'x'"}},
    {"bytes_after_the_last", one(entry("I8", "[4]", "[0,4]")), 5, {"1 bytes after the last"}},
    {"data_without_tensors", "{}", 5, {"5 bytes after the last tensor"}},
    {"name_twice",
     "{\"x\":" + entry("I8", "[4]", "[0,4]") + ",\"x\":" + entry("I8", "[4]", "[4,8]") + "}",
     8,
     {"tensor 'x' appears twice"}},
    {"name_twice_by_escape",
     "{\"x\":" + entry("I8", "[4]", "[0,4]") + ",\"\\u0078\":" + entry("I8", "[4]", "[4,8]") + "}",
     8,
     {"tensor 'x' appears twice"}},
};
INSTANTIATE_TEST_SUITE_P(Ranges, DamagedHeader, ::testing::ValuesIn(kRanges), case_name);

TEST(SafetensorsHeader, empty_tensors_scalars_and_any_order_are_accepted) {
  const std::string header = "{\"late\":" + entry("F32", "[]", "[4,8]") +
                             ",\"none\":" + entry("I64", "[3,0]", "[4,4]") +
                             ",\"first\":" + entry("BF16", "[1,2]", "[0,4]") +
                             ",\"\":" + entry("U8", "[0]", "[8,8]") + "}   ";
  const auto parsed = parse_safetensors_header(header, 8 + header.size() + 8, "f");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  ASSERT_EQ(parsed->size(), 4u);
  EXPECT_EQ((*parsed)[0].name, "first");
  EXPECT_EQ((*parsed)[1].name, "none");
  EXPECT_EQ((*parsed)[2].name, "late");
  EXPECT_EQ((*parsed)[2].file_offset, 8 + header.size() + 4);
  EXPECT_EQ((*parsed)[2].bytes, 4u);
  EXPECT_TRUE((*parsed)[2].shape.empty());
}

TEST(SafetensorsHeader, a_header_that_does_not_fit_its_file_is_refused) {
  EXPECT_FALSE(parse_safetensors_header("{}", 9, "f").ok());
  EXPECT_FALSE(parse_safetensors_header("{}", 0, "f").ok());
  EXPECT_TRUE(parse_safetensors_header("{}", 10, "f").ok());
}

struct LengthCase {
  uint64_t length;
  const char* wanted;
};

TEST(SafetensorsFile, absurd_header_lengths_are_refused_before_anything_is_allocated) {
  test::TempFolder folder;
  const auto path = folder.path() / "f.safetensors";
  for (const auto& [length, wanted] :
       {LengthCase{~uint64_t{0}, "header length 18446744073709551615"},
        LengthCase{uint64_t{1} << 63, "header length 9223372036854775808"},
        LengthCase{3, "header length 3, but the file has 10 bytes"},
        LengthCase{kMaxSafetensorsHeader + 1, "header length 67108865"}}) {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    test::write_file(path, bytes + "{}");
    const auto read = SafetensorsFile::read(path);
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().message, HasSubstr(wanted));
    EXPECT_THAT(read.error().message, HasSubstr("f.safetensors"));
  }
  test::write_file(path, "short");
  EXPECT_THAT(SafetensorsFile::read(path).error().message, HasSubstr("5 bytes are too few"));
}

TEST(SafetensorsFile, a_huge_header_in_a_huge_file_is_refused_too) {
  test::TempFolder folder;
  const auto path = folder.path() / "f.safetensors";
  std::string bytes(8, '\0');
  const uint64_t length = uint64_t{1} << 40;
  std::memcpy(bytes.data(), &length, 8);
  test::write_file(path, bytes);
  std::filesystem::resize_file(path, uint64_t{1} << 41);
  EXPECT_THAT(SafetensorsFile::read(path).error().message,
              HasSubstr("header length 1099511627776"));
}

TEST(SafetensorsFile, tensors_metadata_and_alignment) {
  test::TempFolder folder;
  const auto path = folder.path() / "f.safetensors";
  const std::string content = test::little_endian(0x3F800000) + test::little_endian(0x40000000);
  test::write_safetensors(
      path,
      {{"odd", "BF16", {1}, "\x80\x3f"}, {"x", "F32", {2}, content}, {"empty", "I32", {0, 4}, {}}});
  auto read = SafetensorsFile::read(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  const SafetensorsFile moved = std::move(*read);
  EXPECT_EQ(moved.metadata("format"), "pt");
  EXPECT_EQ(moved.metadata("nothing"), "");
  EXPECT_EQ(moved.names(), (std::vector<std::string>{"empty", "odd", "x"}));
  EXPECT_TRUE(moved.has("x"));
  EXPECT_FALSE(moved.has("y"));
  const auto x = moved.tensor("x");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data) % 16, 0u);
  EXPECT_EQ(x.as<float>()[0], 1.0f);
  EXPECT_EQ(x.as<float>()[1], 2.0f);
  EXPECT_EQ(kernels::to_float(moved.tensor("odd").as<kernels::bf16>()[0]), 1.0f);
  EXPECT_EQ(moved.tensor("empty").elements(), 0);
  EXPECT_TRUE(static_cast<bool>(moved.tensor("empty")));
}

TEST(SafetensorsFile, types_that_no_view_can_show_are_refused) {
  test::TempFolder folder;
  const auto path = folder.path() / "f.safetensors";
  test::write_safetensors(path, {{"x", "U8", {4}, {}}});
  EXPECT_THAT(SafetensorsFile::read(path).error().message, HasSubstr("'x': U8 [4]"));
  test::write_safetensors(path, {{"x", "F32", {1, 1, 1, 1, 1}, {}}});
  EXPECT_THAT(SafetensorsFile::read(path).error().message, HasSubstr("at most 4 dimensions"));
}

// --- seeded mutations of real headers
// -------------------------------------------------------------

/// Everything that a reader of the tensors may rely on.
void expect_in_range(const std::vector<TensorInfo>& tensors, uint64_t header, uint64_t file_size) {
  uint64_t position = 8 + header;
  for (const TensorInfo& t : tensors) {
    ASSERT_EQ(t.file_offset, position) << t.name;
    ASSERT_LE(t.bytes, file_size - position) << t.name;
    position += t.bytes;
    ASSERT_LE(t.shape.size(), 8u);
    ASSERT_LE(t.name.size(), 1024u);
  }
  ASSERT_EQ(position, file_size);
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    const size_t edits = 1 + pick(3);
    for (size_t i = 0; i < edits && !text.empty(); ++i) edit(text);
    return text;
  }

  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }

 private:
  void edit(std::string& text) {
    static const std::vector<std::string> kTokens = {"0",
                                                     "1",
                                                     "-1",
                                                     "18446744073709551615",
                                                     "9223372036854775808",
                                                     "1e400",
                                                     "1.5",
                                                     "null",
                                                     "[]",
                                                     "{}",
                                                     "\"\"",
                                                     "true",
                                                     "\"dtype\"",
                                                     "\"shape\"",
                                                     "\"data_offsets\"",
                                                     "\\u0000",
                                                     ",",
                                                     ":",
                                                     "}",
                                                     "]",
                                                     "{",
                                                     "[",
                                                     "\xff",
                                                     "\"BF16\"",
                                                     "\"F32\"",
                                                     "\"__metadata__\"",
                                                     " "};
    const size_t at = pick(text.size());
    switch (pick(7)) {
      case 0:
        text[at] = static_cast<char>(pick(256));
        break;
      case 1:
        text.erase(at, 1 + pick(40));
        break;
      case 2:
        text.insert(at, kTokens[pick(kTokens.size())]);
        break;
      case 3:  // copy a piece elsewhere: repeated names, overlapping offsets
        text.insert(at, text.substr(pick(text.size()), 1 + pick(200)));
        break;
      case 4:  // another digit
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text[digit] = static_cast<char>('0' + pick(10));
        break;
      case 5:  // a whole number replaced
        if (const size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos)
          text.replace(digit,
                       std::min<size_t>(text.find_first_not_of("0123456789", digit) - digit,
                                        text.size() - digit),
                       kTokens[pick(7)]);
        break;
      default:
        text.resize(at);
        break;
    }
  }

  std::mt19937_64 random_;
};

TEST(SafetensorsHeader, mutations_of_real_headers_are_refused_or_stay_in_range) {
  const uint64_t seed = 20240611;
  RecordProperty("seed", std::to_string(seed));
  Mutator mutator(seed);
  struct Source {
    std::string header;
    uint64_t data;
  };
  std::vector<Source> sources;
  const std::filesystem::path root = YOKE_SOURCE_DIR;
  for (const char* name : {"tools/nano/checkpoint/model-00001-of-00003.safetensors",
                           "tools/nano/checkpoint/model-00002-of-00003.safetensors",
                           "tools/nano/checkpoint/model-00003-of-00003.safetensors",
                           "tools/nano/dflash2/model.safetensors",
                           "tests/golden/exl3/exl3_legacy_signs.safetensors"}) {
    const auto file = File::open(root / name);
    ASSERT_TRUE(file.ok()) << file.error().message;
    auto header = read_header_text(*file);
    ASSERT_TRUE(header.ok()) << header.error().message;
    sources.push_back({*header, file->size() - 8 - header->size()});
  }
  // Small ones are hit harder.
  sources.push_back({test::header_of({{"a", "F32", {2, 3}, {}}, {"b", "I16", {5}, {}}}), 34});
  sources.push_back({two(entry("I8", "[4]", "[0,4]"), entry("I8", "[0]", "[4,4]")), 4});

  int accepted = 0;
  for (int i = 0; i < 8000; ++i) {
    const Source& source = sources[mutator.pick(sources.size())];
    const std::string header = mutator.mutate(source.header);
    const uint64_t size = 8 + header.size() + source.data;
    const auto parsed = parse_safetensors_header(header, size, "f");
    if (parsed) {
      ++accepted;
      expect_in_range(*parsed, header.size(), size);
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", round " << i;
    } else {
      ASSERT_FALSE(parsed.error().message.empty());
      ASSERT_EQ(parsed.error().message.find('\n'), std::string::npos) << parsed.error().message;
    }
  }
  // Some edits only change a name or a blank: otherwise the test would prove nothing.
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 4000);
}

}  // namespace
}  // namespace yoke::engine
