#include "engine/json/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "engine/json/utf8.h"

namespace yoke::engine {
namespace {

using config::ErrorKind;

Json parsed(std::string_view text) {
  auto result = parse_json(text, "test");
  EXPECT_TRUE(result.ok()) << text << ": " << (result.ok() ? "" : result.error().message);
  return result.ok() ? *std::move(result) : Json();
}

std::string error_of(std::string_view text) {
  const auto result = parse_json(text, "test");
  EXPECT_FALSE(result.ok()) << text;
  return result.ok() ? "" : result.error().message;
}

std::string nested_arrays(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

TEST(JsonParse, reads_every_kind) {
  const Json v = parsed(R"( {"n":null,"t":true,"f":false,"i":-12,"s":"a","a":[1,[]],"o":{}} )");
  ASSERT_TRUE(v.is_object());
  EXPECT_TRUE(v.find("n")->is_null());
  EXPECT_TRUE(v.find("t")->as_boolean());
  EXPECT_FALSE(v.find("f")->as_boolean());
  EXPECT_EQ(v.find("i")->number_text(), "-12");
  EXPECT_EQ(v.find("s")->as_string(), "a");
  EXPECT_EQ(v.find("a")->items().size(), 2u);
  EXPECT_TRUE(v.find("o")->members().empty());
  EXPECT_EQ(v.find("x"), nullptr);
  EXPECT_EQ(parsed("1").find("x"), nullptr);
}

TEST(JsonParse, keeps_the_spelling_of_numbers) {
  for (const char* text :
       {"0", "-0", "-0.0", "1.50", "1e2", "1E+05", "1e-7", "0.0000", "18446744073709551616",
        "123456789012345678901234567890", "1e400", "2e-400", "1e99999999999", "1e-99999999999"}) {
    EXPECT_EQ(parsed(text).number_text(), text);
    EXPECT_EQ(to_json(parsed(text)), text);
  }
}

TEST(JsonParse, repeated_key_keeps_first_place_and_last_value) {
  EXPECT_EQ(to_json(parsed(R"({"a":1,"b":2,"a":3,"c":4,"b":{"x":1,"x":2}})")),
            R"({"a":3,"b":{"x":2},"c":4})");
  EXPECT_EQ(to_json(parsed(R"({"\u0061":1,"a":2})")), R"({"a":2})");
}

TEST(JsonParse, large_objects_follow_the_same_rule) {
  std::string text = "{";
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) {
      if (text.size() > 1) text += ',';
      text += "\"k" + std::to_string((i * 7) % 20) + "\":" + std::to_string(100 * round + i);
    }
  }
  const Json v = parsed(text + "}");
  ASSERT_EQ(v.members().size(), 20u);
  for (int i = 0; i < 20; ++i) {
    const auto& [key, value] = v.members()[static_cast<size_t>(i)];
    EXPECT_EQ(key, "k" + std::to_string((i * 7) % 20));
    EXPECT_EQ(value.number_text(), std::to_string(200 + i));
  }
}

// Quadratic handling would take minutes; the test program's time limit catches it.
TEST(JsonParse, hundred_thousand_equal_keys_are_one_member) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += "\"key\":" + std::to_string(i) + ",";
  text += "\"other\":{";
  for (int i = 0; i < 300'000; ++i) text += "\"" + std::to_string(i) + "\":[],";
  text += "\"z\":0}}";
  const Json v = parsed(text);
  ASSERT_EQ(v.members().size(), 2u);
  EXPECT_EQ(v.members()[0].second.number_text(), "99999");
  EXPECT_EQ(v.find("other")->members().size(), 300'001u);
}

TEST(JsonParse, escapes_mean_their_character) {
  EXPECT_EQ(parsed(R"("\"\\\/\b\f\n\r\t")").as_string(), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(parsed(R"("\u0065\u00e9\u20AC\ud83D\uDE00")").as_string(), "e\u00e9\u20ac\U0001F600");
  EXPECT_EQ(parsed(R"("a\u0000b")").as_string(), std::string("a\0b", 3));
  EXPECT_EQ(parsed("\"\x7f\xF4\x8F\xBF\xBF\"").as_string(), "\x7f\xF4\x8F\xBF\xBF");
}

TEST(JsonParse, lone_surrogates_become_the_replacement_character) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(parsed(R"("\ud83d")").as_string(), r);
  EXPECT_EQ(parsed(R"("\ude00x")").as_string(), r + "x");
  EXPECT_EQ(parsed(R"("\ud83d\n")").as_string(), r + "\n");
  EXPECT_EQ(parsed(R"("\ud83d\u0041")").as_string(), r + "A");
  EXPECT_EQ(parsed(R"("\ud83d\ud83d\ude00\ude00")").as_string(), r + "\U0001F600" + r);
  EXPECT_EQ(parsed(R"({"\udc00":1})").members()[0].first, r);
}

TEST(JsonParse, byte_order_mark_is_skipped_once) {
  EXPECT_EQ(parsed("\xEF\xBB\xBF[1]").items().size(), 1u);
  EXPECT_EQ(error_of("\xEF\xBB\xBF\xEF\xBB\xBF[1]"),
            "test: byte 3: want a JSON value, found byte 0xef");
}

TEST(JsonParse, errors_name_offset_wanted_and_found) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "test: byte 0: want a JSON value, found the end of the text"},
      {"  ", "test: byte 2: want a JSON value, found the end of the text"},
      {"nul", "test: byte 0: want a JSON value, found 'n'"},
      {"True", "test: byte 0: want a JSON value, found 'T'"},
      {"NaN", "test: byte 0: want a JSON value, found 'N'"},
      {"[1,tru]", "test: byte 3: want a JSON value, found 't'"},
      {"[1 2]", "test: byte 3: want ',' or ']' after an array element, found '2'"},
      {"[1,]", "test: byte 3: want a JSON value, found ']'"},
      {"[1", "test: byte 2: want ',' or ']' after an array element, found the end of the text"},
      {"[01]", "test: byte 2: want ',' or ']' after an array element, found '1'"},
      {"-", "test: byte 1: want a digit, found the end of the text"},
      {"+1", "test: byte 0: want a JSON value, found '+'"},
      {".5", "test: byte 0: want a JSON value, found '.'"},
      {"1.", "test: byte 2: want a digit, found the end of the text"},
      {"1e+", "test: byte 3: want a digit, found the end of the text"},
      {"{a:1}", "test: byte 1: want a key or '}', found 'a'"},
      {"{\"a\":1,}", "test: byte 7: want a key, found '}'"},
      {"{\"a\" 1}", "test: byte 5: want ':' after a key, found '1'"},
      {"{\"a\":1;", "test: byte 6: want ',' or '}' after a member, found ';'"},
      {"1 1", "test: byte 2: want the end of the JSON text, found '1'"},
      {"[] //", "test: byte 3: want the end of the JSON text, found '/'"},
      {"\"a\tb\"",
       "test: byte 2: want an escape (control characters must be escaped), found byte 0x09"},
      {"\"\\x\"", "test: byte 2: want an escape letter, found 'x'"},
      {"\"\\u12g4\"", "test: byte 5: want four hexadecimal digits after \\u, found 'g'"},
      {"[\"ab",
       "test: byte 4: want '\"' for the string opened at byte 1, found the end of the text"},
      {"\"\xFF\"", "test: byte 1: want UTF-8 inside a string, found byte 0xff"},
      {"\"\xC0\x80\"", "test: byte 1: want UTF-8 inside a string, found byte 0xc0"},
      {"\"\xED\xA0\x80\"", "test: byte 1: want UTF-8 inside a string, found byte 0xed"},
      {"\"\xE2\x82\"", "test: byte 1: want UTF-8 inside a string, found byte 0xe2"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(error_of(text), message) << text;
  EXPECT_EQ(error_of(std::string_view("\0", 1)),
            "test: byte 0: want a JSON value, found byte 0x00");
}

TEST(JsonParse, depth_is_limited) {
  EXPECT_TRUE(parse_json(nested_arrays(256), "test").ok());
  const auto result = parse_json(nested_arrays(257), "test");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::exhausted);
  EXPECT_EQ(result.error().message, "test: byte 256: nested deeper than 256 levels");
  EXPECT_FALSE(parse_json(std::string(100'000, '['), "test").ok());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(parse_json(objects, "test").ok());
}

TEST(JsonParse, trees_at_the_ceiling_can_be_copied_compared_printed_and_destroyed) {
  const std::string text = nested_arrays(kJsonDepthCeiling);
  auto result = parse_json(text, "test", {.max_depth = kJsonDepthCeiling});
  ASSERT_TRUE(result.ok());
  const Json copy = *result;
  EXPECT_EQ(copy, *result);
  EXPECT_EQ(to_json(copy), text);
  EXPECT_EQ(to_python_json(copy), text);
  EXPECT_EQ(*to_python_str(copy), text);
}

TEST(JsonParse, number_of_values_is_limited) {
  EXPECT_TRUE(parse_json("[1,[2,{\"a\":3}]]", "test", {.max_values = 6}).ok());
  const auto result = parse_json("[1,[2,{\"a\":3}]]", "test", {.max_values = 5});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::exhausted);
  EXPECT_EQ(result.error().message, "test: byte 11: more than 5 values");
}

TEST(JsonNumber, integers_are_exact_or_refused) {
  const std::pair<const char*, std::optional<int64_t>> cases[] = {
      {"0", 0},
      {"-0", 0},
      {"0.000", 0},
      {"0e999", 0},
      {"7", 7},
      {"5.0", 5},
      {"1e3", 1000},
      {"1200e-2", 12},
      {"0.0012e4", 12},
      {"12.5e1", 125},
      {"-1.5e1", -15},
      {"1.5", std::nullopt},
      {"1e-1", std::nullopt},
      {"9223372036854775807", INT64_MAX},
      {"9223372036854775808", std::nullopt},
      {"-9223372036854775808", INT64_MIN},
      {"-9223372036854775809", std::nullopt},
      {"9223372036854775807.00", INT64_MAX},
      {"922337203685477580700e-2", INT64_MAX},
      {"9007199254740993", 9007199254740993},
      {"18446744073709551616", std::nullopt},
      {"99999999999999999999", std::nullopt},
      {"1e19", std::nullopt},
      {"1e18", 1'000'000'000'000'000'000},
      {"1e99999999999999999999999", std::nullopt},
      {"1e-99999999999999999999999", std::nullopt},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(parsed(text).to_int64(), value) << text;
  EXPECT_EQ(parsed("\"1\"").to_int64(), std::nullopt);
  EXPECT_EQ(parsed("0." + std::string(5000, '0') + "3e5001").to_int64(), 3);
}

TEST(JsonNumber, doubles_round_correctly_and_overflow_to_infinity) {
  EXPECT_EQ(parsed("1.2713918299390801e-241").to_double(), 1.2713918299390801e-241);
  EXPECT_EQ(parsed("9007199254740993").to_double(), 9007199254740992.0);
  EXPECT_EQ(parsed("5e-324").to_double(), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(parsed("2e-400").to_double(), 0.0);
  EXPECT_TRUE(std::signbit(*parsed("-2e-400").to_double()));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(parsed("1e400").to_double(), inf);
  EXPECT_EQ(parsed("-1e400").to_double(), -inf);
  EXPECT_EQ(parsed("1e99999999999999999999").to_double(), inf);
  EXPECT_EQ(parsed("1e-99999999999999999999").to_double(), 0.0);
  EXPECT_EQ(parsed(std::string(400, '9')).to_double(), inf);
  EXPECT_EQ(parsed("0." + std::string(400, '0') + "1").to_double(), 0.0);
  EXPECT_EQ(parsed("null").to_double(), std::nullopt);
}

TEST(JsonNumber, number_text_is_recognised) {
  for (const char* text : {"0", "-0", "10", "1.0", "1e5", "-1.25E-07"}) {
    EXPECT_TRUE(Json::is_number_text(text)) << text;
  }
  for (const char* text :
       {"", "-", "01", "+1", ".5", "1.", "1e", "1e+", " 1", "1 ", "1a", "NaN", "0x1", "1_0"}) {
    EXPECT_FALSE(Json::is_number_text(text)) << text;
  }
}

TEST(JsonTruth, follows_python) {
  for (const char* text :
       {"null", "false", "0", "-0", "0.0", "-0.0", "0e5", "2e-400", "\"\"", "[]", "{}"}) {
    EXPECT_FALSE(parsed(text).truthy()) << text;
  }
  for (const char* text : {"true", "1", "-1", "0.1", "5e-324", "1e400", "\"false\"", "\"\\u0000\"",
                           "[null]", "{\"\":0}"}) {
    EXPECT_TRUE(parsed(text).truthy()) << text;
  }
}

TEST(JsonTree, set_replaces_in_place_or_appends) {
  Json v = parsed(R"({"a":1,"b":2})");
  v.set("a", Json::string("x"));
  v.set("c", Json::boolean(true));
  EXPECT_EQ(to_json(v), R"({"a":"x","b":2,"c":true})");
}

TEST(JsonTree, equality_counts_kind_order_and_spelling) {
  EXPECT_EQ(parsed("[1,{\"a\":null}]"), parsed(" [ 1 , { \"\\u0061\" : null } ] "));
  EXPECT_NE(parsed("1"), parsed("1.0"));
  EXPECT_NE(parsed("1"), parsed("\"1\""));
  EXPECT_NE(parsed(R"({"a":1,"b":2})"), parsed(R"({"b":2,"a":1})"));
  EXPECT_NE(parsed("null"), parsed("false"));
}

TEST(JsonPrint, strings_are_escaped_as_python_does) {
  std::string out;
  append_json_string(
      out, std::string_view("\0\x01\b\t\n\v\f\r\x1f \"\\/\x7f\u00e9\u2028\U0001F600", 23));
  EXPECT_EQ(out,
            "\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\x7f\u00e9\u2028\U0001F600\"");
}

TEST(PythonText, json_dumps_layout_and_numbers) {
  EXPECT_EQ(to_python_json(parsed(R"({"a":[1,-0,-0.0,1.50,1e2,true,null,"<&'é"],"b":{}})")),
            R"({"a": [1, 0, -0.0, 1.5, 100.0, true, null, "<&'é"], "b": {}})");
  EXPECT_EQ(to_python_json(parsed("[1e400,-1e400,2e-400,123456789012345678901234567890]")),
            "[Infinity, -Infinity, 0.0, 123456789012345678901234567890]");
}

TEST(PythonText, float_repr_switches_form_where_python_does) {
  const std::pair<double, std::string_view> cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {100.0, "100.0"},
      {0.0001, "0.0001"},
      {0.00012345, "0.00012345"},
      {0.00001, "1e-05"},
      {1.5e-7, "1.5e-07"},
      {123456.789, "123456.789"},
      {1e15, "1000000000000000.0"},
      {9999999999999998.0, "9999999999999998.0"},
      {1e16, "1e+16"},
      {1.2345678901234567e16, "1.2345678901234568e+16"},
      {1e22, "1e+22"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {-2.5, "-2.5"},
      {0.1, "0.1"},
      {1.0 / 3.0, "0.3333333333333333"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(python_float_repr(value), text);
}

TEST(PythonText, float_repr_reads_back_to_the_same_double) {
  std::mt19937_64 random(20240601);
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    const std::string text = python_float_repr(value);
    ASSERT_TRUE(Json::is_number_text(text)) << text;
    ASSERT_NE(text.find_first_of(".e"), std::string::npos) << text;
    const double back = *Json::number(text).to_double();
    ASSERT_EQ(std::memcmp(&back, &value, sizeof(value)), 0) << text;
  }
}

TEST(PythonText, str_prints_python_literals) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"null", "None"},
      {"true", "True"},
      {"-0", "0"},
      {"2.50", "2.5"},
      {"1e400", "inf"},
      {"\"it's\"", "it's"},
      {"\"\u00e9\"", "\u00e9"},
      {R"({"k":["x",null,true]})", "{'k': ['x', None, True]}"},
      {R"(["it's"])", R"(["it's"])"},
      {R"(["it's \"q\""])", R"(['it\'s "q"'])"},
      {R"(["\\\n\r\t\u0000\u007f"])", R"(['\\\n\r\t\x00\x7f'])"},
      {"{}", "{}"},
  };
  for (const auto& [json, text] : cases) EXPECT_EQ(*to_python_str(parsed(json)), text) << json;
  EXPECT_EQ(to_python_str(parsed("[\"\u00e9\"]")).error().kind, ErrorKind::unsupported);
}

/// A random tree; every spelling of numbers and every class of characters occurs.
Json random_tree(std::mt19937& random, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto text = [&] {
    std::string s;
    for (int n = pick(8); n > 0; --n) {
      static constexpr char32_t kBounds[] = {0x20, 0x80, 0x800, 0xD800, 0x110000};
      char32_t c = random() % kBounds[pick(5)];
      if (c >= 0xD800 && c < 0xE000) c = '"';
      append_utf8(s, c);
    }
    return s;
  };
  switch (pick(depth > 0 ? 7 : 5)) {
    case 0:
      return {};
    case 1:
      return Json::boolean(pick(2) == 1);
    case 2:
      return Json::integer(static_cast<int64_t>(random()) - (int64_t{1} << 31));
    case 3:
      return Json::number(std::to_string(pick(100)) + "." + std::to_string(pick(1000)) + "e" +
                          std::to_string(pick(700) - 350));
    case 4:
      return Json::string(text());
    case 5: {
      Json::Array items;
      for (int n = pick(5); n > 0; --n) items.push_back(random_tree(random, depth - 1));
      return Json::array(std::move(items));
    }
    default: {
      Json object = Json::object();
      for (int n = pick(5); n > 0; --n) object.set(text(), random_tree(random, depth - 1));
      return object;
    }
  }
}

TEST(JsonProperty, printed_trees_read_back_equal) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 3000; ++i) {
    const Json tree = random_tree(random, 5);
    const std::string text = to_json(tree);
    ASSERT_EQ(parsed(text), tree) << "seed " << kSeed << " case " << i << ": " << text;
    ASSERT_EQ(to_json(parsed(text)), text);
    // Python's form has other spellings but means the same: printing it twice changes nothing.
    const std::string python = to_python_json(tree);
    if (python.find("Infinity") == python.npos) {
      ASSERT_EQ(to_python_json(parsed(python)), python);
    }
  }
}

TEST(JsonProperty, every_prefix_and_every_changed_byte_is_handled) {
  constexpr unsigned kSeed = 11;
  std::mt19937 random(kSeed);
  const std::string text =
      R"({"a":[1,-2.5e+3,"x\u00e9\ud83d\ude00\n"],"b":{"c":null,"a":true},"é":false})";
  for (size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(parse_json(text.substr(0, n), "t").ok());
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = text;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      changed[random() % changed.size()] = static_cast<char>(random());
    }
    const auto result = parse_json(changed, "t");
    if (result.ok()) {
      ASSERT_EQ(parsed(to_json(*result)), *result) << "seed " << kSeed << " case " << i;
    }
  }
}

TEST(Utf8, encodes_and_decodes_every_scalar_value) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const size_t length = utf8_length(text, 0);
    ASSERT_EQ(length, text.size());
    ASSERT_EQ(utf8_decode(text, 0, length), c);
    ASSERT_EQ(utf8_length(std::string_view(text).substr(0, length - 1), 0), 0u);
  }
}

TEST(Utf8, prefixes_cut_no_character) {
  EXPECT_EQ(utf8_prefix("aä😀", 100), "aä😀");
  EXPECT_EQ(utf8_prefix("aä😀", 2), "a");
  EXPECT_EQ(utf8_prefix("aä😀", 3), "aä");
  EXPECT_EQ(utf8_prefix("aä😀", 6), "aä");
  EXPECT_EQ(utf8_prefix("aä😀", 7), "aä😀");
  EXPECT_EQ(utf8_prefix("ä", 0), "");
}

TEST(Utf8, repair_replaces_what_is_no_character) {
  EXPECT_EQ(utf8_repaired("aä😀"), "aä😀");
  EXPECT_EQ(utf8_repaired("a\xff\xe2\x28"), "a\uFFFD\uFFFD(");
  EXPECT_EQ(utf8_repaired("\xf0\x9f"), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace yoke::engine
