#include "server/api/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "server/api/retry_after.h"
#include "server/api/routes.h"

namespace yoke::server {
namespace {

using testing::HasSubstr;

class KeyFile : public testing::Test {
 protected:
  config::AccessConfig write(std::string_view text, mode_t mode = 0600) {
    config::AccessConfig access;
    access.api_key_file =
        testing::TempDir() +
        std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".keys";
    std::ofstream(access.api_key_file) << text;
    chmod(access.api_key_file.c_str(), mode);
    return access;
  }
};

TEST_F(KeyFile, labels_come_from_file_and_configuration) {
  config::AccessConfig access = write("# comment\n\nalice: sk-a\r\n  bob :  sk:b \n");
  access.api_keys = {"plain", "carol:sk-c"};
  const auto ring = KeyRing::load(access);
  ASSERT_TRUE(ring.ok()) << ring.error().message;
  EXPECT_EQ(ring->size(), 4u);
  EXPECT_EQ(ring->label_of("sk-a"), "alice");
  EXPECT_EQ(ring->label_of("sk:b"), "bob");
  EXPECT_EQ(ring->label_of("plain"), "key1");
  EXPECT_EQ(ring->label_of("sk-c"), "carol");
  for (const char* wrong : {"", "sk-", "sk-a ", "alice", "SK-A"})
    EXPECT_EQ(ring->label_of(wrong), std::nullopt) << wrong;
}

TEST_F(KeyFile, readable_by_others_is_refused_with_the_command) {
  for (const mode_t mode : {0640, 0604, 0620, 0666}) {
    const config::AccessConfig access = write("a: b\n", mode);
    const auto ring = KeyRing::load(access);
    ASSERT_FALSE(ring.ok());
    EXPECT_THAT(ring.error().message, HasSubstr("run: chmod 600 " + access.api_key_file));
  }
}

TEST_F(KeyFile, broken_lines_name_their_number) {
  EXPECT_THAT(KeyRing::load(write("a: b\nnokey\n")).error().message, HasSubstr(".keys:2: want"));
  EXPECT_THAT(KeyRing::load(write("a:\n")).error().message, HasSubstr(".keys:1: want"));
  EXPECT_THAT(KeyRing::load(write("a: b\na: c\n")).error().message, HasSubstr("used twice"));
  EXPECT_THAT(KeyRing::load(write("# none\n")).error().message, HasSubstr("holds no key"));
  config::AccessConfig missing;
  missing.api_key_file = "/nonexistent/keys";
  EXPECT_THAT(KeyRing::load(missing).error().message, HasSubstr("cannot be read"));
}

TEST(Keys, are_found_in_all_three_headers) {
  const auto key = [](std::string name, std::string value) {
    Headers headers;
    headers.add(std::move(name), std::move(value));
    return presented_key(headers).value_or("none");
  };
  EXPECT_EQ(key("Authorization", "Bearer k"), "k");
  EXPECT_EQ(key("authorization", "bEARER  k "), "k");
  EXPECT_EQ(key("Authorization", "Bearer "), "none");
  EXPECT_EQ(key("Authorization", "Bearer"), "none");
  EXPECT_EQ(key("Authorization", "Basic k"), "none");
  EXPECT_EQ(key("X-Api-Key", "k"), "k");
  EXPECT_EQ(key("api-key", "k"), "k");
  EXPECT_EQ(key("api-key", ""), "none");
}

TEST(Origins, loopback_and_allowed_ones_pass) {
  const OriginPolicy policy({"https://chat.example/", "vscode-webview://x"});
  for (const char* good : {"http://localhost", "http://localhost:3000", "https://127.0.0.1:1",
                           "http://127.9.9.9", "http://[::1]:8080", "http://a.localhost",
                           "https://chat.example", "https://CHAT.example", "vscode-webview://x"})
    EXPECT_TRUE(policy.allows_origin(good)) << good;
  for (const char* bad : {"null", "", "http://evil.example", "http://localhost.evil.example",
                          "http://10.0.0.5", "https://chat.example.evil", "file://localhost",
                          "http://notlocalhost", "http://127.0.0.1.evil.example"})
    EXPECT_FALSE(policy.allows_origin(bad)) << bad;
  EXPECT_TRUE(OriginPolicy({"*"}).allows_origin("http://evil.example"));
}

TEST(Origins, only_names_that_can_be_rebound_are_refused_as_host) {
  const OriginPolicy policy({"https://chat.example"});
  for (const char* good : {"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "10.0.0.5:8080",
                           "[::1]:8080", "[fe80::1]", "chat.example", "chat.example:443"})
    EXPECT_TRUE(policy.allows_host(good)) << good;
  for (const char* bad :
       {"evil.example", "evil.example:8080", "localhost.evil.example", "", "10.0.0.5.evil.example"})
    EXPECT_FALSE(policy.allows_host(bad)) << bad;
}

TEST(Routes, exist_with_and_without_version_slash_and_doubled_slashes) {  // rule 23
  for (const char* path : {"/v1/chat/completions", "/chat/completions", "/v1/chat/completions/",
                           "//v1//chat/completions", "/chat/completions/"})
    EXPECT_EQ(match_route(path).route, Route::chat_completions) << path;
  for (const char* path : {"/", "/v1", "/v1/"}) EXPECT_EQ(match_route(path).route, Route::root);
  for (const char* path : {"/health/live", "/live", "/livez", "/healthz", "/v1/live"})
    EXPECT_EQ(match_route(path).route, Route::live) << path;
  for (const char* path : {"/health/ready", "/ready", "/readyz"})
    EXPECT_EQ(match_route(path).route, Route::ready) << path;
  EXPECT_EQ(match_route("/v1/health").route, Route::health);
}

TEST(Routes, model_ids_may_hold_slashes_raw_or_encoded) {
  EXPECT_EQ(match_route("/v1/models/org/name").model_id, "org/name");
  EXPECT_EQ(match_route("/models/org%2Fname/").model_id, "org/name");
  EXPECT_EQ(match_route("/v1/models/").route, Route::models);
}

TEST(Routes, dashboards_learn_from_plain_404s_who_we_are) {  // rule 30
  for (const char* path : {"/slots", "/get_server_info", "/server_info", "/get_model_info",
                           "/props", "/v2/models", "/v1x", "/chat", "/healthy"})
    EXPECT_EQ(match_route(path).route, Route::none) << path;
}

TEST(Routes, known_families_are_501) {
  for (const char* path : {"/v1/embeddings", "/v1/completions", "/v1/audio/speech", "/v1/rerank",
                           "/v1/images/generations", "/v1/responses/resp_1"})
    EXPECT_EQ(match_route(path).route, Route::not_offered) << path;
  EXPECT_EQ(match_route("/v1/messages").route, Route::not_offered_messages);
}

TEST(Routes, methods_are_whole_words) {
  const RouteMatch match = match_route("/v1/models");
  for (const char* method : {"GET", "HEAD", "OPTIONS"})
    EXPECT_TRUE(allows_method(match.methods, method));
  for (const char* method : {"POST", "GE", "", "get", "HEAD, OPTIONS"})
    EXPECT_FALSE(allows_method(match.methods, method)) << method;
}

TEST(RetryAfterTest, stays_between_1_and_30_seconds_and_follows_the_load) {
  RetryAfter retry;
  EXPECT_EQ(retry.seconds(64, 1), 1);
  for (int i = 0; i < 50; ++i) retry.record(std::chrono::seconds(8));
  EXPECT_EQ(retry.seconds(64, 1), 8);
  EXPECT_EQ(retry.seconds(64, 4), 2);
  for (int i = 0; i < 50; ++i) retry.record(std::chrono::hours(1));
  EXPECT_EQ(retry.seconds(64, 1), 30);
}

}  // namespace
}  // namespace yoke::server
