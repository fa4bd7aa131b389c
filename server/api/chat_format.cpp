#include "server/api/chat_format.h"

#include <utility>

#include "engine/json/json.h"

namespace yoke::server {

namespace {

using engine::append_json_string;

void append_member(std::string& out, std::string_view key, std::string_view text) {
  append_json_string(out, key);
  out += ':';
  append_json_string(out, text);
}

/// `"reasoning_content":"…"`, or both names.
void append_reasoning(std::string& out, std::string_view field, std::string_view text) {
  if (field != "both") return append_member(out, field, text);
  append_member(out, "reasoning_content", text);
  out += ',';
  append_member(out, "reasoning", text);
}

/// `{"id":…,"object":…,"created":…,"model":…,"system_fingerprint":…,` up to the choices.
std::string prefix_of(const AnswerHead& head, std::string_view object) {
  std::string out = "{";
  append_member(out, "id", head.id);
  out += ',';
  append_member(out, "object", object);
  out += ",\"created\":" + std::to_string(head.created) + ",";
  append_member(out, "model", head.model);
  out += ',';
  append_member(out, "system_fingerprint", head.fingerprint);
  if (head.service_tier) out += R"(,"service_tier":"default")";
  return out + ",\"choices\":";
}

std::string usage_object(const Usage& usage) {
  return R"({"prompt_tokens":)" + std::to_string(usage.prompt_tokens) + R"(,"completion_tokens":)" +
         std::to_string(usage.completion_tokens) + R"(,"total_tokens":)" +
         std::to_string(usage.prompt_tokens + usage.completion_tokens) +
         R"(,"prompt_tokens_details":{"cached_tokens":)" + std::to_string(usage.cached_tokens) +
         R"(},"completion_tokens_details":{"reasoning_tokens":)" +
         std::to_string(usage.reasoning_tokens) +
         R"(,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}})";
}

std::string event(std::string json) {
  return "data: " + std::move(json) + "\n\n";
}

std::string delta_object(const Delta& delta, std::string_view reasoning_field) {
  std::string out = "{";
  switch (delta.kind) {
    case Delta::Kind::reasoning:
      append_reasoning(out, reasoning_field, delta.text);
      break;
    case Delta::Kind::content:
      append_member(out, "content", delta.text);
      break;
    case Delta::Kind::call_begin:
      out += R"("tool_calls":[{"index":)" + std::to_string(delta.call_index) + ",";
      append_member(out, "id", delta.call_id);
      out += R"(,"type":"function","function":{)";
      append_member(out, "name", delta.text);
      out += R"(,"arguments":""}}])";
      break;
    case Delta::Kind::call_arguments:
      out += R"("tool_calls":[{"index":)" + std::to_string(delta.call_index) + R"(,"function":{)";
      append_member(out, "arguments", delta.text);
      out += "}}]";
      break;
  }
  return out + "}";
}

}  // namespace

ChunkFormat::ChunkFormat(AnswerHead head, bool with_usage)
    : head_(std::move(head)),
      prefix_(prefix_of(head_, "chat.completion.chunk")),
      with_usage_(with_usage) {}

std::string ChunkFormat::choice(std::string_view delta, std::string_view finish_reason) const {
  std::string out = R"([{"index":0,"delta":)";
  out += delta;
  out += R"(,"logprobs":null,"finish_reason":)";
  if (finish_reason.empty())
    out += "null";
  else
    append_json_string(out, finish_reason);
  return out + "}]";
}

std::string ChunkFormat::chunk(std::string_view choices, std::string_view usage,
                               std::string_view more) const {
  std::string out = prefix_;
  out += choices;
  if (!usage.empty()) {
    out += ",\"usage\":";
    out += usage;
  } else if (with_usage_) {
    out += ",\"usage\":null";
  }
  out += more;
  return event(out + "}");
}

std::string ChunkFormat::role() const {
  return chunk(choice(R"({"role":"assistant","content":null})", ""), "");
}

std::string ChunkFormat::delta(const Delta& delta, const std::optional<Usage>& running) const {
  return chunk(choice(delta_object(delta, head_.reasoning_field), ""),
               running ? usage_object(*running) : "");
}

std::string ChunkFormat::finish(std::string_view finish_reason) const {
  return chunk(choice("{}", finish_reason), "", ",\"seed\":" + std::to_string(head_.seed));
}

std::string ChunkFormat::usage(const Usage& usage) const {
  return chunk("[]", usage_object(usage));
}

std::string ChunkFormat::error(const ApiError& error) {
  return event(error_body(error));
}

void PlainAnswer::add(const Delta& delta) {
  switch (delta.kind) {
    case Delta::Kind::reasoning:
      reasoning_ += delta.text;
      break;
    case Delta::Kind::content:
      content_ += delta.text;
      break;
    case Delta::Kind::call_begin:
      calls_.push_back({delta.call_id, delta.text, ""});
      break;
    case Delta::Kind::call_arguments:
      calls_.back().arguments += delta.text;
      break;
  }
}

std::string PlainAnswer::format(const AnswerHead& head, const Usage& usage,
                                std::string_view finish_reason) const {
  std::string out = prefix_of(head, "chat.completion");
  out += R"([{"index":0,"message":{"role":"assistant","content":)";
  if (content_.empty() && !calls_.empty())
    out += "null";
  else
    append_json_string(out, content_);
  out += ",\"refusal\":null";
  if (!reasoning_.empty()) {
    out += ',';
    append_reasoning(out, head.reasoning_field, reasoning_);
  }
  if (!calls_.empty()) {
    out += ",\"tool_calls\":[";
    for (const Call& call : calls_) {
      if (&call != &calls_.front()) out += ',';
      out += '{';
      append_member(out, "id", call.id);
      out += R"(,"type":"function","function":{)";
      append_member(out, "name", call.name);
      out += ',';
      append_member(out, "arguments", call.arguments);
      out += "}}";
    }
    out += ']';
  }
  out += R"(},"logprobs":null,"finish_reason":)";
  append_json_string(out, finish_reason);
  out += "}],\"usage\":" + usage_object(usage) + ",\"seed\":" + std::to_string(head.seed);
  return out + "}";
}

}  // namespace yoke::server
