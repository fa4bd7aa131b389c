// `yoke eval`: how close a checkpoint's distributions are to stored ones, and whether it still
// gives the answers that are known.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/file.h"
#include "engine/eval/evaluate.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"
#include "engine/runtime.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/core/thread_pool.h"
#include "server/commands/commands.h"
#include "server/commands/default_model.h"
#include "server/commands/eval_report.h"

namespace yoke::server {
namespace {

namespace fs = std::filesystem;

constexpr int kFailed = 1;
constexpr int kNotGoodEnough = 4;
constexpr uint64_t kMaxTextBytes = 64ull << 20;
constexpr int32_t kChunkRows = 64;  // all of them with logits, a whole vocabulary each

struct EvalOptions {
  std::string model;
  std::string precision = "bf16";
  std::vector<std::string> texts;
  int32_t max_tokens = 2048;
  std::string save;
  std::string reference;
  std::string questions;
  bool ask = true;
  EvalLimits limits;
  std::string json;
  int32_t threads = 0;
};

int complain(const config::Error& error) {
  std::fprintf(stderr, "yoke eval: %s\n", error.message.c_str());
  return kFailed;
}

/// What a run needs, in the order in which its parts depend on each other.
struct Subject {
  Subject(engine::Checkpoint opened, engine::Tokenizer loaded, int thread_count)
      : checkpoint(std::move(opened)), tokenizer(std::move(loaded)), threads(thread_count) {}

  int32_t vocab() const { return std::min(tokenizer.size(), checkpoint.config().vocab_size); }

  engine::Checkpoint checkpoint;
  engine::Tokenizer tokenizer;
  kernels::ThreadPool threads;
  std::unique_ptr<engine::Model> model;
};

config::Result<std::unique_ptr<Subject>> open_subject(const EvalOptions& options) {
  fs::path folder = options.model;
  if (options.model.empty()) {
    auto found = default_model_folder();
    if (!found.ok()) return found.error();
    folder = std::move(*found);
  }
  auto checkpoint = engine::Checkpoint::open(folder);
  if (!checkpoint.ok()) return checkpoint.error();
  auto tokenizer = engine::Tokenizer::load(folder / "tokenizer.json");
  if (!tokenizer.ok()) return tokenizer.error();
  const int threads = options.threads > 0
                          ? options.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::make_unique<Subject>(std::move(*checkpoint), std::move(*tokenizer), threads);
}

/// The texts to store: `--max-tokens` of each at most.
config::Result<std::vector<engine::ReferenceText>> read_texts(const EvalOptions& options,
                                                              const engine::Tokenizer& tokenizer) {
  std::vector<engine::ReferenceText> out;
  for (const std::string& path : options.texts) {
    const auto text = engine::read_text_file(path, kMaxTextBytes);
    if (!text.ok()) return text.error();
    auto ids = tokenizer.encode_ids(*text);
    if (!ids.ok()) return config::Error{ids.error().kind, path + ": " + ids.error().message};
    if (ids->size() > static_cast<size_t>(options.max_tokens))
      ids->resize(static_cast<size_t>(options.max_tokens));
    out.push_back({engine::printable(fs::path(path).filename().string()), std::move(*ids)});
  }
  return out;
}

/// Tokens that the longest sequence of this run may have.
int32_t context_for(const engine::ModelConfig& config,
                    const std::vector<engine::ReferenceText>& texts,
                    const std::vector<engine::Question>& questions) {
  constexpr int64_t kQuestionRoom = 1024;  // for the question itself
  int64_t tokens = kQuestionRoom;
  for (const auto& text : texts)
    tokens = std::max(tokens, static_cast<int64_t>(text.tokens.size()));
  for (const auto& question : questions)
    tokens = std::max(tokens, question.max_tokens + kQuestionRoom);
  return static_cast<int32_t>(std::min<int64_t>(tokens, config.max_positions));
}

config::Result<void> load_model(Subject& subject, const EvalOptions& options, int32_t context) {
  engine::ModelOptions model;
  model.precision = options.precision == "fp32" ? engine::Precision::fp32 : engine::Precision::bf16;
  model.max_rows = kChunkRows;
  model.max_logit_rows = kChunkRows;
  model.max_slots = 1;
  model.max_model_len = context;
  model.max_window = 1;
  model.with_mtp = false;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (terminal)
      std::fprintf(stderr, "\r\x1b[Kloading weights: %s of %s", engine::format_bytes(done).c_str(),
                   engine::format_bytes(total).c_str());
  };
  auto loaded = engine::Model::load(subject.checkpoint, model, subject.threads, progress);
  if (terminal) std::fputs("\r\x1b[K", stderr);
  if (!loaded.ok()) return loaded.error();
  subject.model = std::move(*loaded);
  return {};
}

config::Result<std::vector<engine::Question>> questions_for(const EvalOptions& options,
                                                            const Subject& subject) {
  if (!options.ask) return std::vector<engine::Question>{};
  if (options.questions.empty()) return engine::known_questions(subject.checkpoint.identity());
  const auto text = engine::read_text_file(options.questions, kMaxTextBytes);
  if (!text.ok()) return text.error();
  return engine::read_questions(*text, options.questions);
}

config::Result<void> write_json(const std::string& path, const EvalReport& report) {
  const std::string text = engine::to_json(eval_json(report)) + "\n";
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return {};
  return config::Error{config::ErrorKind::io, "cannot write " + path};
}

config::Result<EvalReport> evaluate(const EvalOptions& options) {
  auto opened = open_subject(options);
  if (!opened.ok()) return opened.error();
  Subject& subject = **opened;
  std::optional<engine::ReferenceFile> reference;
  if (!options.reference.empty()) {
    auto file = engine::ReferenceFile::open(options.reference);
    if (!file.ok()) return file.error();
    reference = std::move(*file);
  }
  auto texts = read_texts(options, subject.tokenizer);
  if (!texts.ok()) return texts.error();
  auto questions = questions_for(options, subject);
  if (!questions.ok()) return questions.error();
  if (questions->empty() && !reference && options.save.empty())
    return config::invalid_input("nothing to evaluate: no answers of " + subject.checkpoint.name() +
                                 " are known; give --reference FILE, --save FILE with --text FILE, "
                                 "or --questions FILE");
  const auto context =
      context_for(subject.checkpoint.config(), reference ? reference->texts() : *texts, *questions);
  if (auto loaded = load_model(subject, options, context); !loaded.ok()) return loaded.error();

  EvalReport report;
  report.model = options.model.empty() ? "nano" : subject.checkpoint.name();
  report.precision = options.precision;
  report.limits = options.limits;
  if (!options.save.empty()) {
    const engine::ReferenceOrigin origin{report.model, subject.checkpoint.identity(),
                                         options.precision, subject.vocab()};
    auto saved = engine::save_reference(*subject.model, origin, *texts, options.save);
    if (!saved.ok()) return saved.error();
    report.saved = options.save;
  }
  if (reference) {
    auto compared = engine::compare_with_reference(*subject.model, subject.vocab(), *reference);
    if (!compared.ok()) return compared.error();
    auto& out = report.reference.emplace();
    out.origin = reference->origin();
    for (size_t i = 0; i < compared->size(); ++i)
      out.texts.push_back({reference->texts()[i].name, (*compared)[i]});
  }
  for (engine::Question& question : *questions) {
    auto answer = engine::ask(*subject.model, subject.tokenizer,
                              engine::eos_token_ids(subject.checkpoint), question);
    if (!answer.ok()) return answer.error();
    report.answers.push_back({std::move(question), std::move(*answer)});
  }
  return report;
}

int run_eval(const EvalOptions& options) {
  if (options.save.empty() != options.texts.empty())
    return complain(config::invalid_input(
        "--save FILE and --text FILE belong together: the logits of the texts go to the file"));
  if (!options.save.empty() && !options.reference.empty())
    return complain(config::invalid_input("--save and --reference exclude each other"));
  if (options.reference.empty() && (options.limits.max_kl || options.limits.min_top1))
    return complain(config::invalid_input("--max-kl and --min-top1 need --reference FILE"));
  const auto report = evaluate(options);
  if (!report.ok()) return complain(report.error());
  std::fputs(eval_text(*report).c_str(), stdout);
  if (!options.json.empty()) {
    if (auto written = write_json(options.json, *report); !written.ok())
      return complain(written.error());
  }
  return report->failures().empty() ? 0 : kNotGoodEnough;
}

}  // namespace

