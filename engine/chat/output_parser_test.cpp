#include "engine/chat/output_parser.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "engine/chat/output_parser_testing.h"

namespace yoke::engine {
namespace {

using testing::agrees;
using testing::begins_json_object;
using testing::Collector;
using testing::Item;
using testing::Outcome;
using testing::Script;
using testing::script_of;
using testing::WholeParser;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// nano's tokenizer: every tag is a token.
const Tokenizer& with_tags() {
  static const auto tokenizer =
      Tokenizer::load(std::string(YOKE_SOURCE_DIR) + "/tools/nano/tokenizer.json");
  YOKE_CHECK(tokenizer.ok(), "nano's tokenizer does not load");
  return *tokenizer;
}

/// The same without tokens for the tags, as for a tokenizer of another family.
const Tokenizer& without_tags() {
  static const auto tokenizer = [] {
    auto json = parse_json(read_file(std::string(YOKE_SOURCE_DIR) + "/tools/nano/tokenizer.json"),
                           "tokenizer");
    YOKE_CHECK(json.ok(), "nano's tokenizer is no JSON");
    Json::Array& added = json->find("added_tokens")->items();
    std::erase_if(added, [](const Json& token) {
      const Script script = script_of(token.find("content")->as_string());
      return std::holds_alternative<Tag>(script.front());
    });
    return Tokenizer::parse(to_json(*json), "without tags");
  }();
  YOKE_CHECK(tokenizer.ok(), "the tokenizer without tags does not load");
  return *tokenizer;
}

Json tools_of(std::string_view text) {
  auto parsed = parse_json(text, "tools");
  YOKE_CHECK(parsed.ok(), "bad tools in a test");
  return *std::move(parsed);
}

const Json& weather_tools() {
  static const Json tools = tools_of(R"([
    {"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{
      "city":{"type":"string"},"days":{"type":"integer"},"note":{"type":["string","null"]},
      "where":{"type":"object"}}}}},
    {"type":"function","function":{"name":"get_time"}},
    {"name":"get","parameters":{"properties":{"k":{"type":"string"}}}}])");
  return tools;
}

OutputParserOptions with_tools(const Json& tools = weather_tools()) {
  OutputParserOptions options;
  options.tools = &tools;
  return options;
}

OutputParserOptions no_thinking() {
  OutputParserOptions options = with_tools();
  options.starts_in_reasoning = false;
  options.thinking = false;
  return options;
}

/// Ids of a text in which every added token's text is that token.
std::vector<int32_t> ids_of(std::string_view text) {
  return *with_tags().encode_ids(text);
}
/// Ids of a text spelled by ordinary tokens.
std::vector<int32_t> spelled(std::string_view text) {
  return *with_tags().encode_plain(text);
}

std::vector<int32_t> operator+(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Feeds ids in steps of a size (0: all at once); every step drains its events.
Outcome stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
               const OutputParserOptions& options, size_t step, bool cut) {
  OutputParser parser(tokenizer, options);
  Collector collector;
  std::vector<OutputEvent> events;
  for (size_t i = 0; i < ids.size(); ++i) {
    parser.feed(ids[i], events);
    if (step != 0 && (i + 1) % step == 0) {
      collector.take(events);
      events.clear();
    }
  }
  parser.finish(cut, events);
  collector.take(events);
  return collector.outcome();
}

constexpr size_t kSteps[] = {1, 2, 3, 5, 16, 0};

Outcome parse_ids(const std::vector<int32_t>& ids, const OutputParserOptions& options,
                  bool cut = false) {
  const Outcome whole = stream(with_tags(), ids, options, 0, cut);
  for (const size_t step : kSteps) {
    EXPECT_EQ(to_string(stream(with_tags(), ids, options, step, cut)), to_string(whole))
        << "steps of " << step;
  }
  return whole;
}

std::string parse(std::string_view text, const OutputParserOptions& options = with_tools(),
                  bool cut = false) {
  return to_string(parse_ids(ids_of(text), options, cut));
}

std::string outcome(std::string reasoning, std::string content,
                    std::vector<testing::CallOutcome> calls = {}) {
  return to_string(Outcome{std::move(reasoning), std::move(content), std::move(calls)});
}

// --- reasoning and content ----------------------------------------------------------------------

TEST(OutputParser, reasoning_ends_at_its_tag) {
  EXPECT_EQ(parse("r</think>c"), outcome("r", "c"));
  EXPECT_EQ(parse("r"), outcome("r", ""));
  EXPECT_EQ(parse("r", with_tools(), true), outcome("r", ""));
  EXPECT_EQ(parse(""), outcome("", ""));
  EXPECT_EQ(parse("</think>c"), outcome("", "c"));
}

