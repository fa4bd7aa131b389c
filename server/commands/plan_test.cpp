#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "engine/checkpoint/test_folder.h"
#include "engine/json/json.h"
#include "server/commands/commands.h"
#include "server/commands/plan_report.h"

namespace yoke::server {
namespace {

using engine::Json;
using engine::test::TempFolder;
using ::testing::HasSubstr;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

Outcome plan(std::vector<std::string> arguments) {
  CLI::App app;
  Outcome outcome;
  add_plan_command(app, outcome.exit_code);
  arguments.insert(arguments.begin(), "plan");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants it
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  app.parse(arguments);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

int64_t bytes_of(const Json& report, std::string_view name) {
  for (const Json& c : report.find("classes")->items()) {
    if (c.find("name")->as_string() == name) return *c.find("bytes")->to_int64();
  }
  ADD_FAILURE() << "no class " << name;
  return -1;
}

std::string nano() {
  return (std::filesystem::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint").string();
}

TEST(Plan, nano_in_a_table) {
  const Outcome outcome = plan({nano(), "--max-model-len", "4096", "--memory-reserve-gib", "0.1"});
  EXPECT_EQ(outcome.err, "");
  for (const char* text :
       {"4 sequences of up to 4,096 tokens, steps of 512 rows", "weights", "KV pool",
        "16,384 tokens in 256 blocks", "KDA slots", "prefix snapshots", "MoE slot buffer",
        "workspace", "host buffers", "reserve                  0.100  left to", "total"})
    EXPECT_THAT(outcome.out, HasSubstr(text));
}

TEST(Plan, settings_decide_and_too_much_is_named) {
  const Outcome outcome =
      plan({nano(), "--json", "--max-model-len", "131072", "--kv-cache-tokens", "2000000000",
            "--prompt-cache-gib", "0", "--precision", "fp32", "--max-buffered-mib", "128"});
  EXPECT_EQ(outcome.exit_code, 1);
  const auto report = engine::parse_json(outcome.out, "report");
  ASSERT_TRUE(report.ok()) << outcome.out << outcome.err;
  // Two DSA layers: latents of 64 and a pool key of 64 for every four tokens, fp32.
  EXPECT_EQ(bytes_of(*report, "KV pool"), 2'000'000'000 * int64_t{2 * (64 + 16) * 4});
  EXPECT_EQ(bytes_of(*report, "host buffers"), 128 << 20);
  EXPECT_EQ(bytes_of(*report, "prefix snapshots"), 0);
  EXPECT_FALSE(report->find("fits")->as_boolean());
  EXPECT_EQ(
      *report->find("missing_bytes")->to_int64(),
      *report->find("total_bytes")->to_int64() - *report->find("available_bytes")->to_int64());
}

TEST(Plan, a_folder_that_does_not_open_says_why) {
  const Outcome outcome = plan({"/nowhere"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/nowhere"));
}

/// The released 4-bit checkpoint, headers only: nothing is read and nothing is allocated.
TEST(Plan, the_released_checkpoint_in_120_shards) {
  const std::string text = engine::test::testdata("glm53_flash_config.json");
  const auto config = engine::parse_model_config(text, "config.json");
  ASSERT_TRUE(config.ok());
  TempFolder folder;
  engine::test::write_file(folder.path() / "config.json", text);
  engine::test::SyntheticOptions synthetic;
  synthetic.bits = engine::test::SmallCheckpoint::expert_bits;
  engine::test::write_released(folder.path(), engine::test::synthetic_tensors(*config, synthetic),
                               120);
  const Outcome outcome = plan({folder.path().string(), "--json", "--max-model-len", "131072",
                                "--max-num-seqs", "4", "--prompt-cache-gib", "2"});
  EXPECT_EQ(outcome.err, "");
  const auto report = engine::parse_json(outcome.out, "report");
  ASSERT_TRUE(report.ok()) << outcome.out << outcome.err;
  // Published bytes without vision tower and MTP layer (spec/glm5_next.md 3.8 and 4.2).
  const int64_t weights = bytes_of(*report, "weights");
  EXPECT_GT(weights, 165'000'000'000);
  EXPECT_LT(weights, 175'622'979'576);
  // spec/glm5_next.md 6: 11,968 bytes per token; 140.8 MiB of state per sequence.
  EXPECT_EQ(bytes_of(*report, "KV pool"), int64_t{131072} * 11'968);
  const double mib_per_slot = static_cast<double>(bytes_of(*report, "KDA slots")) / 4 / 0x1p20;
  EXPECT_GT(mib_per_slot, 140.8);
  EXPECT_LT(mib_per_slot, 160);
  // Per snapshot: state and history of 34 KDA layers; of 11 DSA layers the last block (64 latents
  // and 16 pool keys) and 8 raw index rows.
  const int64_t snapshot =
      34 * int64_t{(4 << 20) + 147'456} + 11 * int64_t{64 * 1024 + 16 * 256 + 8 * 512};
  EXPECT_EQ(bytes_of(*report, "prefix snapshots"), 14 * snapshot);
  EXPECT_GT(bytes_of(*report, "MoE slot buffer"), 0);
  EXPECT_EQ(bytes_of(*report, "host buffers"), int64_t{1} << 30);
}

TEST(PlanReport, says_how_much_is_missing_and_who_holds_it) {
  PlanFacts facts;
  facts.model = "m";
  facts.plan.classes = {{"weights", uint64_t{90} << 30, "45 layers"}};
  facts.system = engine::SystemMemory{uint64_t{119} << 30, uint64_t{80} << 30};
  facts.holders = {{812, "ollama", uint64_t{30} << 30}};
  EXPECT_THAT(plan_text(facts), HasSubstr("It does not fit: 10.0 GiB are missing. Most is held by "
                                          "ollama (pid 812) 30.0 GiB."));
  const auto json = engine::parse_json(plan_json(facts), "report");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(json->find("missing_bytes")->number_text(), std::to_string(int64_t{10} << 30));
  EXPECT_EQ(json->find("holders")->items()[0].find("name")->as_string(), "ollama");
  facts.system->available = uint64_t{91} << 30;
  EXPECT_THAT(plan_text(facts), HasSubstr("It fits."));
  facts.system.reset();
  EXPECT_THAT(plan_text(facts), HasSubstr("does not say"));
}

}  // namespace
}  // namespace yoke::server
