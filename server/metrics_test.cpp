#include "server/metrics.h"

#include <gtest/gtest.h>

#include <set>

namespace yoke::server {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Metrics, counts_by_label_and_shows_the_engine) {
  Metrics metrics({"1.0", "cpu"});
  metrics.http_request("/v1/models", "GET", 200);
  metrics.http_request("/v1/models", "GET", 200);
  metrics.request_ended(Outcome::stop);
  metrics.request_rejected(Rejection::queue_full);
  metrics.generated_tokens(3, 5, 0);
  metrics.time_to_first_token(std::chrono::milliseconds(20));
  Metrics::Snapshot snapshot;
  snapshot.http_connections = 4;
  snapshot.model = "na}no";
  snapshot.engine.emplace();
  snapshot.engine->running = 2;
  snapshot.engine->prompt_tokens_cached = 8;
  const std::string text = metrics.text(snapshot);
  EXPECT_TRUE(contains(
      text, "yoke_http_requests_total{code=\"200\",method=\"GET\",route=\"/v1/models\"} 2"))
      << text;
  EXPECT_TRUE(contains(text, "yoke_requests_total{outcome=\"stop\"} 1"));
  EXPECT_TRUE(contains(text, "yoke_requests_total{outcome=\"rejected\"} 1"));
  EXPECT_TRUE(contains(text, "yoke_requests_rejected_total{reason=\"queue_full\"} 1"));
  EXPECT_TRUE(contains(text, "yoke_generated_tokens_total{kind=\"reasoning\"} 5"));
  EXPECT_TRUE(contains(text, "yoke_prompt_tokens_total{source=\"cached\"} 8"));
  EXPECT_TRUE(contains(text, "yoke_time_to_first_token_seconds_count 1"));
  EXPECT_TRUE(contains(text, "yoke_requests_running 2"));
  EXPECT_TRUE(contains(text, "yoke_http_connections 4"));
  EXPECT_TRUE(contains(text, "yoke_build_info{version=\"1.0\",model=\"na)no\",backend=\"cpu\"} 1"));
  EXPECT_FALSE(contains(text, "nan")) << text;
  EXPECT_TRUE(text.ends_with('\n'));
}

TEST(Metrics, every_family_is_described_once) {
  Metrics metrics({"1.0", "cpu"});
  Metrics::Snapshot snapshot;
  snapshot.engine.emplace();
  const std::string text = metrics.text(snapshot);
  std::set<std::string> seen;
  for (size_t at = text.find("# TYPE "); at != std::string::npos;
       at = text.find("# TYPE ", at + 1)) {
    const std::string name = text.substr(at + 7, text.find(' ', at + 7) - at - 7);
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_TRUE(contains(text, "# HELP " + name + " ")) << name;
  }
  EXPECT_GT(seen.size(), 20u);
}

TEST(Metrics, methods_that_a_client_invents_share_one_series) {
  Metrics metrics({"1.0", "cpu"});
  metrics.http_request("other", "BREW", 404);
  metrics.http_request("other", "\"}\n", 404);
  EXPECT_TRUE(contains(metrics.text({}), "{code=\"404\",method=\"other\",route=\"other\"} 2"));
}

TEST(Metrics, series_exist_before_anything_happened) {
  Metrics metrics({"1.0", "cpu"});
  const std::string text = metrics.text({});
  EXPECT_TRUE(contains(text, "yoke_requests_total{outcome=\"error\"} 0"));
  EXPECT_TRUE(contains(text, "yoke_client_disconnects_total{stage=\"prefill\"} 0"));
}

}  // namespace
}  // namespace yoke::server