TEST(OutputParser, newlines_at_the_border_are_trimmed_and_nothing_else) {
  EXPECT_EQ(parse("a\n\nb\n\n\n</think>\n\nc\n"), outcome("a\n\nb", "c\n"));
  EXPECT_EQ(parse("a </think> c"), outcome("a ", " c"));
  EXPECT_EQ(parse("\na</think>\n c"), outcome("\na", " c"));
  EXPECT_EQ(parse("a</think>\n\n\nc"), outcome("a", "\nc"));
  EXPECT_EQ(parse("a\r\n</think>\r\n\r\n\r\nc"), outcome("a", "\r\nc"));
  EXPECT_EQ(parse("a</think>\rc"), outcome("a", "\rc"));
  EXPECT_EQ(parse("a</think>\n\r"), outcome("a", "\r"));
  EXPECT_EQ(parse("a</think>\n \nc"), outcome("a", " \nc"));
  EXPECT_EQ(parse("a\n\n"), outcome("a", ""));
}

TEST(OutputParser, one_step_across_the_border_gives_reasoning_then_content) {  // E1
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of("last</think>first")) parser.feed(id, events);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::get<ReasoningText>(events[0]).text, "last");
  EXPECT_EQ(std::get<ContentText>(events[1]).text, "first");
}

TEST(OutputParser, a_tag_spelled_by_ordinary_tokens_is_text) {  // E6
  EXPECT_EQ(to_string(parse_ids(ids_of("a ") + spelled("</think>") + ids_of(" b</think>c ") +
                                    spelled("</think><think><tool_call>get</tool_call>"),
                                with_tools())),
            outcome("a </think> b", "c </think><think><tool_call>get</tool_call>"));
}

TEST(OutputParser, the_first_end_tag_counts_and_stray_ones_are_swallowed) {  // E3, E6
  EXPECT_EQ(parse("a</think>b</think>c"), outcome("a", "bc"));
  EXPECT_EQ(parse("a<think>b</think>c"), outcome("ab", "c"));
}

TEST(OutputParser, reasoning_can_start_again) {
  EXPECT_EQ(parse("a\n</think>\nb<think>c\n</think>\nd"), outcome("ac", "bd"));
  OutputParserOptions options = with_tools();
  options.starts_in_reasoning = false;
  EXPECT_EQ(parse("b<think>c</think>d", options), outcome("c", "bd"));
}

TEST(OutputParser, with_thinking_off_everything_is_content) {  // E4
  EXPECT_EQ(parse("a<think>b</think>c", no_thinking()), outcome("", "a<think>b</think>c"));
  EXPECT_EQ(parse("</think>\n\na</think>", no_thinking()), outcome("", "a</think>"));
  EXPECT_EQ(parse("<think></think>", no_thinking()), outcome("", "<think></think>"));
  EXPECT_EQ(parse("\n\na", no_thinking()), outcome("", "\n\na"));
}

TEST(OutputParser, role_tokens_and_other_specials_have_no_text) {
  EXPECT_EQ(parse("a<|user|>b<|endoftext|></think>c[gMASK]d<|observation|>"), outcome("ab", "cd"));
  EXPECT_EQ(parse("a</think><tool_call>get<|user|><arg_key>k<sop></arg_key><arg_value>"
                  "1<|assistant|>2</arg_value><eop></tool_call>"),
            outcome("a", "", {{"get", R"({"k":"12"})", true}}));
  EXPECT_EQ(parse("a</think>/nothink<|begin_of_box|>4"), outcome("a", "/nothink<|begin_of_box|>4"));
}

TEST(OutputParser, undefined_ids_are_ignored) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : {-1, with_tags().size(), INT32_MAX, INT32_MIN}) parser.feed(id, events);
  parser.finish(false, events);
  EXPECT_TRUE(events.empty());
}

TEST(OutputParser, reasoning_tokens_count_up_to_the_end_tag) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  const auto reasoning = ids_of("some thought</think>");
  for (const int32_t id : reasoning + ids_of("the answer")) parser.feed(id, events);
  EXPECT_EQ(parser.reasoning_tokens(), static_cast<int64_t>(reasoning.size()));
  EXPECT_FALSE(parser.in_reasoning());
}

// --- calls --------------------------------------------------------------------------------------

constexpr std::string_view kCity =
    "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>";

