#include <algorithm>
#include <cmath>

#include "kernels/core/math.h"
#include "kernels/mhc/mhc.h"
#include "kernels/mhc/mhc_site.h"

namespace yoke::kernels {
namespace {

void divide_rows(double* c, int n, double eps) {
  for (int i = 0; i < n; ++i) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += c[i * n + j];
    for (int j = 0; j < n; ++j) c[i * n + j] /= sum + eps;
  }
}

void divide_columns(double* c, int n, double eps) {
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += c[i * n + j];
    for (int i = 0; i < n; ++i) c[i * n + j] /= sum + eps;
  }
}

void softmax_rows(double* c, int n) {
  for (int i = 0; i < n; ++i) {
    double* row = c + i * n;
    const double top = *std::max_element(row, row + n);
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += row[j] = exp64(row[j] - top);
    for (int j = 0; j < n; ++j) row[j] /= sum;
  }
}

}  // namespace

MhcSite mhc_site(const double* products, int streams, const MhcWeights& weights) {
  const float* base = weights.base.as<float>();
  const float* scale = weights.scale.as<float>();
  const double eps = weights.hc_eps;
  const auto affine = [&](int i, int group) {
    return products[i] * double{scale[group]} + double{base[i]};
  };
  MhcSite site{};
  for (int s = 0; s < streams; ++s) {
    site.pre[s] = sigmoid64(affine(s, 0)) + eps;
    site.post[s] = 2.0 * sigmoid64(affine(streams + s, 1));
  }
  for (int i = 0; i < streams * streams; ++i) site.comb[i] = affine(2 * streams + i, 2);
  softmax_rows(site.comb, streams);
  for (int i = 0; i < streams * streams; ++i) site.comb[i] += eps;
  divide_columns(site.comb, streams, eps);
  for (int k = 1; k < weights.sinkhorn_iterations; ++k) {
    divide_rows(site.comb, streams, eps);
    divide_columns(site.comb, streams, eps);
  }
  return site;
}

void mhc_coefficients_ref(TensorView x, TensorView post, TensorView comb, ConstTensorView streams,
                          const MhcWeights& weights, Stream& stream) noexcept {
  stream.launch("mhc_coefficients_ref", [=] {
    const int s_count = static_cast<int>(streams.dim(1));
    const int64_t hidden = streams.dim(2);
    const int64_t width = s_count * hidden;
    for (int64_t r = 0; r < streams.dim(0); ++r) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) {
        const double f = load_float(streams, r * width + i);
        squares += f * f;
      }
      const double scale =
          1.0 / std::sqrt(squares / static_cast<double>(width) + double{weights.rms_eps});
      double products[kMhcMaxProducts];
      for (int o = 0; o < 2 * s_count + s_count * s_count; ++o) {
        double dot = 0;
        for (int64_t i = 0; i < width; ++i)
          dot += double{load_float(weights.fn, o * width + i)} * load_float(streams, r * width + i);
        products[o] = scale * dot;
      }
      const MhcSite site = mhc_site(products, s_count, weights);
      for (int s = 0; s < s_count; ++s)
        store_float(post, r * s_count + s, static_cast<float>(site.post[s]));
      for (int i = 0; i < s_count * s_count; ++i)
        store_float(comb, r * s_count * s_count + i, static_cast<float>(site.comb[i]));
      for (int64_t i = 0; i < hidden; ++i) {
        double sum = 0;
        for (int s = 0; s < s_count; ++s)
          sum += site.pre[s] * load_float(streams, r * width + s * hidden + i);
        store_float(x, r * hidden + i, static_cast<float>(sum));
      }
    }
  });
}

void mhc_mix_ref(TensorView streams, ConstTensorView y, ConstTensorView post, ConstTensorView comb,
                 Stream& stream) noexcept {
  stream.launch("mhc_mix_ref", [=] {
    const int64_t s_count = streams.dim(1);
    const int64_t hidden = streams.dim(2);
    for (int64_t r = 0; r < streams.dim(0); ++r) {
      for (int64_t d = 0; d < hidden; ++d) {
        double mixed[kMhcMaxStreams];
        for (int64_t j = 0; j < s_count; ++j) {
          mixed[j] = double{load_float(post, r * s_count + j)} * load_float(y, r * hidden + d);
          for (int64_t i = 0; i < s_count; ++i)
            mixed[j] += double{load_float(comb, (r * s_count + i) * s_count + j)} *
                        load_float(streams, (r * s_count + i) * hidden + d);
        }
        for (int64_t j = 0; j < s_count; ++j)
          store_float(streams, (r * s_count + j) * hidden + d, static_cast<float>(mixed[j]));
      }
    }
  });
}

}  // namespace yoke::kernels
