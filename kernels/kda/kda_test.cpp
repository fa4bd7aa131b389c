#include "kernels/kda/kda.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/math.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/schedule.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using testing::all_close;
using testing::Compute;
using testing::Random;
using testing::random_tensor;
using testing::same_bits;
using testing::ScheduledStep;
using testing::ScheduleShape;
using testing::unwritten;

/// Inputs of the recurrence for every row of a schedule.
struct Inputs {
  Inputs(Random& random, const ScheduleShape& shape, DType act, int64_t head_count,
         int64_t head_dim)
      : heads(head_count),
        dim(head_dim),
        q(random, shape, act, {heads * dim}),
        k(random, shape, act, {heads * dim}),
        v(random, shape, act, {heads * dim}),
        g(random, shape, DType::f32, {heads * dim}),
        beta(random, shape, DType::f32, {heads}) {
    for (testing::RowSource* source : {&g, &beta}) {
      for (Tensor* t : {&source->truth, &source->rejected}) {
        for (int64_t i = 0; i < t->view().elements(); ++i) {
          float& x = t->view().as<float>()[i];
          // Decays in (-5, 0), strengths in (0, 1), as kda_gate gives them.
          x = static_cast<float>(source == &g ? -5.0 * sigmoid64(3.0 * x - 2.0) : sigmoid64(x));
        }
      }
    }
  }

  int64_t heads, dim;
  testing::RowSource q, k, v, g, beta;
};

/// The op with memory of its own, which starts as NaN: what a slot held must not matter.
struct Recurrence {
  Recurrence(const ScheduleShape& shape, DType act, int64_t heads, int64_t dim, int threads = 1)
      : state(unwritten(DType::f32, {shape.slots, heads, dim, dim})),
        pending_k(unwritten(act, {shape.slots, shape.max_window, heads * dim})),
        pending_v(unwritten(act, {shape.slots, shape.max_window, heads * dim})),
        pending_g(unwritten(DType::f32, {shape.slots, shape.max_window, heads * dim})),
        pending_beta(unwritten(DType::f32, {shape.slots, shape.max_window, heads})),
        compute(threads) {}

  Tensor run(const std::vector<ScheduledStep>& steps, const ScheduleShape& shape, const Inputs& in,
             Random& random) {
    const DType act = pending_k.view().dtype;
    testing::StepTable table(random, shape);
    testing::RowSink out(shape, act, {in.heads * in.dim});
    for (const ScheduledStep& step : steps) {
      const Tensor q = in.q.rows(step);
      const Tensor k = in.k.rows(step);
      const Tensor v = in.v.rows(step);
      const Tensor g = in.g.rows(step);
      const Tensor beta = in.beta.rows(step);
      Tensor o = unwritten(act, {step.bucket(), in.heads * in.dim});
      kda_recurrence(
          o.view(), q.view(), k.view(), v.view(), g.view(), beta.view(),
          {state.view(), pending_k.view(), pending_v.view(), pending_g.view(), pending_beta.view()},
          table.fill(step), compute.stream);
      out.take(step, o.view());
    }
    return testing::copy_of(out.view());
  }

  Tensor state, pending_k, pending_v, pending_g, pending_beta;
  Compute compute;
};

/// spec/glm5_next.md 5.3 for one head, in float64: rows of one sequence from the zero state.
std::vector<double> recurrence_in_double(const Inputs& in, int64_t rows, int64_t head) {
  const int64_t d = in.dim;
  const int64_t width = in.heads * d;
  const auto at = [&](const testing::RowSource& source, int64_t row, int64_t i) {
    return static_cast<double>(load_float(source.truth.view(), row * width + head * d + i));
  };
  std::vector<double> state(static_cast<size_t>(d * d), 0.0);
  std::vector<double> out;
  for (int64_t t = 0; t < rows; ++t) {
    double qq = 0;
    double kk = 0;
    for (int64_t i = 0; i < d; ++i) {
      qq += at(in.q, t, i) * at(in.q, t, i);
      kk += at(in.k, t, i) * at(in.k, t, i);
    }
    const double q_scale = 1.0 / std::sqrt(qq + 1e-6) / std::sqrt(static_cast<double>(d));
    const double k_scale = 1.0 / std::sqrt(kk + 1e-6);
    const double beta = in.beta.truth.view().as<float>()[t * in.heads + head];
    for (int64_t c = 0; c < d; ++c) {
      double read = 0;
      for (int64_t i = 0; i < d; ++i) {
        double& s = state[static_cast<size_t>(i * d + c)];
        s *= exp64(at(in.g, t, i));
        read += at(in.k, t, i) * k_scale * s;
      }
      double o = 0;
      for (int64_t i = 0; i < d; ++i) {
        double& s = state[static_cast<size_t>(i * d + c)];
        s += at(in.k, t, i) * k_scale * beta * (at(in.v, t, c) - read);
        o += at(in.q, t, i) * q_scale * s;
      }
      out.push_back(o);
    }
  }
  return out;
}

