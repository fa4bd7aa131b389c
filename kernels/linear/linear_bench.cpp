// Dense products: one row against the read bandwidth, 512 rows against oneDNN, both measured in the
// same run. Without oneDNN (libdnnl-dev) the second has no ratio.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <tuple>

#include "kernels/exl3/exl3.h"
#include "kernels/linear/linear.h"
#include "kernels/testing/bench.h"
#include "kernels/testing/exl3_matrix.h"
#include "kernels/testing/tensors.h"

#ifdef YOKE_HAVE_DNNL
#include <oneapi/dnnl/dnnl.hpp>
extern "C" void omp_set_num_threads(int) __attribute__((weak));  // oneDNN's threads
#endif

namespace yoke::kernels {
namespace {

const testing::BenchContext context;

/// One thread is timed by its own processor time, which other programs on the machine disturb less.
double now(int threads) {
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double best_seconds(int runs, int threads, const auto& work) {
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const double start = now(threads);
    work();
    best = std::min(best, now(threads) - start);
  }
  return best;
}

// --- read bandwidth -----------------------------------------------------------------------------

constexpr int64_t kStreamBytes = int64_t{512} << 20;

using Words = uint64_t __attribute__((vector_size(16)));

/// Reads every word of a 512 MiB buffer, in eight streams per thread: one stream alone does not
/// reach the memory's rate.
void read_all(const Tensor& buffer, ThreadPool& threads) {
  constexpr int64_t kStreams = 8;
  constexpr int64_t kStreamLines = kStreamBytes / 64 / kStreams;
  const auto* words = static_cast<const Words*>(buffer.view().data);
  threads.for_range(kStreamLines, 1 << 13, [&](int64_t begin, int64_t end, int) {
    Words a{}, b{}, c{}, d{};
    for (int64_t line = begin; line < end; ++line) {
      for (int64_t s = 0; s < kStreams; ++s) {
        const Words* at = words + (s * kStreamLines + line) * 4;
        __builtin_prefetch(at + 32);
        a += at[0];
        b += at[1];
        c += at[2];
        d += at[3];
      }
    }
    benchmark::DoNotOptimize(a + b + c + d);
  });
}

const Tensor& stream_buffer() {
  static const Tensor buffer = [] {
    Tensor t(DType::f32, {kStreamBytes / 4});
    std::memset(t.view().data, 1, t.bytes());
    return t;
  }();
  return buffer;
}

double read_bandwidth(int threads) {
  static std::map<int, double> known;
  if (!known.contains(threads)) {
    ThreadPool pool(threads);
    known[threads] = static_cast<double>(kStreamBytes) /
                     best_seconds(9, threads, [&] { read_all(stream_buffer(), pool); });
  }
  return known[threads];
}

void read_bandwidth_bench(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  ThreadPool pool(threads);
  stream_buffer();
  for (auto _ : state) read_all(stream_buffer(), pool);
  state.counters["GB/s"] = read_bandwidth(threads) / 1e9;
}
BENCHMARK(read_bandwidth_bench)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// --- oneDNN -------------------------------------------------------------------------------------

/// FLOP/s of oneDNN for y = x · Wᵀ in f32 or in BF16 with f32 result; 0 without oneDNN or where it
/// has no such product.
double dnnl_flops(int64_t rows, int64_t in, int64_t out, DType dtype, int threads) {
#ifdef YOKE_HAVE_DNNL
  using dnnl::memory;
  static std::map<std::tuple<int64_t, int64_t, int64_t, DType, int>, double> known;
  const auto key = std::tuple(rows, in, out, dtype, threads);
  if (known.contains(key)) return known[key];
  if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
  const auto type = dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  double& flops = known[key];
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    const memory::desc x({rows, in}, type, memory::format_tag::ab);
    const memory::desc any({in, out}, type, memory::format_tag::any);  // its own packed layout
    const memory::desc y({rows, out}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, any, y), engine);
    memory x_memory(x, engine);
    memory w_memory(description.weights_desc(), engine);
    memory y_memory(y, engine);
    std::memset(x_memory.get_data_handle(), 0, x.get_size());
    std::memset(w_memory.get_data_handle(), 0, description.weights_desc().get_size());
    const dnnl::matmul product(description);
    const double seconds = best_seconds(7, threads, [&] {
      product.execute(
          stream,
          {{DNNL_ARG_SRC, x_memory}, {DNNL_ARG_WEIGHTS, w_memory}, {DNNL_ARG_DST, y_memory}});
      stream.wait();
    });
    flops = 2.0 * static_cast<double>(rows * in * out) / seconds;
  } catch (const dnnl::error&) {
    flops = 0;
  }
  return flops;
#else
  (void)rows, (void)in, (void)out, (void)dtype, (void)threads;
  return 0;
#endif
}

// --- products -----------------------------------------------------------------------------------

