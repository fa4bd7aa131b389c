#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>

#include "tests/fakes/scripted_model.h"

namespace yoke::engine {
namespace {

using std::chrono::seconds;
using tests::ScriptedModel;

constexpr auto kPatience = seconds(60);  // only a failing test waits so long

/// Holds another thread at a place of the test's choice.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ || tickets_ > 0; });
    if (!open_) --tickets_;
  }
  void wait_for_arrival(int count = 1) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, kPatience, [&] { return arrived_ >= count; }));
  }
  void let_one_pass() {
    const std::lock_guard lock(mutex_);
    ++tickets_;
    changed_.notify_all();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  int tickets_ = 0;
  bool open_ = false;
};

/// One request's side of the mailbox.
class Client {
 public:
  Client() : mailbox_(std::make_shared<Mailbox>()), bell_(std::make_shared<Bell>()) {
    // A notification may still be on its way when the event behind it has been taken.
    mailbox_->set_notify([bell = bell_] {
      const std::lock_guard lock(bell->mutex);
      bell->rung = true;
      bell->changed.notify_all();
    });
  }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  /// Collects events until at least `count` tokens or the end are there.
  void wait_for_tokens(size_t count) {
    while (told_.tokens.size() < count && !told_.finish) ASSERT_TRUE(wait());
  }
  GenerationEvent wait_for_end() {
    while (!told_.finish) {
      if (!wait()) {
        ADD_FAILURE() << "no end";
        break;
      }
    }
    EXPECT_FALSE(mailbox_->take().has_value()) << "an event after the end";
    return told_;
  }

 private:
  bool wait() {
    {
      std::unique_lock lock(bell_->mutex);
      if (!bell_->changed.wait_for(lock, kPatience, [&] { return bell_->rung; })) return false;
      bell_->rung = false;
    }
    while (auto event = mailbox_->take()) {
      EXPECT_FALSE(told_.finish.has_value()) << "an event after the end";
      told_.tokens.insert(told_.tokens.end(), event->tokens.begin(), event->tokens.end());
      if (event->cached_tokens) told_.cached_tokens = event->cached_tokens;
      told_.finish = std::move(event->finish);
    }
    return true;
  }

  struct Bell {
    std::mutex mutex;
    std::condition_variable changed;
    bool rung = false;
  };
  std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<Bell> bell_;
  GenerationEvent told_;
};

ModelOptions model_options() {
  ModelOptions options;
  options.max_rows = 16;
  options.max_slots = 3;
  options.max_model_len = 256;
  options.max_logit_rows = 3;
  return options;
}

