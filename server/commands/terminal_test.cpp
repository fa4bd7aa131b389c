#include "server/commands/terminal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace yoke::server {
namespace {

/// A pipe whose write end the test holds.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe(fds_), 0); }
  ~Pipe() {
    ::close(fds_[0]);
    close_writer();
  }
  int reader() const { return fds_[0]; }
  void write(std::string_view text) {
    EXPECT_EQ(::write(fds_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_writer() {
    if (fds_[1] >= 0) ::close(fds_[1]);
    fds_[1] = -1;
  }

 private:
  int fds_[2] = {-1, -1};
};

TEST(LineReader, gives_lines_however_they_arrive) {
  const InterruptBell interrupt;
  Pipe pipe;
  LineReader reader(pipe.reader());
  std::string line;
  pipe.write("one\n\ntw");
  EXPECT_EQ(reader.read(line, interrupt), LineReader::Outcome::line);
  EXPECT_EQ(line, "one");
  EXPECT_EQ(reader.read(line, interrupt), LineReader::Outcome::line);
  EXPECT_EQ(line, "");
  pipe.write("o\nlast");
  pipe.close_writer();
  EXPECT_EQ(reader.read(line, interrupt), LineReader::Outcome::line);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(reader.read(line, interrupt), LineReader::Outcome::line);
  EXPECT_EQ(line, "last");
  EXPECT_EQ(reader.read(line, interrupt), LineReader::Outcome::end);
}

TEST(InterruptBell, an_interrupt_ends_a_wait_once) {
  Pipe pipe;
  {
    const InterruptBell interrupt;
    ::raise(SIGINT);
    EXPECT_FALSE(wait_readable(pipe.reader(), interrupt));
    pipe.write("x");
    EXPECT_TRUE(wait_readable(pipe.reader(), interrupt));
  }
  const InterruptBell another;  // the first has let go
  EXPECT_TRUE(wait_readable(pipe.reader(), another));
}

TEST(Harmless, control_characters_do_not_reach_a_terminal) {
  EXPECT_EQ(harmless("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(harmless("\x1b[2Jx"), "\xEF\xBF\xBD[2Jx");
  EXPECT_EQ(harmless("\x7f"), "\xEF\xBF\xBD");
  EXPECT_EQ(harmless("\xC2\x9Bx"), "\xEF\xBF\xBDx") << "C1 begins a sequence too";
  EXPECT_EQ(harmless("\xC2\xA9 caf\xC3\xA9"), "\xC2\xA9 caf\xC3\xA9");
}

}  // namespace
}  // namespace yoke::server
