#include "tests/fakes/scripted_engine.h"

#include <chrono>
#include <utility>

#include "config/check.h"

namespace yoke::tests {

using engine::FinishReason;
using engine::GenerationEvent;
using engine::ReadyState;
using engine::RequestId;

namespace {
constexpr auto kPatience = std::chrono::minutes(1);
}

ScriptedEngine::ScriptedEngine()
    : director_([](const engine::GenerationRequest&) { return Script{}; }) {
  status_.state = ReadyState::ready;
}

// The mailboxes' notify only posts, so pushing under the lock is fine, and keeps events in order.

config::Result<RequestId> ScriptedEngine::submit(engine::GenerationRequest request,
                                                 std::shared_ptr<engine::Mailbox> mailbox) {
  const std::lock_guard lock(mutex_);
  if (status_.state != ReadyState::ready)
    return config::Error{config::ErrorKind::unavailable, "not ready: " + status_.detail};
  size_t live_now = 0;
  for (const auto& [id, entry] : entries_) live_now += entry.live ? 1 : 0;
  if (live_now >= max_live_)
    return config::Error{config::ErrorKind::exhausted, "the queue is full"};
  const uint64_t id = next_id_++;
  const Script script = director_(request);
  Entry& entry = entries_[id];
  entry.request = std::move(request);
  entry.mailbox = std::move(mailbox);
  changed_.notify_all();
  if (script.manual) return RequestId{id};
  entry.started = true;
  GenerationEvent first;
  first.cached_tokens = script.cached_tokens;
  entry.mailbox->push(std::move(first));
  for (const auto& tokens : script.steps) {
    status_.generated_tokens += tokens.size();
    ++status_.steps;
    GenerationEvent event;
    event.tokens = tokens;
    entry.mailbox->push(std::move(event));
  }
  end(entry, script.reason, script.message, {});
  return RequestId{id};
}

void ScriptedEngine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(static_cast<uint64_t>(id));
  if (found == entries_.end()) return;
  found->second.cancelled = true;
  if (found->second.live) end(found->second, FinishReason::cancelled, "", {});
  changed_.notify_all();
}

engine::ServiceStatus ScriptedEngine::status() const {
  const std::lock_guard lock(mutex_);
  engine::ServiceStatus out = status_;
  for (const auto& [id, entry] : entries_) {
    if (!entry.live) continue;
    (entry.started ? out.running : out.waiting) += 1;
  }
  return out;
}

void ScriptedEngine::set_director(Director director) {
  const std::lock_guard lock(mutex_);
  director_ = std::move(director);
}
void ScriptedEngine::hold_all() {
  set_director([](const engine::GenerationRequest&) {
    Script script;
    script.manual = true;
    return script;
  });
}
void ScriptedEngine::set_state(ReadyState state, std::string detail) {
  const std::lock_guard lock(mutex_);
  status_.state = state;
  status_.detail = std::move(detail);
}
void ScriptedEngine::set_stalled(config::Duration stalled) {
  const std::lock_guard lock(mutex_);
  status_.stalled = stalled;
}
void ScriptedEngine::set_max_live(size_t requests) {
  const std::lock_guard lock(mutex_);
  max_live_ = requests;
}

ScriptedEngine::Entry& ScriptedEngine::entry_of(RequestId id) {
  const auto found = entries_.find(static_cast<uint64_t>(id));
  YOKE_CHECK(found != entries_.end(), "a test names a request that was not submitted");
  return found->second;
}

void ScriptedEngine::start(RequestId id, int32_t cached_tokens) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entry_of(id);
  if (!entry.live || std::exchange(entry.started, true)) return;
  GenerationEvent event;
  event.cached_tokens = cached_tokens;
  entry.mailbox->push(std::move(event));
}

void ScriptedEngine::emit(RequestId id, std::vector<int32_t> tokens) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entry_of(id);
  if (!entry.live) return;
  GenerationEvent event;
  if (!std::exchange(entry.started, true)) event.cached_tokens = 0;
  status_.generated_tokens += tokens.size();
  ++status_.steps;
  event.tokens = std::move(tokens);
  entry.mailbox->push(std::move(event));
}

void ScriptedEngine::finish(RequestId id, FinishReason reason, std::string message) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entry_of(id);
  if (entry.live) end(entry, reason, std::move(message), {});
}

void ScriptedEngine::end(Entry& entry, FinishReason reason, std::string message,
                         std::vector<int32_t> tokens) {
  entry.live = false;
  GenerationEvent event;
  event.tokens = std::move(tokens);
  event.finish = GenerationEvent::Finish{reason, std::move(message)};
  entry.mailbox->push(std::move(event));
  changed_.notify_all();
}

RequestId ScriptedEngine::wait_for_request(size_t n) {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, kPatience, [&] { return next_id_ > n; });
  YOKE_CHECK(came, "no request came");
  return RequestId{n};
}
void ScriptedEngine::wait_until_cancelled(RequestId id) {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, kPatience, [&] { return entry_of(id).cancelled; });
  YOKE_CHECK(came, "the request was not cancelled");
}
void ScriptedEngine::wait_until_no_live() {
  std::unique_lock lock(mutex_);
  const bool came = changed_.wait_for(lock, kPatience, [&] {
    for (const auto& [id, entry] : entries_)
      if (entry.live) return false;
    return true;
  });
  YOKE_CHECK(came, "requests stayed live");
}

engine::GenerationRequest ScriptedEngine::request(RequestId id) const {
  const std::lock_guard lock(mutex_);
  return entries_.at(static_cast<uint64_t>(id)).request;
}
size_t ScriptedEngine::submitted() const {
  const std::lock_guard lock(mutex_);
  return next_id_;
}
size_t ScriptedEngine::live() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [id, entry] : entries_) count += entry.live ? 1 : 0;
  return count;
}
size_t ScriptedEngine::cancelled() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& [id, entry] : entries_) count += entry.cancelled ? 1 : 0;
  return count;
}

}  // namespace yoke::tests
