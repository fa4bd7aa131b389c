// `yoke bench`: how fast an OpenAI-style endpoint answers, at several concurrencies.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/file.h"
#include "server/bench/run.h"
#include "server/commands/commands.h"

namespace yoke::server {
namespace {

constexpr int kFailed = 1;
constexpr uint64_t kMaxPromptsFile = 64ull << 20;

struct BenchFlags {
  std::string url = "http://127.0.0.1:8080/v1";
  std::string api_key;
  std::string model;
  std::vector<std::string> kinds;
  std::string prompts_file;
  std::vector<int32_t> concurrency = {1, 2, 4, 8};
  int32_t runs = 3;
  int32_t max_tokens = 256;
  bool reuse = false;
  bool thinking = false;
  double wait_s = 0;
  double silence_s = 300;
  std::string json;
};

int complain(const config::Error& error) {
  std::fprintf(stderr, "yoke bench: %s\n", error.message.c_str());
  return kFailed;
}

config::Duration seconds_of(double seconds) {
  return std::chrono::duration_cast<config::Duration>(std::chrono::duration<double>(seconds));
}

config::Result<std::vector<BenchPrompt>> prompts_for(const BenchFlags& flags) {
  std::vector<BenchPrompt> all = built_in_prompts();
  if (!flags.prompts_file.empty()) {
    const auto text = engine::read_text_file(flags.prompts_file, kMaxPromptsFile);
    if (!text.ok()) return text.error();
    auto read = read_prompts(*text, flags.prompts_file);
    if (!read.ok()) return read.error();
    all = std::move(*read);
  }
  if (flags.kinds.empty()) return all;
  std::vector<BenchPrompt> chosen;
  for (const std::string& kind : flags.kinds) {
    const size_t before = chosen.size();
    std::string known;
    for (const BenchPrompt& prompt : all) {
      if (prompt.kind == kind) chosen.push_back(prompt);
      known += (known.empty() ? "" : ", ") + prompt.kind;
    }
    if (chosen.size() == before)
      return config::invalid_input("--kind " + kind + ": there is no such prompt; known: " + known);
  }
  return chosen;
}

config::Result<BenchPlan> plan_for(const BenchFlags& flags) {
  auto endpoint = parse_endpoint(flags.url);
  if (!endpoint.ok()) return endpoint.error();
  auto prompts = prompts_for(flags);
  if (!prompts.ok()) return prompts.error();
  BenchPlan plan;
  plan.target.endpoint = std::move(*endpoint);
  plan.target.api_key = flags.api_key;
  plan.target.silence = seconds_of(flags.silence_s);
  plan.request.model = flags.model;
  plan.request.max_tokens = flags.max_tokens;
  plan.request.thinking = flags.thinking;
  plan.request.cold = !flags.reuse;
  plan.prompts = std::move(*prompts);
  plan.concurrency = flags.concurrency;
  plan.runs = flags.runs;
  plan.patience = seconds_of(flags.wait_s);
  return plan;
}

int run_command(const BenchFlags& flags) {
  auto plan = plan_for(flags);
  if (!plan.ok()) return complain(plan.error());
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto result =
      run_bench(std::move(*plan), [terminal](const std::string& kind, int32_t concurrency) {
        if (terminal) std::fprintf(stderr, "\r\x1b[K%s, %d at once", kind.c_str(), concurrency);
      });
  if (terminal) std::fputs("\r\x1b[K", stderr);
  if (!result.ok()) return complain(result.error());
  std::fputs(bench_text(*result).c_str(), stdout);
  if (!flags.json.empty()) {
    std::ofstream file(flags.json, std::ios::binary);
    file << engine::to_json(bench_json(*result)) << "\n";
    if (!file.flush()) return complain({config::ErrorKind::io, "cannot write " + flags.json});
  }
  return result->failed() ? kFailed : 0;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* bench =
      app.add_subcommand("bench", "Measure how fast an OpenAI-style endpoint answers");
  bench->add_option("--url", flags->url, "The endpoint")->capture_default_str();
  bench->add_option("--api-key", flags->api_key, "Key, sent as bearer")
      ->envname("YOKE_BENCH_API_KEY");
  bench->add_option("--model", flags->model, "Model to ask (default: the first that is listed)");
  bench
      ->add_option("--kind", flags->kinds,
                   "Only this kind of prompt: structured, code, prose, json, or one of the file; "
                   "may be repeated")
      ->allow_extra_args(false);
  bench->add_option("--prompts", flags->prompts_file,
                    "Lines of {\"prompt\": …, \"kind\": …} in place of the four built-in prompts");
  bench->add_option("--concurrency", flags->concurrency, "Requests at once, one sweep step each")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->default_str("1,2,4,8");
  bench->add_option("--runs", flags->runs, "Runs that count; one more before them is discarded")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench->add_option("--max-tokens", flags->max_tokens, "Longest answer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  bench->add_flag("--reuse", flags->reuse,
                  "Send the same prompt in every request, so that caches may help (default: a "
                  "random prefix in each)");
  bench->add_flag("--thinking", flags->thinking, "Let the model reason");
  bench->add_option("--wait", flags->wait_s, "Seconds to wait until the endpoint is ready")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  bench->add_option("--silence", flags->silence_s, "Seconds without a byte after which it failed")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  bench->add_option("--json", flags->json, "Write the result to this file as JSON");
  bench->footer(
      "Figures: time to first token; inter-token times, one sample per token; tokens/s of a "
      "stream (median), of the wall clock, and summed over active streams; share of the prompt "
      "that came from the endpoint's cache.\n"
      "Run it on an idle machine; a busy client measures itself.\n"
      "Exit codes: 0 done, 1 the endpoint cannot be measured or a request failed, 2 wrong usage.");
  bench->callback([flags, &exit_code] { exit_code = run_command(*flags); });
}

}  // namespace yoke::server
