#include "config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "config/keys.h"

namespace yoke::config {
namespace {

using testing::HasSubstr;

class ConfigFile : public testing::Test {
 protected:
  std::filesystem::path write(std::string_view text) {
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) /
        (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".toml");
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  Result<LoadedConfig> load(std::string_view text) {
    Sources sources;
    sources.file = write(text);
    return load_config(sources);
  }
  std::string error_of(std::string_view text) {
    const Result<LoadedConfig> loaded = load(text);
    return loaded.ok() ? "no error" : loaded.error().message;
  }
};

Result<LoadedConfig> from_flags(std::vector<FlagSetting> flags) {
  Sources sources;
  sources.flags = std::move(flags);
  return load_config(sources);
}

std::string read_example() {
  std::ifstream stream(std::string(YOKE_SOURCE_DIR) + "/config/example.toml");
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(Defaults, example_toml_documents_every_key_with_its_default) {
  EXPECT_EQ(read_example(), to_toml(LoadedConfig{}))
      << "regenerate it: (cd /tmp && yoke serve --print-config) > config/example.toml";
}

TEST(Defaults, example_toml_loads_to_the_defaults) {
  Sources sources;
  sources.file = std::string(YOKE_SOURCE_DIR) + "/config/example.toml";
  const Result<LoadedConfig> loaded = load_config(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (const Key& key : keys())
    EXPECT_EQ(format_value(key.get(loaded->config)), format_value(key.get(Config{}))) << key.name;
}

TEST(Defaults, heartbeats_come_every_ten_seconds_and_the_server_listens_on_loopback) {
  const Config c;
  EXPECT_EQ(c.api.heartbeat_interval, std::chrono::seconds(10));
  EXPECT_EQ(c.api.stream_interval, std::chrono::milliseconds(40));
  EXPECT_EQ(c.server.host, "127.0.0.1");
  EXPECT_EQ(c.api.reasoning_effort, "high");
  EXPECT_GE(c.server.idle_timeout, std::chrono::seconds(120));
}

TEST(Keys, names_and_aliases_are_unique_and_documented) {
  std::map<std::string, int> seen;
  for (const Key& key : keys()) {
    ++seen[std::string(key.name)];
    for (const std::string_view alias : key.aliases) ++seen[std::string(alias)];
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_EQ(key.help.back(), '.') << key.name;
    EXPECT_FALSE(key.takes_effect.empty()) << key.name;
  }
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
}

TEST(Keys, every_default_is_inside_its_own_range) {
  for (const Key& key : keys()) {
    Config c;
    const Value value = key.get(c);
    if (std::holds_alternative<std::monostate>(value)) continue;
    EXPECT_TRUE(key.set(c, value).ok()) << key.name;
  }
}

TEST_F(ConfigFile, flag_beats_environment_beats_file_beats_default) {
  Sources sources;
  sources.file = write("[server]\nport = 1\nhost = \"::1\"\nmax_body_mib = 2\n");
  sources.environment = {{"YOKE_PORT", "2"}, {"YOKE_HOST", "0.0.0.0"}, {"PATH", "/bin"}};
  sources.flags = {{"port", {"3"}}};
  const Result<LoadedConfig> loaded = load_config(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->config.server.port, 3);
  EXPECT_EQ(loaded->config.server.host, "0.0.0.0");
  EXPECT_EQ(loaded->config.server.max_body_mib, 2);
  EXPECT_EQ(loaded->config.server.max_header_kib, 64);
  EXPECT_EQ(loaded->origins.at("port"), "--port");
  EXPECT_EQ(loaded->origins.at("host"), "YOKE_HOST");
  EXPECT_THAT(loaded->origins.at("max_body_mib"), HasSubstr(".toml:4"));
}

TEST_F(ConfigFile, unknown_key_names_file_line_and_nearest_key) {
  const std::string message = error_of("[engine]\n\nmax_modle_len = 4\n");
  EXPECT_THAT(message, HasSubstr(".toml:3: "));
  EXPECT_THAT(message, HasSubstr("\"max_modle_len\""));
  EXPECT_THAT(message, HasSubstr("did you mean \"max_model_len\"?"));
}

TEST_F(ConfigFile, key_in_the_wrong_section_says_where_it_belongs) {
  EXPECT_THAT(error_of("[engine]\nport = 4\n"), HasSubstr(".toml:2: unknown key \"port\" in "
                                                          "[engine]; it belongs in [server]"));
  EXPECT_THAT(error_of("port = 4\n"), HasSubstr(".toml:1: unknown key \"port\"; it belongs in"));
  EXPECT_THAT(error_of("[engine]\nparallel = 4\n"), HasSubstr("called \"max_num_seqs\""));
}

TEST_F(ConfigFile, unknown_section_and_broken_toml_name_the_line) {
  EXPECT_THAT(error_of("\n[sever]\n"),
              HasSubstr(".toml:2: unknown section [sever]; did you mean \"server\"?"));
  EXPECT_THAT(error_of("[server]\nport = = 1\n"), HasSubstr(".toml:2: "));
  EXPECT_THAT(error_of("[server]\nport = 1\nport = 2\n"), HasSubstr(".toml:3: "));
  EXPECT_THAT(error_of("server = 1\n"), HasSubstr("write [server]"));
}

TEST_F(ConfigFile, wrong_types_and_ranges_name_key_wanted_and_found) {
  EXPECT_THAT(error_of("[server]\nport = \"x\"\n"),
              HasSubstr(".toml:2: port: want an integer, 0 to 65535, found \"x\""));
  EXPECT_THAT(error_of("[server]\nport = 70000\n"), HasSubstr("found 70000"));
  EXPECT_THAT(error_of("[server]\nhost = 1\n"), HasSubstr("want a text, found 1"));
  EXPECT_THAT(error_of("[server]\nmax_body_mib = 1.5\n"), HasSubstr("found 1.5"));
  EXPECT_THAT(error_of("[server]\nhost = {a = 1}\n"), HasSubstr("found a table"));
  EXPECT_THAT(error_of("[sampling]\ntemperature = nan\n"), HasSubstr("want a number, 0 to 2"));
  EXPECT_THAT(error_of("[api]\nreasoning_effort = \"hi\"\n"), HasSubstr("want one of none, "));
  EXPECT_THAT(error_of("[access]\napi_keys = [1]\n"), HasSubstr("want a list of texts"));
}

TEST_F(ConfigFile, contradictions_name_both_places) {
  const std::string message = error_of("[engine]\nmax_num_seqs = 9\nmax_num_batched_tokens = 8\n");
  EXPECT_THAT(message, HasSubstr("max_num_batched_tokens ("));
  EXPECT_THAT(message, HasSubstr(".toml:3) contradicts max_num_seqs ("));
  EXPECT_THAT(message, HasSubstr(".toml:2)"));
  EXPECT_THAT(error_of("[engine]\nmax_model_len = 10\n[api]\nmax_tokens = 11\n"),
              HasSubstr("contradicts max_model_len"));
}

TEST_F(ConfigFile, durations_are_read_in_the_unit_of_their_name) {
  const Result<LoadedConfig> loaded =
      load("[api]\nheartbeat_interval_s = 0.25\nstream_interval_ms = 5\n");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->config.api.heartbeat_interval, std::chrono::milliseconds(250));
  EXPECT_EQ(loaded->config.api.stream_interval, std::chrono::milliseconds(5));
}

TEST_F(ConfigFile, a_missing_file_is_an_error) {
  Sources sources;
  sources.file = "/nonexistent/yoke.toml";
  EXPECT_THAT(load_config(sources).error().message, HasSubstr("/nonexistent/yoke.toml"));
}

TEST_F(ConfigFile, printed_configuration_loads_back_to_itself_and_hides_keys) {
  const Result<LoadedConfig> first = from_flags({{"port", {"9"}},
                                                 {"served-model-name", {"a", "b\"\\\n"}},
                                                 {"temperature", {"0.25"}},
                                                 {"api-key", {"secret-key-1"}}});
  ASSERT_TRUE(first.ok()) << first.error().message;
  const std::string text = to_toml(*first);
  EXPECT_THAT(text, testing::Not(HasSubstr("secret-key-1")));
  const Result<LoadedConfig> second = load(text);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->config.server.port, 9);
  EXPECT_EQ(second->config.model.served_model_name, (std::vector<std::string>{"a", "b\"\\\n"}));
  EXPECT_EQ(second->config.sampling.temperature, 0.25);
  EXPECT_TRUE(second->config.access.api_keys.empty());
}

TEST(Flags, dashes_and_underscores_and_aliases_name_the_same_key) {
  for (const char* flag : {"max-model-len", "max_model_len", "context"}) {
    const Result<LoadedConfig> loaded = from_flags({{flag, {"77"}}});
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->config.engine.max_model_len, 77) << flag;
  }
}

TEST(Flags, two_spellings_of_one_key_contradict_each_other) {
  const Result<LoadedConfig> loaded = from_flags({{"context", {"5"}}, {"max-model-len", {"6"}}});
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().message,
            "--max-model-len: contradicts --context: both set max_model_len");
}