TEST(OutputParser, calls_become_json) {
  EXPECT_EQ(parse("r</think>" + std::string(kCity)),
            outcome("r", "", {{"get_weather", R"({"city":"Paris"})", true}}));
  EXPECT_EQ(parse("r</think>\n\n<tool_call>get_time</tool_call>"),
            outcome("r", "", {{"get_time", "{}", true}}));
  EXPECT_EQ(parse("r</think>I look.\n" + std::string(kCity)),
            outcome("r", "I look.\n", {{"get_weather", R"({"city":"Paris"})", true}}));
}

TEST(OutputParser, a_call_ends_reasoning_implicitly) {
  EXPECT_EQ(parse("r\n" + std::string(kCity) + "x"),
            outcome("r", "x", {{"get_weather", R"({"city":"Paris"})", true}}));
}

TEST(OutputParser, newline_separated_style_is_accepted) {
  EXPECT_EQ(
      parse("r</think>\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris"
            "</arg_value>\n<arg_key> days </arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
            "\n<tool_call>\nget_time\n</tool_call>\n"),
      outcome("r", "",
              {{"get_weather", R"({"city":"Paris","days":3})", true}, {"get_time", "{}", true}}));
}

TEST(OutputParser, string_values_are_raw) {  // C16
  EXPECT_EQ(parse("<tool_call>get_weather<arg_key>city</arg_key><arg_value> \n\"Zürich\"\t\\ "
                  "</arg_value></tool_call>"),
            outcome("", "", {{"get_weather", R"({"city":" \n\"Zürich\"\t\\ "})", true}}));
  EXPECT_EQ(parse("<tool_call>get<arg_key>k</arg_key><arg_value></arg_value></tool_call>"),
            outcome("", "", {{"get", R"({"k":""})", true}}));
}

TEST(OutputParser, unknown_parameters_and_tools_without_schema_hold_strings) {
  EXPECT_EQ(
      parse("<tool_call>get_weather<arg_key>zzz</arg_key><arg_value>3</arg_value></tool_call>"
            "<tool_call>get_time<arg_key>a</arg_key><arg_value>true</arg_value></tool_call>"),
      outcome("", "",
              {{"get_weather", R"({"zzz":"3"})", true}, {"get_time", R"({"a":"true"})", true}}));
}

TEST(OutputParser, values_may_hold_tags_of_other_kinds) {
  EXPECT_EQ(
      parse("<tool_call>get<arg_key>k</arg_key><arg_value><think>a</think> <tool_call>b"
            "<arg_key>c</arg_key><arg_value>d</arg_value></tool_call>"),
      outcome("", "",
              {{"get", R"({"k":"<think>a</think> <tool_call>b<arg_key>c</arg_key><arg_value>d"})",
                true}}));
  EXPECT_EQ(to_string(parse_ids(ids_of("<tool_call>get<arg_key>k</arg_key><arg_value>") +
                                    spelled("</arg_value></tool_call>") +
                                    ids_of("</arg_value></tool_call>"),
                                with_tools())),
            outcome("", "", {{"get", R"({"k":"</arg_value></tool_call>"})", true}}));
}

TEST(OutputParser, a_repeated_key_keeps_its_first_value) {
  EXPECT_EQ(
      parse("<tool_call>get<arg_key>k</arg_key><arg_value>1</arg_value><arg_key>k</arg_key>"
            "<arg_value>2</arg_value><arg_key>l</arg_key><arg_value>3</arg_value></tool_call>"),
      outcome("", "", {{"get", R"({"k":"1","l":"3"})", true}}));
}

TEST(OutputParser, broken_pairs_are_repaired_or_left_out) {  // C14
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"<arg_key>k</arg_key><arg_value>1", R"({"k":"1"})"},    // no </arg_value>
      {"<arg_key>k<arg_value>1</arg_value>", R"({"k":"1"})"},  // no </arg_key>
      {"<arg_key>a<arg_key>k</arg_key><arg_value>1</arg_value>", R"({"k":"1"})"},
      {"<arg_key>a</arg_key><arg_key>k</arg_key><arg_value>1</arg_value>", R"({"k":"1"})"},
      {"<arg_key>a</arg_value><arg_key>k</arg_key><arg_value>1</arg_value>", R"({"k":"1"})"},
      {"<arg_key>k</arg_key>junk<arg_value>1</arg_value>junk", R"({"k":"1"})"},
      {"<arg_key>k</arg_key>", "{}"},
      {"<arg_key>k", "{}"},
      {"<arg_key></arg_key><arg_value>1</arg_value>", R"({"":"1"})"},
      {"<arg_key>k</arg_key><arg_value>1</arg_value><arg_value>2</arg_value></arg_key>",
       R"({"k":"1"})"},
  };
  for (const auto& [pairs, json] : cases) {
    EXPECT_EQ(parse("<tool_call>get" + std::string(pairs) + "</tool_call>"),
              outcome("", "", {{"get", std::string(json), true}}))
        << pairs;
  }
}

