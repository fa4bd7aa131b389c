// A chat request's body → the tokens to generate from, or the error. Runs on the worker pool: it
// parses, renders and tokenises, which takes long for large bodies. A pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/sampling/sampling.h"
#include "engine/tokenizer/tokenizer.h"
#include "server/api/chat_request.h"

namespace yoke::server {

struct PromptLimits {
  int32_t max_model_len = 0;                    ///< L: prompt and answer together
  std::optional<int64_t> default_max_tokens{};  ///< of the checkpoint, for silent requests
  int64_t max_tokens = 0;                       ///< of the operator; 0 = none
  bool strict_max_tokens = false;               ///< refuse instead of lowering
};

struct PreparedChat {
  ChatRequest request;
  std::vector<int32_t> prompt;
  std::vector<int32_t> boundaries;  ///< token offsets where messages end
  bool starts_in_reasoning = false;
  bool thinking = true;  ///< the prompt does not switch thinking off
  int32_t max_tokens = 0;
  engine::SamplingParams sampling;
  int64_t seed = 0;  ///< as the client sees it
};

std::variant<PreparedChat, ApiError> prepare_chat(std::string_view body, const ChatContext& context,
                                                  const PromptLimits& limits,
                                                  const engine::Tokenizer& tokenizer,
                                                  const engine::SamplingParams& defaults);

/// How many tokens may be generated, or the error (spec/api.md 2.9). `asked`: max_tokens.
std::variant<int32_t, ApiError> generation_limit(int64_t prompt_tokens,
                                                 std::optional<int64_t> asked,
                                                 const PromptLimits& limits);

/// The request's fields over the defaults.
engine::SamplingParams merged_sampling(const SamplingFields& fields,
                                       const engine::SamplingParams& defaults, int64_t seed);

}  // namespace yoke::server