TEST(Flags, unknown_flag_names_the_nearest) {
  EXPECT_THAT(from_flags({{"prot", {"5"}}}).error().message,
              HasSubstr("--prot: unknown flag; did you mean \"port\"?"));
}

TEST(Flags, lists_come_repeated_as_commas_or_as_json) {
  const auto names = [](std::vector<std::string> values) {
    const Result<LoadedConfig> loaded = from_flags({{"served-model-name", std::move(values)}});
    return loaded.ok() ? loaded->config.model.served_model_name
                       : std::vector<std::string>{loaded.error().message};
  };
  const std::vector<std::string> ab = {"a", "b"};
  EXPECT_EQ(names({"a", "b"}), ab);
  EXPECT_EQ(names({"a, b"}), ab);
  EXPECT_EQ(names({R"(["a", "b"])"}), ab);
  EXPECT_EQ(names({R"(["a\"\\"])"}), (std::vector<std::string>{"a\"\\"}));
  for (const char* wrong : {"[\"a\"", "[a]", "[\"a\",]", "[\"a\\n\"]", "[\"a\" \"b\"]"})
    EXPECT_THAT(names({wrong}).front(), HasSubstr("want a list such as")) << wrong;
  EXPECT_THAT(names({"a,,b"}).front(), HasSubstr("without empty texts"));
}

