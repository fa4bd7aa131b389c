// The chat grammar of GLM-5.3-Flash, native (spec/tokenizer_chat.md 2 and 3). A pure function of
// its input.
#pragma once

#include <string>
#include <vector>

#include "config/result.h"
#include "engine/json/json.h"
#include "engine/tokenizer/tokenizer.h"

namespace yoke::engine {

/// The template's inputs. Pointers may be null (absent); they must outlive the call.
struct ChatInput {
  const Json* messages = nullptr;
  const Json* tools = nullptr;
  const Json* reasoning_effort = nullptr;
  const Json* clear_thinking = nullptr;
  const Json* add_generation_prompt = nullptr;
  /// The Mia switches: when either is present, thinking is on iff one of them is truthy; off drops
  /// the effort line and closes the think block in the generation prompt (spec/tokenizer_chat.md
  /// 3). The server passes these.
  const Json* thinking = nullptr;
  const Json* enable_thinking = nullptr;

  enum class Variant { official, mia };
  Variant variant = Variant::mia;
};

struct RenderedChat {
  std::string text;
  /// What came from the request, sorted and disjoint: control tokens must not be matched inside
  /// (design.md 3).
  std::vector<ByteRange> literal;
  /// Byte offsets where a message ends (after each rendered message or tool run): prefix snapshots
  /// are taken there.
  std::vector<size_t> boundaries;
  /// The generation prompt left a think block open: output starts as reasoning.
  bool starts_in_reasoning = false;
};

/// Errors: what makes the template raise, with the path of the offending value
/// (`messages[2].tool_calls[0]…`).
config::Result<RenderedChat> render_chat(const ChatInput& input);

}  // namespace yoke::engine
