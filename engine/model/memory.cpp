#include "engine/model/memory.h"

#include <array>
#include <cstdio>
#include <fstream>

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

std::string MemoryPlan::describe() const {
  std::string text;
  for (const MemoryClass& c : classes) {
    if (!text.empty()) text += ", ";
    text += c.name + " " + format_bytes(c.bytes);
  }
  return text;
}

std::optional<uint64_t> available_memory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    meminfo.ignore(64, '\n');
  }
  return std::nullopt;
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

}  // namespace yoke::engine
