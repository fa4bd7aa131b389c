#include "engine/checkpoint/shard_set.h"

#include <xxhash.h>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "engine/checkpoint/strict_json.h"

namespace yoke::engine {

namespace fs = std::filesystem;
using config::Error;
using config::ErrorKind;
using config::invalid_input;
using config::Result;

namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kMtpName = "mtp.safetensors";
constexpr uint64_t kMaxIndexBytes = 256ull << 20;
/// Each shard holds a descriptor; 1,024 is the usual limit of a process.
constexpr size_t kMaxShards = 512;

/// weight_map of an index: tensors by name, each with the number of its file.
struct Index {
  std::vector<std::string> files;  // ascending
  struct Entry {
    std::string name;
    uint32_t file = 0;
  };
  std::vector<Entry> entries;  // ascending name
};

/// A plain file name that cannot lead out of the folder and can be shown as it is.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' &&
         name.find_first_of("/\\") == std::string_view::npos && printable(name) == name;
}

Result<Index> read_index(const fs::path& path) {
  const std::string where = path.filename().string() + ": ";
  const auto text = read_text_file(path, kMaxIndexBytes);
  if (!text) return text.error();
  const auto root = parse_strict_json_object(*text, path.filename().string());
  if (!root) return root.error();
  const boost::json::value* map = root->if_contains("weight_map");
  if (map == nullptr || !map->is_object() || map->get_object().empty())
    return invalid_input(where + "wanted 'weight_map', an object of tensor name → file name");

  Index index;
  for (const auto& [name, value] : map->get_object()) {
    const std::string_view file =
        value.is_string() ? std::string_view(value.get_string()) : std::string_view();
    if (!is_plain_name(file))
      return invalid_input(where + "tensor " + quote(std::string_view(name)) + " is placed in " +
                           quote(file) +
                           ", wanted the name of a file in this folder, without any path");
    index.files.emplace_back(file);
    index.entries.push_back({std::string(std::string_view(name)), 0});
  }
  std::vector<std::string> file_of = index.files;  // parallel to entries until these are sorted
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  if (index.files.size() > kMaxShards)
    return invalid_input(where + "names " + std::to_string(index.files.size()) +
                         " files, at most " + std::to_string(kMaxShards) + " are accepted");
  for (size_t i = 0; i < index.entries.size(); ++i)
    index.entries[i].file = static_cast<uint32_t>(
        std::lower_bound(index.files.begin(), index.files.end(), file_of[i]) - index.files.begin());
  std::sort(index.entries.begin(), index.entries.end(),
            [](const Index::Entry& a, const Index::Entry& b) { return a.name < b.name; });
  return index;
}

