// What an interactive command needs from the operating system: waiting for a line, for the engine
// and for Ctrl-C at the same time. Thread: one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace yoke::server {

/// A counter that one thread raises and another polls; eventfd(2).
class Bell {
 public:
  Bell();  ///< throws std::system_error
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() const noexcept;  ///< any thread, and signal handlers
  void silence() const noexcept;
  int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

/// While it lives, SIGINT rings a bell instead of ending the process. One at a time.
class InterruptBell {
 public:
  InterruptBell();
  ~InterruptBell();
  InterruptBell(const InterruptBell&) = delete;
  InterruptBell& operator=(const InterruptBell&) = delete;

  int fd() const noexcept { return bell_.fd(); }
  void silence() const noexcept { bell_.silence(); }

 private:
  Bell bell_;
};

/// Waits until `fd` is readable (true) or SIGINT came (false; the bell is silent again).
bool wait_readable(int fd, const InterruptBell& interrupt);

/// Lines of a file descriptor, in the pieces in which they come.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}

  enum class Outcome { line, end, interrupted };
  /// The next line without its newline; a last line without one counts.
  Outcome read(std::string& line, const InterruptBell& interrupt);

 private:
  int fd_;
  std::string buffer_;
  bool end_ = false;
};

/// Text for a terminal: control characters except newline and tab become U+FFFD, so that a model
/// cannot move the cursor or set the title.
std::string harmless(std::string_view text);

}  // namespace yoke::server
