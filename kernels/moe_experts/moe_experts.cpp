#include "kernels/moe_experts/moe_experts.h"

#include <algorithm>

#include "config/check.h"
#include "kernels/core/row_io.h"

namespace yoke::kernels {
namespace {

void combine_row(const TensorView& y, const ConstTensorView& slots, const float* weights,
                 const int32_t* ids, const ConstTensorView& shared, int64_t row) {
  const int64_t k = slots.dim(1);
  const int64_t hidden = slots.dim(2);
  float values[kRowChunk];
  double sums[kRowChunk];
  for (int64_t begin = 0; begin < hidden; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, hidden - begin);
    std::fill_n(sums, count, 0.0);
    for (int64_t j = 0; j < k; ++j) {
      if (ids[j] < 0) continue;
      const float* slot = slots.as<float>() + (row * k + j) * hidden + begin;
      for (int64_t i = 0; i < count; ++i) sums[i] += double{weights[j]} * double{slot[i]};
    }
    load_floats(values, shared, row * hidden + begin, count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(sums[i] + double{values[i]});
    store_floats(y, row * hidden + begin, values, count);
  }
}

}  // namespace

void grouped_linear(TensorView y, ConstTensorView x, int32_t x_divisor, ConstTensorView offsets,
                    ConstTensorView items, std::span<const LinearWeight> weights, TensorView,
                    Stream& stream) noexcept {
  grouped_linear_ref(y, x, x_divisor, offsets, items, weights, stream);
}

int64_t grouped_linear_scratch_floats(std::span<const LinearWeight> weights, int64_t items,
                                      int) noexcept {
  YOKE_CHECK(!weights.empty(), "grouped_linear: no experts");
  return items * (weights[0].in() + weights[0].out());
}

void moe_combine(TensorView y, ConstTensorView slots, ConstTensorView weights, ConstTensorView ids,
                 ConstTensorView shared, Stream& stream) noexcept {
  YOKE_CHECK(is_act_type(y.dtype) && is_act_type(shared.dtype) && slots.dtype == DType::f32 &&
                 weights.dtype == DType::f32 && ids.dtype == DType::i32,
             "moe_combine: wrong type");
  YOKE_CHECK(slots.rank() == 3 && weights.elements() == slots.dim(0) * slots.dim(1) &&
                 ids.elements() == weights.elements() &&
                 y.elements() == slots.dim(0) * slots.dim(2) && shared.elements() == y.elements(),
             "moe_combine: want slots [rows, k, hidden], weights and ids [rows, k], y and shared "
             "[rows, hidden]");
  ThreadPool* threads = &stream.threads();
  stream.launch("moe_combine", [=] {
    const int64_t k = slots.dim(1);
    threads->for_range(slots.dim(0), grain_for(k * slots.dim(2) / 2),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t r = begin; r < end; ++r)
                           combine_row(y, slots, weights.as<float>() + r * k,
                                       ids.as<int32_t>() + r * k, shared, r);
                       });
  });
}

}  // namespace yoke::kernels
