#include "server/commands/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "config/check.h"

namespace yoke::server {
namespace {

std::atomic<const Bell*> interrupt_target{nullptr};

extern "C" void on_interrupt(int) {
  const int saved = errno;
  if (const Bell* bell = interrupt_target.load()) bell->ring();
  errno = saved;
}

}  // namespace

Bell::Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Bell::~Bell() {
  ::close(fd_);
}

void Bell::ring() const noexcept {
  const uint64_t one = 1;
  // Fails only when it has been rung 2^64 - 2 times already.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

void Bell::silence() const noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_, &count, sizeof count);
}

InterruptBell::InterruptBell() {
  const Bell* nobody = nullptr;
  YOKE_CHECK(interrupt_target.compare_exchange_strong(nobody, &bell_), "two interrupt bells");
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}

InterruptBell::~InterruptBell() {
  ::signal(SIGINT, SIG_DFL);
  interrupt_target = nullptr;
}

bool wait_readable(int fd, const InterruptBell& interrupt) {
  for (;;) {
    pollfd fds[] = {{interrupt.fd(), POLLIN, 0}, {fd, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    if (fds[0].revents != 0) {
      interrupt.silence();
      return false;
    }
    if (fds[1].revents != 0) return true;  // also at the end of a pipe
  }
}

LineReader::Outcome LineReader::read(std::string& line, const InterruptBell& interrupt) {
  for (;;) {
    const size_t newline = buffer_.find('\n');
    if (newline != std::string::npos || (end_ && !buffer_.empty())) {
      line = buffer_.substr(0, newline);
      buffer_.erase(0, newline == std::string::npos ? newline : newline + 1);
      return Outcome::line;
    }
    if (end_) return Outcome::end;
    if (!wait_readable(fd_, interrupt)) return Outcome::interrupted;
    char piece[4096];
    const ssize_t got = ::read(fd_, piece, sizeof piece);
    if (got > 0) {
      buffer_.append(piece, static_cast<size_t>(got));
    } else if (got == 0) {
      end_ = true;
    } else if (errno != EINTR && errno != EAGAIN) {
      throw std::system_error(errno, std::generic_category(), "reading the question");
    }
  }
}

std::string harmless(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    // C1 controls (U+0080 to U+009F) are two bytes.
    const bool c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (c0 || c1) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace yoke::server
