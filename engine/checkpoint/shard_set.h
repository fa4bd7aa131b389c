// The weight files of a folder: which files there are, what their headers say, and whether the
// index agrees. Knows nothing of models.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/file.h"
#include "engine/checkpoint/problem_list.h"
#include "engine/checkpoint/safetensors.h"

namespace yoke::engine {

/// Files that could be read, their tensors sorted by name (each name once), and everything found
/// wrong on the way.
struct ShardSet {
  std::vector<std::filesystem::path> paths;
  std::vector<File> files;          ///< same order as paths
  std::vector<TensorInfo> tensors;  ///< ascending name
  /// One sentence each: unreadable files, names in two files, an index that disagrees.
  ProblemList problems;
  /// Names that the index places in files that could not be read: their absence is no news.
  std::vector<std::string> unreadable;  ///< ascending
  /// 128-bit digest over sizes and headers of all files and `seed`; hex.
  std::string digest;

  /// Whether the index places `name` in a file that could not be read.
  bool is_unreadable(std::string_view name) const;
  /// nullptr when absent.
  const TensorInfo* find(std::string_view name) const noexcept;
  std::string_view file_name(const TensorInfo& tensor) const { return files[tensor.shard].name(); }
};

/// model.safetensors.index.json and its shards, or model.safetensors; then mtp.safetensors unless
/// the index names it, then `extra_files`. An error when there is no weight file at all or the
/// index cannot be used; faults of single files become problems.
config::Result<ShardSet> open_shards(const std::filesystem::path& folder,
                                     std::span<const std::filesystem::path> extra_files,
                                     std::string_view digest_seed);

}  // namespace yoke::engine
