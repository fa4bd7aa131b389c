#include "tests/exactness/op_watch.h"

#include <algorithm>
#include <cstring>

namespace yoke::tests {

namespace {

/// Of 64-bit words; a short last one is filled with zeros.
uint64_t digest(const std::byte* bytes, size_t count) {
  uint64_t hash = 0xCBF29CE484222325u ^ count;
  for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min(sizeof word, count - i));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash == 0 ? 1 : hash;
}

}  // namespace

uint64_t* OpDigests::find(Pass pass, const WatchedRow& row, size_t op) {
  auto& of_pass = digests[static_cast<size_t>(pass)];
  const auto sequence = static_cast<size_t>(row.sequence);
  if (sequence >= of_pass.size()) return nullptr;
  const auto position = static_cast<size_t>(row.position);
  if (position >= of_pass[sequence].size() || op >= of_pass[sequence][position].size())
    return nullptr;
  return &of_pass[sequence][position][op];
}

std::string Difference::describe(const OpDigests& truth) const {
  const std::vector<OpDigests::Op>& ops = truth.ops[static_cast<size_t>(pass)];
  const auto name = [&](size_t i) {
    const std::string where =
        ops[i].layer < 0 ? "outside layers" : "layer " + std::to_string(ops[i].layer);
    return where + ", op \"" + ops[i].name + "\"";
  };
  std::string text = std::string(pass == Pass::trunk ? "trunk, " : "MTP layer, ") + name(op) +
                     " (op " + std::to_string(op + 1) + " of " + std::to_string(ops.size()) +
                     " in the pass), in " + std::to_string(rows_that_differ) +
                     " of the step's true rows\n  op trace of the row:\n";
  constexpr size_t kBefore = 3, kAfter = 8;
  for (size_t i = op - std::min(op, kBefore); i < std::min(ops.size(), op + kAfter); ++i) {
    const bool known = i < op || i - op < same.size();
    const bool equal = i < op || (known && same[i - op]);
    text += std::string("    ") +
            (!known  ? "not run  "
             : equal ? "same     "
                     : "DIFFERENT") +
            "  " + name(i) + "\n";
  }
  return text;
}

OpWatch::OpWatch(engine::LoadedModel& model, OpDigests& truth, Mode mode)
    : model_(model), truth_(truth), mode_(mode) {
  model_.parts().forward.set_op_hook([this](const engine::OpOutput& output) { take(output); });
}

OpWatch::~OpWatch() {
  model_.parts().forward.set_op_hook({});
}

void OpWatch::begin(Pass pass, std::vector<WatchedRow> rows, std::vector<int32_t> logit_rows) {
  pass_ = pass;
  rows_ = std::move(rows);
  logit_rows_ = std::move(logit_rows);
  op_ = 0;
  in_first_pass_ = !difference_;
}

void OpWatch::take(const engine::OpOutput& output) {
  if (fault_) fault_(output, pass_, rows_);
  auto& ops = truth_.ops[static_cast<size_t>(pass_)];
  const OpDigests::Op op{output.layer, output.name};
  if (op_ == ops.size() && mode_ == Mode::learn) ops.push_back(op);
  YOKE_CHECK(op_ < ops.size() && ops[op_] == op, "a pass ran other ops than the first one did");
  if (difference_ && in_first_pass_) difference_->same.push_back(true);
  if (output.of_logit_rows) {
    for (size_t i = 0; i < logit_rows_.size(); ++i)
      look_at(output, i, static_cast<size_t>(logit_rows_[i]));
  } else {
    for (size_t r = 0; r < rows_.size(); ++r) look_at(output, r, r);
  }
  ++op_;
}

void OpWatch::look_at(const engine::OpOutput& output, size_t line, size_t row) {
  const WatchedRow& what = rows_[row];
  if (!what.is_true) return;
  const size_t bytes =
      static_cast<size_t>(output.y.row_elements()) * kernels::dtype_bytes(output.y.dtype);
  const uint64_t found = digest(static_cast<const std::byte*>(output.y.data) + line * bytes, bytes);
  if (mode_ == Mode::learn) {
    auto& of_pass = truth_.digests[static_cast<size_t>(pass_)];
    const auto sequence = static_cast<size_t>(what.sequence);
    const auto position = static_cast<size_t>(what.position);
    if (of_pass.size() <= sequence) of_pass.resize(sequence + 1);
    if (of_pass[sequence].size() <= position) of_pass[sequence].resize(position + 1);
    auto& of_row = of_pass[sequence][position];
    if (of_row.size() <= op_) of_row.resize(op_ + 1);
    of_row[op_] = found;
    return;
  }
  const uint64_t* want = truth_.find(pass_, what, op_);
  if (want == nullptr || *want == 0) return;
  ++compared_;
  if (*want == found) return;
  if (!difference_) difference_ = Difference{pass_, what, row, op_, 0, {false}};
  if (!in_first_pass_) return;
  if (difference_->op == op_) ++difference_->rows_that_differ;
  if (difference_->row_of_step == row) difference_->same[op_ - difference_->op] = false;
}

}  // namespace yoke::tests
