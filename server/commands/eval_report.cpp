#include "server/commands/eval_report.h"

#include <algorithm>
#include <cstdio>

#include "engine/json/utf8.h"
#include "server/commands/terminal.h"

namespace yoke::server {

using engine::Divergence;
using engine::Json;

namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string shortened(std::string text, size_t length) {
  for (char& c : text)
    if (c == '\n' || c == '\t') c = ' ';
  text = harmless(text);
  if (text.size() <= length) return text;
  return std::string(engine::utf8_prefix(text, length - 1)) + "…";
}

std::string row(const std::string& name, const Divergence& d) {
  return formatted("  %-32s %8llu  %9.6f  %9.6f  %7.3f %%  %9.4f  %9.4f\n", name.c_str(),
                   static_cast<unsigned long long>(d.rows), d.mean_kl(), d.kl_max, 100.0 * d.top1(),
                   d.reference_perplexity(), d.perplexity());
}

Json real(double value) {
  return Json::number(formatted("%.9g", value));
}

Json divergence_json(const Divergence& d) {
  return Json::object({{"rows", Json::integer(static_cast<int64_t>(d.rows))},
                       {"mean_kl", real(d.mean_kl())},
                       {"max_kl", real(d.kl_max)},
                       {"top1", real(d.top1())},
                       {"reference_perplexity", real(d.reference_perplexity())},
                       {"perplexity", real(d.perplexity())}});
}

size_t right_answers(const EvalReport& report) {
  return static_cast<size_t>(std::count_if(report.answers.begin(), report.answers.end(),
                                           [](const auto& a) { return a.result.right; }));
}

}  // namespace

Divergence EvalReport::Reference::all() const {
  Divergence sum;
  for (const Text& text : texts) sum.add(text.divergence);
  return sum;
}

std::vector<std::string> EvalReport::failures() const {
  std::vector<std::string> out;
  if (reference) {
    const Divergence all = reference->all();
    if (limits.max_kl && all.mean_kl() > *limits.max_kl)
      out.push_back(formatted("mean KL is %.6f, the limit is %.6f", all.mean_kl(), *limits.max_kl));
    if (limits.min_top1 && all.top1() < *limits.min_top1)
      out.push_back(formatted("top-1 agreement is %.3f %%, the limit is %.3f %%",
                              100.0 * all.top1(), 100.0 * *limits.min_top1));
  }
  for (const Answer& answer : answers) {
    if (answer.result.right) continue;
    out.push_back("wrong answer to \"" + shortened(answer.question.question, 60) + "\": wanted \"" +
                  shortened(answer.question.answer, 80) + "\", got \"" +
                  shortened(answer.result.completion, 160) + "\"");
  }
  return out;
}

std::string eval_text(const EvalReport& report) {
  std::string out = report.model + ", " + report.precision + "\n";
  if (!report.saved.empty()) out += "logits stored in " + report.saved + "\n";
  if (report.reference) {
    const auto& reference = *report.reference;
    out += "against " + reference.origin.model + ", " + reference.origin.precision + "\n";
    out += formatted("  %-32s %8s  %9s  %9s  %9s  %9s  %9s\n", "text", "rows", "mean KL", "max KL",
                     "top-1", "ppl ref.", "ppl");
    for (const auto& text : reference.texts) out += row(shortened(text.name, 32), text.divergence);
    if (reference.texts.size() > 1) out += row("all", reference.all());
  }
  if (!report.answers.empty())
    out += "known answers: " + std::to_string(right_answers(report)) + " of " +
           std::to_string(report.answers.size()) + " right\n";
  for (const std::string& failure : report.failures()) out += "FAILED: " + failure + "\n";
  return out;
}

Json eval_json(const EvalReport& report) {
  Json out = Json::object(
      {{"model", Json::string(report.model)}, {"precision", Json::string(report.precision)}});
  if (report.reference) {
    Json::Array texts;
    for (const auto& text : report.reference->texts) {
      Json line = divergence_json(text.divergence);
      line.members().insert(line.members().begin(), {"name", Json::string(text.name)});
      texts.push_back(std::move(line));
    }
    out.set("reference",
            Json::object({{"model", Json::string(report.reference->origin.model)},
                          {"identity", Json::string(report.reference->origin.identity)},
                          {"precision", Json::string(report.reference->origin.precision)}}));
    out.set("texts", Json::array(std::move(texts)));
    out.set("all", divergence_json(report.reference->all()));
  }
  Json::Array answers;
  for (const auto& answer : report.answers)
    answers.push_back(Json::object({{"question", Json::string(answer.question.question)},
                                    {"answer", Json::string(answer.question.answer)},
                                    {"right", Json::boolean(answer.result.right)},
                                    {"completion", Json::string(answer.result.completion)},
                                    {"tokens", Json::integer(answer.result.tokens)}}));
  out.set("answers", Json::array(std::move(answers)));
  Json::Array failures;
  for (const std::string& failure : report.failures()) failures.push_back(Json::string(failure));
  out.set("passed", Json::boolean(failures.empty()));
  out.set("failures", Json::array(std::move(failures)));
  return out;
}

}  // namespace yoke::server
