// Reads tensors of a checkpoint into memory, as dense matrices or EXL3 groups. The first failure is
// kept and makes every later call a no-op, so that the list of weights reads as a list.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"
#include "kernels/core/thread_pool.h"
#include "kernels/core/weights.h"

namespace yoke::engine {

class WeightReader {
 public:
  /// `decoded` is the type of EXL3 matrices that are needed dense. `threads` may be null in count
  /// mode. `total` is the file bytes that progress counts towards.
  WeightReader(const Checkpoint& checkpoint, Memory::Mode mode, kernels::DType decoded,
               kernels::ThreadPool* threads, LoadProgress progress, uint64_t total);

  /// A linear layer: `module`.weight, or the EXL3 group of that name.
  kernels::LinearWeight linear(const std::string& module, int64_t out, int64_t in);
  /// The same, always dense [out, in].
  kernels::ConstTensorView matrix(const std::string& module, int64_t out, int64_t in);
  /// Tensor `name` (BF16, F16 or F32) as stored. Dimensions of size 1 in the file are ignored.
  kernels::ConstTensorView tensor(const std::string& name, kernels::Shape shape);
  /// The same, widened to float if it is stored narrower.
  kernels::ConstTensorView tensor_f32(const std::string& name, kernels::Shape shape);
  /// New memory that lives as long as the weights. Empty while counting.
  kernels::TensorView allocate(kernels::DType dtype, kernels::Shape shape);
  /// A reader of the same checkpoint whose memory ends with it, for weights that are rearranged;
  /// absorb() then takes over its error and progress.
  WeightReader scratch_reader() const;
  void absorb(const WeightReader& scratch);
  /// Nothing can be read from views now: counting, or after a failure.
  bool idle() const noexcept { return memory_.counting() || error_.has_value(); }

  const std::optional<config::Error>& error() const noexcept { return error_; }
  /// Bytes of memory handed out so far.
  uint64_t bytes() const noexcept { return memory_.bytes(); }
  /// Bytes of the files that were, or in count mode would be, read so far.
  uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::vector<kernels::Tensor> take_storage() { return std::move(storage_); }

 private:
  /// Finds `name` and checks it; null after an error.
  const TensorInfo* find(const std::string& name, std::string_view dtypes, kernels::Shape shape);
  void read(const TensorInfo& info, kernels::TensorView to);
  kernels::Exl3Matrix exl3(const std::string& module, const Exl3Group& group, int64_t out,
                           int64_t in);
  const kernels::f16* scales(const TensorInfo& info, int64_t count);
  void fail(std::string message);

  const Checkpoint& checkpoint_;
  Memory memory_;
  kernels::DType decoded_;
  kernels::ThreadPool* threads_;
  LoadProgress progress_;
  uint64_t total_;
  uint64_t file_bytes_ = 0;
  std::vector<kernels::Tensor> storage_;
  std::optional<config::Error> error_;
};

}  // namespace yoke::engine
