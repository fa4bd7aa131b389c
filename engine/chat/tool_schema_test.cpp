#include "engine/chat/tool_schema.h"

#include <gtest/gtest.h>

namespace yoke::engine {
namespace {

Json parsed(std::string_view text) {
  auto result = parse_json(text, "test");
  EXPECT_TRUE(result.ok()) << text;
  return result.ok() ? *std::move(result) : Json();
}

/// The JSON text that `text` becomes as a parameter with this schema.
std::string coerced(std::string_view schema, std::string_view text) {
  const Json parameters = parsed(R"({"$defs":{"N":{"type":"integer"},"Loop":{"$ref":"#/$defs/Loop"},
    "Tree":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/Tree"}},
            "n":{"$ref":"#/$defs/N"}}},"a/b~c":{"type":"boolean"}},
    "properties":{"k":)" + std::string(schema) +
                                 "}}");
  return ToolSchema(&parameters).coerce("k", text);
}

ToolSchema::Form form(std::string_view schema) {
  const Json parameters = parsed("{\"properties\":{\"k\":" + std::string(schema) + "}}");
  return ToolSchema(&parameters).form("k");
}

struct Case {
  std::string_view schema;
  std::string_view text;
  std::string_view json;
};

void check(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    EXPECT_EQ(coerced(c.schema, c.text), c.json) << c.schema << " <- " << c.text;
  }
}

TEST(ToolSchema, strings_are_never_decoded) {
  check({{R"({"type":"string"})", "123", R"("123")"},
         {R"({"type":"string"})", "\"x\"", R"("\"x\"")"},
         {R"({"type":"string"})", " null ", R"(" null ")"},
         {R"({"type":"string"})", "", R"("")"},
         {R"({"enum":["a","b"]})", "1", R"("1")"},
         {R"({"const":"a"})", "true", R"("true")"}});
}

TEST(ToolSchema, integers) {
  check({{R"({"type":"integer"})", "3", "3"},
         {R"({"type":"integer"})", "-3", "-3"},
         {R"({"type":"integer"})", "+3", "3"},
         {R"({"type":"integer"})", "007", "7"},
         {R"({"type":"integer"})", "-0", "0"},
         {R"({"type":"integer"})", "3.0", "3"},
         {R"({"type":"integer"})", "1e3", "1000"},
         {R"({"type":"integer"})", "123456789012345678901234567890",
          "123456789012345678901234567890"},
         {R"({"type":"integer"})", "3.5", "3.5"},
         {R"({"type":"integer"})", " 3 ", "3"},
         {R"({"type":"integer"})", " 3.0\n", "3"},
         {R"({"type":"integer"})", "three", R"("three")"},
         {R"({"type":"integer"})", "1_000", R"("1_000")"},
         {R"({"type":"integer"})", "", R"("")"},
         {R"({"type":"integer"})", "null", "null"},
         {R"({"enum":[1,2]})", "2", "2"}});
}

TEST(ToolSchema, numbers_are_finite_and_integral_ones_are_integers) {
  check({{R"({"type":"number"})", "2.5", "2.5"},
         {R"({"type":"number"})", "2.50", "2.50"},
         {R"({"type":"number"})", "2.0", "2"},
         {R"({"type":"number"})", "-0.0", "0"},
         {R"({"type":"number"})", "3", "3"},
         {R"({"type":"number"})", ".5", "0.5"},
         {R"({"type":"number"})", "-.5e1", "-5"},
         {R"({"type":"number"})", "1.", "1"},
         {R"({"type":"number"})", "1e300", "1e300"},
         {R"({"type":"number"})", "1e400", R"("1e400")"},
         {R"({"type":"number"})", "inf", R"("inf")"},
         {R"({"type":"number"})", "NaN", R"("NaN")"},
         {R"({"type":"number"})", "1e", R"("1e")"}});
}

TEST(ToolSchema, booleans_and_null_in_any_case) {
  check({{R"({"type":"boolean"})", "True", "true"},
         {R"({"type":"boolean"})", "FALSE", "false"},
         {R"({"type":"boolean"})", "1", "true"},
         {R"({"type":"boolean"})", "0", "false"},
         {R"({"type":"boolean"})", "yes", R"("yes")"},
         {R"({"type":"null"})", "NULL", "null"},
         {R"({"type":["boolean","integer"]})", "1", "1"},
         {R"({"type":["string","null"]})", "Null", "null"},
         {R"({"type":["string","null"]})", "nulls", R"("nulls")"},
         {R"({"type":"string","nullable":true})", "null", "null"}});
}

