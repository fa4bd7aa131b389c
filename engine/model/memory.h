// Planning and allocating memory with the same code (design.md 8): a part describes its tensors to
// a Memory, which either counts or allocates, so that a plan cannot drift from what is then used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/buffer.h"

namespace yoke::engine {

/// Hands out zeroed tensors, or, in count mode, empty ones whose bytes are only added up.
class Memory {
 public:
  enum class Mode { count, allocate };
  explicit Memory(Mode mode) : mode_(mode) {}

  kernels::Tensor tensor(kernels::DType dtype, kernels::Shape shape);
  bool counting() const noexcept { return mode_ == Mode::count; }
  /// Bytes handed out or counted so far.
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  Mode mode_;
  uint64_t bytes_ = 0;
};

/// One line of a memory plan.
struct MemoryClass {
  std::string name;
  uint64_t bytes = 0;
  std::string detail{};  ///< what decides the bytes, for people: "131,072 tokens"
};

struct MemoryPlan {
  std::vector<MemoryClass> classes;
  uint64_t total() const noexcept;
  /// 0 when there is no such class.
  uint64_t bytes_of(std::string_view name) const noexcept;
  /// "weights 1.9 GiB, KV pool 0.2 GiB, …" for people.
  std::string describe() const;
};

/// "12.3 MiB", for people.
std::string format_bytes(uint64_t bytes);
/// "131,072", for people.
std::string format_count(int64_t count);

}  // namespace yoke::engine
