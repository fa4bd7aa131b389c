// Planning and allocating memory with the same code (design.md 8): a part describes its tensors to
// a Memory, which either counts or allocates, so that a plan cannot drift from what is then used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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
};

struct MemoryPlan {
  std::vector<MemoryClass> classes;
  uint64_t total() const noexcept;
  /// "weights 1.9 GiB, KV caches 0.2 GiB, …" for people.
  std::string describe() const;
};

/// Bytes the operating system can give without swapping; nullopt where it does not say.
std::optional<uint64_t> available_memory();

/// "12.3 MiB", for people.
std::string format_bytes(uint64_t bytes);

}  // namespace yoke::engine