TEST(ToolSchema, containers_are_parsed_when_they_are_of_the_kind) {
  check({{R"({"type":"object"})", R"({"a": 1.50, "b":"x"})", R"({"a":1.50,"b":"x"})"},
         {R"({"type":"array"})", " [1, 2] ", "[1,2]"},
         {R"({"type":"array"})", R"({"a":1})", R"({"a":1})"},  // nothing fits: JSON all the same
         {R"({"type":"object"})", "{'a': 1}", R"("{'a': 1}")"},
         {R"({"type":"object"})", "{", R"("{")"},
         {R"({"type":["object","string"]})", "[1]", R"("[1]")"},
         {R"({"type":["object","string"]})", R"({"a":1})", R"({"a":1})"},
         {R"({"type":["array","string"]})", "12", R"("12")"}});
}

TEST(ToolSchema, coercion_reaches_into_containers) {
  constexpr std::string_view kSchema = R"({"type":"object","properties":{
      "i":{"type":"integer"},"s":{"type":"string"},"u":{"type":["integer","string"]},
      "l":{"type":"array","items":{"type":"boolean"}}}})";
  check({{kSchema, R"({"i":"3","s":"4","u":"5","x":"6"})", R"({"i":3,"s":"4","u":"5","x":"6"})"},
         {kSchema, R"({"i":3.0,"s":1,"l":["true","no",0]})", R"({"i":3,"s":1,"l":[true,"no",0]})"},
         {R"({"$ref":"#/$defs/Tree"})", R"({"kids":[{"n":"1","kids":[{"n":2.0}]}]})",
          R"({"kids":[{"n":1,"kids":[{"n":2}]}]})"}});
}

TEST(ToolSchema, branches_and_references_add_their_kinds) {
  check({{R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", "3", "3"},
         {R"({"anyOf":[{"type":"integer"},{"type":"null"}]})", "null", "null"},
         {R"({"oneOf":[{"type":"string"},{"type":"array"}]})", "[]", "[]"},
         {R"({"allOf":[{"allOf":[{"type":"boolean"}]}]})", "true", "true"},
         {R"({"$ref":"#/$defs/N"})", "4", "4"},
         {R"({"anyOf":[{"$ref":"#/$defs/N"},{"type":"string"}]})", "4", "4"},
         {R"({"anyOf":[{"$ref":"#/$defs/N"},{"type":"string"}]})", "x", R"("x")"},
         {R"({"$ref":"#/$defs/a~1b~0c"})", "true", "true"},
         {R"({"$ref":"#/$defs/Loop"})", "4", "4"},
         {R"({"$ref":"#/nowhere"})", "x", R"("x")"},
         {R"({"$ref":"https://example.org/s"})", "x", R"("x")"}});
}

TEST(ToolSchema, aliases_of_type_names) {
  check({{R"({"type":"int"})", "3", "3"},
         {R"({"type":"Float"})", "2.5", "2.5"},
         {R"({"type":"bool"})", "true", "true"},
         {R"({"type":"dict"})", "{}", "{}"},
         {R"({"type":"list"})", "[]", "[]"},
         {R"({"type":"str"})", "3", R"("3")"}});
}

TEST(ToolSchema, a_schema_without_kinds_takes_json_or_text) {
  check({{"{}", "3", "3"},
         {"{}", "[1]", "[1]"},
         {"{}", "three", R"("three")"},
         {R"({"type":"thing"})", "{\"a\":1}", R"({"a":1})"}});
  // No schema at all: text.
  EXPECT_EQ(ToolSchema(nullptr).coerce("k", "3"), "\"3\"");
  const Json nothing = parsed("[1]");
  EXPECT_EQ(ToolSchema(&nothing).coerce("k", "3"), "\"3\"");
}

TEST(ToolSchema, forms) {
  using Form = ToolSchema::Form;
  EXPECT_EQ(form(R"({"type":"string"})"), Form::string);
  EXPECT_EQ(form(R"({"enum":["a"]})"), Form::string);
  EXPECT_EQ(form(R"({"type":["string","null"]})"), Form::string_or_null);
  EXPECT_EQ(form(R"({"anyOf":[{"type":"string"},{"type":"null"}]})"), Form::string_or_null);
  EXPECT_EQ(form(R"({"type":["string","integer"]})"), Form::when_complete);
  EXPECT_EQ(form(R"({"type":"null"})"), Form::when_complete);
  EXPECT_EQ(form("{}"), Form::when_complete);
  EXPECT_EQ(ToolSchema(nullptr).form("k"), Form::string);
}

TEST(ToolSchema, json_inside_json_does_not_grow_deeper_than_a_parsed_tree) {
  std::string text = "3";
  for (int layer = 0; layer < 6; ++layer) {
    const std::string inner = to_json(Json::string(text));
    text = std::string(100, '[') + inner + std::string(100, ']');
  }
  const std::string json = coerced(R"({"type":"array","items":{"$ref":"#/properties/k"}})", text);
  const auto depth = parse_json(json, "result", {.max_depth = JsonLimits().max_depth});
  EXPECT_TRUE(depth.ok()) << depth.error().message;
}

TEST(ToolSet, names_wrapped_and_flat) {
  const Json tools = parsed(R"([{"type":"function","function":{"name":"a","parameters":
      {"properties":{"k":{"type":"integer"}}}}},{"name":"bc"},{"function":null},7,{"name":""},
      {"name":"a"}])");
  const ToolSet set(&tools);
  ASSERT_NE(set.find("a"), nullptr);
  EXPECT_EQ(set.find("a")->coerce("k", "1"), "1");
  EXPECT_NE(set.find("bc"), nullptr);
  EXPECT_EQ(set.find("b"), nullptr);
  EXPECT_EQ(set.find(""), nullptr);
  EXPECT_TRUE(set.has_prefix("b"));
  EXPECT_TRUE(set.has_prefix(""));
  EXPECT_FALSE(set.has_prefix("bcd"));
  EXPECT_FALSE(set.has_prefix("ab"));
  EXPECT_TRUE(ToolSet(nullptr).empty());
}

}  // namespace
}  // namespace yoke::engine