GenerationRequest request(std::vector<int32_t> prompt, int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

EngineOptions engine_options() {
  EngineOptions options;
  options.defined_vocab = ScriptedModel::kDefinedVocab;
  options.max_waiting = 2;
  return options;
}

Engine::LoadModel loads(std::function<void(ScriptedModel&)> prepare = {},
                        const ModelOptions& options = model_options()) {
  return [prepare, options](const LoadProgress&) -> config::Result<std::unique_ptr<Model>> {
    auto model = std::make_unique<ScriptedModel>(options);
    if (prepare) prepare(*model);
    return std::unique_ptr<Model>(std::move(model));
  };
}

Engine::LoadModel steps_through(std::shared_ptr<Gate> gate) {
  return loads([gate](ScriptedModel& model) {
    model.set_before_step([gate](const StepPlan&) { gate->pass(); });
  });
}

config::Result<void> no_warm_up(Model&) {
  return {};
}

TEST(Engine, answers_one_request) {
  Engine engine(engine_options(), loads(), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  Client client;
  const GenerationRequest asked = request({1, 2, 3}, 20);
  ASSERT_TRUE(engine.submit(asked, client.mailbox()).ok());
  const GenerationEvent told = client.wait_for_end();
  EXPECT_EQ(told.tokens, ScriptedModel::answer(asked, 256));
  EXPECT_EQ(told.cached_tokens, 0);
  EXPECT_EQ(told.finish->reason, FinishReason::length);
}

TEST(Engine, is_unavailable_until_the_warm_up_has_passed) {
  auto loading = std::make_shared<Gate>(), warming = std::make_shared<Gate>();
  Engine engine(
      engine_options(),
      [&](const LoadProgress& progress) {
        progress(1ull << 30, 4ull << 30);
        loading->pass();
        return loads()(progress);
      },
      [&](Model&) -> config::Result<void> {
        warming->pass();
        return {};
      },
      config::null_logger());
  Client client;
  const auto refused = [&] {
    const auto result = engine.submit(request({1}, 1), client.mailbox());
    return !result.ok() && result.error().kind == config::ErrorKind::unavailable;
  };
  loading->wait_for_arrival();
  EXPECT_TRUE(refused());
  EXPECT_EQ(engine.status().state, ReadyState::loading);
  EXPECT_EQ(engine.status().detail, "loading weights: 1.0 GiB of 4.0 GiB");
  loading->open();
  warming->wait_for_arrival();
  EXPECT_TRUE(refused());
  EXPECT_EQ(engine.status().state, ReadyState::warming_up);
  warming->open();
  ASSERT_TRUE(engine.wait_until_ready().ok());
  EXPECT_EQ(engine.status().state, ReadyState::ready);
  EXPECT_FALSE(refused());
}

TEST(Engine, a_load_that_fails_says_why) {
  Engine engine(
      engine_options(),
      [](const LoadProgress&) -> config::Result<std::unique_ptr<Model>> {
        return config::invalid_input("no such weight");
      },
      no_warm_up, config::null_logger());
  const auto ready = engine.wait_until_ready();
  ASSERT_FALSE(ready.ok());
  EXPECT_EQ(ready.error().message, "the engine failed: no such weight");
  EXPECT_EQ(engine.status().state, ReadyState::failed);
  EXPECT_EQ(engine.status().detail, "no such weight");
}

TEST(Engine, a_warm_up_that_fails_keeps_the_door_shut) {
  Engine engine(
      engine_options(), loads(),
      [](Model&) -> config::Result<void> { return config::invalid_input("wrong answer"); },
      config::null_logger());
  EXPECT_FALSE(engine.wait_until_ready().ok());
  EXPECT_EQ(engine.status().state, ReadyState::failed);
  Client client;
  EXPECT_FALSE(engine.submit(request({1}, 1), client.mailbox()).ok());
}

TEST(Engine, capacities_that_contradict_each_other_fail_the_start) {
  ModelOptions options = model_options();
  options.max_rows = 5;
  Engine engine(engine_options(), loads({}, options), no_warm_up, config::null_logger());
  const auto ready = engine.wait_until_ready();
  ASSERT_FALSE(ready.ok());
  EXPECT_NE(ready.error().message.find("max_num_batched_tokens"), std::string::npos);
}

TEST(Engine, refuses_requests_that_cannot_run) {
  Engine engine(engine_options(), loads(), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  Client client;
  const auto refused = [&](GenerationRequest r) {
    const auto result = engine.submit(std::move(r), client.mailbox());
    return !result.ok() && result.error().kind == config::ErrorKind::invalid_input;
  };
  EXPECT_TRUE(refused(request({}, 1)));
  EXPECT_TRUE(refused(request({1}, 0)));
  EXPECT_TRUE(refused(request({-1}, 1)));
  EXPECT_TRUE(refused(request({ScriptedModel::kDefinedVocab}, 1)));
  EXPECT_TRUE(refused(request(std::vector<int32_t>(256, 1), 1)));
  GenerationRequest hot = request({1}, 1);
  hot.sampling.temperature = -1;
  EXPECT_TRUE(refused(hot));
}

TEST(Engine, a_full_queue_refuses_and_takes_again_when_one_ends) {
  auto gate = std::make_shared<Gate>();
  Engine engine(engine_options(), steps_through(gate), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {  // three slots and two places in the queue
    clients.push_back(std::make_unique<Client>());
    ASSERT_TRUE(engine.submit(request({1}, 1), clients.back()->mailbox()).ok());
  }
  Client late;
  const auto refused = engine.submit(request({1}, 1), late.mailbox());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, config::ErrorKind::exhausted);
  gate->open();
  for (const auto& client : clients) static_cast<void>(client->wait_for_end());
  EXPECT_TRUE(engine.submit(request({1}, 1), late.mailbox()).ok());
  EXPECT_TRUE(late.wait_for_end().finish.has_value());
}

TEST(Engine, cancel_takes_effect_before_the_next_step) {
  auto gate = std::make_shared<Gate>();
  std::atomic<int> steps_with_it = 0;
  Engine engine(engine_options(), loads([gate, &steps_with_it](ScriptedModel& model) {
                  model.set_before_step([gate, &steps_with_it](const StepPlan& plan) {
                    for (const StepSequence& sequence : plan.sequences)
                      steps_with_it +=
                          sequence.tokens.front() >= 30;  // prompts of this test begin so
                    gate->pass();
                  });
                }),
                no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  Client client;
  const auto id = engine.submit(request(std::vector<int32_t>(200, 30), 50), client.mailbox());
  ASSERT_TRUE(id.ok());
  gate->wait_for_arrival();
  gate->let_one_pass();
  gate->wait_for_arrival(2);
  engine.cancel(*id);  // while its second chunk is computed
  engine.cancel(*id);
  gate->let_one_pass();
  const GenerationEvent told = client.wait_for_end();
  EXPECT_EQ(told.finish->reason, FinishReason::cancelled);
  EXPECT_EQ(steps_with_it, 2);
  EXPECT_TRUE(engine.wait_until_idle(kPatience));
  gate->open();
}

TEST(Engine, cancel_reaches_a_waiting_request_and_ignores_unknown_ids) {
  auto gate = std::make_shared<Gate>();
  Engine engine(engine_options(), steps_through(gate), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  std::vector<std::unique_ptr<Client>> running;
  for (int i = 0; i < 3; ++i) {
    running.push_back(std::make_unique<Client>());
    ASSERT_TRUE(engine.submit(request({1}, 5), running.back()->mailbox()).ok());
  }
  gate->wait_for_arrival();
  Client waiting;
  const auto id = engine.submit(request({1}, 5), waiting.mailbox());
  engine.cancel(*id);
  engine.cancel(RequestId{999});
  gate->open();
  EXPECT_EQ(waiting.wait_for_end().finish->reason, FinishReason::cancelled);
  for (const auto& client : running)
    EXPECT_EQ(client->wait_for_end().finish->reason, FinishReason::length);
  engine.cancel(*id);
}

TEST(Engine, status_answers_while_a_step_hangs_and_says_for_how_long) {
  auto gate = std::make_shared<Gate>();
  Engine engine(engine_options(), steps_through(gate), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  EXPECT_EQ(engine.status().stalled, config::Duration::zero());
  Client client;
  ASSERT_TRUE(engine.submit(request({1}, 2), client.mailbox()).ok());
  gate->wait_for_arrival();
  const ServiceStatus first = engine.status(), second = engine.status();
  EXPECT_EQ(first.running, 1);
  EXPECT_GE(first.stalled, config::Duration::zero());
  EXPECT_GT(second.stalled, first.stalled);
  EXPECT_GT(first.cache_usage, 0);
  gate->open();
  static_cast<void>(client.wait_for_end());
  ASSERT_TRUE(engine.wait_until_idle(kPatience));
}

TEST(Engine, an_exception_in_a_step_fails_the_engine_and_tells_everybody) {
  auto gate = std::make_shared<Gate>();
  Engine engine(engine_options(), loads([gate](ScriptedModel& model) {
                  model.set_before_step([gate](const StepPlan&) {
                    gate->pass();
                    throw std::runtime_error("device lost");
                  });
                }),
                no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<Client>());
    ASSERT_TRUE(engine.submit(request({1}, 5), clients.back()->mailbox()).ok());
  }
  gate->open();
  for (const auto& client : clients) {
    const GenerationEvent told = client->wait_for_end();
    EXPECT_EQ(told.finish->reason, FinishReason::error);
    EXPECT_EQ(told.finish->message, "the engine failed: device lost");
  }
  EXPECT_EQ(engine.status().state, ReadyState::failed);
  Client late;
  const auto refused = engine.submit(request({1}, 1), late.mailbox());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, config::ErrorKind::unavailable);
}

TEST(Engine, three_rows_that_are_not_finite_fail_it) {
  Engine engine(engine_options(), loads([](ScriptedModel& model) {
                  model.set_edit_logits([](int32_t, int32_t, std::span<float> row) {
                    row[3] = std::numeric_limits<float>::quiet_NaN();
                  });
                }),
                no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  for (int i = 0; i < 3; ++i) {
    Client client;
    ASSERT_TRUE(engine.submit(request({1}, 5), client.mailbox()).ok());
    EXPECT_EQ(client.wait_for_end().finish->reason, FinishReason::error);
  }
  engine.stop();
  EXPECT_EQ(engine.status().state, ReadyState::failed);
  EXPECT_EQ(engine.status().nonfinite_rows, 3u);
}

TEST(Engine, drain_lets_the_running_ones_end) {
  auto gate = std::make_shared<Gate>();
  Engine engine(engine_options(), steps_through(gate), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  Client client, late;
  ASSERT_TRUE(engine.submit(request({1}, 5), client.mailbox()).ok());
  gate->wait_for_arrival();
  engine.drain();
  EXPECT_EQ(engine.status().state, ReadyState::draining);
  const auto refused = engine.submit(request({1}, 1), late.mailbox());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "the server is shutting down");
  EXPECT_FALSE(engine.wait_until_idle(config::Duration::zero()));
  gate->open();
  EXPECT_EQ(client.wait_for_end().finish->reason, FinishReason::length);
  EXPECT_TRUE(engine.wait_until_idle(kPatience));
}

TEST(Engine, stop_ends_running_and_waiting_requests_with_an_event) {
  auto gate = std::make_shared<Gate>();
  Engine engine(engine_options(), steps_through(gate), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<Client>());
    ASSERT_TRUE(engine.submit(request({1}, 200), clients.back()->mailbox()).ok());
  }
  gate->wait_for_arrival();
  std::thread stopper([&] { engine.stop(); });
  gate->open();
  stopper.join();
  for (const auto& client : clients) {
    const GenerationEvent told = client->wait_for_end();
    EXPECT_TRUE(told.finish->reason == FinishReason::error ||
                told.finish->reason == FinishReason::length);
  }
  EXPECT_FALSE(engine.wait_until_ready().ok());
  engine.stop();
}

TEST(Engine, can_be_destroyed_at_any_time) {
  for (int i = 0; i < 20; ++i) {
    Client client;
    {
      Engine engine(engine_options(), loads(), no_warm_up, config::null_logger());
      if (i % 2 == 0) {
        ASSERT_TRUE(engine.wait_until_ready().ok());
        ASSERT_TRUE(engine.submit(request({1}, 100), client.mailbox()).ok());
        if (i % 4 == 0) client.wait_for_tokens(5);
      }
    }
    if (i % 2 == 0) {
      EXPECT_TRUE(client.wait_for_end().finish.has_value());
    }
  }
}

TEST(Engine, many_threads_submit_and_cancel_and_every_answer_is_right) {
  EngineOptions options = engine_options();
  options.max_waiting = 64;
  ModelOptions small = model_options();
  small.num_blocks = 80;  // so that some are preempted
  Engine engine(options, loads({}, small), no_warm_up, config::null_logger());
  ASSERT_TRUE(engine.wait_until_ready().ok());
  std::atomic<bool> done = false;
  std::thread watcher([&] {
    while (!done) {
      const ServiceStatus status = engine.status();
      EXPECT_LE(status.running, 3);
      EXPECT_LE(status.prefilling, status.running);
    }
  });
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&engine, thread] {
      std::mt19937_64 random(thread);
      for (int i = 0; i < 25; ++i) {
        GenerationRequest asked = request({}, 1 + static_cast<int32_t>(random() % 60));
        asked.prompt.resize(1 + random() % 150);
        for (int32_t& token : asked.prompt)
          token = static_cast<int32_t>(random() % ScriptedModel::kDefinedVocab);
        asked.sampling.temperature = 1;
        asked.sampling.seed = random();
        Client client;
        const auto id = engine.submit(asked, client.mailbox());
        ASSERT_TRUE(id.ok());
        const bool cancels = random() % 4 == 0;
        if (cancels) {
          client.wait_for_tokens(random() % 10);
          engine.cancel(*id);
        }
        const GenerationEvent told = client.wait_for_end();
        std::vector<int32_t> want = ScriptedModel::answer(asked, 256);
        if (told.finish->reason == FinishReason::cancelled) {
          EXPECT_TRUE(cancels);
          want.resize(told.tokens.size());
        }
        EXPECT_EQ(told.tokens, want) << "thread " << thread << " request " << i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  watcher.join();
  EXPECT_TRUE(engine.wait_until_idle(kPatience));
  EXPECT_EQ(engine.status().running + engine.status().waiting, 0);
}

}  // namespace
}  // namespace yoke::engine
