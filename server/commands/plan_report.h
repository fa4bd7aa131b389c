// What `yoke plan` prints: the memory of a checkpoint at given settings, by class, beside what this
// machine has.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/memory_plan.h"

namespace yoke::server {

struct PlanFacts {
  std::string model;  ///< name of the checkpoint
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  engine::MemoryPlan plan;
  std::optional<engine::SystemMemory> system;   ///< unset: the machine does not say
  std::vector<engine::MemoryHolder> holders{};  ///< who has most of it

  bool fits() const { return !system || plan.total() <= system->available; }
  uint64_t missing() const { return fits() ? 0 : plan.total() - system->available; }
};

/// For people; ends with a newline.
std::string plan_text(const PlanFacts& facts);
/// The same as one JSON object.
std::string plan_json(const PlanFacts& facts);

}  // namespace yoke::server
