// Any sequence of tags, control tokens and bytes, with any options: the stream keeps the promises
// that Collector checks, does not depend on the steps, and equals the parser that sees everything
// at once; a tokenizer without tokens for the tags gives the same.
//
// First byte: options. Second byte: tools. Then one token per byte: 0–7 tags, 8–11 control tokens,
// 12 a newline, 13 and 14 tool names, 15 the next byte as it is, else the byte itself.
#include <algorithm>
#include <cstdint>

#include "engine/chat/output_parser_testing.h"
#include "engine/tokenizer/byte_alphabet.h"

using namespace yoke::engine;
using namespace yoke::engine::testing;

namespace {

constexpr std::string_view kControls[] = {"<|user|>", "<|assistant|>", "<|observation|>",
                                          "[gMASK]"};
constexpr int32_t kFirstTag = 256;
constexpr int32_t kFirstControl = kFirstTag + static_cast<int32_t>(kTagCount);

/// A token per byte, the control tokens, and the tags if wanted.
Tokenizer make_tokenizer(bool tags) {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string symbol;
    append_utf8(symbol, byte_symbol(static_cast<uint8_t>(byte)));
    vocabulary.set(symbol, Json::integer(byte));
  }
  Json::Array added;
  const auto add = [&](int32_t id, std::string_view content, bool special) {
    added.push_back(Json::object({{"id", Json::integer(id)},
                                  {"content", Json::string(std::string(content))},
                                  {"single_word", Json::boolean(false)},
                                  {"lstrip", Json::boolean(false)},
                                  {"rstrip", Json::boolean(false)},
                                  {"normalized", Json::boolean(false)},
                                  {"special", Json::boolean(special)}}));
  };
  for (int32_t i = 0; tags && i < static_cast<int32_t>(kTagCount); ++i) {
    add(kFirstTag + i, tag_text(static_cast<Tag>(i)), false);
  }
  for (int32_t i = 0; i < 4; ++i) add(kFirstControl + i, kControls[i], true);
  auto file = parse_json(R"({"version":"1.0","truncation":null,"padding":null,"normalizer":null,
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"Regex":"\\s+|\\S+"},"behavior":"Isolated","invert":false},
      {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},
    "post_processor":null,
    "decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
    "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
      "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":true,
      "merges":[]}})",
                         "tokenizer");
  YOKE_CHECK(file.ok(), "the fuzzer's tokenizer is no JSON");
  file->set("added_tokens", Json::array(std::move(added)));
  file->find("model")->set("vocab", std::move(vocabulary));
  auto tokenizer = Tokenizer::parse(to_json(*file), "fuzz");
  YOKE_CHECK(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
  return *std::move(tokenizer);
}

const Json& tools_of(uint8_t choice) {
  static const std::vector<Json> kTools = [] {
    std::vector<Json> all;
    for (const char* text : {
             R"([{"name":"get","parameters":{"properties":{
                 "s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},
                 "b":{"type":"boolean"},"z":{"type":["string","null"]},"o":{"type":"object",
                 "properties":{"i":{"type":"integer"},"o":{"$ref":"#/properties/o"}}},
                 "a":{"type":"array","items":{"type":"integer"}},"u":{}}}},
                {"type":"function","function":{"name":"get_time"}}])",
             R"([{"name":"get"},{"name":"get_time","parameters":{"properties":{
                 "i":{"anyOf":[{"type":"integer"},{"$ref":"#/properties/i"}]},
                 "a":{"type":["array","string"]}}}},{"name":"g"}])",
             "[]",
         }) {
      all.push_back(*parse_json(text, "tools"));
    }
    return all;
  }();
  return kTools[choice % kTools.size()];
}

struct Tokens {
  std::vector<int32_t> ids;
  Script script;
  std::string text;  // tags spelled out
  bool controls = false;
};

Tokens read_tokens(const uint8_t* data, size_t size) {
  Tokens out;
  const auto add_text = [&](std::string_view bytes) {
    for (const char c : bytes) out.ids.push_back(static_cast<uint8_t>(c));
    out.script.emplace_back(std::string(bytes));
    out.text += bytes;
  };
  for (size_t i = 0; i < size; ++i) {
    const uint8_t byte = data[i];
    if (byte < kTagCount) {
      out.ids.push_back(kFirstTag + byte);
      out.script.emplace_back(static_cast<Tag>(byte));
      out.text += tag_text(static_cast<Tag>(byte));
    } else if (byte < 12) {
      out.ids.push_back(kFirstControl + byte - 8);
      out.controls = true;
    } else if (byte < 15) {
      add_text(byte == 12 ? "\n" : byte == 13 ? "get" : "get_time");
    } else {
      if (byte == 15 && i + 1 < size) ++i;
      add_text(std::string(1, static_cast<char>(data[i])));
    }
  }
  return out;
}

Outcome stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
               const OutputParserOptions& options, size_t step, bool cut) {
  OutputParser parser(tokenizer, options);
  Collector collector;
  std::vector<OutputEvent> events;
  for (size_t i = 0; i < ids.size(); ++i) {
    parser.feed(ids[i], events);
    if ((i + 1) % step != 0) continue;
    collector.take(events);
    events.clear();
  }
  parser.finish(cut, events);
  collector.take(events);
  YOKE_CHECK(parser.complete_calls() <= static_cast<int32_t>(collector.outcome().calls.size()),
             "more complete calls than calls");
  return collector.outcome();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer with_tags = make_tokenizer(true);
  static const Tokenizer without_tags = make_tokenizer(false);
  if (size < 2) return 0;
  size = std::min<size_t>(size, 1000);
  OutputParserOptions options;
  options.starts_in_reasoning = (data[0] & 1) != 0;
  options.thinking = (data[0] & 2) != 0;
  options.extract_calls = (data[0] & 4) == 0;
  options.single_call = (data[0] & 8) != 0;
  const bool cut = (data[0] & 16) != 0;
  options.tools = &tools_of(data[1]);

  const Tokens tokens = read_tokens(data + 2, size - 2);
  const Outcome streamed = stream(with_tags, tokens.ids, options, 1, cut);
  YOKE_CHECK(stream(with_tags, tokens.ids, options, 3, cut) == streamed, "steps matter");
  YOKE_CHECK(stream(with_tags, tokens.ids, options, size, cut) == streamed, "steps matter");
  if (tokens.controls) return 0;  // they break text where a script has no place for it
  YOKE_CHECK(agrees(streamed, WholeParser(tokens.script, options, cut).run()),
             "streamed is not whole");

  std::vector<int32_t> spelled;
  for (const char c : tokens.text) spelled.push_back(static_cast<uint8_t>(c));
  const Script script = script_of(tokens.text);
  YOKE_CHECK(agrees(stream(without_tags, spelled, options, 2, cut),
                    WholeParser(script, options, cut).run()),
             "spelled tags mean something else");
  return 0;
}
