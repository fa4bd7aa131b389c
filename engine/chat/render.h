// The chat grammar of GLM-5.3-Flash, native (spec/tokenizer_chat.md 2 and 3). A pure function of
// its input.
#pragma once

#include <cstddef>
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

  /// `official` does not know the Mia switches and raises on string `arguments`; `mia` renders
  /// those as an empty object.
  enum class Variant { official, mia };
  Variant variant = Variant::mia;

  /// Tool references can repeat the tools any number of times; nothing else grows the text beyond a
  /// small multiple of the request.
  size_t max_text_bytes = size_t{256} << 20;
};

struct RenderedChat {
  std::string text;
  /// What came from the request, sorted and disjoint: control tokens must not be matched inside
  /// (design.md 3).
  std::vector<ByteRange> literal;
  /// Byte offsets where a message ends, ascending: after each message that emits something and
  /// after each run of tool results. Prefix snapshots are taken there.
  std::vector<size_t> boundaries;
  /// The generation prompt left a think block open: output starts as reasoning.
  bool starts_in_reasoning = false;
};

/// Errors: what makes the template raise (invalid_input), with the path of the offending value
/// (`messages[2].tool_calls[0]…`); also refused are `messages` that is a string or an object (the
/// template renders nothing for them), content that to_python_str refuses (unsupported) and a text
/// above max_text_bytes (exhausted).
config::Result<RenderedChat> render_chat(const ChatInput& input);

}  // namespace yoke::engine
