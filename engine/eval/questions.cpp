// Where questions come from: the table of known answers, and files.
#include "engine/eval/evaluate.h"
#include "engine/json/json.h"
#include "engine/json/json_lines.h"
#include "engine/known_answers.h"

namespace yoke::engine {
namespace {

config::Result<Question> read_question(const Json& object) {
  const auto text = [&](const char* key) -> const Json* {
    const Json* value = object.find(key);
    return value != nullptr && value->is_string() && !value->as_string().empty() ? value : nullptr;
  };
  Question out;
  const Json* question = text("question");
  const Json* answer = text("answer");
  if (question == nullptr || answer == nullptr)
    return config::invalid_input("wanted an object with non-empty strings `question` and `answer`");
  out.question = question->as_string();
  out.answer = answer->as_string();
  if (object.find("effort") != nullptr) {
    const Json* effort = text("effort");
    if (effort != nullptr) out.effort = effort->as_string();
    if (effort == nullptr || (out.effort != "none" && out.effort != "low" && out.effort != "high" &&
                              out.effort != "max"))
      return config::invalid_input("`effort` must be none, low, high or max");
  }
  if (const Json* limit = object.find("max_tokens")) {
    const auto value = limit->to_int64();
    if (!value || *value < 1 || *value > (1 << 30))
      return config::invalid_input("`max_tokens` must be a positive number");
    out.max_tokens = static_cast<int32_t>(*value);
  }
  return out;
}

}  // namespace

std::vector<Question> known_questions(std::string_view identity) {
  std::vector<Question> out;
  for (const KnownAnswer& known : known_answers(identity)) {
    Question& question = out.emplace_back();
    question.question = known.question;
    question.answer = known.answer;
    question.max_tokens = known.tokens;
    question.match = Question::Match::beginning;
  }
  return out;
}

config::Result<std::vector<Question>> read_questions(std::string_view text, std::string_view file) {
  std::vector<Question> out;
  const auto read = each_json_line(
      text, file, [&](const Json& json, const std::string& where, size_t) -> config::Result<void> {
        auto question = read_question(json);
        if (!question.ok()) return config::invalid_input(where + ": " + question.error().message);
        out.push_back(std::move(*question));
        return {};
      });
  if (!read.ok()) return read.error();
  if (out.empty()) return config::invalid_input(std::string(file) + ": no question in it");
  return out;
}

}  // namespace yoke::engine
