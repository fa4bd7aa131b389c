// The many names of one wish: how much the model shall think (spec/api.md 2.2, tokenizer_chat.md
// 3).
#pragma once

#include <string>
#include <string_view>

#include "server/api/fields.h"

namespace yoke::server {

struct Thinking {
  Json effort;           ///< "low", "high" or "max": what the template knows
  Json thinking;         ///< null = not passed
  Json enable_thinking;  ///< null = not passed
  Json clear_thinking;   ///< null = not passed
  bool include_reasoning = true;
};

/// Reads reasoning_effort, reasoning, thinking, enable_thinking, include_reasoning and
/// chat_template_kwargs (alias template_vars), whose keys win over the others.
Thinking thinking_switches(Fields& fields, std::string_view default_effort);

/// minimal, low → "low"; medium, high → "high"; xhigh, max → "max"; none → ""; other → nullptr.
const char* template_effort(std::string_view effort) noexcept;

}  // namespace yoke::server
