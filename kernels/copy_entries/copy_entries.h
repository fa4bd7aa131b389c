#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// to[to_index[i]] = from[from_index[i]] for each i whose two indices are not -1: whole entries of
/// the first dimension, such as the state of a slot.
///   to, from  [entries, …], one type and equally many elements per entry; they must not overlap
///   to_index, from_index  [n] i32; no target may occur twice
void copy_entries(TensorView to, ConstTensorView from, ConstTensorView to_index,
                  ConstTensorView from_index, Stream& stream) noexcept;

}  // namespace yoke::kernels