class Kda : public ::testing::TestWithParam<DType> {};

TEST_P(Kda, recurrence_agrees_with_the_formulas_in_double) {
  Random random(1);
  SCOPED_TRACE(random.trace());
  for (const int64_t dim : {1, 16, 32, 40, 128}) {
    const ScheduleShape shape{.sequences = 1, .length = 30};
    const Inputs in(random, shape, GetParam(), 2, dim);
    Recurrence op(shape, GetParam(), in.heads, dim);
    const Tensor got = op.run(serial_schedule(shape), shape, in, random);
    Tensor want(DType::f32, got.view().shape);
    for (int64_t head = 0; head < in.heads; ++head) {
      const std::vector<double> rows = recurrence_in_double(in, shape.length, head);
      for (int64_t t = 0; t < shape.length; ++t) {
        for (int64_t c = 0; c < dim; ++c)
          want.view().as<float>()[(t * in.heads + head) * dim + c] =
              static_cast<float>(rows[static_cast<size_t>(t * dim + c)]);
      }
    }
    // Sums of up to 128 terms in float over 30 steps, values of size ~1; then one rounding.
    EXPECT_TRUE(
        all_close(got.view(), want.view(), {2e-5, testing::rounding_error(GetParam()) * 1.01}))
        << "head size " << dim;
  }
}

TEST_P(Kda, any_schedule_gives_the_bits_of_serial_decoding) {
  for (uint64_t seed = 10; seed < 22; ++seed) {
    Random random(seed);
    SCOPED_TRACE(random.trace());
    const ScheduleShape shape;
    const Inputs in(random, shape, GetParam(), 2, 40);
    Recurrence serial(shape, GetParam(), 2, 40);
    Recurrence mixed(shape, GetParam(), 2, 40, 1 + static_cast<int>(seed % 3));
    const Tensor want = serial.run(serial_schedule(shape), shape, in, random);
    const Tensor got = mixed.run(random_schedule(random, shape), shape, in, random);
    EXPECT_TRUE(same_bits(got.view(), want.view()));
  }
}

TEST_P(Kda, whole_prompt_leaves_the_state_of_single_rows) {
  Random random(2);
  SCOPED_TRACE(random.trace());
  const ScheduleShape shape{.sequences = 1, .length = 17};
  const Inputs in(random, shape, GetParam(), 2, 32);
  Recurrence rows(shape, GetParam(), 2, 32);
  Recurrence whole(shape, GetParam(), 2, 32);
  rows.run(serial_schedule(shape), shape, in, random);
  ScheduledStep prompt;
  prompt.sequences.push_back({shape.slot_of(0), 0, shape.length, 0, shape.length, 0});
  for (int32_t t = 0; t < shape.length; ++t) prompt.rows.push_back({0, t, false});
  whole.run({prompt}, shape, in, random);
  EXPECT_TRUE(same_bits(whole.state.view(), rows.state.view()));
}

TEST_P(Kda, window_leaves_the_state_as_committed) {
  Random random(3);
  SCOPED_TRACE(random.trace());
  const ScheduleShape shape{.sequences = 1, .length = 6};
  const Inputs in(random, shape, GetParam(), 2, 32);
  Recurrence op(shape, GetParam(), 2, 32);
  ScheduledStep commits;
  commits.sequences.push_back({shape.slot_of(0), 0, 3, 0, 3, 0});
  for (int32_t t = 0; t < 3; ++t) commits.rows.push_back({0, t, false});
  op.run({commits}, shape, in, random);
  const Tensor before = testing::copy_of(op.state.view());
  ScheduledStep window;
  window.sequences.push_back({shape.slot_of(0), 0, 3, 3, 0, 0});
  for (int32_t t = 3; t < 6; ++t) window.rows.push_back({0, t, false});
  op.run({window}, shape, in, random);
  EXPECT_TRUE(same_bits(op.state.view(), before.view()));
}

