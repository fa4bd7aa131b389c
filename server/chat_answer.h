// One admitted chat request, from submission to its last byte. A state machine on the connection's
// strand: step() does all that can be done now, next_deadline() says when to look again at the
// latest; the coroutine around it only waits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api/chat_format.h"
#include "server/api/chat_output.h"
#include "server/api/stream_pacer.h"
#include "server/completions.h"

namespace yoke::server {

class ChatAnswer {
 public:
  ChatAnswer(std::shared_ptr<Exchange> exchange, std::shared_ptr<ChatService> service,
             std::shared_ptr<const ServedModel> model, PreparedChat chat, std::string key_label);
  ~ChatAnswer();
  ChatAnswer(const ChatAnswer&) = delete;
  ChatAnswer& operator=(const ChatAnswer&) = delete;

  /// Hands the request to the engine and, for a stream, sends the head. The error says why not;
  /// nothing was sent then.
  std::optional<ApiError> submit();
  void step(config::TimePoint now);
  bool done() const noexcept { return done_; }
  config::TimePoint next_deadline() const;

 private:
  using Stage = DisconnectStage;

  engine::GenerationRequest generation_request();
  void take_events(config::TimePoint now);
  void on_tokens(const std::vector<int32_t>& tokens, config::TimePoint now);
  void count_tokens();
  void on_finish(const engine::GenerationEvent::Finish& finish, config::TimePoint now);
  void deliver(std::vector<Delta> deltas);
  void write_deltas(const std::vector<Delta>& deltas, std::string& wire);
  void flush_stream(config::TimePoint now);
  void complete(Ending ending, config::TimePoint now);
  void fail(const ApiError& error, config::TimePoint now);
  void abandon(config::TimePoint now);
  bool reader_is_slow(config::TimePoint now);
  bool has_timed_out_in_queue(config::TimePoint now) const;
  void end(Outcome outcome, int status, config::TimePoint now);
  void observe_times(config::TimePoint now);
  ApiError engine_error(const std::string& message) const;
  Usage usage() const;

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ChatService> service_;
  std::shared_ptr<const ServedModel> model_;
  PreparedChat chat_;
  int64_t prompt_tokens_;  // the prompt itself goes to the engine
  std::string key_label_;
  AnswerHead head_;
  ChatOutput output_;
  ChunkFormat format_;
  StreamPacer pacer_;
  PlainAnswer plain_;
  std::shared_ptr<engine::Mailbox> mailbox_;
  engine::RequestId id_{};

  bool done_ = false;
  bool cancelled_ = false;  // the engine was told
  bool role_sent_ = false;
  bool stalled_ = false;  // the reader is slow: tokens stay in the mailbox
  size_t buffered_ = 0;   // what stream_buffer_bytes counts of this stream
  Stage stage_ = Stage::queued;
  int32_t cached_tokens_ = 0;
  int64_t counted_content_ = 0;
  int64_t counted_reasoning_ = 0;
  int64_t counted_tool_ = 0;
  config::TimePoint began_{};
  config::TimePoint started_{};  // first row
  config::TimePoint first_token_{};
  config::TimePoint last_token_{};
  config::TimePoint last_write_{};
};

}  // namespace yoke::server
