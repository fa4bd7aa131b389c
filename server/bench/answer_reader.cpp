#include "server/bench/answer_reader.h"

namespace yoke::server {

using engine::Json;

namespace {

int64_t number(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value == nullptr ? 0 : value->to_int64().value_or(0);
}

bool has_text(const Json& delta, std::string_view key) {
  const Json* value = delta.find(key);
  return value != nullptr && value->is_string() && !value->as_string().empty();
}

bool has_output(const Json& delta) {
  for (const char* key : {"content", "reasoning_content", "reasoning", "reasoning_text"})
    if (has_text(delta, key)) return true;
  const Json* calls = delta.find("tool_calls");
  return calls != nullptr && calls->is_array() && !calls->items().empty();
}

}  // namespace

std::string error_text(std::string_view body) {
  constexpr size_t kShown = 200;
  if (const auto json = engine::parse_json(body, "error body"); json.ok()) {
    const Json* error = json->find("error");
    const Json* message = error == nullptr ? nullptr : error->find("message");
    if (message != nullptr && message->is_string()) return message->as_string();
  }
  return std::string(body.substr(0, kShown));
}

void AnswerReader::feed(std::string_view bytes, config::TimePoint now) {
  std::vector<std::string> events;
  events_.feed(bytes, events);
  for (const std::string& data : events) event(data, now);
  if (events_.overflowed() && record_.failure.empty())
    record_.failure = "an event of more than 16 MiB";
}

void AnswerReader::event(std::string_view data, config::TimePoint now) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const auto json = engine::parse_json(data, "event");
  if (!json.ok()) {
    if (record_.failure.empty()) record_.failure = json.error().message;
    return;
  }
  if (json->find("error") != nullptr) {
    if (record_.failure.empty()) record_.failure = error_text(data);
    return;
  }
  const Json* running = json->find("usage");
  const bool counts = running != nullptr && running->is_object();
  if (counts) usage(*running);
  const Json* choices = json->find("choices");
  if (choices == nullptr || !choices->is_array() || choices->items().empty()) return;
  const Json& choice = choices->items().front();
  const Json* reason = choice.find("finish_reason");
  if (reason != nullptr && reason->is_string()) record_.finish_reason = reason->as_string();
  const Json* delta = choice.find("delta");
  if (delta == nullptr || !has_output(*delta)) return;
  record_.ended = now;
  // One read may hold several events: they came together.
  if (!record_.pieces.empty() && record_.pieces.back().at == now) {
    if (counts) record_.pieces.back().tokens = record_.output_tokens;
    return;
  }
  AnswerPiece piece{now, std::nullopt};
  if (counts) piece.tokens = record_.output_tokens;
  record_.pieces.push_back(piece);
}

void AnswerReader::usage(const Json& usage) {
  has_usage_ = true;
  record_.prompt_tokens = number(usage, "prompt_tokens");
  record_.output_tokens = number(usage, "completion_tokens");
  if (const Json* details = usage.find("prompt_tokens_details"))
    record_.cached_tokens = number(*details, "cached_tokens");
}

void AnswerReader::finish(config::TimePoint now) {
  if (record_.pieces.empty()) record_.ended = now;
  // An endpoint without usage: one piece, one token.
  if (!has_usage_) record_.output_tokens = static_cast<int64_t>(record_.pieces.size());
  if (!record_.failure.empty()) return;
  if (!done_) {
    record_.failure = "the stream ended without [DONE]";
  } else if (record_.finish_reason.empty()) {
    record_.failure = "the stream has no finish_reason";
  }
}

}  // namespace yoke::server
