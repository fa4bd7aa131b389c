#include "server/api/stream_pacer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

namespace yoke::server {
namespace {

using config::TimePoint;
using std::chrono::milliseconds;
using Kind = Delta::Kind;

constexpr milliseconds kInterval{40};
constexpr milliseconds kHold{1000};

Delta content(std::string text) {
  return {Kind::content, std::move(text)};
}
TimePoint at(int64_t ms) {
  return TimePoint{} + std::chrono::hours(1) + milliseconds(ms);
}

TEST(StreamPacer, first_delta_goes_at_once_and_later_ones_are_joined) {  // rule 11
  StreamPacer pacer(kInterval, kHold);
  EXPECT_EQ(pacer.next(), std::nullopt);
  pacer.add(content("a"));
  EXPECT_EQ(pacer.take(at(0)), std::vector<Delta>{content("a")});
  pacer.add(content("b"));
  EXPECT_TRUE(pacer.take(at(1)).empty());
  EXPECT_EQ(pacer.next(), at(40));
  pacer.add(content("c"));
  EXPECT_EQ(pacer.take(at(40)), std::vector<Delta>{content("bc")});
  EXPECT_EQ(pacer.next(), std::nullopt);
}

TEST(StreamPacer, kinds_and_calls_are_never_joined) {  // A12
  StreamPacer pacer(kInterval, kHold);
  const std::vector<Delta> deltas = {
      {Kind::reasoning, "r"},          {Kind::content, "c"},
      {Kind::call_begin, "f", 0, "i"}, {Kind::call_arguments, "{", 0},
      {Kind::call_arguments, "}", 0},  {Kind::call_begin, "f", 1, "j"},
      {Kind::call_arguments, "{}", 1}};
  for (const Delta& delta : deltas) pacer.add(delta);
  const std::vector<Delta> out = pacer.take(at(0));
  ASSERT_EQ(out.size(), 6u);
  EXPECT_EQ(out[3], (Delta{Kind::call_arguments, "{}", 0}));
  EXPECT_EQ(out[5], (Delta{Kind::call_arguments, "{}", 1}));
}

TEST(StreamPacer, carriage_return_waits_for_its_line_feed) {
  StreamPacer pacer(kInterval, kHold);
  pacer.add(content("a\r"));
  EXPECT_EQ(pacer.take(at(0)), std::vector<Delta>{content("a")});
  pacer.add(content("\nb"));
  EXPECT_EQ(pacer.take(at(40)), std::vector<Delta>{content("\r\nb")});
  pacer.add(content("\r"));
  EXPECT_TRUE(pacer.take(at(80)).empty());
  EXPECT_EQ(pacer.take_all(), std::vector<Delta>{content("\r")});
}

TEST(StreamPacer, repeated_text_is_held_until_it_looks_different) {
  StreamPacer pacer(kInterval, kHold);
  std::vector<std::string> sent;
  for (int64_t ms = 0; ms < 400; ms += 40) {
    pacer.add(content("="));
    for (const Delta& d : pacer.take(at(ms))) sent.push_back(d.text);
  }
  EXPECT_EQ(sent, (std::vector<std::string>{"=", "=", "=", "=", "==", "=", "=", "=", "="}));
}

TEST(StreamPacer, held_text_goes_before_anything_that_follows) {
  StreamPacer pacer(kInterval, kHold);
  for (int64_t ms = 0; ms < 160; ms += 40) {
    pacer.add(content("="));
    pacer.take(at(ms));
  }
  pacer.add(content("="));
  EXPECT_TRUE(pacer.take(at(160)).empty());
  pacer.add({Kind::call_begin, "f", 0, "i"});
  const std::vector<Delta> out = pacer.take(at(200));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0], content("="));
}

TEST(StreamPacer, a_hold_never_asks_to_be_looked_at_again_at_once) {
  StreamPacer pacer(milliseconds(0), kHold);
  for (int i = 0; i < 4; ++i) {
    pacer.add(content("="));
    pacer.take(at(i));
  }
  pacer.add(content("="));
  EXPECT_TRUE(pacer.take(at(10)).empty());
  EXPECT_GT(*pacer.next(), at(10));
}

