#include "server/api/stream_pacer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

namespace yoke::server {

namespace {

/// Copilot: 10 equal, or 30, 45, 60, 120 with a period up to 10, 20, 30, 60. Ours fire earlier, so
/// that one more event (the last of an answer) is harmless.
constexpr std::array kRules = {RepetitionRule{5, 1},   RepetitionRule{12, 4},
                               RepetitionRule{20, 10}, RepetitionRule{30, 20},
                               RepetitionRule{40, 30}, RepetitionRule{80, 60}};
constexpr size_t kRemembered = 80;
/// A held run may be cut this many characters shorter to break its rhythm.
constexpr size_t kMaxCut = 32;
constexpr config::Duration kHoldCheck = std::chrono::milliseconds(40);

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

bool joins(const Delta& a, const Delta& b) {
  return a.kind == b.kind && a.kind != Delta::Kind::call_begin && a.call_index == b.call_index;
}

/// The last `\r` of a piece would be stripped by Copilot: it waits for its line feed.
size_t without_last_cr(std::string_view text) {
  return text.ends_with('\r') ? text.size() - 1 : text.size();
}

size_t previous_character(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

uint64_t hash(std::string_view text) {
  return std::hash<std::string_view>{}(text);
}

void push_bounded(std::deque<uint64_t>& list, uint64_t value) {
  list.push_back(value);
  if (list.size() > kRemembered) list.pop_front();
}

bool repeats(const std::deque<uint64_t>& sent, uint64_t next) {
  std::vector<uint64_t> all(sent.begin(), sent.end());
  all.push_back(next);
  return looks_repetitive(all, kRules);
}

}  // namespace

bool looks_repetitive(std::span<const uint64_t> hashes, std::span<const RepetitionRule> rules) {
  for (const RepetitionRule& rule : rules) {
    if (hashes.size() < rule.count) continue;
    const auto last = hashes.last(rule.count);
    for (size_t period = 1; period <= rule.max_period; ++period)
      if (std::equal(last.begin() + static_cast<std::ptrdiff_t>(period), last.end(), last.begin()))
        return true;
  }
  return false;
}

StreamPacer::StreamPacer(config::Duration interval, config::Duration longest_hold)
    : interval_(interval), longest_hold_(longest_hold) {}

void StreamPacer::add(Delta delta) {
  if (!waiting_.empty() && joins(waiting_.back(), delta))
    waiting_.back().text += delta.text;
  else
    waiting_.push_back(std::move(delta));
}

bool StreamPacer::would_repeat(std::string_view content) const {
  const uint64_t h = hash(content);
  return repeats(sent_, h) || (!is_blank(content) && repeats(sent_not_blank_, h));
}

void StreamPacer::remember(std::string_view content) {
  push_bounded(sent_, hash(content));
  if (!is_blank(content)) push_bounded(sent_not_blank_, hash(content));
}

/// How many bytes of the last waiting content may go out; starts or ends a hold.
size_t StreamPacer::releasable(std::string_view content, config::TimePoint now) {
  const size_t whole = without_last_cr(content);
  if (whole == 0) return 0;
  if (!would_repeat(content.substr(0, whole))) {
    held_since_.reset();
    return whole;
  }
  if (!held_since_) held_since_ = now;
  if (now - *held_since_ < longest_hold_) return 0;
  held_since_.reset();
  size_t end = whole;
  for (size_t cut = 0; cut < kMaxCut && end > 0; ++cut) {
    end = previous_character(content, end);
    if (end > 0 && without_last_cr(content.substr(0, end)) == end &&
        !would_repeat(content.substr(0, end)))
      return end;
  }
  return whole;
}

std::vector<Delta> StreamPacer::take_until_held(config::TimePoint now) {
  std::vector<Delta> out;
  while (!waiting_.empty()) {
    Delta& next = waiting_.front();
    if (next.kind == Delta::Kind::content) {
      // Content that something follows is complete: order forbids to hold it.
      const size_t n = waiting_.size() > 1 ? next.text.size() : releasable(next.text, now);
      if (n == 0) break;
      Delta piece{Delta::Kind::content, next.text.substr(0, n)};
      remember(piece.text);
      out.push_back(std::move(piece));
      if (n < next.text.size()) {
        next.text.erase(0, n);
        break;
      }
    } else {
      out.push_back(std::move(next));
    }
    waiting_.pop_front();
  }
  return out;
}

std::vector<Delta> StreamPacer::take(config::TimePoint now) {
  if (waiting_.empty() || now < earliest_) return {};
  std::vector<Delta> out = take_until_held(now);
  // A hold looks again after a while: what came meanwhile may have broken the pattern.
  earliest_ = now + (out.empty() ? std::max(interval_, kHoldCheck) : interval_);
  return out;
}

std::vector<Delta> StreamPacer::take_all() {
  std::vector<Delta> out(std::make_move_iterator(waiting_.begin()),
                         std::make_move_iterator(waiting_.end()));
  waiting_.clear();
  held_since_.reset();
  return out;
}

std::optional<config::TimePoint> StreamPacer::next() const {
  if (waiting_.empty()) return std::nullopt;
  return earliest_;
}

}  // namespace yoke::server
