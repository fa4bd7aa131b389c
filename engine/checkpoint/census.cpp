#include "engine/checkpoint/census.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/exl3_group.h"
#include "engine/checkpoint/foreign_layout.h"
#include "engine/checkpoint/inventory.h"
#include "engine/checkpoint/problem_list.h"

namespace yoke::engine {

namespace {

bool is_dense_dtype(std::string_view dtype) {
  return dtype == "BF16" || dtype == "F16" || dtype == "F32";
}

std::string_view stem_of(std::string_view weight_name) {
  weight_name.remove_suffix(std::string_view(".weight").size());
  return weight_name;
}

class CensusTaker {
 public:
  CensusTaker(const ModelConfig& config, const ShardSet& shards)
      : config_(config), shards_(shards), accounted_(shards.tensors.size(), false) {}

  Census take() {
    refuse_foreign_layouts();
    problems_.append(shards_.problems);
    count_totals();
    if (!shards_.files.empty()) {
      visit(InventoryPart::text);
      take_mtp();
      take_vision();
      report_surplus();
    }
    return finish();
  }

 private:
  /// One line per layout, however many tensors have it.
  void refuse_foreign_layouts() {
    struct Found {
      const ForeignLayout* layout;
      const TensorInfo* example;
      uint64_t count;
    };
    std::vector<Found> seen;
    for (size_t i = 0; i < shards_.tensors.size(); ++i) {
      const TensorInfo& tensor = shards_.tensors[i];
      const ForeignLayout* layout = foreign_layout(tensor);
      if (layout == nullptr) continue;
      account(tensor);
      const auto known = std::find_if(seen.begin(), seen.end(),
                                      [&](const Found& f) { return f.layout == layout; });
      if (known != seen.end()) {
        ++known->count;
      } else {
        seen.push_back({layout, &tensor, 1});
      }
    }
    for (const Found& f : seen)
      problems_.add(count_text(f.count) + " such as " + quote(f.example->name) + " in " +
                    file_of(*f.example) + ": " + std::string(f.layout->name) +
                    ", which yoke does not read: " + std::string(f.layout->advice));
  }

  void count_totals() {
    for (const TensorInfo& tensor : shards_.tensors) {
      ++census_.tensors;
      census_.bytes += tensor.bytes;
    }
  }

  void visit(InventoryPart part) {
    part_hint_ = part == InventoryPart::mtp ? " (the MTP layer may be absent, but not in part)"
                 : part == InventoryPart::vision
                     ? " (the vision tower may be absent, but not in part)"
                     : "";
    visit_inventory(config_, part, [this](const ExpectedTensor& wanted) { check(wanted); });
  }

  void take_mtp() {
    const std::string prefix = layer_prefix(config_.num_layers);
    const auto [count, example] = with_prefix(prefix);
    if (count == 0) return;
    if (config_.num_mtp_layers > 0) {
      census_.has_mtp = true;
      return visit(InventoryPart::mtp);
    }
    refuse_part(prefix, count_text(count) + " of an MTP layer, such as " + quote(example->name) +
                            " in " + file_of(*example) +
                            ", but config.json says num_nextn_predict_layers 0: set it to 1 or "
                            "remove the file");
  }

  void take_vision() {
    const auto [count, example] = with_prefix(kVisionPrefix);
    census_.has_vision = count > 0;
    if (count == 0) return;
    if (config_.vision) return visit(InventoryPart::vision);
    const char* state = config_.has_vision_config ? "the sizes in its vision_config make no sense"
                                                  : "config.json has no vision_config";
    refuse_part(kVisionPrefix, count_text(count) + " of a vision tower, such as " +
                                   quote(example->name) + " in " + file_of(*example) + ", but " +
                                   state + ": take config.json from where the weights came");
  }

  /// Reports one part as surplus in one line.
  void refuse_part(std::string_view prefix, std::string problem) {
    for (const TensorInfo& tensor : shards_.tensors)
      if (tensor.name.starts_with(prefix)) account(tensor);
    problems_.add(std::move(problem));
  }

  std::pair<uint64_t, const TensorInfo*> with_prefix(std::string_view prefix) const {
    const auto begin = std::lower_bound(
        shards_.tensors.begin(), shards_.tensors.end(), prefix,
        [](const TensorInfo& tensor, std::string_view p) { return tensor.name < p; });
    auto end = begin;
    while (end != shards_.tensors.end() && end->name.starts_with(prefix)) ++end;
    return {static_cast<uint64_t>(end - begin), begin == end ? nullptr : &*begin};
  }

