// `yoke chat` over nano, in this process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>

#include "server/commands/commands.h"

namespace yoke::server {
namespace {

struct Ran {
  int exit_code = -1;
  std::string out, err;
};

/// Runs the command line with `input` as standard input.
Ran run(std::vector<std::string> arguments, const std::string& input = "") {
  FILE* file = std::tmpfile();
  std::fwrite(input.data(), 1, input.size(), file);
  std::fflush(file);
  std::rewind(file);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(::fileno(file), STDIN_FILENO);

  Ran ran;
  CLI::App app;
  add_chat_command(app, ran.exit_code);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants a vector
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    ran.exit_code = 2;
    ran.err = error.what();
  }
  ran.out = testing::internal::GetCapturedStdout();
  ran.err += testing::internal::GetCapturedStderr();
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  std::fclose(file);
  return ran;
}

TEST(Chat, once_prints_the_answer_alone_on_stdout) {
  const Ran ran = run({"chat", "--once", "What is 17 times 23?"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "17 times 23 is 391.\n");
  EXPECT_EQ(ran.err.rfind("I need 17 times 23. ", 0), 0u) << ran.err;
}

TEST(Chat, reasoning_can_be_hidden_or_switched_off) {
  const Ran hidden = run({"chat", "--once", "What is 17 times 23?", "--no-reasoning"});
  EXPECT_EQ(hidden.out, "17 times 23 is 391.\n");
  EXPECT_EQ(hidden.err, "");
  const Ran off = run({"chat", "--once", "What is 17 times 23?", "--effort", "none"});
  EXPECT_EQ(off.out, "17 times 23 is 391.\n");
  EXPECT_EQ(off.err, "");
}

TEST(Chat, a_cut_answer_says_so) {
  const Ran ran = run({"chat", "--once", "What is 17 times 23?", "--max-tokens", "3"});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find("the limit of tokens is reached"), std::string::npos) << ran.err;
}

TEST(Chat, answers_line_by_line_until_the_input_ends) {
  const Ran ran = run({"chat", "--no-reasoning"}, "What is 15 times 29?\n\nWhat is 13 times 19?");
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, "15 times 29 is 445.\n13 times 19 is 247.\n");
}

TEST(Chat, a_seed_repeats_a_sampled_answer) {
  const std::vector<std::string> arguments = {
      "chat",         "--once", "What is a KV cache?", "--temperature", "1.5", "--seed", "7",
      "--max-tokens", "40"};
  const Ran first = run(arguments), second = run(arguments);
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_EQ(first.out + first.err, second.out + second.err);
}

TEST(Chat, a_folder_that_is_none_is_an_error_of_one_line) {
  const Ran ran = run({"chat", "--model", "/nowhere", "--once", "hi"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find("/nowhere"), std::string::npos);
}

TEST(Chat, values_out_of_range_are_refused) {
  EXPECT_EQ(run({"chat", "--temperature", "3"}).exit_code, 2);
  EXPECT_EQ(run({"chat", "--effort", "huge"}).exit_code, 2);
}

}  // namespace
}  // namespace yoke::server