TEST(OutputParser, several_calls_in_one_step_are_complete) {  // C1
  const std::string two = std::string(kCity) + "<tool_call>get_time</tool_call>";
  EXPECT_EQ(parse("r</think>" + two + two), outcome("r", "",
                                                    {{"get_weather", R"({"city":"Paris"})", true},
                                                     {"get_time", "{}", true},
                                                     {"get_weather", R"({"city":"Paris"})", true},
                                                     {"get_time", "{}", true}}));
}

TEST(OutputParser, the_events_of_a_call_come_in_order) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of("r</think>" + std::string(kCity))) parser.feed(id, events);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(std::get<ReasoningText>(events[0]).text, "r");
  EXPECT_EQ(std::get<ToolCallBegin>(events[1]).name, "get_weather");
  EXPECT_EQ(std::get<ToolCallBegin>(events[1]).index, 0);
  EXPECT_EQ(std::get<ToolCallArguments>(events[2]).json, R"({"city":"Paris"})");
  EXPECT_EQ(std::get<ToolCallEnd>(events[3]).index, 0);
}

TEST(OutputParser, the_header_waits_for_the_whole_name) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of("<tool_call>get_weather")) parser.feed(id, events);
  EXPECT_TRUE(events.empty());
  EXPECT_TRUE(parser.in_call());
  parser.feed(ids_of("<arg_key>").front(), events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<ToolCallBegin>(events[0]).name, "get_weather");
}

TEST(OutputParser, a_long_string_argument_arrives_in_many_pieces) {  // C9
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of("<tool_call>get_weather<arg_key>city</arg_key><arg_value>")) {
    parser.feed(id, events);
  }
  EXPECT_EQ(std::get<ToolCallArguments>(events.back()).json, R"({"city":")");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line \"" + std::to_string(i) + "\"\n";
  std::string joined;
  for (const int32_t id : spelled(text)) {
    events.clear();
    parser.feed(id, events);
    ASSERT_EQ(events.size(), 1u);  // ASCII text: nothing is held back
    joined += std::get<ToolCallArguments>(events[0]).json;
  }
  std::string expected;
  append_json_escaped(expected, text);
  EXPECT_EQ(joined, expected);
}

TEST(OutputParser, nullable_strings_stream_as_soon_as_they_differ_from_null) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of("<tool_call>get_weather<arg_key>note</arg_key><arg_value>")) {
    parser.feed(id, events);
  }
  const auto feed = [&](std::string_view text) {
    events.clear();
    for (const int32_t id : spelled(text)) parser.feed(id, events);
    return events.empty() ? "" : std::get<ToolCallArguments>(events[0]).json;
  };
  EXPECT_EQ(feed("Nu"), "");
  EXPECT_EQ(feed("ll"), "");
  EXPECT_EQ(feed("s"), "\"Nulls");
  EXPECT_EQ(feed("!"), "!");
  EXPECT_EQ(parse("<tool_call>get_weather<arg_key>note</arg_key><arg_value>NULL</arg_value>"
                  "</tool_call>"),
            outcome("", "", {{"get_weather", R"({"note":null})", true}}));
}

TEST(OutputParser, other_types_are_held_until_complete) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of("<tool_call>get_weather<arg_key>days</arg_key><arg_value>1")) {
    parser.feed(id, events);
  }
  EXPECT_EQ(std::get<ToolCallArguments>(events.back()).json, R"({"days":)");
  events.clear();
  for (const int32_t id : ids_of("2</arg_value>")) parser.feed(id, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<ToolCallArguments>(events[0]).json, "12");
}

// --- what is no call ----------------------------------------------------------------------------

