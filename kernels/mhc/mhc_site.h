// The small part of mHC that both implementations share: from the 2S + S² products of one row to
// its coefficients. Internal to kernels/mhc.
#pragma once

#include "kernels/mhc/mhc.h"

namespace yoke::kernels {

constexpr int kMhcMaxStreams = 8;
constexpr int kMhcMaxProducts = 2 * kMhcMaxStreams + kMhcMaxStreams * kMhcMaxStreams;

struct MhcSite {
  double pre[kMhcMaxStreams];
  double post[kMhcMaxStreams];
  double comb[kMhcMaxStreams * kMhcMaxStreams];  // [source][destination]
};

/// `products` are fn · n for one row, [2S + S²].
MhcSite mhc_site(const double* products, int streams, const MhcWeights& weights);

}  // namespace yoke::kernels
