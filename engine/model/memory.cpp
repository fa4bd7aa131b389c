#include "engine/model/memory.h"

#include <array>
#include <cstdio>

namespace yoke::engine {

kernels::Tensor Memory::tensor(kernels::DType dtype, kernels::Shape shape) {
  bytes_ += static_cast<uint64_t>(shape.elements()) * kernels::dtype_bytes(dtype);
  if (counting()) return {};
  return {dtype, shape};
}

uint64_t MemoryPlan::total() const noexcept {
  uint64_t sum = 0;
  for (const MemoryClass& c : classes) sum += c.bytes;
  return sum;
}

uint64_t MemoryPlan::bytes_of(std::string_view name) const noexcept {
  for (const MemoryClass& c : classes) {
    if (c.name == name) return c.bytes;
  }
  return 0;
}

std::string MemoryPlan::describe() const {
  std::string text;
  for (const MemoryClass& c : classes) {
    if (!text.empty()) text += ", ";
    text += c.name + " " + format_bytes(c.bytes);
  }
  return text;
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  for (; value >= 1024.0 && unit + 1 < kUnits.size(); ++unit) value /= 1024.0;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = count < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace yoke::engine
