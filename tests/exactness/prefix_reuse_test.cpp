// Resumed prefix = fresh (design.md 5) on nano's real kernels, and what requests are told about it:
// `cached_tokens` is the largest snapshot position within the common token prefix, exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/json/json.h"
#include "engine/kv_cache/snapshot_positions.h"
#include "engine/step_loop.h"
#include "kernels/core/thread_pool.h"
#include "server/api/chat_prompt.h"

namespace yoke::tests {
namespace {

using engine::GenerationEvent;
using engine::GenerationRequest;
using engine::RequestId;

constexpr int32_t kMaxModelLen = 1024;

struct Shape {
  int32_t slots = 8;
  int32_t rows = 512;
  int32_t blocks = 0;  ///< 0 = enough for all slots
  int32_t snapshots = 64;
  int32_t window = 4;
  int threads = 2;
};

/// nano behind a step loop that outlives its requests.
class Nano {
 public:
  explicit Nano(const Shape& shape)
      : threads_(shape.threads),
        checkpoint_(engine::Checkpoint::open(folder()).value()),
        tokenizer_(engine::Tokenizer::load(folder() + "/tokenizer.json").value()) {
    engine::ModelOptions options;
    options.max_rows = shape.rows;
    options.max_slots = options.max_logit_rows = shape.slots;
    options.max_model_len = kMaxModelLen;
    options.num_blocks = shape.blocks;
    options.max_window = shape.window;
    options.max_snapshots = shape.snapshots;
    options.with_mtp = false;
    model_ = engine::Model::load(checkpoint_, options, threads_).value();
    engine::StepLoop::Options loop;
    loop.defined_vocab = tokenizer_.size();
    loop.max_waiting = 100;
    loop_.emplace(*model_, std::move(loop), config::null_logger());
  }

  const engine::Tokenizer& tokenizer() const { return tokenizer_; }

  /// A conversation as a client sends it: role and content by turns.
  GenerationRequest request(const std::vector<std::pair<std::string, std::string>>& messages,
                            int32_t max_tokens) const {
    std::string body = R"({"temperature":0,"messages":[)";
    for (const auto& [role, content] : messages) {
      if (body.back() == '}') body += ',';
      body += R"({"role":")" + role + R"(","content":)";
      engine::append_json_string(body, content);
      body += '}';
    }
    body += "]}";
    server::ChatContext context;
    context.model_names = {"nano"};
    context.vocab_size = tokenizer_.size();
    auto prepared =
        server::prepare_chat(body, context, {.max_model_len = kMaxModelLen}, tokenizer_, {});
    if (const auto* error = std::get_if<server::ApiError>(&prepared)) {
      ADD_FAILURE() << error->message;
      return {};
    }
    auto& chat = std::get<server::PreparedChat>(prepared);
    GenerationRequest request;
    request.prompt = std::move(chat.prompt);
    request.boundaries = std::move(chat.boundaries);
    request.sampling = chat.sampling;
    request.max_tokens = max_tokens;
    request.stop_token_ids = checkpoint_.config().eos_token_ids;
    return request;
  }

  RequestId start(const GenerationRequest& request) {
    const RequestId id{next_++};
    engine::Submission submission;
    submission.id = id;
    if (request.sampling.uses_counts()) submission.counts = engine::TokenCounts(request.prompt);
    submission.request = request;
    submission.mailbox = mailboxes_[id] = std::make_shared<engine::Mailbox>();
    loop_->add(std::move(submission), {});
    return id;
  }

  /// Runs one step; false when there was nothing to run.
  bool step() {
    const bool runs = loop_->plan({});
    if (runs) loop_->run();
    for (const auto& [id, mailbox] : mailboxes_) {
      auto event = mailbox->take();
      if (!event) continue;
      GenerationEvent& all = told[id];
      all.tokens.insert(all.tokens.end(), event->tokens.begin(), event->tokens.end());
      if (event->cached_tokens) all.cached_tokens = event->cached_tokens;
      if (event->finish) all.finish = event->finish;
    }
    return runs;
  }
  void cancel(RequestId id) { loop_->cancel(id); }
  void run_until_first_token(RequestId id) {
    while (told[id].tokens.empty()) ASSERT_TRUE(step());
  }
  void run_until_idle() {
    while (step()) {
    }
  }
  engine::ServiceStatus status() const {
    engine::ServiceStatus status;
    loop_->report(status);
    return status;
  }

