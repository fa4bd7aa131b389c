// The checkpoints that the exactness suite runs on.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/model/loaded_model.h"
#include "engine/testing/random_checkpoint.h"

namespace yoke::tests {

/// Throws std::runtime_error with the loader's message where something is refused.
class Subject {
 public:
  static Subject nano();
  /// `wide` (engine/testing), written to a temporary folder that lives as long as this object.
  static Subject wide(const engine::WideShape& shape);

  const std::string& name() const noexcept { return name_; }
  const engine::ModelConfig& config() const { return checkpoint_.config(); }
  /// Packed for the instruction set that is in use now.
  std::unique_ptr<engine::LoadedModel> load(const engine::ModelOptions& options,
                                            kernels::ThreadPool& threads) const;

 private:
  Subject(std::string name, std::unique_ptr<engine::TempFolder> folder,
          const std::filesystem::path& path);

  std::string name_;
  std::unique_ptr<engine::TempFolder> folder_;  // null: not ours
  engine::Checkpoint checkpoint_;
};

}  // namespace yoke::tests
