#include "kernels/moe_experts/moe_experts.h"

#include <algorithm>

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/core/row_sums.h"
#include "kernels/exl3/exl3_product.h"
#include "kernels/linear/dense_product.h"

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
      add_scaled(sums, double{weights[j]}, slot, count);
    }
    load_floats(values, shared, row * hidden + begin, count);
    add_scaled(sums, 1.0, values, count);
    round_sums(values, sums, count);
    store_floats(y, row * hidden + begin, values, count);
  }
}

/// What one grouped product reads; offsets and items are read when it runs.
struct Grouped {
  TensorView y;
  ConstTensorView x;
  int32_t x_divisor;
  const int32_t* offsets;
  const int32_t* items;
  std::span<const LinearWeight> weights;

  int64_t experts() const { return static_cast<int64_t>(weights.size()); }
  int64_t first(int64_t expert) const { return offsets[expert]; }
  int64_t rows(int64_t expert) const { return offsets[expert + 1] - offsets[expert]; }
  const LinearWeight& weight(int64_t expert) const {
    const LinearWeight& w = weights[static_cast<size_t>(expert)];
    YOKE_DCHECK(w.in() == weights[0].in() && w.out() == weights[0].out() &&
                    w.is_exl3() == weights[0].is_exl3(),
                "grouped_linear: experts differ in shape or kind");
    return w;
  }
};

/// Calls row(i, expert) for every item i in segment order, spread over the threads.
template <class Row>
void for_each_item(const Grouped& g, int64_t ns, ThreadPool& threads, const Row& row) {
  threads.for_range(g.first(g.experts()), grain_for(ns), [&](int64_t begin, int64_t end, int) {
    int64_t expert = std::upper_bound(g.offsets, g.offsets + g.experts(), begin) - g.offsets - 1;
    for (int64_t i = begin; i < end; ++i) {
      while (i >= g.first(expert + 1)) ++expert;
      row(i, expert);
    }
  });
}

DenseProduct dense_product_of(const Grouped& g, int64_t expert) {
  return {.y = g.y,
          .x = g.x,
          .w = g.weight(expert).dense,
          .in = g.weight(expert).in(),
          .x_stride = g.weight(expert).in(),
          .y_stride = g.weight(expert).out(),
          .items = g.items + g.first(expert),
          .x_divisor = g.x_divisor};
}

/// (expert, outputs) pairs are spread over the threads. `all` items at most: how much work to
/// expect. Scratch: the inputs of experts with many rows, packed, one stretch per expert.
void multiply_dense(const Grouped& g, int64_t all, float* scratch, ThreadPool& threads) {
  constexpr int64_t kOutputs = 64;
  const int64_t in = g.weights[0].in();
  const int64_t out = g.weights[0].out();
  const int64_t row_floats = dense_packed_floats(in, 1);
  for_each_item(g, in, threads, [&](int64_t i, int64_t expert) {
    const DenseProduct product = dense_product_of(g, expert);
    if (packs_rows(product, g.rows(expert)))
      dense_pack_row(scratch + g.first(expert) * row_floats, i - g.first(expert), g.rows(expert),
                     product);
  });
  const int64_t parts = (out + kOutputs - 1) / kOutputs;
  const int64_t part_ns = kOutputs * dense_product_ns(in, all) / g.experts();
  threads.for_range(g.experts() * parts, grain_for(part_ns), [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t expert = u / parts;
      const int64_t rows = g.rows(expert);
      if (rows == 0) continue;
      const int64_t output = u % parts * kOutputs;
      const int64_t output_end = std::min(out, output + kOutputs);
      const DenseProduct product = dense_product_of(g, expert);
      if (packs_rows(product, rows)) {
        dense_product_packed(product, scratch + g.first(expert) * row_floats, rows, output,
                             output_end);
      } else {
        dense_product(product, rows, output, output_end);
      }
    }
  });
}

/// Scratch: the transformed inputs [items, in], one stretch per expert, then the sums [items, out].
void multiply_exl3(const Grouped& g, int64_t all, float* scratch, ThreadPool& threads) {
  const int64_t in = g.weights[0].in();
  const int64_t out = g.weights[0].out();
  const int64_t blocks = out / kExl3Block;
  float* sums = scratch + all * in;
  const int64_t items = g.first(g.experts());
  for_each_item(g, exl3_transform_ns(in), threads, [&](int64_t i, int64_t expert) {
    exl3_transform_input(scratch + g.first(expert) * in, i - g.first(expert), g.rows(expert), g.x,
                         g.items[i] / g.x_divisor, g.weight(expert).exl3);
  });
  // Few experts of many may have rows: what a pair costs on average, were the work spread evenly.
  const int64_t busy = std::min(items, g.experts());
  const int64_t pair_ns = busy == 0 ? 0 : exl3_block_ns(in, items / busy) * busy / g.experts();
  threads.for_range(g.experts() * blocks, grain_for(pair_ns), [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u) {
      const int64_t expert = u / blocks;
      const int64_t block = u % blocks;
      const int64_t rows = g.rows(expert);
      if (rows == 0) continue;
      const Exl3Matrix& w = g.weight(expert).exl3;
      float* v = sums + g.first(expert) * out + block * rows * kExl3Block;
      exl3_multiply_block(v, scratch + g.first(expert) * in, rows, w, block);
      for (int64_t r = 0; r < rows; ++r)
        exl3_store_block(g.y, g.items[g.first(expert) + r], v + r * kExl3Block, w, block);
    }
  });
}

}  // namespace

void grouped_linear(TensorView y, ConstTensorView x, int32_t x_divisor, ConstTensorView offsets,
                    ConstTensorView items, std::span<const LinearWeight> weights,
                    TensorView scratch, Stream& stream) noexcept {
  YOKE_CHECK(is_act_type(x.dtype) && is_act_type(y.dtype) && offsets.dtype == DType::i32 &&
                 items.dtype == DType::i32,
             "grouped_linear: wrong type");
  YOKE_CHECK(!weights.empty() && offsets.elements() == static_cast<int64_t>(weights.size()) + 1,
             "grouped_linear: want one weight per expert, offsets [experts + 1]");
  YOKE_CHECK(x_divisor >= 1 && y.elements() == items.elements() * weights[0].out() &&
                 x.elements() * x_divisor == items.elements() * weights[0].in(),
             "grouped_linear: want y [rows·k, out], x [rows·k / x_divisor, in]");
  const Grouped grouped{y, x, x_divisor, offsets.as<int32_t>(), items.as<int32_t>(), weights};
  ThreadPool* threads = &stream.threads();
  YOKE_CHECK(scratch.dtype == DType::f32 &&
                 scratch.elements() >=
                     grouped_linear_scratch_floats(weights, items.elements(), threads->threads()),
             "grouped_linear: scratch too small");
  stream.launch("grouped_linear", [=, all = items.elements()] {
    if (grouped.weights[0].is_exl3()) {
      multiply_exl3(grouped, all, scratch.as<float>(), *threads);
    } else {
      multiply_dense(grouped, all, scratch.as<float>(), *threads);
    }
  });
}

int64_t grouped_linear_scratch_floats(std::span<const LinearWeight> weights, int64_t items,
                                      int) noexcept {
  YOKE_CHECK(!weights.empty(), "grouped_linear: no experts");
  return weights[0].is_exl3() ? items * (weights[0].in() + weights[0].out())
                              : dense_packed_floats(weights[0].in(), items);
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
