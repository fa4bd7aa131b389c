// The body of POST /v1/chat/completions → ChatRequest, or the first error (spec/api.md 2.2 to 2.5).
// A pure function; unknown fields are ignored, `null` is the same as leaving a field out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/json/json.h"
#include "server/api/error.h"

namespace yoke::server {

/// What of the request's sampling was given; the rest comes from defaults.
struct SamplingFields {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
  std::optional<double> min_p;
  std::optional<double> presence_penalty;
  std::optional<double> frequency_penalty;
  std::optional<double> repetition_penalty;
  std::vector<std::pair<int32_t, double>> logit_bias;
  std::optional<int64_t> seed;
};

struct ChatRequest {
  std::string model;      ///< the name that answers carry
  engine::Json messages;  ///< normalised (messages.h)
  engine::Json tools;     ///< for the prompt; null = none
  engine::Json callable;  ///< tools that the answer may call; null = none
  bool single_call = false;

  // Inputs of the template. Null: not passed.
  engine::Json effort;           ///< "low", "high" or "max"
  engine::Json thinking;         ///< chat_template_kwargs.thinking, as sent
  engine::Json enable_thinking;  ///< from any of the switches
  engine::Json clear_thinking;
  bool add_generation_prompt = true;

  bool stream = false;
  bool include_usage = false;
  bool running_usage = false;  ///< stream_options.continuous_usage_stats
  bool include_reasoning = true;
  bool echo_service_tier = false;

  std::optional<int64_t> max_tokens;
  SamplingFields sampling;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_token_ids;
  bool include_stop = false;  ///< include_stop_str_in_output
};

/// What the parser must know of the server.
struct ChatContext {
  std::vector<std::string> model_names;  ///< the first is the main name
  bool accept_any_model = false;
  int32_t vocab_size = 0;
  std::string reasoning_effort = "high";  ///< when the request is silent
};

using ParsedChat = std::variant<ChatRequest, ApiError>;

/// `body`: the bytes of the request.
ParsedChat parse_chat_request(std::string_view body, const ChatContext& context);

}  // namespace yoke::server