  /// The answer to a request by itself, on an engine that has seen nothing else.
  static std::vector<int32_t> fresh_answer(const GenerationRequest& request) {
    static Nano alone({.slots = 1, .snapshots = 0, .window = 0});
    const RequestId id = alone.start(request);
    alone.run_until_idle();
    EXPECT_EQ(alone.told[id].cached_tokens, 0);
    return alone.told[id].tokens;
  }

  std::map<RequestId, GenerationEvent> told;

 private:
  static std::string folder() { return std::string(YOKE_SOURCE_DIR) + "/tools/nano/checkpoint"; }

  kernels::ThreadPool threads_;
  engine::Checkpoint checkpoint_;
  engine::Tokenizer tokenizer_;
  std::unique_ptr<engine::Model> model_;
  std::optional<engine::StepLoop> loop_;
  std::map<RequestId, std::shared_ptr<engine::Mailbox>> mailboxes_;
  uint64_t next_ = 1;
};

/// The positions at which earlier requests left snapshots, kept apart from the engine.
class ExpectedSnapshots {
 public:
  void add(const GenerationRequest& request) {
    const auto size = static_cast<int32_t>(request.prompt.size());
    for (const int32_t at : engine::snapshot_positions(request.boundaries, size))
      kept_.emplace_back(request.prompt.begin(), request.prompt.begin() + at);
  }
  /// The longest that begins `prompt` and leaves a token.
  int32_t longest(const std::vector<int32_t>& prompt) const {
    size_t longest = 0;
    for (const std::vector<int32_t>& tokens : kept_) {
      if (tokens.size() < prompt.size() && std::equal(tokens.begin(), tokens.end(), prompt.begin()))
        longest = std::max(longest, tokens.size());
    }
    return static_cast<int32_t>(longest);
  }

