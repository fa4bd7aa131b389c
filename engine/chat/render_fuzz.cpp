// A chat request as JSON text (with the template's inputs as members) through the renderer: no
// crash, and ranges and boundaries that are well formed for whatever renders.
#include <cstdint>

#include "config/check.h"
#include "engine/chat/render.h"
#include "engine/json/utf8.h"

using namespace yoke::engine;

namespace {

void check_ranges(const RenderedChat& chat) {
  size_t end = 0;
  for (size_t i = 0; i < chat.literal.size(); ++i) {
    const ByteRange range = chat.literal[i];
    YOKE_CHECK(range.begin < range.end && range.end <= chat.text.size(), "a bad range");
    YOKE_CHECK(i == 0 || range.begin > end, "ranges that are not sorted, disjoint and joined");
    end = range.end;
  }
  size_t last = 0;
  for (const size_t boundary : chat.boundaries) {
    YOKE_CHECK(boundary > last && boundary <= chat.text.size(), "boundaries that do not ascend");
    last = boundary;
  }
}

void check_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    YOKE_CHECK(length > 0, "the prompt is no UTF-8");
    at += length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto request = parse_json(text, "request");
  if (!request.ok()) return 0;
  ChatInput input;
  input.messages = request->find("messages");
  input.tools = request->find("tools");
  input.reasoning_effort = request->find("reasoning_effort");
  input.clear_thinking = request->find("clear_thinking");
  input.add_generation_prompt = request->find("add_generation_prompt");
  input.thinking = request->find("thinking");
  input.enable_thinking = request->find("enable_thinking");
  input.max_text_bytes = 1 << 20;
  for (const auto variant : {ChatInput::Variant::official, ChatInput::Variant::mia}) {
    input.variant = variant;
    const auto chat = render_chat(input);
    if (!chat.ok()) {
      YOKE_CHECK(!chat.error().message.empty(), "an error without a message");
      continue;
    }
    check_ranges(*chat);
    check_utf8(chat->text);
    const auto again = render_chat(input);
    YOKE_CHECK(again.ok() && again->text == chat->text, "rendering is no pure function");
  }
  return 0;
}
