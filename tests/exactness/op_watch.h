// Watches every op of every pass, row by row: first it learns what serial decoding computes, then
// it compares. The first difference in time is the op that went wrong, not what came of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/loaded_model.h"

namespace yoke::tests {

/// The two passes over a model.
enum class Pass : uint8_t { trunk, mtp };

/// What a row of a step is.
struct WatchedRow {
  int32_t sequence = 0;
  int32_t position = 0;
  bool is_true = false;  ///< its token, and all before it, are those of serial decoding
};

/// Digests of what each op computed for each row of serial decoding.
struct OpDigests {
  struct Op {
    int32_t layer;
    std::string name;
    friend bool operator==(const Op&, const Op&) = default;
  };
  std::array<std::vector<Op>, 2> ops;  ///< [pass], in order
  /// [pass][sequence][position][op]; 0 where the op did not run for the row (logits)
  std::array<std::vector<std::vector<std::vector<uint64_t>>>, 2> digests;

  uint64_t* find(Pass pass, const WatchedRow& row, size_t op);
};

struct Difference {
  Pass pass = Pass::trunk;
  WatchedRow row;
  size_t row_of_step = 0;
  size_t op = 0;
  int64_t rows_that_differ = 0;  ///< of this op, in this step
  std::vector<bool> same;        ///< of this op and those after it in the pass, for the row

  /// "trunk, layer 3, op "q_b"", and the ops around it, one per line.
  std::string describe(const OpDigests& truth) const;
};

/// Thread: one at a time.
class OpWatch {
 public:
  enum class Mode { learn, compare };
  /// Hooks into `model`, until the watch is gone. Both must stay in place.
  OpWatch(engine::LoadedModel& model, OpDigests& truth, Mode mode);
  ~OpWatch();
  OpWatch(const OpWatch&) = delete;
  OpWatch& operator=(const OpWatch&) = delete;

  /// The next pass: its rows, and which of them want logits.
  void begin(Pass pass, std::vector<WatchedRow> rows, std::vector<int32_t> logit_rows);

  /// May spoil what an op computed, before it is looked at: proof that the suite can fail.
  using Fault = std::function<void(const engine::OpOutput&, Pass, std::span<const WatchedRow>)>;
  void set_fault(Fault fault) { fault_ = std::move(fault); }

  const std::optional<Difference>& difference() const noexcept { return difference_; }
  /// Rows times ops that were compared.
  int64_t compared() const noexcept { return compared_; }

 private:
  void take(const engine::OpOutput& output);
  void look_at(const engine::OpOutput& output, size_t line, size_t row);

  engine::LoadedModel& model_;
  OpDigests& truth_;
  const Mode mode_;
  Fault fault_;
  Pass pass_ = Pass::trunk;
  std::vector<WatchedRow> rows_;
  std::vector<int32_t> logit_rows_;
  size_t op_ = 0;              // of the pass
  bool in_first_pass_ = true;  // the pass of the difference is still running
  std::optional<Difference> difference_;
  int64_t compared_ = 0;
};

}  // namespace yoke::tests
