#include "engine/generation.h"

#include <utility>

namespace yoke::engine {

void Mailbox::set_notify(std::function<void()> notify) {
  const std::lock_guard lock(mutex_);
  notify_ = std::move(notify);
}

void Mailbox::push(GenerationEvent event) {
  std::function<void()> notify;
  {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) notify = notify_;
    events_.push_back(std::move(event));
  }
  if (notify) notify();
}

std::optional<GenerationEvent> Mailbox::take() {
  std::deque<GenerationEvent> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  if (events.empty()) return std::nullopt;
  GenerationEvent joined = std::move(events.front());
  events.pop_front();
  for (GenerationEvent& event : events) {
    joined.tokens.insert(joined.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (event.cached_tokens) joined.cached_tokens = event.cached_tokens;
    if (event.finish) joined.finish = std::move(event.finish);
  }
  return joined;
}

}  // namespace yoke::engine
