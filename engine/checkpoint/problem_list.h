// What is wrong with a checkpoint, one sentence each. A damaged folder can have a hundred thousand
// faults; the first thousand are kept and the rest counted.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace yoke::engine {

class ProblemList {
 public:
  static constexpr size_t kKept = 1000;

  void add(std::string problem) {
    if (kept_.size() < kKept) {
      kept_.push_back(std::move(problem));
    } else {
      ++dropped_;
    }
  }

  void append(const ProblemList& other) {
    for (const std::string& problem : other.kept_) add(problem);
    dropped_ += other.dropped_;
  }

  bool empty() const { return kept_.empty(); }

  /// The first kKept.
  const std::vector<std::string>& kept() const { return kept_; }
  /// All of them.
  uint64_t count() const { return kept_.size() + dropped_; }

 private:
  std::vector<std::string> kept_;
  uint64_t dropped_ = 0;
};

}  // namespace yoke::engine
