#include "kernels/core/stream.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/core/buffer.h"

namespace yoke::kernels {
namespace {

TEST(Stream, runs_at_once_and_in_order) {
  ThreadPool pool(1);
  Stream stream(pool);
  std::string trace;
  stream.launch("a", [&] { trace += 'a'; });
  EXPECT_EQ(trace, "a");
  stream.launch("b", [&] { trace += 'b'; });
  EXPECT_EQ(trace, "ab");
  EXPECT_EQ(&stream.threads(), &pool);
}

TEST(Stream, recording_runs_nothing_until_replayed_in_order) {
  ThreadPool pool(1);
  Stream stream(pool);
  std::string trace;
  Stream::Recording recording;
  stream.begin_recording(recording);
  stream.launch("a", [&] { trace += 'a'; });
  stream.launch("b", [&] { trace += 'b'; });
  stream.end_recording();
  EXPECT_EQ(trace, "");
  ASSERT_EQ(recording.size(), 2u);
  EXPECT_STREQ(recording[0].op, "a");
  EXPECT_STREQ(recording[1].op, "b");
  Stream::replay(recording);
  Stream::replay(recording);
  EXPECT_EQ(trace, "abab");
  stream.launch("c", [&] { trace += 'c'; });
  EXPECT_EQ(trace, "ababc");
  EXPECT_EQ(recording.size(), 2u);
}

TEST(Stream, replay_reads_the_memory_of_the_moment) {
  ThreadPool pool(2);
  Stream stream(pool);
  Tensor in(DType::i32, {64});
  Tensor out(DType::i32, {64});
  Stream::Recording recording;
  stream.begin_recording(recording);
  stream.launch("copy", [&pool, from = ConstTensorView(in.view()), to = out.view()] {
    pool.for_range(64, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) to.as<int32_t>()[i] = from.as<int32_t>()[i];
    });
  });
  stream.end_recording();
  for (const int32_t value : {3, 8}) {
    for (int64_t i = 0; i < 64; ++i) in.view().as<int32_t>()[i] = value;
    Stream::replay(recording);
    for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(out.view().as<int32_t>()[i], value);
  }
}

}  // namespace
}  // namespace yoke::kernels
