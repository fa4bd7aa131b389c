// What must hold before a model is loaded; each failure names the value, what is wanted and, for
// memory, how much is missing.
#pragma once

#include <optional>

#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"

namespace yoke::engine {

/// Options, census and the sizes that the kernels can take.
std::optional<config::Error> check_loadable(const Checkpoint& checkpoint,
                                            const ModelOptions& options);

/// Enough memory, as far as the operating system tells; the error says what the plan is, how much
/// is missing and who holds most.
std::optional<config::Error> check_memory(const MemoryPlan& plan);

}  // namespace yoke::engine
