#include "engine/model/system_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "engine/model/memory.h"

namespace yoke::engine {

namespace {

namespace fs = std::filesystem;

/// The process number that a folder of /proc is named by.
std::optional<int64_t> pid_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  int64_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

/// Name and resident bytes; nullopt for kernel threads and processes that have just ended.
std::optional<MemoryHolder> read_holder(const fs::path& folder, int64_t pid) {
  std::ifstream status(folder / "status");
  MemoryHolder holder;
  holder.pid = pid;
  std::string line;
  while (std::getline(status, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t value = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
    if (line.starts_with("Name:")) holder.name = line.substr(value);
    if (!line.starts_with("VmRSS:")) continue;
    uint64_t kib = 0;
    std::from_chars(line.data() + value, line.data() + line.size(), kib);
    holder.bytes = kib * 1024;
  }
  if (holder.bytes == 0) return std::nullopt;
  return holder;
}

}  // namespace

std::optional<SystemMemory> system_memory(const fs::path& proc) {
  std::ifstream meminfo(proc / "meminfo");
  std::string key;
  uint64_t kib = 0;
  std::optional<uint64_t> total, available;
  while (meminfo >> key >> kib) {
    if (key == "MemTotal:") total = kib * 1024;
    if (key == "MemAvailable:") available = kib * 1024;
    meminfo.ignore(64, '\n');
  }
  if (!total || !available) return std::nullopt;
  return SystemMemory{*total, *available};
}

std::vector<MemoryHolder> memory_holders(size_t count, const fs::path& proc) {
  std::vector<MemoryHolder> holders;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(proc, ignored)) {
    const std::optional<int64_t> pid = pid_of(entry.path());
    if (!pid || *pid == ::getpid()) continue;
    if (auto holder = read_holder(entry.path(), *pid)) holders.push_back(std::move(*holder));
  }
  std::sort(holders.begin(), holders.end(), [](const MemoryHolder& a, const MemoryHolder& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.pid < b.pid;
  });
  holders.resize(std::min(holders.size(), count));
  return holders;
}

std::string describe(const std::vector<MemoryHolder>& holders) {
  std::string text;
  for (const MemoryHolder& holder : holders) {
    if (!text.empty()) text += ", ";
    text += holder.name + " (pid " + std::to_string(holder.pid) + ") " + format_bytes(holder.bytes);
  }
  return text;
}

}  // namespace yoke::engine