TEST(OutputParser, a_block_that_is_no_call_comes_back_as_text) {  // C16
  for (const std::string_view block : {
           "<tool_call>unknown<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
           "<tool_call>unknown</tool_call>",
           "<tool_call></tool_call>",
           "<tool_call> \n</tool_call>",
           "<tool_call>get_weathers<arg_key>city</arg_key></tool_call>",
           "<tool_call>{\"name\": \"get_time\", \"arguments\": {}}</tool_call>",
           "<tool_call>get_time</arg_value></tool_call>",
           "<tool_call>get_time<think></tool_call>",
           "<tool_call>unknown<arg_key>a</arg_key>",
           "<tool_call>unknown",
       }) {
    EXPECT_EQ(parse("r</think>" + std::string(block)), outcome("r", std::string(block))) << block;
  }
}

TEST(OutputParser, text_goes_on_after_a_block_that_is_no_call) {
  EXPECT_EQ(parse("r</think>a\n<tool_call>nope</tool_call> b <tool_call>get_time</tool_call>"),
            outcome("r", "a\n<tool_call>nope</tool_call> b ", {{"get_time", "{}", true}}));
  EXPECT_EQ(parse("r</think><tool_call>get_ti<tool_call>get_time</tool_call>"),
            outcome("r", "<tool_call>get_ti", {{"get_time", "{}", true}}));
  EXPECT_EQ(parse("r</think><tool_call>nope<arg_key>x<tool_call>get_time</tool_call>"),
            outcome("r", "<tool_call>nope<arg_key>x", {{"get_time", "{}", true}}));
}

TEST(OutputParser, a_wrong_name_is_shown_at_once) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of("</think><tool_call>I will")) parser.feed(id, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(std::get<ContentText>(events[0]).text, "<tool_call>I will");
}

TEST(OutputParser, without_tools_call_tags_are_text) {  // C7
  const std::string text = "a" + std::string(kCity) + "b";
  OutputParserOptions options;
  EXPECT_EQ(parse(text + "</think>" + text, options), outcome(text, text));
  options = with_tools();
  options.extract_calls = false;
  EXPECT_EQ(parse(text + "</think>" + text, options), outcome(text, text));
  const Json none = tools_of("[]");
  EXPECT_EQ(parse(text + "</think> \n" + text, with_tools(none)), outcome(text, " \n" + text));
}

TEST(OutputParser, blank_content_before_the_first_call_is_dropped) {
  EXPECT_EQ(parse("r</think>\n\n \t\n<tool_call>get_time</tool_call>"),
            outcome("r", "", {{"get_time", "{}", true}}));
  EXPECT_EQ(parse("r</think> \u3000 "), outcome("r", " \u3000 "));
  EXPECT_EQ(parse("r</think>\n\n \n a"), outcome("r", " \n a"));
}

TEST(OutputParser, text_after_calls_comes_last_unless_it_is_blank) {
  EXPECT_EQ(
      parse("</think>a <tool_call>get_time</tool_call>\n\n<tool_call>get_time</tool_call> b "
            "<tool_call>get_time</tool_call>\nc\n"),
      outcome("", "a  b \nc\n",
              {{"get_time", "{}", true}, {"get_time", "{}", true}, {"get_time", "{}", true}}));
}

// --- the end ------------------------------------------------------------------------------------