class Digest {
 public:
  Digest() : state_(XXH3_createState()) {
    YOKE_CHECK(state_ != nullptr, "no memory for a hash state");
    XXH3_128bits_reset(state_.get());
  }
  void add(std::string_view bytes) {
    const uint64_t size = bytes.size();  // lengths first: no two inputs run together
    add_number(size);
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void add_number(uint64_t number) { XXH3_128bits_update(state_.get(), &number, sizeof number); }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    char text[33];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return text;
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

/// Opens one file and adds its tensors.
Result<void> add_shard(ShardSet& set, const fs::path& path, Digest& digest) {
  auto file = File::open(path);
  if (!file) return file.error();
  auto header = read_header_text(*file);
  if (!header) return header.error();
  auto tensors = parse_safetensors_header(*header, file->size(), file->name());
  if (!tensors) return tensors.error();
  digest.add_number(file->size());
  digest.add(*header);
  for (TensorInfo& tensor : *tensors) {
    tensor.shard = static_cast<uint32_t>(set.files.size());
    set.tensors.push_back(std::move(tensor));
  }
  set.paths.push_back(path);
  set.files.push_back(std::move(*file));
  return {};
}

/// Sorts the tensors by name and drops repetitions, reporting them.
void sort_and_report_duplicates(ShardSet& set) {
  std::stable_sort(set.tensors.begin(), set.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto same = [&](const TensorInfo& kept, const TensorInfo& repeated) {
    if (kept.name != repeated.name) return false;
    set.problems.add("tensor " + quote(kept.name) + " is in " + std::string(set.file_name(kept)) +
                     " and again in " + std::string(set.file_name(repeated)) +
                     ": remove one of the files");
    return true;
  };
  set.tensors.erase(std::unique(set.tensors.begin(), set.tensors.end(), same), set.tensors.end());
}

/// Walks index and tensors side by side. `shard_of` gives the shard of each file of the index, or
/// nothing when it could not be read.
void compare_with_index(ShardSet& set, const Index& index,
                        const std::vector<std::optional<uint32_t>>& shard_of) {
  const auto is_indexed_shard = [&](uint32_t shard) {
    return std::find(shard_of.begin(), shard_of.end(), std::optional(shard)) != shard_of.end();
  };
  const std::string where = std::string(kIndexName) + ": ";
  auto tensor = set.tensors.begin();
  const auto report_unlisted = [&] {
    if (is_indexed_shard(tensor->shard))
      set.problems.add(where + "tensor " + quote(tensor->name) + " of " +
                       std::string(set.file_name(*tensor)) + " is not in weight_map");
    ++tensor;
  };
  for (const Index::Entry& entry : index.entries) {
    while (tensor != set.tensors.end() && tensor->name < entry.name) report_unlisted();
    const bool found = tensor != set.tensors.end() && tensor->name == entry.name;
    const std::optional<uint32_t> shard = shard_of[entry.file];
    if (!shard) {
      set.unreadable.push_back(entry.name);
    } else if (!found) {
      set.problems.add(where + "tensor " + quote(entry.name) + " is placed in " +
                       index.files[entry.file] + ", which does not hold it");
    } else if (tensor->shard != *shard) {
      set.problems.add(where + "tensor " + quote(entry.name) + " is placed in " +
                       index.files[entry.file] + ", but is in " +
                       std::string(set.file_name(*tensor)));
    }
    if (found) ++tensor;
  }
  while (tensor != set.tensors.end()) report_unlisted();
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

bool ShardSet::is_unreadable(std::string_view name) const {
  return std::binary_search(unreadable.begin(), unreadable.end(), name);
}

const TensorInfo* ShardSet::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const TensorInfo& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

Result<ShardSet> open_shards(const fs::path& folder, std::span<const fs::path> extra_files,
                             std::string_view digest_seed) {
  ShardSet set;
  Digest digest;
  digest.add(digest_seed);
  const auto add = [&](const fs::path& path) -> std::optional<uint32_t> {
    const auto shard = static_cast<uint32_t>(set.files.size());
    const auto added = add_shard(set, path, digest);
    if (added) return shard;
    set.problems.add(added.error().message);
    return std::nullopt;
  };

  std::optional<Index> index;
  std::vector<std::optional<uint32_t>> shard_of;
  const auto in_index = [&](std::string_view name) {
    return index && std::binary_search(index->files.begin(), index->files.end(), name);
  };
  if (is_there(folder / kIndexName)) {
    auto read = read_index(folder / kIndexName);
    if (!read) return read.error();
    index = std::move(*read);
    for (const std::string& name : index->files) {
      if (is_there(folder / name)) {
        shard_of.push_back(add(folder / name));
        continue;
      }
      shard_of.emplace_back();
      set.problems.add(name + " is missing: " + std::string(kIndexName) +
                       " places tensors in it, download it too");
    }
    if (!in_index(kSingleName) && is_there(folder / kSingleName))
      set.problems.add("the folder holds both " + std::string(kSingleName) + " and " +
                       std::string(kIndexName) +
                       ", which does not name it: remove the one that does not belong here");
  } else if (is_there(folder / kSingleName)) {
    add(folder / kSingleName);
  } else {
    return Error{ErrorKind::not_found, "no weights in " + quote(folder.string()) + ": wanted " +
                                           std::string(kIndexName) + " or " +
                                           std::string(kSingleName)};
  }
  if (is_there(folder / kMtpName) && !in_index(kMtpName)) add(folder / kMtpName);
  for (const fs::path& extra : extra_files) add(extra);

  sort_and_report_duplicates(set);
  if (index) compare_with_index(set, *index, shard_of);
  set.digest = digest.hex();
  return set;
}

}  // namespace yoke::engine
