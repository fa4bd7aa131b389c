#include "server/ready_block.h"

#include <gtest/gtest.h>

#include "engine/json/json.h"

namespace yoke::server {
namespace {

ReadyFacts loopback() {
  ReadyFacts facts;
  facts.host = "127.0.0.1";
  facts.port = 8080;
  facts.model = "nano";
  facts.context_tokens = 8192;
  facts.max_output_tokens = 1024;
  facts.reasoning_effort = "high";
  facts.weights_licence = "weights: MIT";
  return facts;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ReadyBlock, on_loopback_says_how_to_open_it_to_the_lan) {
  const std::string block = ready_block(loopback());
  EXPECT_TRUE(contains(block, "http://127.0.0.1:8080/v1\n"));
  EXPECT_TRUE(contains(block, "yoke serve --host 0.0.0.0 --port 8080 --api-key"));
  EXPECT_FALSE(contains(block, "WARNING"));
  EXPECT_FALSE(contains(block, "Authorization"));
}

TEST(ReadyBlock, bound_wide_names_the_lan_address_and_warns_without_keys) {
  ReadyFacts facts = loopback();
  facts.host = "0.0.0.0";
  facts.lan_address = "192.0.2.7";
  facts.loopback_only = false;
  EXPECT_TRUE(contains(ready_block(facts), "http://192.0.2.7:8080/v1\n"));
  EXPECT_TRUE(contains(ready_block(facts), "WARNING"));
  facts.has_keys = true;
  EXPECT_FALSE(contains(ready_block(facts), "WARNING"));
  EXPECT_TRUE(contains(ready_block(facts), "Authorization: Bearer YOUR-KEY"));
}

TEST(ReadyBlock, brackets_ipv6) {
  ReadyFacts facts = loopback();
  facts.host = "::1";
  EXPECT_EQ(base_url(facts), "http://[::1]:8080");
}

TEST(ReadyBlock, vscode_settings_are_json_with_room_for_the_editors_own_counting) {
  const auto parsed = engine::parse_json(vscode_settings(loopback()), "settings");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const engine::Json& model = parsed->items()[0].find("models")->items()[0];
  EXPECT_EQ(model.find("id")->as_string(), "nano");
  EXPECT_EQ(model.find("url")->as_string(), "http://127.0.0.1:8080/v1/chat/completions");
  EXPECT_EQ(model.find("maxInputTokens")->to_int64(), (8192 - 1024) * 9 / 10);
  EXPECT_EQ(model.find("maxOutputTokens")->to_int64(), 1024);
}

TEST(WeightsLicence, comes_from_the_folder_else_from_the_name_else_is_unknown) {
  EXPECT_TRUE(contains(weights_licence("x", "\n# MIT License\nmore"), "MIT License (LICENSE"));
  EXPECT_TRUE(contains(weights_licence("GLM-5.3-Flash-tr3-4bpw", ""), "ShapleyMCG-1.0"));
  EXPECT_TRUE(contains(weights_licence("other", ""), "no LICENSE file"));
}

}  // namespace
}  // namespace yoke::server
