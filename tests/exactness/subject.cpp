#include "tests/exactness/subject.h"

#include <stdexcept>

namespace yoke::tests {

namespace {

engine::Checkpoint open(const std::filesystem::path& path) {
  auto checkpoint = engine::Checkpoint::open(path);
  if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
  return std::move(*checkpoint);
}

}  // namespace

Subject::Subject(std::string name, std::unique_ptr<engine::TempFolder> folder,
                 const std::filesystem::path& path)
    : name_(std::move(name)), folder_(std::move(folder)), checkpoint_(open(path)) {}

Subject Subject::nano() {
  return {"nano", nullptr, YOKE_SOURCE_DIR "/tools/nano/checkpoint"};
}

Subject Subject::wide(const engine::WideShape& shape) {
  auto folder = std::make_unique<engine::TempFolder>();
  const std::filesystem::path path = folder->path();
  engine::write_random_checkpoint(path, engine::wide_checkpoint(shape));
  return {"wide", std::move(folder), path};
}

std::unique_ptr<engine::LoadedModel> Subject::load(const engine::ModelOptions& options,
                                                   kernels::ThreadPool& threads) const {
  auto model = engine::LoadedModel::load(checkpoint_, options, threads);
  if (!model.ok()) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

}  // namespace yoke::tests
