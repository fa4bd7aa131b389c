// What a server takes of this machine's memory, known before anything is allocated (design.md 8).
#pragma once

#include <cstdint>

#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/model/memory.h"
#include "engine/model/system_memory.h"
#include "engine/runtime.h"

namespace yoke::engine {

/// The class that is left to the operating system, and the one that other parts of the process may
/// fill later; all other classes are allocated at start.
inline constexpr const char* kReserve = "reserve";
inline constexpr const char* kHostBuffers = "host buffers";

/// Every byte that Runtime::open() and the model will take for these options, by class: weights, KV
/// pool, KDA slots, prefix snapshots, MoE slot buffer, workspace, host buffers, reserve. Reads
/// headers only. Errors: what is wrong with the checkpoint or the options.
config::Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const RuntimeOptions& options);

/// A thirty-second of the machine, at least 128 MiB and at most 4 GiB.
uint64_t default_reserve(uint64_t total_bytes) noexcept;

enum class MemoryVerdict {
  as_planned,
  exceeded,  ///< by more than a fiftieth of the plan, and kMemoryNoise
  refused,   ///< more was taken than plan and reserve together, and the reserve is not there any
             ///< more
};
/// What other processes do meanwhile is not worth a word.
constexpr uint64_t kMemoryNoise = uint64_t{64} << 20;

/// Compares the drop of available memory from before loading until the engine is warm with the
/// classes that are allocated at start.
MemoryVerdict compare_with_plan(const MemoryPlan& plan, const SystemMemory& before,
                                const SystemMemory& after) noexcept;
/// Bytes of the classes that are allocated at start.
uint64_t allocated_at_start(const MemoryPlan& plan) noexcept;

}  // namespace yoke::engine
