#include "config/check.h"
#include "kernels/embed/embed.h"

namespace yoke::kernels {

void embed_ref(TensorView y, ConstTensorView ids, ConstTensorView table,
               const int32_t* zero_at_position_0, Stream& stream) noexcept {
  stream.launch("embed_ref", [=] {
    const int64_t hidden = table.dim(1);
    for (int64_t r = 0; r < y.dim(0); ++r) {
      const int64_t id = ids.as<int32_t>()[r];
      const bool zero = id < 0 || id >= table.dim(0) ||
                        (zero_at_position_0 != nullptr && zero_at_position_0[r] == 0);
      for (int64_t i = 0; i < hidden; ++i)
        store_float(y, r * hidden + i, zero ? 0.0f : load_float(table, id * hidden + i));
    }
  });
}

}  // namespace yoke::kernels
