#include "engine/memory_plan.h"

#include <algorithm>

#include "engine/model/loaded_model.h"

namespace yoke::engine {

config::Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint,
                                       const RuntimeOptions& options) {
  auto plan = plan_memory(checkpoint, model_options(options, checkpoint.config()),
                          compute_threads(options));
  if (!plan.ok()) return plan.error();
  plan->classes.push_back(
      {kHostBuffers, options.host_bytes, "request bodies that may be held at once"});
  const auto system = system_memory();
  const uint64_t reserve =
      options.reserve_bytes.value_or(system ? default_reserve(system->total) : default_reserve(0));
  plan->classes.push_back({kReserve, reserve, "left to the operating system"});
  return plan;
}

uint64_t default_reserve(uint64_t total_bytes) noexcept {
  return std::clamp(total_bytes / 32, uint64_t{128} << 20, uint64_t{4} << 30);
}

uint64_t allocated_at_start(const MemoryPlan& plan) noexcept {
  return plan.total() - plan.bytes_of(kHostBuffers) - plan.bytes_of(kReserve);
}

MemoryVerdict compare_with_plan(const MemoryPlan& plan, const SystemMemory& before,
                                const SystemMemory& after) noexcept {
  const auto signed_bytes = [](uint64_t bytes) { return static_cast<int64_t>(bytes); };
  const int64_t planned = signed_bytes(allocated_at_start(plan));
  const int64_t taken = signed_bytes(before.available) - signed_bytes(after.available);
  const uint64_t reserve = plan.bytes_of(kReserve);
  if (taken - planned > signed_bytes(reserve) && after.available < reserve)
    return MemoryVerdict::refused;
  const int64_t tolerance = std::max(planned / 50, signed_bytes(kMemoryNoise));
  return taken - planned > tolerance ? MemoryVerdict::exceeded : MemoryVerdict::as_planned;
}

}  // namespace yoke::engine
