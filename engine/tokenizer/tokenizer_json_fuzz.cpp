// tokenizer.json from anywhere: reading it ends in a value or an error; what is read encodes a
// fixed text and decodes it again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/tokenizer/tokenizer.h"

using yoke::engine::ByteRange;
using yoke::engine::Tokenizer;

namespace {

constexpr std::string_view kText =
    "[gMASK]<sop><|user|>What is 17 times 23?\r\n\n   I'LL say it's 391 \xE6\x97\xA5\xE6\x9C\xAC "
    "\xF0\x9F\x98\x80\xF0\x9F\x98\x80 abcabcababcabababab "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "<think></think>/nothink <s><t> 1234567  }}\n\t\xE1\xA0\x8E\xC2\xA0<|user|>";

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tokenizer =
      Tokenizer::parse({reinterpret_cast<const char*>(data), size}, "tokenizer.json");
  if (!tokenizer) {
    require(!tokenizer.error().message.empty());
    return 0;
  }
  const ByteRange literal[] = {{20, 60}, {200, kText.size()}};
  for (const auto& encoded : {tokenizer->encode(kText), tokenizer->encode(kText, literal)}) {
    if (!encoded) continue;  // a pattern that takes too much work
    require(encoded->ids.size() == encoded->offsets.size());
    require(tokenizer->decode(encoded->ids) == kText);
    tokenizer->decode(encoded->ids, true);
  }
  return 0;
}