TEST(OutputParser, a_cut_leaves_the_call_open) {
  const std::string head = "r</think><tool_call>get_weather<arg_key>city</arg_key><arg_value>Par";
  EXPECT_EQ(parse(head, with_tools(), true),
            outcome("r", "", {{"get_weather", R"({"city":"Par)", false}}));
  // Also when the model stops by itself in the middle of a value: the rest is unknown.
  EXPECT_EQ(parse(head), outcome("r", "", {{"get_weather", R"({"city":"Par)", false}}));
  EXPECT_EQ(parse(head + "is</arg_value>", with_tools(), true),
            outcome("r", "", {{"get_weather", R"({"city":"Paris")", false}}));
  EXPECT_EQ(parse("r<tool_call>get<arg_key>k", with_tools(), true),
            outcome("r", "", {{"get", "", false}}));
  EXPECT_EQ(parse("r<tool_call>get_weather<arg_key>days</arg_key><arg_value>1", with_tools(), true),
            outcome("r", "", {{"get_weather", R"({"days":)", false}}));
}

TEST(OutputParser, a_cut_inside_a_possible_name_shows_nothing) {
  EXPECT_EQ(parse("r</think>a <tool_call>get_we", with_tools(), true), outcome("r", "a "));
  EXPECT_EQ(parse("r</think>a <tool_call>", with_tools(), true), outcome("r", "a "));
  EXPECT_EQ(parse("r</think>a <tool_call>nope", with_tools(), true),
            outcome("r", "a <tool_call>nope"));
}

TEST(OutputParser, a_forgotten_end_tag_after_whole_pairs_is_added) {
  EXPECT_EQ(parse("<tool_call>get<arg_key>k</arg_key><arg_value>1</arg_value>\n"),
            outcome("", "", {{"get", R"({"k":"1"})", true}}));
  EXPECT_EQ(parse("<tool_call>get_time\n"), outcome("", "", {{"get_time", "{}", true}}));
  EXPECT_EQ(parse("<tool_call>get_ti"), outcome("", "<tool_call>get_ti"));
}

TEST(OutputParser, state_queries_follow_the_output) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  const auto feed = [&](std::string_view text) {
    for (const int32_t id : ids_of(text)) parser.feed(id, events);
  };
  EXPECT_TRUE(parser.in_reasoning());
  feed("</think>");
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_FALSE(parser.in_call());
  feed("<tool_call>get<arg_key>k");
  EXPECT_TRUE(parser.in_call());
  EXPECT_EQ(parser.complete_calls(), 0);
  feed("</arg_key><arg_value>1</arg_value></tool_call>");
  EXPECT_FALSE(parser.in_call());
  EXPECT_EQ(parser.complete_calls(), 1);
  EXPECT_FALSE(parser.wants_stop());
  feed("<tool_call>get<arg_key>k");
  parser.finish(true, events);
  EXPECT_TRUE(parser.in_call());
  EXPECT_EQ(parser.complete_calls(), 1);
}

TEST(OutputParser, single_call_stops_after_the_first) {
  OutputParserOptions options = with_tools();
  options.single_call = true;
  EXPECT_EQ(
      parse("r</think>a<tool_call>nope</tool_call>" + std::string(kCity) + "b" + std::string(kCity),
            options),
      outcome("r", "a<tool_call>nope</tool_call>", {{"get_weather", R"({"city":"Paris"})", true}}));
  OutputParser parser(with_tags(), options);
  std::vector<OutputEvent> events;
  for (const int32_t id : ids_of(kCity)) {
    EXPECT_FALSE(parser.wants_stop());
    parser.feed(id, events);
  }
  EXPECT_TRUE(parser.wants_stop());
}

TEST(OutputParser, nothing_comes_after_the_end) {
  OutputParser parser(with_tags(), with_tools());
  std::vector<OutputEvent> events;
  parser.finish(false, events);
  for (const int32_t id : ids_of("a</think>b")) parser.feed(id, events);
  parser.finish(false, events);
  EXPECT_TRUE(events.empty());
}

// --- characters in pieces -----------------------------------------------------------------------

int32_t byte_token(char byte) {
  static const auto tokens = [] {
    std::vector<int32_t> ids(256, -1);
    for (int32_t id = 0; id < with_tags().size(); ++id) {
      const std::string_view bytes = with_tags().token_bytes(id);
      if (bytes.size() == 1 && !with_tags().is_added(id)) ids[static_cast<uint8_t>(bytes[0])] = id;
    }
    return ids;
  }();
  return tokens[static_cast<uint8_t>(byte)];
}

std::vector<int32_t> byte_ids(std::string_view bytes) {
  std::vector<int32_t> ids;
  for (const char c : bytes) ids.push_back(byte_token(c));
  return ids;
}

TEST(OutputParser, half_characters_wait_and_broken_ones_are_replaced) {  // F6
  const std::string smile = "\U0001F600";
  EXPECT_EQ(to_string(parse_ids(byte_ids(smile) + ids_of("</think>") +
                                    byte_ids("é\xE2\x82"
                                             "x"),
                                with_tools())),
            outcome(smile, "é\xEF\xBF\xBDx"));
  // A tag or a control token breaks a character off; the end does so too.
  EXPECT_EQ(to_string(parse_ids(byte_ids("\xF0\x9F") + ids_of("</think>") + byte_ids("\xF0\x9F") +
                                    ids_of("<|user|>") + byte_ids("\x98\x80\xE2"),
                                with_tools())),
            outcome("\xEF\xBF\xBD", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"));
  EXPECT_EQ(to_string(parse_ids(ids_of("<tool_call>get<arg_key>k</arg_key><arg_value>") +
                                    byte_ids(smile) + byte_ids("\xF0\x9F") +
                                    ids_of("</arg_value></tool_call>"),
                                with_tools())),
            outcome("", "", {{"get", "{\"k\":\"" + smile + "\xEF\xBF\xBD\"}", true}}));
}

// --- tokenizers without tags --------------------------------------------------------------------

TEST(OutputParserSpelledTags, tags_are_found_in_the_text) {
  const std::string text = "r < 3 </thin</think>\nc<" + std::string(kCity) + "<tool_call>get_time" +
                           "</tool_call> d </arg_value> <";
  const auto expected =
      outcome("r < 3 </thin", "c< d </arg_value> <",
              {{"get_weather", R"({"city":"Paris"})", true}, {"get_time", "{}", true}});
  const auto whole = without_tags().encode_plain(text);
  ASSERT_TRUE(whole.ok());
  for (const size_t step : kSteps) {
    EXPECT_EQ(to_string(stream(without_tags(), *whole, with_tools(), step, false)), expected);
    EXPECT_EQ(to_string(stream(without_tags(), byte_ids(text), with_tools(), step, false)),
              expected);
  }
}

TEST(OutputParserSpelledTags, possible_beginnings_are_held_back_only_while_possible) {  // C8
  OutputParser parser(without_tags(), with_tools());
  std::vector<OutputEvent> events;
  const auto feed = [&](std::string_view text) {
    events.clear();
    for (const int32_t id : byte_ids(text)) parser.feed(id, events);
    return events.empty() ? "" : std::get<ReasoningText>(events[0]).text;
  };
  EXPECT_EQ(feed("a</thin"), "a");
  EXPECT_EQ(feed("g"), "</thing");
  EXPECT_EQ(feed("</arg_key>"), "</arg_key>");  // no terminal of this state
  EXPECT_EQ(feed("<<"), "<");
  events.clear();
  parser.finish(true, events);
  EXPECT_EQ(std::get<ReasoningText>(events[0]).text, "<");
}

// --- properties ---------------------------------------------------------------------------------

/// Random output: mostly shaped as the model shapes it, often wrong.
class ScriptMaker {
 public:
  explicit ScriptMaker(uint32_t seed) : random_(seed) {}

  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

  Script make() {
    script_.clear();
    if (below(3) > 0) {
      words();
      add(Tag::think_end);
    }
    for (unsigned n = below(7); n > 0; --n) {
      switch (below(6)) {
        case 0:
        case 1:
          words();
          break;
        case 2:
          add(static_cast<Tag>(below(kTagCount)));
          break;
        default:
          call();
      }
    }
    if (below(4) == 0 && !script_.empty())
      script_.resize(1 + below(static_cast<unsigned>(script_.size())));
    return script_;
  }

 private:
  void add(Item item) {
    if (below(20) == 0) return;  // forgotten
    script_.push_back(std::move(item));
    if (below(40) == 0) script_.emplace_back(static_cast<Tag>(below(kTagCount)));
  }
  void words() {
    static const std::string kWords[] = {
        "a",  " ",        "\n",       "\r",   "\n\n",   "x y",      "\u00e9", "\U0001F600",
        "<",  "</think",  "<tool_",   "\"",   "\\",     "\xF0\x9F", "\x98",   "null",
        "12", "3.0",      "{\"a\":1", "}",    "[1,2]",  "true",     "get",    "_time",
        "\t", "</arg_va", "get_",     "\x01", "\u3000", "city",     "days",   "\xFF",
    };
    std::string text;
    for (unsigned n = 1 + below(4); n > 0; --n) text += kWords[below(std::size(kWords))];
    add(text);
  }
  void call() {
    static const std::string kNames[] = {"get",   "get_time", "get_weather", "get_weather\n",
                                         " get ", "nope",     "get_",        "get_weathers"};
    static const std::string kKeys[] = {"city", "days", "note", "where", "k", "", "x\n"};
    add(Tag::tool_call);
    add(kNames[below(std::size(kNames))]);
    for (unsigned n = below(4); n > 0; --n) {
      add(Tag::arg_key);
      if (const std::string& key = kKeys[below(std::size(kKeys))]; !key.empty()) add(key);
      add(Tag::arg_key_end);
      if (below(4) == 0) add(std::string("\n"));
      add(Tag::arg_value);
      if (below(8) > 0) words();
      add(Tag::arg_value_end);
    }
    add(Tag::tool_call_end);
  }

  std::mt19937 random_;
  Script script_;
};

OutputParserOptions random_options(ScriptMaker& maker) {
  OutputParserOptions options = with_tools();
  options.starts_in_reasoning = maker.below(2) == 0;
  options.thinking = maker.below(3) > 0;
  options.extract_calls = maker.below(8) > 0;
  options.single_call = maker.below(4) == 0;
  return options;
}

/// Ids of a script; text is cut into tokens at random places.
std::vector<int32_t> tokenised(const Tokenizer& tokenizer, const Script& script,
                               ScriptMaker& maker) {
  std::vector<int32_t> ids;
  for (const Item& item : script) {
    const auto* tag = std::get_if<Tag>(&item);
    if (tag != nullptr && tokenizer.added_id(tag_text(*tag))) {
      ids.push_back(*tokenizer.added_id(tag_text(*tag)));
      continue;
    }
    std::string_view text = tag != nullptr ? tag_text(*tag) : std::get<std::string>(item);
    while (!text.empty()) {
      const auto piece = text.substr(0, 1 + maker.below(static_cast<unsigned>(text.size())));
      const auto encoded = tokenizer.encode_plain(piece);
      const auto tokens = encoded.ok() && maker.below(3) > 0 ? *encoded : byte_ids(piece);
      ids.insert(ids.end(), tokens.begin(), tokens.end());
      text.remove_prefix(piece.size());
    }
  }
  return ids;
}

std::string shown(const Script& script) {
  Json::Array items;
  for (const Item& item : script) {
    const auto* tag = std::get_if<Tag>(&item);
    items.push_back(Json::string(tag != nullptr ? "#" + std::string(tag_text(*tag))
                                                : std::get<std::string>(item)));
  }
  return to_json(Json::array(std::move(items)));
}

TEST(OutputParserProperty, streamed_equals_whole_for_every_grouping_and_tokenisation) {
  constexpr uint32_t kSeed = 31;
  ScriptMaker maker(kSeed);
  int calls = 0;
  int open = 0;
  for (int i = 0; i < 4000; ++i) {
    const Script script = maker.make();
    const OutputParserOptions options = random_options(maker);
    const bool cut = maker.below(2) == 0;
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i) + ": " +
                 shown(script));
    const Outcome expected = WholeParser(script, options, cut).run();
    for (const auto& call : expected.calls) ++(call.complete ? calls : open);
    const auto ids = tokenised(with_tags(), script, maker);
    const Outcome first = stream(with_tags(), ids, options, 1, cut);
    ASSERT_TRUE(agrees(first, expected)) << to_string(first) << "\n" << to_string(expected);
    for (const size_t step : kSteps) {
      ASSERT_EQ(stream(with_tags(), ids, options, step, cut), first) << "steps of " << step;
    }
    const auto other = tokenised(with_tags(), script, maker);
    ASSERT_EQ(to_string(stream(with_tags(), other, options, 2, cut)), to_string(first));
  }
  EXPECT_GT(calls, 1000);
  EXPECT_GT(open, 100);
}

TEST(OutputParserProperty, spelled_tags_mean_the_same_as_tokens) {
  constexpr uint32_t kSeed = 32;
  ScriptMaker maker(kSeed);
  for (int i = 0; i < 2000; ++i) {
    // Text of neighbouring pieces may spell a tag: read the script as a text-level reader must.
    std::string text;
    for (const Item& item : maker.make()) {
      const auto* tag = std::get_if<Tag>(&item);
      text += tag != nullptr ? tag_text(*tag) : std::get<std::string>(item);
    }
    const Script script = script_of(text);
    const OutputParserOptions options = random_options(maker);
    const bool cut = maker.below(2) == 0;
    SCOPED_TRACE("seed " + std::to_string(kSeed) + " case " + std::to_string(i) + ": " +
                 shown(script));
    const Outcome expected = WholeParser(script, options, cut).run();
    const Outcome first =
        stream(without_tags(), tokenised(without_tags(), script, maker), options, 1, cut);
    ASSERT_TRUE(agrees(first, expected)) << to_string(first) << "\n" << to_string(expected);
    for (const size_t step : kSteps) {
      const auto ids = tokenised(without_tags(), script, maker);
      ASSERT_EQ(to_string(stream(without_tags(), ids, options, step, cut)), to_string(first));
    }
  }
}

// The collector of all these tests checks arguments with this.
TEST(OutputParserProperty, beginnings_of_objects_are_told_from_other_text) {
  for (const char* text : {"", "{", "{\"a", "{\"a\":", "{\"a\":[1,", "{\"a\":\"x", "{\"a\":1}"}) {
    EXPECT_TRUE(begins_json_object(text)) << text;
  }
  for (const char* text : {"[1", "{\"a\":1}}", "{\"a\":}", "{,", "{\"a\":\"\n", "x"}) {
    EXPECT_FALSE(begins_json_object(text)) << text;
  }
}

}  // namespace
}  // namespace yoke::engine
