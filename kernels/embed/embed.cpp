#include "kernels/embed/embed.h"

#include <algorithm>

#include "config/check.h"
#include "kernels/core/row_io.h"

namespace yoke::kernels {
namespace {

/// Writes the table's row, or zeros, `copies` times from row r·copies on.
void embed_row(const TensorView& y, const ConstTensorView& ids, const ConstTensorView& table,
               const int32_t* zero_at_position_0, int64_t r, int64_t copies) {
  const int64_t hidden = table.dim(1);
  const int64_t id = ids.as<int32_t>()[r];
  const bool zero =
      id < 0 || id >= table.dim(0) || (zero_at_position_0 != nullptr && zero_at_position_0[r] == 0);
  float chunk[kRowChunk] = {};
  for (int64_t begin = 0; begin < hidden; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, hidden - begin);
    if (!zero) load_floats(chunk, table, id * hidden + begin, count);
    for (int64_t c = 0; c < copies; ++c)
      store_floats(y, (r * copies + c) * hidden + begin, chunk, count);
  }
}

void embed_rows(const char* op, TensorView y, ConstTensorView ids, ConstTensorView table,
                const int32_t* zero_at_position_0, int64_t copies, Stream& stream) {
  YOKE_CHECK(table.rank() == 2 && is_float_type(table.dtype), "embed: bad table");
  YOKE_CHECK(ids.dtype == DType::i32 && ids.elements() == y.dim(0), "embed: one id per row");
  YOKE_CHECK(y.elements() == y.dim(0) * copies * table.dim(1), "embed: wrong width of y");
  ThreadPool* threads = &stream.threads();
  stream.launch(op, [=] {
    threads->for_range(y.dim(0), grain_for(copies * table.dim(1)),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t r = begin; r < end; ++r)
                           embed_row(y, ids, table, zero_at_position_0, r, copies);
                       });
  });
}

}  // namespace

void embed(TensorView y, ConstTensorView ids, ConstTensorView table,
           const int32_t* zero_at_position_0, Stream& stream) noexcept {
  embed_rows("embed", y, ids, table, zero_at_position_0, 1, stream);
}

void embed_streams(TensorView y, ConstTensorView ids, ConstTensorView table,
                   Stream& stream) noexcept {
  YOKE_CHECK(y.rank() == 3, "embed_streams: y must be [rows, streams, hidden]");
  embed_rows("embed_streams", y, ids, table, nullptr, y.dim(1), stream);
}

}  // namespace yoke::kernels
