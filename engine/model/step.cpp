#include "engine/model/step.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

namespace yoke::engine {

namespace {

// Little-endian 32-bit words: kMark, sequences; then per sequence slot, start_position, commit,
// replay, restore, save, three counts, and as many tokens, logit rows and blocks.
constexpr int32_t kMark = 0x32505359;  // "YSP2"
constexpr size_t kSequenceHead = 9;
static_assert(std::endian::native == std::endian::little, "plans travel in little-endian order");

void put(std::vector<std::byte>& bytes, std::span<const int32_t> words) {
  const auto raw = std::as_bytes(words);
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

/// Takes words off the front of foreign bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t words_left() const { return bytes_.size() / sizeof(int32_t); }
  bool whole() const { return bytes_.size() % sizeof(int32_t) == 0; }
  /// `count` must be at most words_left().
  void take(int32_t* to, size_t count) {
    std::memcpy(to, bytes_.data(), count * sizeof(int32_t));
    bytes_ = bytes_.subspan(count * sizeof(int32_t));
  }
  /// False when fewer are left than `count` says.
  bool take(std::vector<int32_t>& to, int32_t count) {
    if (count < 0 || static_cast<size_t>(count) > words_left()) return false;
    to.resize(static_cast<size_t>(count));
    if (count > 0) take(to.data(), to.size());
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

config::Error broken(const std::string& what) {
  return config::invalid_input("step plan: " + what);
}

}  // namespace

std::vector<std::byte> plan_to_bytes(const StepPlan& plan) {
  std::vector<std::byte> bytes;
  const auto count = [](const std::vector<int32_t>& v) { return static_cast<int32_t>(v.size()); };
  put(bytes, std::array{kMark, static_cast<int32_t>(plan.sequences.size())});
  for (const StepSequence& s : plan.sequences) {
    const std::array<int32_t, kSequenceHead> head = {
        s.slot,          s.start_position,    s.commit,       s.replay, s.restore, s.save,
        count(s.tokens), count(s.logit_rows), count(s.blocks)};
    put(bytes, head);
    put(bytes, s.tokens);
    put(bytes, s.logit_rows);
    put(bytes, s.blocks);
  }
  return bytes;
}

config::Result<StepPlan> plan_from_bytes(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::array<int32_t, 2> head{};
  if (!reader.whole() || reader.words_left() < head.size())
    return broken("wanted whole words and a head of two, found " + std::to_string(bytes.size()) +
                  " bytes");
  reader.take(head.data(), head.size());
  if (head[0] != kMark) return broken("wanted the mark YSP2, found other bytes");
  StepPlan plan;
  for (int32_t i = 0; i < head[1]; ++i) {
    std::array<int32_t, kSequenceHead> h{};
    StepSequence s;
    if (reader.words_left() < h.size())
      return broken("it ends before sequence " + std::to_string(i));
    reader.take(h.data(), h.size());
    s.slot = h[0];
    s.start_position = h[1];
    s.commit = h[2];
    s.replay = h[3];
    s.restore = h[4];
    s.save = h[5];
    if (!reader.take(s.tokens, h[6]) || !reader.take(s.logit_rows, h[7]) ||
        !reader.take(s.blocks, h[8]))
      return broken("it ends within sequence " + std::to_string(i));
    plan.sequences.push_back(std::move(s));
  }
  if (head[1] < 0 || reader.words_left() != 0)
    return broken("wanted " + std::to_string(head[1]) + " sequences, found more words after them");
  return plan;
}

}  // namespace yoke::engine
