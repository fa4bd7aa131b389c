// `yoke chat`: questions and answers in this process, without a server. Answers go to stdout,
// everything else to stderr.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "config/log.h"
#include "config/result.h"
#include "engine/chat/output_parser.h"
#include "engine/chat/render.h"
#include "engine/json/json.h"
#include "engine/runtime.h"
#include "server/commands/commands.h"
#include "server/commands/default_model.h"
#include "server/commands/terminal.h"

namespace yoke::server {
namespace {

constexpr int kInterrupted = 130;  // as a shell reports a process that SIGINT ended

struct ChatOptions {
  std::string model;
  std::optional<std::string> once;
  std::string effort = "high";
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
  int32_t max_tokens = 0;
  int32_t threads = 0;
  bool show_reasoning = true;
};

/// The levels of the API, and the nearest one the template has (design.md 11).
std::string template_effort(const std::string& effort) {
  if (effort == "minimal" || effort == "low") return "low";
  if (effort == "xhigh" || effort == "max") return "max";
  return "high";
}

/// Writes text to one stream, dimmed when that is a terminal.
class Printer {
 public:
  Printer(FILE* stream, bool dim)
      : stream_(stream), tty_(::isatty(::fileno(stream)) == 1), dim_(dim && tty_) {}

  void print(const std::string& text) {
    if (text.empty()) return;
    if (dim_ && !dimmed_) std::fputs("\x1b[2m", stream_);
    dimmed_ = dim_;
    const std::string shown = tty_ ? harmless(text) : text;
    std::fwrite(shown.data(), 1, shown.size(), stream_);
    std::fflush(stream_);
    ends_in_newline_ = text.back() == '\n';
  }
  /// What follows, on whichever stream, begins on a new line and is not dimmed.
  void end_line() {
    if (!ends_in_newline_) print("\n");
    if (dimmed_) std::fputs("\x1b[0m", stream_);
    std::fflush(stream_);
    dimmed_ = false;
  }

 private:
  FILE* stream_;
  bool tty_;
  bool dim_;
  bool dimmed_ = false;
  bool ends_in_newline_ = true;
};

/// A conversation with the engine of this process.
class Conversation {
 public:
  Conversation(engine::Runtime& runtime, const ChatOptions& options)
      : runtime_(runtime),
        options_(options),
        bell_(std::make_shared<Bell>()),
        answer_(stdout, false),
        reasoning_(stderr, true) {}

  enum class Outcome { answered, interrupted };
  /// Asks, prints the answer as it comes, and remembers both. An interrupted answer is forgotten
  /// together with its question.
  config::Result<Outcome> ask(const std::string& question, const InterruptBell& interrupt);

 private:
  struct Prompt {
    engine::RenderedChat chat;
    std::vector<int32_t> ids;
  };
  config::Result<Prompt> prompt() const;
  engine::GenerationRequest request(const Prompt& prompt) const;
  void show(const std::vector<engine::OutputEvent>& events);

