#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/test_folder.h"
#include "engine/json/json.h"
#include "server/commands/commands.h"
#include "server/commands/inspect_report.h"

namespace yoke::server {
namespace {

using engine::test::SmallCheckpoint;
using engine::test::TempFolder;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

Outcome inspect(const std::vector<std::string>& arguments) {
  CLI::App app;
  Outcome outcome;
  add_inspect_command(app, outcome.exit_code);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants it
  reversed.push_back("inspect");
  CaptureStdout();
  CaptureStderr();
  app.parse(reversed);
  outcome.out = GetCapturedStdout();
  outcome.err = GetCapturedStderr();
  return outcome;
}

std::string nano() {
  return (std::filesystem::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint").string();
}

TEST(Inspect, nano_can_be_served) {
  const Outcome outcome = inspect({nano()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* line :
       {"glm5_next, 240 matrices in EXL3", "layers        5: 3 KDA, 2 DSA; 1 dense MLP, 4 MoE",
        "MTP layer     yes", "vision tower  no", "routed experts", "8,382,544", "can be served\n"})
    EXPECT_THAT(outcome.out, HasSubstr(line));
}

TEST(Inspect, json_says_the_same) {
  const Outcome outcome = inspect({nano(), "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  const auto json = engine::parse_json(outcome.out, "report");
  ASSERT_TRUE(json.ok()) << json.error().message;
  EXPECT_TRUE(json->find("servable")->as_boolean());
  EXPECT_EQ(json->find("tensors")->to_int64(), 1124);
  EXPECT_EQ(json->find("bytes")->to_int64(), 8382544);
  EXPECT_EQ(json->find("architecture")->find("layers")->to_int64(), 5);
  EXPECT_EQ(json->find("problems")->items().size(), 0u);
  int64_t tensors = 0;
  int64_t parameters = 0;
  for (const engine::Json& line : json->find("classes")->items()) {
    tensors += *line.find("tensors")->to_int64();
    parameters += *line.find("parameters")->to_int64();
  }
  EXPECT_EQ(tensors, 1124);
  EXPECT_EQ(parameters, json->find("parameters")->to_int64());
}

TEST(Inspect, a_wrong_inventory_prints_its_problems_and_fails) {
  SmallCheckpoint checkpoint;
  checkpoint.remove("lm_head.weight");
  TempFolder folder;
  checkpoint.write(folder.path());
  const Outcome text = inspect({folder.path().string()});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out,
              HasSubstr("cannot be served: 1 problem\ntensor 'lm_head.weight' is missing"));
  const Outcome outcome = inspect({folder.path().string(), "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const auto json = engine::parse_json(outcome.out, "report");
  ASSERT_TRUE(json.ok());
  EXPECT_FALSE(json->find("servable")->as_boolean());
  EXPECT_EQ(json->find("problem_count")->to_int64(), 1);
}

TEST(Inspect, many_problems_are_counted) {
  SmallCheckpoint checkpoint;
  checkpoint.remove_if([](const auto& t) { return t.name.find("self_attn") != std::string::npos; });
  TempFolder folder;
  checkpoint.write(folder.path());
  const Outcome outcome = inspect({folder.path().string()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("cannot be served: 43 problems\n"));
  EXPECT_THAT(outcome.out, HasSubstr("… and 23 more\n"));
}

TEST(Inspect, what_is_no_checkpoint_goes_to_stderr) {
  TempFolder folder;
  const Outcome text = inspect({folder.path().string()});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.out, "");
  EXPECT_THAT(text.err, HasSubstr("cannot be served: no config.json in"));
  const Outcome json = inspect({folder.path().string(), "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_THAT(json.out, HasSubstr("\"servable\":false"));
}

TEST(Inspect, the_folder_is_required) {
  CLI::App app;
  int exit_code = -1;
  add_inspect_command(app, exit_code);
  std::vector<std::string> arguments = {"inspect"};
  EXPECT_THROW(app.parse(arguments), CLI::RequiredError);
  EXPECT_EQ(exit_code, -1);
}

}  // namespace
}  // namespace yoke::server
