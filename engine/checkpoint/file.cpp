#include "engine/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "engine/json/utf8.h"

namespace yoke::engine {

using config::Error;
using config::ErrorKind;
using config::Result;

namespace {

std::string system_text(int code) {
  return std::generic_category().message(code);
}

}  // namespace

File::File(int descriptor, uint64_t size, std::string name)
    : descriptor_(descriptor), size_(size), name_(std::move(name)) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      name_(std::move(other.name_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(name_, other.name_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<File> File::open(const std::filesystem::path& path) {
  std::string name = printable(path.filename().string());
  // Without O_NONBLOCK a named pipe would block here until somebody writes to it.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int code = errno;
    const bool missing = code == ENOENT || code == ENOTDIR;
    return Error{missing ? ErrorKind::not_found : ErrorKind::io,
                 "cannot open " + quote(path.string()) + ": " + system_text(code)};
  }
  File file(descriptor, 0, std::move(name));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0)
    return Error{ErrorKind::io, "cannot stat " + quote(path.string()) + ": " + system_text(errno)};
  if (!S_ISREG(status.st_mode))
    return Error{ErrorKind::invalid_input,
                 quote(path.string()) + " is not a regular file: a file was expected here"};
  file.size_ = static_cast<uint64_t>(status.st_size);
  return file;
}

Result<void> File::read(uint64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(descriptor_, out.data() + done, out.size() - done,
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{ErrorKind::io, name_ + ": read failed: " + system_text(errno)};
    if (n == 0)
      return Error{ErrorKind::io, name_ + ": file ends at byte " + std::to_string(offset + done) +
                                      ", wanted " + std::to_string(offset + out.size()) +
                                      ": it was cut after it was opened"};
    done += static_cast<size_t>(n);
  }
  return {};
}

Result<std::string> read_text_file(const std::filesystem::path& path, uint64_t max_bytes) {
  auto file = File::open(path);
  if (!file) return file.error();
  if (file->size() > max_bytes)
    return config::invalid_input(file->name() + ": " + std::to_string(file->size()) +
                                 " bytes, at most " + std::to_string(max_bytes) +
                                 " are accepted for this file");
  std::string text(static_cast<size_t>(file->size()), '\0');
  if (auto read = file->read(0, std::as_writable_bytes(std::span(text))); !read)
    return read.error();
  return text;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c0 = byte < 0x20 || byte == 0x7F;
    const bool c1 = length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (length != 0 && !c0 && !c1) {
      out += text.substr(i, length);
      i += length;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += escaped;
    ++i;
  }
  return out;
}

std::string quote(std::string_view text) {
  constexpr size_t kShown = 200;
  if (text.size() <= kShown) return "'" + printable(text) + "'";
  return "'" + printable(utf8_prefix(text, kShown)) + "'…";
}

}  // namespace yoke::engine
