// What the operating system says about memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace yoke::engine {

struct MemoryHolder {
  int64_t pid = 0;
  std::string name;
  uint64_t bytes = 0;  ///< resident
};

struct SystemMemory {
  uint64_t total = 0;
  uint64_t available = 0;  ///< can be given without swapping
};

/// nullopt where the system does not say. `proc`: another folder in tests.
std::optional<SystemMemory> system_memory(const std::filesystem::path& proc = "/proc");

/// The `count` processes that hold most, without this one, largest first.
std::vector<MemoryHolder> memory_holders(size_t count, const std::filesystem::path& proc = "/proc");

/// "cc1plus (pid 812) 1.2 GiB, …"
std::string describe(const std::vector<MemoryHolder>& holders);

}  // namespace yoke::engine