void linear_bench(benchmark::State& state, DType x_type, DType w_type, int threads) {
  const int64_t in = state.range(0);
  const int64_t out = state.range(1);
  const int64_t rows = state.range(2);
  testing::Random random(1);
  testing::Compute compute(threads);
  Tensor w(w_type, {out, in});
  for (int64_t i = 0; i < w.view().elements(); ++i)  // random_tensor is slow for 256 MiB
    store_float(w.view(), i, static_cast<float>(random.bits() % 256) / 128.0f - 1.0f);
  const Tensor x = testing::random_tensor(random, x_type, {rows, in});
  Tensor y(x_type, {rows, out});
  const LinearWeight weight{.dense = w.view(), .exl3 = {}};
  Tensor scratch(DType::f32, {linear_scratch_floats(weight, rows)});
  for (auto _ : state) linear(y.view(), x.view(), weight, scratch.view(), compute.stream);

  using benchmark::Counter;
  const double flop = 2.0 * static_cast<double>(rows * in * out);
  const double seconds = best_seconds(
      9, threads, [&] { linear(y.view(), x.view(), weight, scratch.view(), compute.stream); });
  state.counters["GFLOP/s"] = flop / seconds / 1e9;
  state.counters["GB/s"] = static_cast<double>(w.bytes()) / seconds / 1e9;
  if (static_cast<int64_t>(w.bytes()) >= int64_t{256} << 20)
    state.counters["of_bandwidth"] =
        static_cast<double>(w.bytes()) / seconds / read_bandwidth(threads);
  if (const double reference = rows >= 64 ? dnnl_flops(rows, in, out, x_type, threads) : 0;
      reference > 0) {
    state.counters["oneDNN_GFLOP/s"] = reference / 1e9;
    state.counters["of_oneDNN"] = flop / seconds / reference;
  }
}

/// The same shape with EXL3 weights of 4 bits (codebook mcg) and with BF16 weights.
void exl3_against_bf16(benchmark::State& state) {
  const int64_t in = state.range(0);
  const int64_t out = state.range(1);
  const int64_t rows = state.range(2);
  testing::Random random(1);
  testing::Compute compute(1);
  const testing::RandomExl3 exl3(random, in, out, 4, Codebook::mcg);
  Exl3Matrix matrix = exl3.matrix();
  Buffer packed(exl3_packed_bytes(matrix));
  exl3_pack(packed.data(), matrix);
  matrix.packed = packed.data();
  const Tensor w = testing::random_tensor(random, DType::bf16, {out, in});
  const Tensor x = testing::random_tensor(random, DType::bf16, {rows, in});
  Tensor y(DType::bf16, {rows, out});
  const LinearWeight trellis{.dense = {}, .exl3 = matrix};
  const LinearWeight dense{.dense = w.view(), .exl3 = {}};
  Tensor scratch(DType::f32, {std::max(linear_scratch_floats(trellis, rows),
                                       linear_scratch_floats(dense, rows))});
  const auto product = [&](const LinearWeight& weight) {
    linear(y.view(), x.view(), weight, scratch.view(), compute.stream);
  };
  for (auto _ : state) product(trellis);
  const double exl3_seconds = best_seconds(9, 1, [&] { product(trellis); });
  const double dense_seconds = best_seconds(9, 1, [&] { product(dense); });
  const auto weights = static_cast<double>(in * out);
  state.counters["Gweights/s"] = weights / exl3_seconds / 1e9;
  state.counters["GFLOP/s"] = 2 * weights * static_cast<double>(rows) / exl3_seconds / 1e9;
  state.counters["of_bf16"] = dense_seconds / exl3_seconds;
}

void large(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"in", "out", "rows"})->Unit(benchmark::kMillisecond)->UseRealTime();
  bench->Args({4096, 32768, 1});  // 256 MiB of BF16
  bench->Args({1024, 131072, 1});
  bench->Args({1024, 32768, 1});  // the head of `wide`: 64 MiB
  bench->Args({4096, 32768, 4});
}
void chunks(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"in", "out", "rows"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const int64_t rows : {1, 4, 8, 16, 48, 512}) bench->Args({4096, 2048, rows});
  bench->Args({1024, 1024, 512});
  bench->Args({1024, 512, 48});  // `wide` experts with 512 rows
  bench->Args({512, 1024, 48});
  bench->Args({128, 256, 1});  // nano
}

BENCHMARK(exl3_against_bf16)->Apply(chunks);
BENCHMARK_CAPTURE(linear_bench, bf16_1thread, DType::bf16, DType::bf16, 1)
    ->Apply(large)
    ->Apply(chunks);
BENCHMARK_CAPTURE(linear_bench, bf16_2threads, DType::bf16, DType::bf16, 2)
    ->Apply(large)
    ->Apply(chunks);
BENCHMARK_CAPTURE(linear_bench, f32_1thread, DType::f32, DType::f32, 1)->Apply(chunks);

}  // namespace
}  // namespace yoke::kernels
