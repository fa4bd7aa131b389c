// Any bytes as the body of a chat request: an error or a request that keeps its promises, never a
// crash. What is accepted goes on through rendering and tokenising.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "config/check.h"
#include "engine/json/json.h"
#include "engine/json/utf8.h"
#include "engine/tokenizer/byte_alphabet.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/chat_prompt.h"
#include "server/api/chat_request.h"

namespace {

using namespace yoke;

constexpr int32_t kContext = 2048;

/// A token per byte and the control tokens of the chat grammar: no file, and fast.
engine::Tokenizer make_tokenizer() {
  engine::Json vocabulary = engine::Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string symbol;
    engine::append_utf8(symbol, engine::byte_symbol(static_cast<uint8_t>(byte)));
    vocabulary.set(symbol, engine::Json::integer(byte));
  }
  engine::Json added = engine::Json::array();
  int32_t next = 256;
  for (const char* content :
       {"[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<think>",
        "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
        "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"}) {
    engine::Json token = engine::Json::object();
    token.set("id", engine::Json::integer(next++));
    token.set("content", engine::Json::string(content));
    for (const char* off : {"single_word", "lstrip", "rstrip", "normalized"})
      token.set(off, engine::Json::boolean(false));
    token.set("special", engine::Json::boolean(true));
    added.items().push_back(std::move(token));
  }
  auto file = engine::parse_json(R"({"version":"1.0","truncation":null,"padding":null,
    "normalizer":null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"Regex":"\\s+|\\S+"},"behavior":"Isolated","invert":false},
      {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},
    "post_processor":null,
    "decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
    "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
      "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":true,
      "merges":[]}})",
                                 "tokenizer");
  YOKE_CHECK(file.ok(), "the fuzzer's tokenizer is no JSON");
  file->set("added_tokens", std::move(added));
  file->find("model")->set("vocab", std::move(vocabulary));
  auto loaded = engine::Tokenizer::parse(engine::to_json(*file), "fuzz");
  YOKE_CHECK(loaded.ok(), "the fuzzer's tokenizer does not load");
  return *std::move(loaded);
}

const engine::Tokenizer& tokenizer() {
  static const engine::Tokenizer instance = make_tokenizer();
  return instance;
}

void check_error(const server::ApiError& error) {
  const auto row = server::error_row(error.code);
  YOKE_CHECK(row.status == 400 || row.status == 404, "a bad request is the client's fault");
  YOKE_CHECK(!error.message.empty(), "an error explains itself");
  const auto body = engine::parse_json(server::error_body(error), "error body");
  YOKE_CHECK(body.ok() && body->find("error") != nullptr, "an error body is JSON");
}

void check_request(const server::ChatRequest& request) {
  YOKE_CHECK(request.messages.is_array() && !request.messages.items().empty(), "messages");
  for (const engine::Json& message : request.messages.items()) {
    const engine::Json* role = message.find("role");
    YOKE_CHECK(role != nullptr && role->is_string(), "every message has a role");
  }
  YOKE_CHECK(!request.max_tokens || *request.max_tokens >= 1, "max_tokens");
  YOKE_CHECK(request.stop.size() <= 16, "stop strings");
  for (const std::string& stop : request.stop) YOKE_CHECK(!stop.empty(), "empty stop string");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const server::ChatContext context{.model_names = {"m"},
                                    .accept_any_model = false,
                                    .vocab_size = tokenizer().size(),
                                    .reasoning_effort = "high"};
  const server::ParsedChat parsed = server::parse_chat_request(body, context);
  if (const auto* error = std::get_if<server::ApiError>(&parsed)) {
    check_error(*error);
    return 0;
  }
  check_request(std::get<server::ChatRequest>(parsed));
  server::PromptLimits limits;
  limits.max_model_len = kContext;
  const auto prepared = server::prepare_chat(body, context, limits, tokenizer(), {});
  if (const auto* error = std::get_if<server::ApiError>(&prepared)) {
    check_error(*error);
    return 0;
  }
  const auto& chat = std::get<server::PreparedChat>(prepared);
  YOKE_CHECK(!chat.prompt.empty(), "a prompt has tokens");
  YOKE_CHECK(chat.max_tokens >= 1, "there is room for a token");
  YOKE_CHECK(static_cast<int32_t>(chat.prompt.size()) + chat.max_tokens <= kContext, "the context");
  for (const int32_t id : chat.prompt)
    YOKE_CHECK(tokenizer().is_defined(id), "a token that the tokenizer does not define");
  for (size_t i = 1; i < chat.boundaries.size(); ++i)
    YOKE_CHECK(chat.boundaries[i - 1] <= chat.boundaries[i], "boundaries ascend");
  return 0;
}
