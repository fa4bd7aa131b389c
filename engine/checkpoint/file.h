// A regular file opened for reading. pread only, so one File serves any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "config/result.h"

namespace yoke::engine {

/// Owns the descriptor. Thread safe after open.
class File {
 public:
  /// Errors: not_found, io; a directory, pipe or device is refused without waiting on it.
  static config::Result<File> open(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// Size when it was opened.
  uint64_t size() const noexcept { return size_; }
  /// File name without the folder, printable: for messages.
  const std::string& name() const noexcept { return name_; }

  /// Fills `out` from `offset`. A file that has become shorter, or I/O trouble, is an error.
  config::Result<void> read(uint64_t offset, std::span<std::byte> out) const;

 private:
  File(int descriptor, uint64_t size, std::string name);

  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::string name_;
};

/// The whole text of a small file. Larger than `max_bytes` is an error, found before anything is
/// allocated.
config::Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t max_bytes);

/// Foreign text for terminals, logs and JSON: control characters and what is not UTF-8 become \xNN.
std::string printable(std::string_view text);

/// Foreign text in a message: printable, in quotes, cut after about 200 bytes.
std::string quote(std::string_view text);

}  // namespace yoke::engine
