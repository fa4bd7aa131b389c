// Reads the events of one streamed answer into a RequestRecord.
#pragma once

#include <string_view>

#include "engine/json/json.h"
#include "server/bench/event_reader.h"
#include "server/bench/statistics.h"

namespace yoke::server {

/// What an OpenAI-style error body says, or its beginning when it is none.
std::string error_text(std::string_view body);

class AnswerReader {
 public:
  explicit AnswerReader(RequestRecord& record) : record_(record) {}

  /// Bytes of the body, and when they came.
  void feed(std::string_view bytes, config::TimePoint now);
  /// After the last byte: what a stream must have had.
  void finish(config::TimePoint now);

 private:
  void event(std::string_view data, config::TimePoint now);
  void usage(const engine::Json& usage);

  RequestRecord& record_;
  EventReader events_;
  bool done_ = false;
  bool has_usage_ = false;
};

}  // namespace yoke::server