void add_eval_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* eval = app.add_subcommand(
      "eval", "Compare a checkpoint with stored logits, and ask it what is known");
  eval->add_option("--model", options->model, "Checkpoint folder (default: the nano demo model)");
  eval->add_option("--precision", options->precision, "Activations: bf16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
  eval->add_option("--text", options->texts,
                   "Text to store logits of, UTF-8; control tokens in it count as such; may be "
                   "repeated")
      ->allow_extra_args(false);
  eval->add_option("--max-tokens", options->max_tokens, "Tokens of each text that are used")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  eval->add_option("--save", options->save,
                   "Store the logits of the texts here: tokens x vocabulary x 4 bytes");
  eval->add_option("--reference", options->reference,
                   "Compare with the logits of this file, over its texts");
  eval->add_option("--max-kl", options->limits.max_kl,
                   "Fail when the mean KL(reference || checkpoint) is larger, in nats")
      ->check(CLI::NonNegativeNumber);
  eval->add_option("--min-top1", options->limits.min_top1,
                   "Fail when the likeliest token agrees less often, 0 to 1")
      ->check(CLI::Range(0.0, 1.0));
  eval->add_option("--questions", options->questions,
                   "Lines of {\"question\": …, \"answer\": …}, optionally \"effort\" and "
                   "\"max_tokens\": a greedy answer must hold the text (default: the answers known "
                   "of this checkpoint)");
  eval->add_flag("!--no-questions", options->ask, "Ask nothing");
  eval->add_option("--json", options->json, "Write the result to this file as JSON");
  eval->add_option("--threads", options->threads, "Threads that compute; 0 = all cores")
      ->check(CLI::Range(0, 4096));
  eval->footer(
      "Example: yoke eval --precision fp32 --text FILE --save ref.safetensors, then\n"
      "         yoke eval --reference ref.safetensors --max-kl 0.05 --min-top1 0.97\n"
      "Exit codes: 0 all is well, 1 could not evaluate, 2 wrong usage, 4 a known answer is wrong "
      "or "
      "a limit is passed.");
  eval->callback([options, &exit_code] { exit_code = run_eval(*options); });
}

}  // namespace yoke::server
