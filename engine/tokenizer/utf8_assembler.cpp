#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace yoke::engine {

void Utf8Assembler::feed(std::string_view bytes, std::string& out) {
  // What is kept back is at most 3 bytes; joining it with the news keeps one code path.
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const size_t valid = utf8_valid_prefix(bytes);
    out += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    const Utf8Step step = utf8_step(bytes);
    if (step.kind == Utf8Step::Kind::incomplete) {
      pending_ = bytes;
      return;
    }
    out += kReplacementCharacter;
    bytes.remove_prefix(step.bytes);
  }
}

void Utf8Assembler::finish(std::string& out) {
  if (!pending_.empty()) out += kReplacementCharacter;
  pending_.clear();
}

}  // namespace yoke::engine