TEST(Flags, booleans_need_no_value) {
  const Result<LoadedConfig> loaded =
      from_flags({{"metrics-open", {""}}, {"models-open", {"false"}}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->config.access.metrics_open);
  EXPECT_FALSE(loaded->config.access.models_open);
}

TEST(Environment, misspelt_variables_fail_and_foreign_ones_warn) {
  Sources sources;
  sources.environment = {{"YOKE_PROT", "1"}};
  EXPECT_THAT(load_config(sources).error().message,
              HasSubstr("YOKE_PROT: unknown variable; did you mean \"YOKE_PORT\"?"));
  sources.environment = {{"YOKE_COMPILER_LAUNCHER", "ccache"}, {"YOKE_CONFIG", "x"}};
  const Result<LoadedConfig> loaded = load_config(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_THAT(loaded->warnings, testing::ElementsAre(HasSubstr("YOKE_COMPILER_LAUNCHER")));
}

TEST(Environment, api_keys_come_as_a_comma_list) {
  Sources sources;
  sources.environment = {{"YOKE_API_KEY", "a,b"}};
  const Result<LoadedConfig> loaded = load_config(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->config.access.api_keys, (std::vector<std::string>{"a", "b"}));
}

TEST(Environment, config_file_comes_from_the_variable) {
  EXPECT_EQ(default_config_file({{"YOKE_CONFIG", "/a/b.toml"}}), "/a/b.toml");
}

TEST(Printing, changed_settings_name_their_origin) {
  const Result<LoadedConfig> loaded = from_flags({{"port", {"9"}}, {"api_key", {"s"}}});
  ASSERT_TRUE(loaded.ok());
  EXPECT_THAT(changed_settings(*loaded),
              testing::ElementsAre("port=9 (--port)", "api_keys=(hidden) (--api_key)"));
}

}  // namespace
}  // namespace yoke::config