  engine::Runtime& runtime_;
  const ChatOptions& options_;
  std::shared_ptr<Bell> bell_;  // shared with mailboxes: a ring may be late
  Printer answer_;
  Printer reasoning_;
  engine::Json::Array messages_;
  std::string answer_text_, reasoning_text_;  // of the turn that runs
};

config::Result<Conversation::Prompt> Conversation::prompt() const {
  const engine::Json messages = engine::Json::array(messages_);
  const engine::Json effort = engine::Json::string(template_effort(options_.effort));
  const engine::Json yes = engine::Json::boolean(true);
  const engine::Json thinking = engine::Json::boolean(options_.effort != "none");
  engine::ChatInput input;
  input.messages = &messages;
  input.reasoning_effort = &effort;
  input.add_generation_prompt = &yes;
  input.enable_thinking = &thinking;
  auto chat = engine::render_chat(input);
  if (!chat.ok()) return chat.error();
  auto encoded = runtime_.tokenizer().encode(chat->text, chat->literal);
  if (!encoded.ok()) return encoded.error();
  return Prompt{std::move(*chat), std::move(encoded->ids)};
}

engine::GenerationRequest Conversation::request(const Prompt& prompt) const {
  engine::GenerationRequest request;
  request.prompt = prompt.ids;
  request.sampling = runtime_.default_sampling();
  if (options_.temperature) request.sampling.temperature = *options_.temperature;
  if (options_.top_p) request.sampling.top_p = *options_.top_p;
  if (options_.top_k) request.sampling.top_k = *options_.top_k;
  std::random_device device;
  request.sampling.seed =
      options_.seed ? *options_.seed : (uint64_t{device()} << 32 | uint64_t{device()});
  const int32_t room =
      std::max(1, runtime_.max_model_len() - static_cast<int32_t>(prompt.ids.size()));
  const int32_t wanted = options_.max_tokens > 0
                             ? options_.max_tokens
                             : runtime_.checkpoint().generation().max_new_tokens.value_or(room);
  request.max_tokens = std::min(room, wanted);
  request.stop_token_ids = runtime_.eos_token_ids();
  return request;
}

void Conversation::show(const std::vector<engine::OutputEvent>& events) {
  for (const engine::OutputEvent& event : events) {
    if (const auto* thought = std::get_if<engine::ReasoningText>(&event)) {
      reasoning_text_ += thought->text;
      if (options_.show_reasoning) reasoning_.print(thought->text);
    } else if (const auto* content = std::get_if<engine::ContentText>(&event)) {
      reasoning_.end_line();
      answer_text_ += content->text;
      answer_.print(content->text);
    }
  }
}

config::Result<Conversation::Outcome> Conversation::ask(const std::string& question,
                                                        const InterruptBell& interrupt) {
  using engine::Json;
  messages_.push_back(
      Json::object({{"role", Json::string("user")}, {"content", Json::string(question)}}));
  answer_text_.clear();
  reasoning_text_.clear();
  const auto give_up = [&](config::Error error) {
    messages_.pop_back();
    return error;
  };
  const auto asked = prompt();
  if (!asked.ok()) return give_up(asked.error());
  engine::OutputParserOptions parsing;
  parsing.starts_in_reasoning = asked->chat.starts_in_reasoning;
  parsing.thinking = options_.effort != "none";
  engine::OutputParser parser(runtime_.tokenizer(), parsing);

  auto mailbox = std::make_shared<engine::Mailbox>();
  mailbox->set_notify([bell = bell_] { bell->ring(); });
  const auto id = runtime_.engine().submit(request(*asked), mailbox);
  if (!id.ok()) return give_up(id.error());

  std::optional<engine::GenerationEvent::Finish> finish;
  std::vector<engine::OutputEvent> events;
  const std::vector<int32_t>& eos = runtime_.eos_token_ids();
  while (!finish) {
    if (!wait_readable(bell_->fd(), interrupt)) runtime_.engine().cancel(*id);
    bell_->silence();
    auto event = mailbox->take();
    if (!event) continue;
    for (const int32_t token : event->tokens) {
      if (!std::binary_search(eos.begin(), eos.end(), token)) parser.feed(token, events);
    }
    finish = std::move(event->finish);
    if (finish) parser.finish(finish->reason != engine::FinishReason::stop, events);
    show(events);
    events.clear();
  }
  reasoning_.end_line();
  answer_.end_line();
  switch (finish->reason) {
    case engine::FinishReason::error:
      return give_up({config::ErrorKind::internal, finish->message});
    case engine::FinishReason::cancelled:
      messages_.pop_back();
      return Outcome::interrupted;
    case engine::FinishReason::length:
      reasoning_.print("(cut off: the limit of tokens is reached)");
      reasoning_.end_line();
      break;
    case engine::FinishReason::stop:
      break;
  }
  messages_.push_back(Json::object({{"role", Json::string("assistant")},
                                    {"content", Json::string(answer_text_)},
                                    {"reasoning_content", Json::string(reasoning_text_)}}));
  return Outcome::answered;
}

/// Waits for the model; the progress is one line that overwrites itself on a terminal.
config::Result<void> wait_for_model(engine::Runtime& runtime) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  while (!runtime.engine().wait_for_start(std::chrono::milliseconds(100))) {
    if (terminal)
      std::fprintf(stderr, "\r\x1b[K%s: %s", runtime.checkpoint().name().c_str(),
                   runtime.engine().status().detail.c_str());
  }
  if (terminal) std::fputs("\r\x1b[K", stderr);
  return runtime.engine().wait_until_ready();
}

int complain(const config::Error& error) {
  std::fprintf(stderr, "yoke chat: %s\n", error.message.c_str());
  return 1;
}

int converse(Conversation& conversation, const std::string& model) {
  const InterruptBell interrupt;
  const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  if (terminal)
    std::fprintf(stderr, "%s is ready. Ctrl-C stops an answer, Ctrl-D leaves.\n", model.c_str());
  LineReader reader(STDIN_FILENO);
  std::string line;
  for (;;) {
    if (terminal) std::fputs("> ", stderr);
    switch (reader.read(line, interrupt)) {
      case LineReader::Outcome::end:
        if (terminal) std::fputs("\n", stderr);
        return 0;
      case LineReader::Outcome::interrupted:
        std::fputs(terminal ? "\n(Ctrl-D leaves)\n" : "\n", stderr);
        if (!terminal) return kInterrupted;
        continue;
      case LineReader::Outcome::line:
        break;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto outcome = conversation.ask(line, interrupt);
    if (!outcome.ok()) {
      complain(outcome.error());
      if (!terminal) return 1;
    }
  }
}

int run_chat(const ChatOptions& options) {
  engine::RuntimeOptions runtime_options;
  if (options.model.empty()) {
    auto folder = default_model_folder();
    if (!folder.ok()) return complain(folder.error());
    runtime_options.folder = std::move(*folder);
  } else {
    runtime_options.folder = options.model;
  }
  runtime_options.max_sequences = 1;
  runtime_options.threads = options.threads;
  auto runtime = engine::Runtime::open(runtime_options, config::make_logger("warn"));
  if (!runtime.ok()) return complain(runtime.error());
  if (auto ready = wait_for_model(**runtime); !ready.ok()) return complain(ready.error());

  Conversation conversation(**runtime, options);
  if (!options.once) return converse(conversation, (*runtime)->checkpoint().name());
  const InterruptBell interrupt;
  const auto outcome = conversation.ask(*options.once, interrupt);
  if (!outcome.ok()) return complain(outcome.error());
  return *outcome == Conversation::Outcome::answered ? 0 : kInterrupted;
}

}  // namespace

void add_chat_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* chat = app.add_subcommand("chat", "Ask a model in this process, without a server");
  chat->add_option("--model", options->model, "Checkpoint folder (default: the nano demo model)");
  chat->add_option("--once", options->once, "Ask this one question, print the answer and leave");
  chat->add_option("--effort", options->effort,
                   "Reasoning effort: none, minimal, low, medium, high, xhigh, max")
      ->check(CLI::IsMember({"none", "minimal", "low", "medium", "high", "xhigh", "max"}))
      ->capture_default_str();
  chat->add_option("--temperature", options->temperature,
                   "0 = always the likeliest token (default: what the checkpoint says)")
      ->check(CLI::Range(0.0, 2.0));
  chat->add_option("--top-p", options->top_p, "Keep the likeliest tokens up to this probability")
      ->check(CLI::Range(0.0, 1.0));
  chat->add_option("--top-k", options->top_k, "Keep so many of the likeliest tokens; 0 = all")
      ->check(CLI::Range(0, 1'000'000));
  chat->add_option("--seed", options->seed, "Makes a sampled answer repeatable");
  chat->add_option("--max-tokens", options->max_tokens,
                   "Longest answer, reasoning included; 0 = what the checkpoint says")
      ->check(CLI::Range(0, 1 << 30));
  chat->add_option("--threads", options->threads, "Threads that compute; 0 = all cores")
      ->check(CLI::Range(0, 4096));
  chat->add_flag("--show-reasoning,!--no-reasoning", options->show_reasoning,
                 "Print the reasoning to stderr (default: yes)");
  chat->footer(
      "Answers go to stdout, everything else to stderr. Exit code: 0 answered, 1 failed, "
      "130 interrupted.");
  chat->callback([options, &exit_code] { exit_code = run_chat(*options); });
}

}  // namespace yoke::server