 private:
  std::vector<std::vector<int32_t>> kept_;
};

using Messages = std::vector<std::pair<std::string, std::string>>;

std::string instructions(const std::string& name) {
  std::string text = "You are " + name + ".";
  while (text.size() < 900) text += " The code word is lantern. Count from 3 to 14.";
  return text;
}

std::vector<Messages> four_conversations() {
  return {{{"system", instructions("first")}, {"user", "What is 17 times 23?"}},
          {{"system", instructions("first")}, {"user", "Count from 2 to 9."}},
          {{"system", "Be brief."}, {"user", "What is 12 times 34?"}},
          {{"user", "What is 12 times 34?"}}};
}

TEST(PrefixReuse, four_interleaved_conversations_are_told_exactly_what_was_cached) {
  Nano nano({});
  ExpectedSnapshots expected;
  std::vector<Messages> conversations = four_conversations();
  std::vector<GenerationRequest> asked;
  std::vector<RequestId> ids;
  std::vector<int32_t> cached;
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<RequestId> of_turn;
    for (Messages& messages : conversations) {
      asked.push_back(nano.request(messages, 10));
      cached.push_back(expected.longest(asked.back().prompt));
      ids.push_back(nano.start(asked.back()));
      of_turn.push_back(ids.back());
      nano.run_until_first_token(ids.back());  // the next one's prompt runs beside its answer
      expected.add(asked.back());
    }
    nano.run_until_idle();
    for (size_t i = 0; i < conversations.size(); ++i) {
      conversations[i].emplace_back("assistant",
                                    "The result of turn " + std::to_string(turn) + " is known.");
      conversations[i].emplace_back("user", "And " + std::to_string(turn + 5) + " times 3?");
    }
  }
  ASSERT_EQ(asked.size(), 16u);
  for (size_t i = 0; i < asked.size(); ++i) {
    SCOPED_TRACE("turn " + std::to_string(i / 4) + " of conversation " + std::to_string(i % 4));
    const auto& told = nano.told.at(ids[i]);
    EXPECT_EQ(told.cached_tokens, cached[i]);
    EXPECT_EQ(told.tokens, Nano::fresh_answer(asked[i]));
    if (i < 4) continue;
    // The history up to the last user message of the turn before, and no more.
    const GenerationRequest& before = asked[i - 4];
    EXPECT_EQ(told.cached_tokens, before.boundaries.back());
    EXPECT_LT(before.boundaries.back(), static_cast<int32_t>(before.prompt.size()));
  }
  EXPECT_EQ(cached[0], 0);
  EXPECT_EQ(cached[1], asked[0].boundaries.front()) << "the instructions in common";
  EXPECT_GE(cached[1], engine::kFirstMessageTokens);
  EXPECT_EQ(cached[2], 0);
  const engine::ServiceStatus status = nano.status();
  uint64_t all = 0;
  for (const int32_t n : cached) all += static_cast<uint64_t>(n);
  EXPECT_EQ(status.prompt_tokens_cached, all);
  EXPECT_EQ(status.cache_usage, 0) << "what the cache alone holds is not in use";
  EXPECT_EQ(status.snapshot_evictions, 0u);
}

/// Random turns of conversations on small pools, with cancellations; every answer must be that of
/// a fresh engine.
void expect_fresh_answers(const Shape& shape, uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Nano nano(shape);
  std::mt19937_64 random(seed);
  std::vector<Messages> conversations = four_conversations();
  std::map<RequestId, GenerationRequest> asked;
  std::map<RequestId, bool> cancelled;
  const auto arrive = [&] {
    Messages& messages = conversations[random() % 4];
    GenerationRequest request = nano.request(messages, 1 + static_cast<int32_t>(random() % 12));
    if (random() % 3 == 0) {
      request.sampling.temperature = 1.1;
      request.sampling.seed = random();
    }
    asked.emplace(nano.start(request), request);
    if (random() % 3 != 0) {
      messages.emplace_back("assistant", "It is " + std::to_string(random() % 50) + ".");
      messages.emplace_back("user", "And now " + std::to_string(random() % 50) + "?");
    }
  };
  for (int turns = 0; turns < 14 || nano.step();) {
    if (turns < 14 && random() % 4 == 0) {
      ++turns;
      arrive();
    }
    if (random() % 25 == 0 && !asked.empty()) {
      const RequestId victim{1 + random() % asked.size()};
      nano.cancel(victim);
      cancelled[victim] = true;
    }
    nano.step();
  }
  for (const auto& [id, request] : asked) {
    const GenerationEvent& told = nano.told.at(id);
    ASSERT_TRUE(told.finish.has_value());
    std::vector<int32_t> want = Nano::fresh_answer(request);
    if (told.finish->reason == engine::FinishReason::cancelled) {
      EXPECT_TRUE(cancelled[id]);
      ASSERT_LE(told.tokens.size(), want.size());
      want.resize(told.tokens.size());
    }
    EXPECT_EQ(told.tokens, want) << "request " << static_cast<uint64_t>(id);
  }
  EXPECT_GT(nano.status().prompt_tokens_cached, 100u);
}

TEST(PrefixReuse, resumed_equals_fresh_with_evictions) {
  expect_fresh_answers({.slots = 3, .rows = 48, .snapshots = 2}, 1);
  expect_fresh_answers({.slots = 2, .rows = 512, .snapshots = 3, .window = 0, .threads = 1}, 2);
}

TEST(PrefixReuse, resumed_equals_fresh_with_preemptions_and_tiny_chunks) {
  expect_fresh_answers({.slots = 4, .rows = 21, .blocks = 17, .snapshots = 8}, 3);
}

}  // namespace
}  // namespace yoke::tests
