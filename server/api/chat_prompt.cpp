#include "server/api/chat_prompt.h"

#include <algorithm>
#include <utility>

#include "engine/chat/render.h"
#include "server/api/ids.h"

namespace yoke::server {

namespace {

using engine::Json;

/// A prefix of so many bytes per token of context tells whether a huge prompt is too long.
constexpr size_t kProbeBytesPerToken = 8;
/// Tokens by which the probe must exceed the context: its cut may split a token or two.
constexpr int64_t kProbeMargin = 1024;

ApiError too_long(int64_t tokens, bool at_least, const PromptLimits& limits) {
  ApiError error{ApiCode::context_length_exceeded,
                 "This model's maximum context length is " + std::to_string(limits.max_model_len) +
                     " tokens. However, your messages resulted in " +
                     (at_least ? "more than " : "") + std::to_string(tokens) +
                     " tokens. Please shorten the messages.",
                 "messages"};
  error.numbers = {{"n_prompt_tokens", tokens}, {"n_ctx", limits.max_model_len}};
  return error;
}

/// The error of a prompt that cannot fit, found without tokenising all of it.
std::optional<ApiError> certainly_too_long(const engine::RenderedChat& chat,
                                           const PromptLimits& limits,
                                           const engine::Tokenizer& tokenizer) {
  const auto context = static_cast<size_t>(limits.max_model_len);
  const size_t longest = std::max<size_t>(1, tokenizer.longest_token_bytes());
  if (chat.text.size() / longest > context)
    return too_long(static_cast<int64_t>(chat.text.size() / longest), true, limits);
  size_t end = kProbeBytesPerToken * (context + static_cast<size_t>(kProbeMargin));
  if (chat.text.size() <= end) return std::nullopt;
  while (end > 0 && (static_cast<unsigned char>(chat.text[end]) & 0xC0) == 0x80) --end;
  std::vector<engine::ByteRange> literal;
  for (const engine::ByteRange& range : chat.literal)
    if (range.begin < end) literal.push_back({range.begin, std::min(range.end, end)});
  const auto probe = tokenizer.encode(std::string_view(chat.text).substr(0, end), literal);
  if (!probe.ok()) return std::nullopt;  // the whole will say it better
  const auto tokens = static_cast<int64_t>(probe->ids.size());
  if (tokens <= limits.max_model_len + kProbeMargin) return std::nullopt;
  return too_long(tokens - kProbeMargin, true, limits);
}

ApiError render_error(const config::Error& error) {
  switch (error.kind) {
    case config::ErrorKind::exhausted:
      return {ApiCode::context_length_exceeded, error.message, "messages"};
    case config::ErrorKind::unsupported:
      return {ApiCode::unsupported_content, error.message, "messages"};
    case config::ErrorKind::invalid_input:
      return {ApiCode::invalid_value, error.message, "messages"};
    default:
      return {ApiCode::internal_error, error.message};
  }
}

const Json* unless_null(const Json& value) {
  return value.is_null() ? nullptr : &value;
}

config::Result<engine::RenderedChat> render(const ChatRequest& request) {
  const Json generation = Json::boolean(request.add_generation_prompt);
  engine::ChatInput input;
  input.messages = &request.messages;
  input.tools = unless_null(request.tools);
  input.reasoning_effort = unless_null(request.effort);
  input.clear_thinking = unless_null(request.clear_thinking);
  input.add_generation_prompt = &generation;
  input.thinking = unless_null(request.thinking);
  input.enable_thinking = unless_null(request.enable_thinking);
  return engine::render_chat(input);
}

bool is_thinking(const ChatRequest& request) {
  if (request.thinking.is_null() && request.enable_thinking.is_null()) return true;
  return request.thinking.truthy() || request.enable_thinking.truthy();
}

/// Byte offsets that begin a token, as token offsets.
std::vector<int32_t> token_boundaries(const std::vector<size_t>& bytes,
                                      const engine::Tokenizer::Encoded& encoded, size_t text_size) {
  std::vector<int32_t> out;
  for (const size_t byte : bytes) {
    const auto at = std::lower_bound(encoded.offsets.begin(), encoded.offsets.end(), byte);
    const bool at_end = at == encoded.offsets.end();
    if (at_end ? byte != text_size : *at != byte) continue;
    out.push_back(static_cast<int32_t>(at - encoded.offsets.begin()));
  }
  return out;
}

}  // namespace

std::variant<int32_t, ApiError> generation_limit(int64_t prompt_tokens,
                                                 std::optional<int64_t> asked,
                                                 const PromptLimits& limits) {
  const int64_t room = limits.max_model_len - prompt_tokens;
  if (room <= 0) return too_long(prompt_tokens, false, limits);
  if (asked && *asked > room && limits.strict_max_tokens) {
    ApiError error{ApiCode::context_length_exceeded,
                   "This model's maximum context length is " +
                       std::to_string(limits.max_model_len) + " tokens. However, you requested " +
                       std::to_string(*asked) + " tokens after " + std::to_string(prompt_tokens) +
                       " tokens of messages. Please lower max_tokens.",
                   "max_tokens"};
    error.numbers = {{"n_prompt_tokens", prompt_tokens}, {"n_ctx", limits.max_model_len}};
    return error;
  }
  int64_t most = asked ? *asked : limits.default_max_tokens.value_or(room);
  if (limits.max_tokens > 0) most = std::min(most, limits.max_tokens);
  return static_cast<int32_t>(std::min(most, room));
}

engine::SamplingParams merged_sampling(const SamplingFields& fields,
                                       const engine::SamplingParams& defaults, int64_t seed) {
  engine::SamplingParams out = defaults;
  out.temperature = fields.temperature.value_or(out.temperature);
  out.top_p = fields.top_p.value_or(out.top_p);
  out.top_k = fields.top_k.value_or(out.top_k);
  out.min_p = fields.min_p.value_or(out.min_p);
  out.presence_penalty = fields.presence_penalty.value_or(out.presence_penalty);
  out.frequency_penalty = fields.frequency_penalty.value_or(out.frequency_penalty);
  out.repetition_penalty = fields.repetition_penalty.value_or(out.repetition_penalty);
  out.logit_bias = fields.logit_bias;
  out.seed = static_cast<uint64_t>(seed);
  return out;
}

std::variant<PreparedChat, ApiError> prepare_chat(std::string_view body, const ChatContext& context,
                                                  const PromptLimits& limits,
                                                  const engine::Tokenizer& tokenizer,
                                                  const engine::SamplingParams& defaults) {
  ParsedChat parsed = parse_chat_request(body, context);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  PreparedChat out;
  out.request = std::get<ChatRequest>(std::move(parsed));
  const auto chat = render(out.request);
  if (!chat) return render_error(chat.error());
  // The trees are many times the body's size, and the answer needs neither.
  out.request.messages = {};
  out.request.tools = {};
  if (auto error = certainly_too_long(*chat, limits, tokenizer)) return std::move(*error);
  auto encoded = tokenizer.encode(chat->text, chat->literal);
  if (!encoded) return render_error(encoded.error());
  const auto limit =
      generation_limit(static_cast<int64_t>(encoded->ids.size()), out.request.max_tokens, limits);
  if (const auto* error = std::get_if<ApiError>(&limit)) return *error;
  out.max_tokens = std::get<int32_t>(limit);
  out.boundaries = token_boundaries(chat->boundaries, *encoded, chat->text.size());
  out.prompt = std::move(encoded->ids);
  out.starts_in_reasoning = chat->starts_in_reasoning;
  out.thinking = is_thinking(out.request);
  out.seed = out.request.sampling.seed ? *out.request.sampling.seed : random_seed();
  out.sampling = merged_sampling(out.request.sampling, defaults, out.seed);
  return out;
}

}  // namespace yoke::server
