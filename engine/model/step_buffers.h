// The per-step facts of a StepPlan in memory of fixed size and place (design.md 6). Filled once per
// step; ops read them through StepRows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "engine/checkpoint/model_config.h"
#include "engine/model/caches.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"
#include "engine/model/step.h"
#include "kernels/core/step_rows.h"

namespace yoke::engine {

/// Rows are padded to one of few counts, so that a recorded step exists for each: exact up to 8,
/// then two counts per doubling; never more than `capacity`.
int32_t row_bucket(int32_t rows, int32_t capacity);

class StepBuffers {
 public:
  StepBuffers(const ModelConfig& config, const ModelOptions& options, Memory& memory);

  /// Takes over a plan. What it asks for must fit the options and the caches: anything else is a
  /// bug of the planner and aborts. Everything after the plan's rows is padding, so any bucket of
  /// at least rows() is right. Allocates nothing.
  void fill(const StepPlan& plan);
  /// For tests: from now on buckets are at least this large.
  void set_least_buckets(int32_t rows, int32_t logit_rows) {
    least_rows_ = rows;
    least_logit_rows_ = logit_rows;
  }

  /// Rows and logit rows of the last plan, without and with padding.
  int32_t rows() const noexcept { return rows_; }
  int32_t logit_rows() const noexcept { return logit_rows_; }
  int32_t bucket() const noexcept {
    return row_bucket(std::max(rows_, least_rows_), options_.max_rows);
  }
  int32_t logit_bucket() const noexcept {
    return row_bucket(std::max(logit_rows_, least_logit_rows_), options_.max_logit_rows);
  }

  /// Views for ops over `bucket` rows: what they point to stays in place.
  kernels::StepRows step_rows(int32_t bucket) const noexcept;
  kernels::ConstTensorView tokens(int32_t bucket) const { return tokens_.rows(bucket); }
  /// Row of each wanted logit row; -1: padding.
  kernels::ConstTensorView logit_index(int32_t bucket) const { return logit_index_.rows(bucket); }

  /// What is copied from or to snapshots, one entry per sequence of the plan; -1: nothing.
  struct Copies {
    kernels::Tensor snapshot, slot, block;  ///< [max_slots]; `block` holds the newest row
    kernels::Tensor row;                    ///< [max_slots]: the step's row of the newest token
    int32_t count = 0;                      ///< that are not -1
  };
  const Copies& restores() const noexcept { return restores_; }
  const Copies& saves() const noexcept { return saves_; }

 private:
  void add(const StepSequence& sequence, int32_t entry);
  void check(const StepSequence& sequence) const;
  void add_copies(const StepSequence& sequence, int32_t entry, int32_t first_row);

  ModelOptions options_;
  CacheGeometry geometry_;
  int32_t vocab_size_;
  kernels::Tensor tokens_, slot_, position_, sequence_;  // [max_rows]
  kernels::Tensor logit_index_;                          // [max_logit_rows]
  kernels::Tensor block_table_;                          // [max_slots, blocks_per_slot]
  kernels::Tensor sequences_;                            // [max_slots] SequenceRows
  Copies restores_, saves_;
  int32_t rows_ = 0;
  int32_t logit_rows_ = 0;
  int32_t least_rows_ = 0;
  int32_t least_logit_rows_ = 0;
};

}  // namespace yoke::engine
