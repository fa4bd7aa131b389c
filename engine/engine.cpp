#include "engine/engine.h"

#include <stdexcept>
#include <utility>

#include "engine/model/memory.h"

namespace yoke::engine {
namespace {

config::Error unavailable(std::string message) {
  return {config::ErrorKind::unavailable, std::move(message)};
}

constexpr const char* kShuttingDown = "the server is shutting down";

std::string progress_text(uint64_t done, uint64_t total) {
  return "loading weights: " + format_bytes(done) + " of " + format_bytes(total);
}

}  // namespace

Engine::Engine(const EngineOptions& options, LoadModel load, WarmUp warm_up, config::Logger log)
    : options_(options),
      load_(std::move(load)),
      warm_up_(std::move(warm_up)),
      log_(std::move(log)),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  stop();
}

config::Result<RequestId> Engine::submit(GenerationRequest request,
                                         std::shared_ptr<Mailbox> mailbox) {
  {
    const std::lock_guard lock(mutex_);
    if (auto error = closed()) return *std::move(error);
  }
  if (auto checked = check(request); !checked.ok()) return checked.error();
  Submission submission;
  if (request.sampling.uses_counts()) submission.counts = TokenCounts(request.prompt);
  submission.request = std::move(request);
  submission.mailbox = std::move(mailbox);
  submission.at = config::Clock::now();

  const std::lock_guard lock(mutex_);
  if (auto error = closed()) return *std::move(error);
  if (live_.size() >= live_max_)
    return config::Error{
        config::ErrorKind::exhausted,
        "the queue is full: " + std::to_string(live_.size()) + " requests are running or waiting"};
  const RequestId id{next_id_++};
  submission.id = id;
  live_.insert(static_cast<uint64_t>(id));
  inbox_.submissions.push_back(std::move(submission));
  changed_.notify_all();
  return id;
}

void Engine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto key = static_cast<uint64_t>(id);
  // What has ended needs no entry, so the inbox is bounded by the live requests.
  if (!live_.contains(key) || !cancelled_.insert(key).second) return;
  inbox_.cancellations.push_back(id);
  changed_.notify_all();
}

ServiceStatus Engine::status() const {
  const std::lock_guard lock(mutex_);
  ServiceStatus status = status_;
  status.waiting += static_cast<int32_t>(inbox_.submissions.size());
  if (busy_) status.stalled = config::Clock::now() - last_progress_;
  return status;
}

config::Result<void> Engine::wait_until_ready() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return started(); });
  if (status_.state == ReadyState::failed || stopping_) return *closed();
  return {};
}

bool Engine::wait_for_start(config::Duration timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return started(); });
}

void Engine::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  if (status_.state == ReadyState::ready) status_.state = ReadyState::draining;
}

bool Engine::wait_until_idle(config::Duration timeout) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return live_.empty() && !busy_; });
}

void Engine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (status_.state == ReadyState::ready) status_.state = ReadyState::draining;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool Engine::started() const {
  return stopping_ ||
         (status_.state != ReadyState::loading && status_.state != ReadyState::warming_up);
}

std::optional<config::Error> Engine::closed() const {
  if (status_.state == ReadyState::failed)
    return unavailable("the engine failed: " + status_.detail);
  if (stopping_ || draining_) return unavailable(kShuttingDown);
  if (status_.state != ReadyState::ready)
    return unavailable("the model is not ready: " + status_.detail);
  return std::nullopt;
}

config::Result<void> Engine::check(const GenerationRequest& request) const {
  if (request.prompt.empty()) return config::invalid_input("the prompt has no tokens");
  if (request.max_tokens < 1)
    return config::invalid_input("max_tokens: want at least 1, got " +
                                 std::to_string(request.max_tokens));
  int32_t max_model_len = 0;
  {
    const std::lock_guard lock(mutex_);
    max_model_len = max_model_len_;
  }
  if (request.prompt.size() >= static_cast<size_t>(max_model_len))
    return config::invalid_input("maximum context length is " + std::to_string(max_model_len) +
                                 " tokens, the prompt has " +
                                 std::to_string(request.prompt.size()));
  for (const int32_t id : request.prompt) {
    if (id < 0 || id >= options_.defined_vocab)
      return config::invalid_input("prompt: want token ids from 0 to " +
                                   std::to_string(options_.defined_vocab - 1) + ", got " +
                                   std::to_string(id));
  }
  return check_sampling_params(request.sampling, options_.defined_vocab);
}

