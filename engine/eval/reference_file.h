// Logits of some texts, stored to compare other models with: a safetensors file with, per text, the
// tokens (I32) and one row of logits per token (F32), and metadata that says whose they are. Files
// may be larger than memory: rows are written and read one at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/file.h"

namespace yoke::engine {

struct ReferenceText {
  std::string name;  ///< for people: the file it came from
  std::vector<int32_t> tokens;
};

/// Whose logits they are.
struct ReferenceOrigin {
  std::string model;      ///< Checkpoint::name()
  std::string identity;   ///< Checkpoint::identity()
  std::string precision;  ///< "bf16" or "fp32"
  int32_t vocab = 0;      ///< entries of a row: the ids that the tokenizer defines
};

/// Writes beside the target and renames when all rows are there, so that a file under its own name
/// is whole.
class ReferenceWriter {
 public:
  /// Errors: a text without tokens, a folder that cannot be written.
  static config::Result<ReferenceWriter> create(const std::filesystem::path& path,
                                                const ReferenceOrigin& origin,
                                                std::span<const ReferenceText> texts);
  ReferenceWriter(ReferenceWriter&&) noexcept = default;
  ReferenceWriter& operator=(ReferenceWriter&&) = delete;
  ~ReferenceWriter();

  /// The next row: texts in order, positions ascending. `row` has `vocab` entries.
  config::Result<void> add(std::span<const float> row);
  /// After the last row.
  config::Result<void> finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  ReferenceWriter(std::filesystem::path path, size_t vocab, uint64_t rows);
  config::Result<void> write(const void* data, size_t bytes);

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::unique_ptr<std::FILE, Closer> file_;
  size_t vocab_;
  uint64_t rows_left_;
};

/// Thread safe after open.
class ReferenceFile {
 public:
  /// Errors name the file and what is wrong with it: not written by yoke eval, cut, tensors of the
  /// wrong shape, ids beyond the vocabulary.
  static config::Result<ReferenceFile> open(const std::filesystem::path& path);

  const ReferenceOrigin& origin() const noexcept { return origin_; }
  const std::vector<ReferenceText>& texts() const noexcept { return texts_; }
  /// Row of `position` of a text; `out` has origin().vocab entries.
  config::Result<void> read_row(size_t text, size_t position, std::span<float> out) const;

 private:
  explicit ReferenceFile(File file) : file_(std::move(file)) {}

  File file_;
  ReferenceOrigin origin_;
  std::vector<ReferenceText> texts_;
  std::vector<uint64_t> offsets_;  // of each text's first row
};

}  // namespace yoke::engine
