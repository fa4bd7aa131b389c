// What `yoke eval` prints: a table for people, or JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/eval/evaluate.h"
#include "engine/json/json.h"

namespace yoke::server {

/// Limits of the quality gate; what is absent is not checked.
struct EvalLimits {
  std::optional<double> max_kl;    ///< mean over all rows, nats
  std::optional<double> min_top1;  ///< share, 0 to 1
};

struct EvalReport {
  std::string model;
  std::string precision;
  std::string saved;  ///< the file that the logits went to; empty: none
  struct Reference {
    engine::ReferenceOrigin origin;
    struct Text {
      std::string name;
      engine::Divergence divergence;
    };
    std::vector<Text> texts;
    engine::Divergence all() const;
  };
  std::optional<Reference> reference;
  struct Answer {
    engine::Question question;
    engine::QuestionResult result;
  };
  std::vector<Answer> answers;
  EvalLimits limits;

  /// What fails the gate, one line each; empty when all is well.
  std::vector<std::string> failures() const;
};

std::string eval_text(const EvalReport& report);
engine::Json eval_json(const EvalReport& report);

}  // namespace yoke::server