void Engine::set_state(ReadyState state, std::string detail) {
  const std::lock_guard lock(mutex_);
  status_.state = state;
  status_.detail = std::move(detail);
  changed_.notify_all();
}

void Engine::run() noexcept {
  std::string last_words = kShuttingDown;
  // The loop borrows the model, so it goes first.
  std::unique_ptr<Model> model;
  std::optional<StepLoop> loop;
  const auto fail = [&](const std::string& why) {
    log_->error("engine.failed reason=\"{}\"", config::log_safe(why));
    set_state(ReadyState::failed, why);  // from here on nobody is let in
    last_words = "the engine failed: " + why;
  };
  try {
    model = bring_up();
    loop.emplace(*model, loop_options(), log_);
    serve(*loop);
  } catch (const std::exception& e) {
    fail(e.what());
  } catch (...) {
    fail("an exception of unknown type");
  }
  if (loop) {
    loop->end_all(last_words);
    publish(*loop);
  }
  end_inbox(last_words);
}

std::unique_ptr<Model> Engine::bring_up() {
  set_state(ReadyState::loading, "loading weights");
  auto loaded = std::exchange(load_, {})([this](uint64_t done, uint64_t total) {
    set_state(ReadyState::loading, progress_text(done, total));
  });
  if (!loaded.ok()) throw std::runtime_error(loaded.error().message);
  std::unique_ptr<Model> model = std::move(loaded).value();
  const SchedulerLimits limits = StepLoop::limits(*model, loop_options());
  if (auto checked = check_limits(limits); !checked.ok())
    throw std::runtime_error(checked.error().message);

  set_state(ReadyState::warming_up, "warming up");
  if (auto warm = std::exchange(warm_up_, {})(*model); !warm.ok())
    throw std::runtime_error(warm.error().message);

  const std::lock_guard lock(mutex_);
  live_max_ = static_cast<size_t>(limits.max_sequences) + static_cast<size_t>(limits.max_waiting);
  max_model_len_ = limits.max_model_len;
  status_.state = draining_ || stopping_ ? ReadyState::draining : ReadyState::ready;
  status_.detail = "ready";
  changed_.notify_all();
  return model;
}

StepLoop::Options Engine::loop_options() {
  StepLoop::Options options;
  options.defined_vocab = options_.defined_vocab;
  options.max_waiting = options_.max_waiting;
  options.time_limit = options_.time_limit;
  options.on_end = [this](RequestId id) { forget(id); };
  return options;
}

void Engine::serve(StepLoop& loop) {
  Inbox inbox;
  while (take_inbox(loop.idle(), inbox)) {
    for (Submission& submission : inbox.submissions)
      loop.add(std::move(submission), config::Clock::now());
    for (const RequestId id : inbox.cancellations) loop.cancel(id);
    inbox.submissions.clear();
    inbox.cancellations.clear();
    const bool runs = loop.plan(config::Clock::now());
    publish(loop);
    if (!runs) continue;
    loop.run();
    publish(loop);
  }
}

bool Engine::take_inbox(bool idle, Inbox& inbox) {
  std::unique_lock lock(mutex_);
  if (idle) changed_.wait(lock, [&] { return stopping_ || !inbox_.empty(); });
  if (stopping_) return false;
  std::swap(inbox, inbox_);
  return true;
}

void Engine::publish(const StepLoop& loop) {
  const std::lock_guard lock(mutex_);
  loop.report(status_);
  busy_ = !loop.idle();
  last_progress_ = config::Clock::now();
  if (!busy_) changed_.notify_all();
}

void Engine::forget(RequestId id) {
  const std::lock_guard lock(mutex_);
  live_.erase(static_cast<uint64_t>(id));
  cancelled_.erase(static_cast<uint64_t>(id));
}

/// The last act of the thread: nobody is let in any more, and who is in hears why it ends.
void Engine::end_inbox(const std::string& message) {
  Inbox inbox;
  {
    const std::lock_guard lock(mutex_);
    std::swap(inbox, inbox_);
    busy_ = false;
    status_.running = status_.waiting = status_.prefilling = 0;
    status_.cache_usage = 0;
    live_.clear();
    cancelled_.clear();
    changed_.notify_all();
  }
  for (const Submission& submission : inbox.submissions) {
    submission.mailbox->push(
        {{}, std::nullopt, GenerationEvent::Finish{FinishReason::error, message}});
  }
}

}  // namespace yoke::engine
