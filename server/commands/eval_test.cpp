// What `yoke eval` reports, and when it calls the result not good enough.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/commands/eval_report.h"

namespace yoke::server {
namespace {

using engine::Json;
using testing::HasSubstr;
using testing::Not;

EvalReport report() {
  EvalReport out;
  out.model = "nano";
  out.precision = "bf16";
  auto& reference = out.reference.emplace();
  reference.origin = {"nano", "abc", "fp32", 4};
  engine::Divergence first;
  first.add({.kl = 0.1, .same_top = true, .reference_nll = 0.5, .nll = 0.6}, true);
  engine::Divergence second;
  second.add({.kl = 0.3, .same_top = false}, false);
  reference.texts = {{"a.txt", first}, {"b.txt", second}};
  out.answers.push_back({{.question = "q?", .answer = "42"}, {true, "it is 42", 4}});
  return out;
}

TEST(EvalReport, table_has_texts_sum_and_answers) {
  const std::string text = eval_text(report());
  for (const char* part : {"nano, bf16\nagainst nano, fp32\n", "a.txt", "0.100000", "100.000 %",
                           "b.txt", "all", "0.200000", "50.000 %", "known answers: 1 of 1 right"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("FAILED")));
}

TEST(EvalReport, limits_are_checked_over_all_texts) {
  EvalReport out = report();
  out.limits = {.max_kl = 0.2, .min_top1 = 0.5};
  EXPECT_TRUE(out.failures().empty()) << "0.2 and 50 % are within";
  out.limits = {.max_kl = 0.19, .min_top1 = 0.51};
  ASSERT_EQ(out.failures().size(), 2u);
  EXPECT_THAT(out.failures()[0], HasSubstr("mean KL is 0.200000, the limit is 0.190000"));
  EXPECT_THAT(out.failures()[1], HasSubstr("top-1 agreement is 50.000 %"));
}

TEST(EvalReport, wrong_answers_fail_and_show_what_came) {
  EvalReport out = report();
  out.answers.push_back({{.question = "q2?", .answer = "7"}, {false, "line\nwith \x1b[2J", 9}});
  ASSERT_EQ(out.failures().size(), 1u);
  EXPECT_THAT(out.failures()[0],
              HasSubstr("wrong answer to \"q2?\": wanted \"7\", got \"line with"));
  EXPECT_THAT(out.failures()[0], Not(HasSubstr("\x1b")));
  const Json json = eval_json(out);
  EXPECT_FALSE(json.find("passed")->as_boolean());
  EXPECT_EQ(json.find("failures")->items().size(), 1u);
  EXPECT_EQ(json.find("answers")->items().at(1).find("completion")->as_string(),
            "line\nwith \x1b[2J");
}

TEST(EvalReport, json_holds_every_figure) {
  const Json json = eval_json(report());
  EXPECT_TRUE(json.find("passed")->as_boolean());
  EXPECT_EQ(json.find("texts")->items().at(0).find("name")->as_string(), "a.txt");
  EXPECT_EQ(json.find("texts")->items().at(1).find("mean_kl")->to_double(), 0.3);
  EXPECT_EQ(json.find("all")->find("mean_kl")->to_double(), 0.2);
  EXPECT_EQ(json.find("all")->find("top1")->to_double(), 0.5);
  EXPECT_EQ(json.find("reference")->find("identity")->as_string(), "abc");
  EXPECT_EQ(eval_json(EvalReport{}).find("all"), nullptr);
}

}  // namespace
}  // namespace yoke::server
