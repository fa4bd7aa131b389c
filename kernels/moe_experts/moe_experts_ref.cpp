#include <cstring>

#include "config/check.h"
#include "kernels/core/buffer.h"
#include "kernels/exl3/exl3.h"
#include "kernels/linear/linear.h"
#include "kernels/moe_experts/moe_experts.h"

namespace yoke::kernels {
namespace {

void copy_row(const TensorView& to, int64_t to_row, const ConstTensorView& from, int64_t from_row,
              int64_t width) {
  const size_t bytes = static_cast<size_t>(width) * dtype_bytes(from.dtype);
  std::memcpy(static_cast<std::byte*>(to.data) + static_cast<size_t>(to_row) * bytes,
              static_cast<const std::byte*>(from.data) + static_cast<size_t>(from_row) * bytes,
              bytes);
}

}  // namespace

void grouped_linear_ref(TensorView y, ConstTensorView x, int32_t x_divisor, ConstTensorView offsets,
                        ConstTensorView items, std::span<const LinearWeight> weights,
                        Stream& stream) noexcept {
  ThreadPool* threads = &stream.threads();
  stream.launch("grouped_linear_ref", [=] {
    Stream direct(*threads);
    for (size_t e = 0; e < weights.size(); ++e) {
      const LinearWeight& weight = weights[e];
      const int32_t* item = items.as<int32_t>() + offsets.as<int32_t>()[e];
      const int64_t rows = offsets.as<int32_t>()[e + 1] - offsets.as<int32_t>()[e];
      if (rows == 0) continue;
      Tensor group_x(x.dtype, {rows, weight.in()});
      Tensor group_y(y.dtype, {rows, weight.out()});
      for (int64_t r = 0; r < rows; ++r)
        copy_row(group_x.view(), r, x, item[r] / x_divisor, weight.in());
      if (weight.is_exl3()) {
        exl3_matmul_ref(group_y.view(), group_x.view(), weight.exl3, direct);
      } else {
        linear_ref(group_y.view(), group_x.view(), weight.dense, direct);
      }
      for (int64_t r = 0; r < rows; ++r) copy_row(y, item[r], group_y.view(), r, weight.out());
    }
  });
}

void moe_combine_ref(TensorView y, ConstTensorView slots, ConstTensorView weights,
                     ConstTensorView ids, ConstTensorView shared, Stream& stream) noexcept {
  stream.launch("moe_combine_ref", [=] {
    const int64_t k = slots.dim(1);
    const int64_t hidden = slots.dim(2);
    for (int64_t r = 0; r < slots.dim(0); ++r) {
      for (int64_t i = 0; i < hidden; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) {
          if (ids.as<int32_t>()[r * k + j] < 0) continue;
          sum +=
              double{load_float(weights, r * k + j)} * load_float(slots, (r * k + j) * hidden + i);
        }
        store_float(y, r * hidden + i,
                    static_cast<float>(sum + double{load_float(shared, r * hidden + i)}));
      }
    }
  });
}

}  // namespace yoke::kernels
