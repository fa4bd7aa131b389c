#include "server/commands/signals.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>

namespace yoke::server {
namespace {

TEST(Signals, are_collected_without_a_handler) {
  Signals signals;
  EXPECT_FALSE(signals.end_requested());
  EXPECT_FALSE(signals.take_reload());
  pthread_kill(pthread_self(), SIGHUP);
  EXPECT_TRUE(signals.take_reload());
  EXPECT_FALSE(signals.take_reload());
  pthread_kill(pthread_self(), SIGTERM);
  EXPECT_TRUE(signals.end_requested());
  EXPECT_FALSE(signals.end_requested_twice());
  pthread_kill(pthread_self(), SIGINT);
  EXPECT_TRUE(signals.end_requested_twice());
}

}  // namespace
}  // namespace yoke::server