TEST_P(Kda, gate_agrees_with_the_formulas_in_double) {
  Random random(4);
  SCOPED_TRACE(random.trace());
  const int64_t rows = 5;
  const int64_t heads = 3;
  const int64_t dim = 10;
  Compute compute(2);
  for (const std::optional<float> bound : {std::optional<float>(-5.0f), std::optional<float>()}) {
    const Tensor z = random_tensor(random, GetParam(), {rows, heads * dim}, 8.0);
    const Tensor b = random_tensor(random, GetParam(), {rows, heads}, 3.0);
    const Tensor a_log = random_tensor(random, DType::f32, {heads});
    const Tensor dt_bias = random_tensor(random, DType::f32, {heads * dim}, 2.0);
    Tensor g = unwritten(DType::f32, {rows, heads * dim});
    Tensor beta = unwritten(DType::f32, {rows, heads});
    kda_gate(g.view(), beta.view(), z.view(), b.view(), a_log.view(), dt_bias.view(), bound,
             compute.stream);
    Tensor want_g(DType::f32, g.view().shape);
    Tensor want_beta(DType::f32, beta.view().shape);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < heads * dim; ++i) {
        const double rate = std::exp(static_cast<double>(a_log.view().as<float>()[i / dim]));
        const double x = static_cast<double>(load_float(z.view(), r * heads * dim + i)) +
                         dt_bias.view().as<float>()[i];
        want_g.view().as<float>()[r * heads * dim + i] = static_cast<float>(
            bound ? *bound / (1.0 + std::exp(-rate * x)) : -rate * std::log1p(std::exp(x)));
      }
      for (int64_t h = 0; h < heads; ++h)
        want_beta.view().as<float>()[r * heads + h] = static_cast<float>(
            1.0 / (1.0 + std::exp(-static_cast<double>(load_float(b.view(), r * heads + h)))));
    }
    // rate · x of up to ~1e2 carries a float rounding into the exponent.
    EXPECT_TRUE(all_close(g.view(), want_g.view(), {1e-7, 3e-5}));
    EXPECT_TRUE(all_close(beta.view(), want_beta.view(), {0, 2e-7}));
  }
}

TEST_P(Kda, output_norm_agrees_with_the_formulas_in_double) {
  Random random(5);
  SCOPED_TRACE(random.trace());
  const int64_t rows = 4;
  const int64_t heads = 3;
  const int64_t dim = 40;
  Compute compute(2);
  const Tensor o = random_tensor(random, GetParam(), {rows, heads * dim});
  const Tensor gate = random_tensor(random, GetParam(), {rows, heads * dim}, 2.0);
  const Tensor weight = random_tensor(random, DType::bf16, {dim});
  Tensor y = testing::copy_of(o.view());  // in place, as the model uses it
  kda_output_norm(y.view(), y.view(), gate.view(), weight.view(), 1e-5f, compute.stream);
  Tensor want(DType::f32, y.view().shape);
  for (int64_t item = 0; item < rows * heads; ++item) {
    double squares = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const double x = load_float(o.view(), item * dim + i);
      squares += x * x;
    }
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(dim) + 1e-5f);
    for (int64_t i = 0; i < dim; ++i) {
      const double open =
          1.0 / (1.0 + std::exp(-static_cast<double>(load_float(gate.view(), item * dim + i))));
      want.view().as<float>()[item * dim + i] = static_cast<float>(
          load_float(o.view(), item * dim + i) * scale * load_float(weight.view(), i) * open);
    }
  }
  EXPECT_TRUE(all_close(y.view(), want.view(), {1e-7, testing::rounding_error(GetParam()) + 2e-6}));
}

TEST_P(Kda, every_instruction_set_gives_the_same_bits) {
  Random random(6);
  SCOPED_TRACE(random.trace());
  const ScheduleShape shape{.sequences = 2, .length = 12};
  const Inputs in(random, shape, GetParam(), 2, 72);
  const std::vector<ScheduledStep> steps = random_schedule(random, shape);
  const Tensor z = random_tensor(random, GetParam(), {3, 2 * 72}, 4.0);
  const Tensor b = random_tensor(random, GetParam(), {3, 2});
  const Tensor a_log = random_tensor(random, DType::f32, {2});
  const Tensor bias = random_tensor(random, DType::f32, {2 * 72});
  const Tensor weight = random_tensor(random, DType::bf16, {72});
  struct Results {
    Tensor recurrence, g, beta, normed;
  };
  const auto run_all = [&] {
    Recurrence op(shape, GetParam(), 2, 72);
    Results r{op.run(steps, shape, in, random), unwritten(DType::f32, {3, 2 * 72}),
              unwritten(DType::f32, {3, 2}), unwritten(GetParam(), {3, 2 * 72})};
    kda_gate(r.g.view(), r.beta.view(), z.view(), b.view(), a_log.view(), bias.view(), -5.0f,
             op.compute.stream);
    kda_output_norm(r.normed.view(), z.view(), z.view(), weight.view(), 1e-5f, op.compute.stream);
    return r;
  };
  const Results want = run_all();
  testing::for_each_simd_target([&] {
    const Results got = run_all();
    EXPECT_TRUE(same_bits(got.recurrence.view(), want.recurrence.view()));
    EXPECT_TRUE(same_bits(got.g.view(), want.g.view()));
    EXPECT_TRUE(same_bits(got.beta.view(), want.beta.view()));
    EXPECT_TRUE(same_bits(got.normed.view(), want.normed.view()));
  });
}

INSTANTIATE_TEST_SUITE_P(Types, Kda, ::testing::Values(DType::bf16, DType::f32),
                         [](const auto& test) { return dtype_name(test.param); });

}  // namespace
}  // namespace yoke::kernels
