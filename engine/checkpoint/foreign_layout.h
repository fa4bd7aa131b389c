// Weight layouts that other programs write and yoke does not read, recognised by tensor names so
// that a user learns what the folder is, not only what it is not.
#pragma once

#include <string_view>

#include "engine/checkpoint/safetensors.h"

namespace yoke::engine {

struct ForeignLayout {
  std::string_view name;    ///< "FP8 with scales per block"
  std::string_view advice;  ///< what to do, an imperative clause
};

/// The layout that a tensor betrays by its name or type; nullptr for none. The pointer is static.
const ForeignLayout* foreign_layout(const TensorInfo& tensor);

}  // namespace yoke::engine