/// Copilot's test over the events of an answer (spec/api.md 1.5.12).
bool copilot_drops(const std::vector<std::string>& events) {
  constexpr RepetitionRule kCopilot[] = {{10, 1}, {30, 10}, {45, 20}, {60, 30}, {120, 60}};
  std::vector<uint64_t> all;
  std::vector<uint64_t> not_blank;
  for (const std::string& event : events) {
    all.push_back(std::hash<std::string>{}(event));
    if (event.find_first_not_of(" \n\t") != std::string::npos) not_blank.push_back(all.back());
  }
  return looks_repetitive(all, kCopilot) || looks_repetitive(not_blank, kCopilot);
}

TEST(StreamPacer, repetition_rules_see_what_they_shall) {
  constexpr RepetitionRule kRule[] = {{6, 3}};
  const std::vector<uint64_t> periodic = {9, 1, 2, 3, 1, 2, 3};
  EXPECT_TRUE(looks_repetitive(periodic, kRule));
  const std::vector<uint64_t> broken = {9, 1, 2, 3, 1, 2, 4};
  EXPECT_FALSE(looks_repetitive(broken, kRule));
  const std::vector<uint64_t> few = {1, 1, 1, 1, 1};
  EXPECT_FALSE(looks_repetitive(few, kRule));
}

/// Plays `unit` over and over, one token per `period`; checks latency and text on the way.
std::vector<std::string> play(const std::vector<std::string>& unit, int tokens,
                              milliseconds period) {
  StreamPacer pacer(kInterval, kHold);
  std::vector<std::string> events;
  std::string given;
  std::string sent;
  TimePoint now = at(0);
  bool waiting = false;
  TimePoint waiting_since = now;
  const auto collect = [&](const std::vector<Delta>& deltas) {
    for (const Delta& d : deltas) {
      events.push_back(d.text);
      sent += d.text;
    }
    if (sent.size() == given.size()) waiting = false;
  };
  for (int i = 0; i < tokens; ++i) {
    const std::string& token = unit[static_cast<size_t>(i) % unit.size()];
    pacer.add(content(token));
    given += token;
    if (!std::exchange(waiting, true)) waiting_since = now;
    const TimePoint next_token = now + period;
    while (true) {
      const std::vector<Delta> deltas = pacer.take(now);
      if (!deltas.empty()) waiting_since = now;
      collect(deltas);
      if (waiting) {
        EXPECT_LE(now - waiting_since, kHold + 2 * kInterval);
      }
      if (!pacer.next() || *pacer.next() >= next_token) break;
      now = std::max(now, *pacer.next());
    }
    now = next_token;
  }
  collect(pacer.take_all());
  EXPECT_EQ(sent, given);
  return events;
}

TEST(StreamPacer, copilot_keeps_every_repetitive_answer) {  // rule 11
  const std::vector<std::vector<std::string>> units = {
      {"="},
      {"| ", "0"},
      {"0", ",", " ", "\n"},
      {"ab", "\n", "\n"},
      {"a", "b", "c", "d", "e", "f", "g", "h", "i"},
      {"\xF0\x9F\x98\x80"}};
  for (const auto& unit : units)
    for (const int64_t period : {1, 7, 13, 20, 39, 40, 41, 100, 250, 400})
      for (const int tokens : {200, 777}) {
        const auto events = play(unit, tokens, milliseconds(period));
        EXPECT_FALSE(copilot_drops(events))
            << "unit " << unit.front() << " period " << period << " tokens " << tokens;
      }
}

TEST(StreamPacer, random_answers_keep_their_text_and_their_pace) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> unit;
    for (size_t i = 0; i < 1 + random() % 40; ++i)
      unit.push_back(std::string(1 + random() % 3, static_cast<char>('a' + random() % 3)));
    const auto events = play(unit, 300, milliseconds(1 + random() % 120));
    EXPECT_FALSE(copilot_drops(events)) << "round " << round;
  }
}

}  // namespace
}  // namespace yoke::server