  void check(const ExpectedTensor& wanted) {
    const TensorInfo* dense = shards_.find(wanted.name);
    const bool exl3 = wanted.quantisable && has_exl3(shards_, stem_of(wanted.name));
    if (dense != nullptr) {
      check_dense(wanted, *dense);
      if (exl3)
        problems_.add("tensor " + quote(wanted.name) + " in " + file_of(*dense) +
                      ": wanted either this or '….trellis', found both");
    }
    if (exl3) check_exl3(wanted);
    if (dense == nullptr && !exl3) report_missing(wanted);
  }

  void check_dense(const ExpectedTensor& wanted, const TensorInfo& found) {
    const bool foreign = is_accounted(found);  // its layout was refused already
    account(found);
    if (foreign) return;
    count(wanted, 1, found.bytes);
    if (is_dense_dtype(found.dtype) && std::ranges::equal(wanted.shape(), found.shape)) return;
    problems_.add("tensor " + quote(found.name) + " in " + file_of(found) +
                  ": wanted BF16, F16 or F32 " + shape_text(wanted.shape()) + ", found " +
                  found.dtype + " " + shape_text(found.shape));
  }

  void check_exl3(const ExpectedTensor& wanted) {
    const std::string stem(stem_of(wanted.name));
    // All parts belong to the matrix, whether or not they are right. `scale` is a scalar that old
    // files carry and nobody reads.
    uint64_t tensors = 0;
    uint64_t bytes = 0;
    bool unreadable = false;
    for (const char* part : {".trellis", ".suh", ".su", ".svh", ".sv", ".mcg", ".mul1", ".scale"}) {
      unreadable |= shards_.is_unreadable(stem + part);
      const TensorInfo* tensor = shards_.find(stem + part);
      if (tensor == nullptr) continue;
      account(*tensor);
      ++tensors;
      bytes += tensor->bytes;
    }
    count(wanted, tensors, bytes);
    ++census_.exl3_matrices;
    const auto group = find_exl3_group(shards_, stem, wanted.dims[0], wanted.dims[1]);
    if (!group && !unreadable) problems_.add(group.error().message);
  }

  void report_missing(const ExpectedTensor& wanted) {
    if (shards_.is_unreadable(wanted.name)) return;
    std::string instead;
    if (wanted.quantisable) {
      const std::string trellis = std::string(stem_of(wanted.name)) + ".trellis";
      if (shards_.is_unreadable(trellis)) return;
      instead = " or an EXL3 matrix in its place";
    }
    problems_.add("tensor " + quote(wanted.name) + " is missing: wanted BF16, F16 or F32 " +
                  shape_text(wanted.shape()) + instead + ", found in no file" +
                  std::string(part_hint_));
  }

  void report_surplus() {
    for (size_t i = 0; i < shards_.tensors.size(); ++i) {
      if (accounted_[i]) continue;
      const TensorInfo& tensor = shards_.tensors[i];
      problems_.add("tensor " + quote(tensor.name) + " in " + file_of(tensor) + " (" +
                    tensor.dtype + " " + shape_text(tensor.shape) +
                    ") is not part of the model that config.json describes: remove it, or take "
                    "config.json from where the weights came");
    }
  }

  void count(const ExpectedTensor& wanted, uint64_t tensors, uint64_t bytes) {
    Census::Class& line = classes_[static_cast<size_t>(wanted.tensor_class)];
    line.tensors += tensors;
    line.parameters += wanted.elements();
    line.bytes += bytes;
  }

  Census finish() {
    for (size_t i = 0; i < classes_.size(); ++i) {
      Census::Class& line = classes_[i];
      if (line.tensors == 0) continue;
      line.name = class_name(static_cast<TensorClass>(i));
      line.bits_per_parameter =
          8.0 * static_cast<double>(line.bytes) / static_cast<double>(line.parameters);
      census_.parameters += line.parameters;
      census_.classes.push_back(std::move(line));
    }
    census_.problems = problems_.kept();
    census_.problem_count = problems_.count();
    return std::move(census_);
  }

  size_t index_of(const TensorInfo& tensor) const {
    return static_cast<size_t>(&tensor - shards_.tensors.data());
  }
  void account(const TensorInfo& tensor) { accounted_[index_of(tensor)] = true; }
  bool is_accounted(const TensorInfo& tensor) const { return accounted_[index_of(tensor)]; }
  std::string file_of(const TensorInfo& tensor) const {
    return std::string(shards_.file_name(tensor));
  }
  static std::string count_text(uint64_t count) {
    return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
  }

  const ModelConfig& config_;
  const ShardSet& shards_;
  std::vector<bool> accounted_;  // parallel to shards_.tensors
  std::array<Census::Class, kTensorClasses> classes_;
  ProblemList problems_;
  Census census_;
  std::string_view part_hint_;  // ends the line of a missing tensor of the part being visited
};

}  // namespace

Census take_census(const ModelConfig& config, const ShardSet& shards) {
  return CensusTaker(config, shards).take();
}

}  // namespace yoke::engine
