#include "server/metrics.h"

#include <gtest/gtest.h>

namespace yoke::server {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Metrics, counts_by_label_and_shows_the_engine) {
  Metrics metrics({"1.0", "abc", "nano", "cpu"});
  metrics.http_request("/v1/models", "GET", 200);
  metrics.http_request("/v1/models", "GET", 200);
  metrics.request_ended(Outcome::stop);
  metrics.request_rejected(Rejection::queue_full);
  metrics.generated_tokens(3, 5, 0);
  metrics.prompt_tokens(20, 8);
  metrics.time_to_first_token(std::chrono::milliseconds(20));
  Metrics::Snapshot snapshot;
  snapshot.http_connections = 4;
  snapshot.engine.running = 2;
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
  EXPECT_TRUE(contains(text, "yoke_build_info{"));
}

TEST(Metrics, series_exist_before_anything_happened) {
  Metrics metrics({"1.0", "abc", "nano", "cpu"});
  const std::string text = metrics.text({});
  EXPECT_TRUE(contains(text, "yoke_requests_total{outcome=\"error\"} 0"));
  EXPECT_TRUE(contains(text, "yoke_client_disconnects_total{stage=\"prefill\"} 0"));
}

}  // namespace
}  // namespace yoke::server
