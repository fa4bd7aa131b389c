#include "engine/model/step_buffers.h"

#include <gtest/gtest.h>

#include "engine/testing/random_checkpoint.h"

namespace yoke::engine {
namespace {

ModelOptions options() {
  ModelOptions o;
  o.max_rows = 20;
  o.max_slots = 3;
  o.max_model_len = 200;
  o.max_window = 4;
  o.max_logit_rows = 6;
  o.max_snapshots = 2;
  return o;
}

StepSequence sequence(int32_t slot, int32_t start, int32_t rows) {
  StepSequence s;
  s.slot = slot;
  s.start_position = start;
  s.tokens.assign(static_cast<size_t>(rows), 7);
  s.commit = rows;
  for (int32_t b = 0; b <= (start + rows - 1) / 64; ++b) s.blocks.push_back(3 * b + slot);
  return s;
}

class StepBuffersTest : public ::testing::Test {
 protected:
  Memory memory_{Memory::Mode::allocate};
  StepBuffers buffers_{tiny_config(), options(), memory_};
};

TEST(RowBucket, pads_by_at_most_half_and_never_beyond_the_capacity) {
  int32_t last = 0;
  for (int32_t rows = 0; rows <= 1000; ++rows) {
    const int32_t bucket = row_bucket(rows, 1000);
    EXPECT_GE(bucket, rows);
    EXPECT_GE(bucket, last);
    EXPECT_LE(bucket, std::max(rows, rows + rows / 2));
    EXPECT_LE(bucket, 1000);
    EXPECT_EQ(row_bucket(bucket, 1000), bucket);
    last = bucket;
  }
  EXPECT_EQ(row_bucket(0, 10), 0);
  EXPECT_EQ(row_bucket(8, 512), 8);
  EXPECT_EQ(row_bucket(9, 512), 12);
  EXPECT_EQ(row_bucket(13, 512), 16);
  EXPECT_EQ(row_bucket(400, 500), 500);
}

TEST_F(StepBuffersTest, lays_out_rows_and_padding) {
  StepPlan plan;
  plan.sequences.push_back(sequence(2, 70, 3));
  plan.sequences.back().commit = 1;
  plan.sequences.back().replay = 2;
  plan.sequences.back().logit_rows = {0, 2};
  plan.sequences.push_back(sequence(0, 0, 6));
  plan.sequences.back().logit_rows = {5};
  buffers_.fill(plan);
  EXPECT_EQ(buffers_.rows(), 9);
  EXPECT_EQ(buffers_.bucket(), 12);
  EXPECT_EQ(buffers_.logit_rows(), 3);

  const kernels::StepRows rows = buffers_.step_rows(12);
  const std::vector<int32_t> slot(rows.slot, rows.slot + 12);
  EXPECT_EQ(slot, (std::vector<int32_t>{2, 2, 2, 0, 0, 0, 0, 0, 0, -1, -1, -1}));
  const std::vector<int32_t> position(rows.position, rows.position + 9);
  EXPECT_EQ(position, (std::vector<int32_t>{70, 71, 72, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(rows.sequences[0].slot, 2);
  EXPECT_EQ(rows.sequences[0].commit, 1);
  EXPECT_EQ(rows.sequences[0].replay, 2);
  EXPECT_EQ(rows.sequences[1].first_row, 3);
  EXPECT_EQ(rows.sequences[1].rows, 6);
  EXPECT_EQ(rows.sequences[2].slot, -1);
  EXPECT_EQ(rows.cache_row(2, 70), (3 + 2) * 64 + 6);

  const int32_t* wanted = buffers_.logit_index(buffers_.logit_bucket()).as<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(wanted, wanted + 3), (std::vector<int32_t>{0, 2, 8}));
  EXPECT_EQ(buffers_.tokens(12).as<int32_t>()[11], -1);
}

TEST_F(StepBuffersTest, a_smaller_step_leaves_nothing_of_a_larger_one) {
  StepPlan large;
  for (int32_t slot = 0; slot < 3; ++slot) large.sequences.push_back(sequence(slot, 0, 4));
  buffers_.fill(large);
  StepPlan small;
  small.sequences.push_back(sequence(1, 4, 1));
  buffers_.fill(small);
  EXPECT_EQ(buffers_.rows(), 1);
  EXPECT_EQ(buffers_.logit_rows(), 0);
  const kernels::StepRows rows = buffers_.step_rows(buffers_.bucket());
  EXPECT_EQ(rows.sequences[1].slot, -1);
  EXPECT_EQ(rows.sequences[2].slot, -1);
}

TEST_F(StepBuffersTest, snapshots_are_copied_for_those_that_name_one) {
  StepPlan plan;
  plan.sequences.push_back(sequence(2, 64, 3));
  plan.sequences.back().restore = 1;
  plan.sequences.push_back(sequence(1, 10, 4));
  plan.sequences.push_back(sequence(0, 60, 6));
  plan.sequences.back().commit = 4;
  plan.sequences.back().save = 0;
  buffers_.fill(plan);
  const auto ints = [](const kernels::Tensor& t) {
    const auto* data = t.view().as<int32_t>();
    return std::vector<int32_t>(data, data + 3);
  };
  EXPECT_EQ(buffers_.restores().count, 1);
  EXPECT_EQ(ints(buffers_.restores().snapshot), (std::vector<int32_t>{1, -1, -1}));
  EXPECT_EQ(ints(buffers_.restores().slot), (std::vector<int32_t>{2, -1, -1}));
  EXPECT_EQ(ints(buffers_.restores().block)[0], plan.sequences[0].blocks[0]) << "of token 63";
  EXPECT_EQ(buffers_.saves().count, 1);
  EXPECT_EQ(ints(buffers_.saves().snapshot), (std::vector<int32_t>{-1, -1, 0}));
  EXPECT_EQ(ints(buffers_.saves().slot), (std::vector<int32_t>{-1, -1, 0}));
  EXPECT_EQ(ints(buffers_.saves().block)[2], plan.sequences[2].blocks[0]) << "of token 63";
  EXPECT_EQ(ints(buffers_.saves().row), (std::vector<int32_t>{-1, -1, 3 + 4 + 3}));

  plan.sequences.resize(1);
  plan.sequences[0].restore = -1;
  buffers_.fill(plan);
  EXPECT_EQ(buffers_.restores().count + buffers_.saves().count, 0);
  EXPECT_EQ(ints(buffers_.saves().snapshot), (std::vector<int32_t>{-1, -1, -1}));
}

using StepBuffersDeathTest = StepBuffersTest;

TEST_F(StepBuffersDeathTest, plans_beyond_the_options_are_bugs) {
  const auto fill = [&](const std::function<void(StepPlan&)>& spoil) {
    StepPlan plan;
    plan.sequences.push_back(sequence(1, 10, 4));
    spoil(plan);
    buffers_.fill(plan);
  };
  const auto first = [](StepPlan& p) -> StepSequence& { return p.sequences.front(); };
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).slot = 3; }), "slot out of range");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).tokens[2] = 512; }), "outside the vocabulary");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).start_position = 197; }), "max_model_len");
  EXPECT_DEATH(fill([&](StepPlan& p) {
                 first(p) = sequence(1, 10, 5);
                 first(p).commit = 0;
               }),
               "max_window");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).replay = 5; }), "replay");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).restore = 2; }), "snapshot out of range");
  EXPECT_DEATH(fill([&](StepPlan& p) {
                 first(p) = sequence(1, 0, 4);
                 first(p).restore = 0;
               }),
               "restored at position 0");
  EXPECT_DEATH(fill([&](StepPlan& p) {
                 first(p).commit = 0;
                 first(p).save = 0;
               }),
               "without a row");
  EXPECT_DEATH(fill([&](StepPlan& p) {
                 first(p).save = 1;
                 p.sequences.push_back(sequence(2, 10, 4));
                 p.sequences.back().save = 1;
               }),
               "filled twice");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).blocks.clear(); }), "blocks");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).blocks[0] = 12; }), "block out of range");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).logit_rows = {4}; }), "logit row");
  EXPECT_DEATH(fill([&](StepPlan& p) { first(p).logit_rows = {1, 1}; }), "ascending");
  EXPECT_DEATH(fill([&](StepPlan& p) { p.sequences.push_back(p.sequences[0]); }), "a slot twice");
  EXPECT_DEATH(fill([&](StepPlan& p) { p.sequences.clear(); }), "no sequence");
  EXPECT_DEATH(fill([&](StepPlan& p) {
                 first(p) = sequence(1, 0, 20);
                 p.sequences.push_back(sequence(2, 0, 1));
               }),
               "more rows than max_rows");
}

}  // namespace
}  // namespace yoke::engine
