// Chat answers on the wire (spec/api.md 2.7 and 2.8): chunks of a stream, and the plain object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/delta.h"
#include "server/api/error.h"

namespace yoke::server {

/// What all parts of one answer share.
struct AnswerHead {
  std::string id;  ///< `chatcmpl-…`
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
  std::string reasoning_field = "reasoning_content";  ///< or reasoning, reasoning_text, both
  bool service_tier = false;                          ///< say "default": the request named one
  int64_t seed = 0;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t reasoning_tokens = 0;
};

constexpr std::string_view kHeartbeat = ": keep-alive\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

/// Events of a stream, each with its `data: ` and blank line.
class ChunkFormat {
 public:
  /// `with_usage`: chunks carry `"usage":null`, because a usage chunk will follow.
  ChunkFormat(AnswerHead head, bool with_usage);

  std::string role() const;
  /// `running`: the usage so far, instead of null.
  std::string delta(const Delta& delta, const std::optional<Usage>& running = {}) const;
  std::string finish(std::string_view finish_reason) const;
  std::string usage(const Usage& usage) const;
  static std::string error(const ApiError& error);

 private:
  std::string chunk(std::string_view choices, std::string_view usage,
                    std::string_view more = {}) const;
  std::string choice(std::string_view delta, std::string_view finish_reason) const;

  AnswerHead head_;
  std::string prefix_;  // up to `"choices":`
  bool with_usage_;
};

/// A plain answer, joined from the deltas of the stream that it is not.
class PlainAnswer {
 public:
  void add(const Delta& delta);
  std::string format(const AnswerHead& head, const Usage& usage,
                     std::string_view finish_reason) const;

  const std::string& content() const noexcept { return content_; }
  const std::string& reasoning() const noexcept { return reasoning_; }
  size_t calls() const noexcept { return calls_.size(); }

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };
  std::string content_;
  std::string reasoning_;
  std::vector<Call> calls_;
};

}  // namespace yoke::server
