#include "config/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace yoke::config {
namespace {

TEST(Log, json_lines_escape_what_a_client_may_have_sent) {
  testing::internal::CaptureStderr();
  {
    const Logger logger = make_logger("info", "json");
    logger->info("request.done id={}", "a\"b\\c\nd");
    logger->flush();
  }
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line,
              testing::HasSubstr(R"("level":"info","message":"request.done id=a\"b\\c\u000ad"})"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(Log, control_characters_cannot_forge_a_line) {
  EXPECT_EQ(log_safe("a\nb\x7f\x1b[0m"), "a\\x0ab\\x7f\\x1b[0m");
}

TEST(Log, unknown_levels_mean_info) {
  EXPECT_EQ(make_logger("loud")->level(), spdlog::level::info);
  EXPECT_EQ(make_logger("off")->level(), spdlog::level::off);
}

}  // namespace
}  // namespace yoke::config
