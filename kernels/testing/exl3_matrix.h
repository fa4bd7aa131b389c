// A random EXL3 matrix: every bit pattern is a legal trellis.
#pragma once

#include "kernels/core/weights.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels::testing {

class RandomExl3 {
 public:
  RandomExl3(Random& random, int64_t in, int64_t out, int bits, Codebook codebook)
      : trellis_(DType::i16, {in / 16, out / 16, 16 * bits}),
        suh_(random_tensor(random, DType::f16, {in})),
        svh_(random_tensor(random, DType::f16, {out})),
        matrix_{in, out, bits, codebook, words(), suh_.view().as<f16>(), svh_.view().as<f16>()} {
    for (int64_t i = 0; i < trellis_.view().elements(); ++i)
      words()[i] = static_cast<uint16_t>(random.bits());
  }

  const Exl3Matrix& matrix() const { return matrix_; }
  uint16_t* words() { return reinterpret_cast<uint16_t*>(trellis_.view().as<int16_t>()); }
  int64_t bytes() const { return static_cast<int64_t>(trellis_.bytes()); }

 private:
  Tensor trellis_;
  Tensor suh_;
  Tensor svh_;
  Exl3Matrix matrix_;
};

}  // namespace yoke::kernels::testing
