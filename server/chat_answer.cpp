#include "server/chat_answer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/api/ids.h"

namespace yoke::server {

using config::Clock;
using config::TimePoint;
using engine::FinishReason;

namespace {

constexpr size_t kMaxUnsent = 1 << 20;  ///< output of one stream that waits for its reader
constexpr config::Duration kLongestHold = std::chrono::seconds(1);
constexpr config::Duration kIdleCheck = std::chrono::minutes(10);

AnswerHead answer_head(const ServedModel& model, const PreparedChat& chat,
                       const config::ApiConfig& api) {
  AnswerHead head;
  head.id = random_id("chatcmpl-");
  head.created = std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count();
  head.model = chat.request.model;
  head.fingerprint = model.fingerprint;
  head.reasoning_field = api.reasoning_field;
  head.service_tier = chat.request.echo_service_tier;
  head.seed = chat.seed;
  return head;
}

ChatOutputOptions output_options(const ServedModel& model, const PreparedChat& chat) {
  ChatOutputOptions options;
  options.parser.starts_in_reasoning = chat.starts_in_reasoning;
  options.parser.thinking = chat.thinking;
  options.parser.extract_calls = !chat.request.callable.is_null();
  options.parser.tools = options.parser.extract_calls ? &chat.request.callable : nullptr;
  options.parser.single_call = chat.request.single_call;
  options.stop = chat.request.stop;
  options.include_stop = chat.request.include_stop;
  options.end_tokens = model.eos_token_ids;
  options.end_tokens.insert(options.end_tokens.end(), chat.request.stop_token_ids.begin(),
                            chat.request.stop_token_ids.end());
  options.include_reasoning = chat.request.include_reasoning;
  options.new_call_id = [] { return random_id("call_"); };
  return options;
}

Outcome outcome_of(std::string_view finish_reason) {
  if (finish_reason == "stop") return Outcome::stop;
  if (finish_reason == "length") return Outcome::length;
  if (finish_reason == "tool_calls") return Outcome::tool_calls;
  return Outcome::error;
}

bool wants_usage(const PreparedChat& chat, const config::ApiConfig& api) {
  return chat.request.include_usage || api.force_include_usage;
}

/// Measures the time from cancel() to the engine's last word. The mailbox keeps itself alive
/// through its own notify until that word comes.
void observe_cancel(const std::shared_ptr<engine::Mailbox>& mailbox, Metrics* metrics,
                    TimePoint since) {
  const auto look = [mailbox, metrics, since] {
    const auto event = mailbox->take();
    if (!event || !event->finish) return;
    metrics->cancel_latency(Clock::now() - since);
    mailbox->set_notify({});
  };
  mailbox->set_notify(look);
  look();
}

}  // namespace

ChatAnswer::ChatAnswer(std::shared_ptr<Exchange> exchange, std::shared_ptr<ChatService> service,
                       std::shared_ptr<const ServedModel> model, PreparedChat chat,
                       std::string key_label)
    : exchange_(std::move(exchange)),
      service_(std::move(service)),
      model_(std::move(model)),
      chat_(std::move(chat)),
      prompt_tokens_(static_cast<int64_t>(chat_.prompt.size())),
      key_label_(std::move(key_label)),
      head_(answer_head(*model_, chat_, service_->api)),
      output_(*model_->tokenizer, output_options(*model_, chat_)),
      format_(head_, wants_usage(chat_, service_->api)),
      pacer_(service_->api.stream_interval, kLongestHold),
      mailbox_(std::make_shared<engine::Mailbox>()) {
  chat_.request.callable = {};  // the parser has read it
}

ChatAnswer::~ChatAnswer() {
  if (!done_) mailbox_->set_notify({});
}

// --- admission
// -------------------------------------------------------------------------------------

engine::GenerationRequest ChatAnswer::generation_request() {
  engine::GenerationRequest request;
  request.prompt = std::move(chat_.prompt);
  request.boundaries = std::move(chat_.boundaries);
  request.sampling = chat_.sampling;
  request.max_tokens = chat_.max_tokens;
  request.stop_token_ids = model_->eos_token_ids;
  request.stop_token_ids.insert(request.stop_token_ids.end(), chat_.request.stop_token_ids.begin(),
                                chat_.request.stop_token_ids.end());
  request.key_label = key_label_;
  return request;
}

std::optional<ApiError> ChatAnswer::submit() {
  began_ = Clock::now();
  mailbox_->set_notify(exchange_->waker());
  if (service_->log_requests == "full")
    service_->log->info("request.prompt id={} text={}",
                        config::log_safe(exchange_->request().head.request_id),
                        config::log_safe(model_->tokenizer->decode(chat_.prompt)));
  const auto id = model_->service->submit(generation_request(), mailbox_);
  if (!id) {
    const engine::ServiceStatus status = model_->service->status();
    switch (id.error().kind) {
      case config::ErrorKind::exhausted: {
        ApiError error{ApiCode::queue_full, id.error().message};
        error.retry_after_s = service_->retry_after_s(status.waiting, model_->max_num_seqs);
        return error;
      }
      case config::ErrorKind::unavailable:
        return engine_error(id.error().message);
      case config::ErrorKind::invalid_input:
        return ApiError{ApiCode::invalid_value, id.error().message};
      default:
        return ApiError{ApiCode::internal_error, id.error().message};
    }
  }
  id_ = *id;
  service_->log->log(service_->request_level(),
                     "request.start id={} key={} model={} prompt_tokens={} max_tokens={} stream={}",
                     config::log_safe(exchange_->request().head.request_id),
                     config::log_safe(key_label_), config::log_safe(head_.model), prompt_tokens_,
                     chat_.max_tokens, chat_.request.stream);
  if (chat_.request.stream) {
    Headers headers;
    headers.add("cache-control", "no-cache");
    headers.add("x-accel-buffering", "no");
    exchange_->begin_stream("text/event-stream; charset=utf-8", std::move(headers));
    exchange_->write(kHeartbeat);
    last_write_ = Clock::now();
  }
  return std::nullopt;
}

// --- the loop
// --------------------------------------------------------------------------------------

void ChatAnswer::step(TimePoint now) {
  if (done_) return;
  if (exchange_->peer_closed()) return abandon(now);
  if (exchange_->aborted())
    return fail({ApiCode::shutting_down, "the server is shutting down"}, now);
  if (has_timed_out_in_queue(now))
    return fail({ApiCode::timeout,
                 "the request waited longer than the queue allows "
                 "(--queue-timeout)"},
                now);
  if (reader_is_slow(now)) return;
  take_events(now);
  if (!done_ && chat_.request.stream) flush_stream(now);
}

TimePoint ChatAnswer::next_deadline() const {
  TimePoint next = Clock::now() + kIdleCheck;
  if (stage_ == Stage::queued && service_->api.queue_timeout.count() > 0)
    next = std::min(next, began_ + service_->api.queue_timeout);
  if (!chat_.request.stream) return next;
  if (stalled_) return std::min(next, exchange_->last_progress() + service_->write_timeout);
  if (const auto pacer = pacer_.next()) next = std::min(next, *pacer);
  return std::min(next, last_write_ + service_->api.heartbeat_interval);
}

bool ChatAnswer::has_timed_out_in_queue(TimePoint now) const {
  const auto limit = service_->api.queue_timeout;
  return limit.count() > 0 && stage_ == Stage::queued && now >= began_ + limit;
}

/// True: tokens stay where they are until the reader has taken some. Ends the request when it takes
/// nothing for too long.
bool ChatAnswer::reader_is_slow(TimePoint now) {
  const size_t unsent = exchange_->unsent_bytes();
  service_->metrics->stream_buffer(static_cast<int64_t>(unsent) - static_cast<int64_t>(buffered_));
  buffered_ = unsent;
  if (unsent < kMaxUnsent) {
    stalled_ = false;
    return false;
  }
  if (!std::exchange(stalled_, true)) service_->metrics->slow_reader_stall();
  if (now >= exchange_->last_progress() + service_->write_timeout) {
    stage_ = Stage::writing;
    abandon(now);
  }
  return true;
}

void ChatAnswer::take_events(TimePoint now) {
  const auto event = mailbox_->take();
  if (!event) return;
  if (event->cached_tokens && stage_ == Stage::queued) {
    cached_tokens_ = *event->cached_tokens;
    started_ = now;
    stage_ = Stage::prefill;
  }
  if (!event->tokens.empty()) on_tokens(event->tokens, now);
  if (done_) return;
  if (output_.wants_stop()) {
    if (!event->finish) model_->service->cancel(id_);
    return complete(Ending::stop, now);
  }
  if (event->finish) on_finish(*event->finish, now);
}

void ChatAnswer::on_tokens(const std::vector<int32_t>& tokens, TimePoint now) {
  if (stage_ == Stage::queued) started_ = now;
  if (stage_ != Stage::decode) {
    stage_ = Stage::decode;
    first_token_ = now;
    service_->metrics->time_to_first_token(now - began_);
  } else {
    const auto each = (now - last_token_) / static_cast<int64_t>(tokens.size());
    for (size_t i = 0; i < tokens.size(); ++i) service_->metrics->inter_token(each);
  }
  last_token_ = now;
  std::vector<Delta> deltas;
  output_.feed(tokens, deltas);
  count_tokens();
  deliver(std::move(deltas));
}

/// Counters move while a request decodes: dashboards take rates from them.
void ChatAnswer::count_tokens() {
  const int64_t reasoning = output_.reasoning_tokens();
  const int64_t tool = output_.tool_tokens();
  const int64_t content = output_.completion_tokens() - reasoning - tool;
  service_->metrics->generated_tokens(content - std::exchange(counted_content_, content),
                                      reasoning - std::exchange(counted_reasoning_, reasoning),
                                      tool - std::exchange(counted_tool_, tool));
}

void ChatAnswer::on_finish(const engine::GenerationEvent::Finish& finish, TimePoint now) {
  switch (finish.reason) {
    case FinishReason::stop:
      return complete(Ending::stop, now);
    case FinishReason::length:
      return complete(Ending::length, now);
    case FinishReason::cancelled:
    case FinishReason::error:
      return fail(engine_error(finish.message), now);
  }
}

// --- output
// ----------------------------------------------------------------------------------------

void ChatAnswer::deliver(std::vector<Delta> deltas) {
  const bool log_text = service_->log_requests == "full";
  for (Delta& delta : deltas) {
    if (!chat_.request.stream || log_text) plain_.add(delta);
    if (chat_.request.stream) pacer_.add(std::move(delta));
  }
}

void ChatAnswer::write_deltas(const std::vector<Delta>& deltas, std::string& wire) {
  std::optional<Usage> running;
  if (chat_.request.running_usage) running = usage();
  for (const Delta& delta : deltas) {
    if (!std::exchange(role_sent_, true)) wire += format_.role();
    wire += format_.delta(delta, running);
  }
}

void ChatAnswer::flush_stream(TimePoint now) {
  std::string wire;
  write_deltas(pacer_.take(now), wire);
  if (wire.empty() && now >= last_write_ + service_->api.heartbeat_interval) wire = kHeartbeat;
  if (wire.empty()) return;
  exchange_->write(wire);
  last_write_ = now;
}

Usage ChatAnswer::usage() const {
  return {.prompt_tokens = prompt_tokens_,
          .completion_tokens = output_.completion_tokens(),
          .cached_tokens = cached_tokens_,
          .reasoning_tokens = output_.reasoning_tokens()};
}

// --- the end
// ---------------------------------------------------------------------------------------

void ChatAnswer::complete(Ending ending, TimePoint now) {
  std::vector<Delta> deltas;
  const std::string_view reason = output_.finish(ending, deltas);
  deliver(std::move(deltas));
  stage_ = Stage::writing;
  service_->metrics->tool_calls(output_.complete_calls());
  if (chat_.request.stream) {
    std::string wire;
    write_deltas(pacer_.take_all(), wire);
    if (!role_sent_) wire += format_.role();
    wire += format_.finish(reason);
    if (wants_usage(chat_, service_->api)) wire += format_.usage(usage());
    wire += kDone;
    exchange_->finish_stream(wire);
  } else {
    Response response;
    response.body = plain_.format(head_, usage(), reason);
    exchange_->respond(std::move(response));
  }
  observe_times(now);
  service_->record_time(now - began_);
  end(outcome_of(reason), 200, now);
}

/// After the head there is no status any more: a finish chunk, then the error, then the end
/// (spec/api.md 0, rule 4).
void ChatAnswer::fail(const ApiError& error, TimePoint now) {
  if (!std::exchange(cancelled_, true)) model_->service->cancel(id_);
  if (chat_.request.stream) {
    std::vector<Delta> deltas;
    output_.finish(Ending::error, deltas);
    deliver(std::move(deltas));
    std::string wire;
    write_deltas(pacer_.take_all(), wire);
    if (!role_sent_) wire += format_.role();
    wire += format_.finish("error");
    wire += ChunkFormat::error(error);
    wire += kDone;
    exchange_->finish_stream(wire, exchange_->aborted());
    end(Outcome::error, 200, now);
  } else {
    Response response = error_response(error);
    const int status = response.status;
    exchange_->respond(std::move(response));
    end(Outcome::error, status, now);
  }
}

/// Nobody reads any more: the engine is told, and nothing is sent.
void ChatAnswer::abandon(TimePoint now) {
  service_->metrics->client_disconnected(stage_);
  end(Outcome::cancelled, 499, now);
  if (!std::exchange(cancelled_, true)) {
    model_->service->cancel(id_);
    observe_cancel(mailbox_, service_->metrics, now);
  }
}

void ChatAnswer::observe_times(TimePoint now) {
  Metrics& metrics = *service_->metrics;
  metrics.request_time(now - began_);
  if (started_ == TimePoint{}) return;
  metrics.queue_time(started_ - began_);
  if (first_token_ == TimePoint{}) return;
  metrics.prefill_time(first_token_ - started_);
  metrics.decode_time(last_token_ - first_token_);
}

ApiError ChatAnswer::engine_error(const std::string& message) const {
  switch (model_->service->status().state) {
    case engine::ReadyState::loading:
    case engine::ReadyState::warming_up:
      return {ApiCode::loading_model, message};
    case engine::ReadyState::draining:
      return {ApiCode::shutting_down, message};
    case engine::ReadyState::failed:
      return {ApiCode::engine_dead, message};
    case engine::ReadyState::ready:
      break;
  }
  return {ApiCode::internal_error, message.empty() ? "the engine ended the request" : message};
}

void ChatAnswer::end(Outcome outcome, int status, TimePoint now) {
  done_ = true;
  // The engine may keep the mailbox for longer than the connection's executor lives.
  mailbox_->set_notify({});
  service_->metrics->stream_buffer(-static_cast<int64_t>(buffered_));
  service_->metrics->request_ended(outcome);
  if (service_->log_requests == "full")
    service_->log->info("request.answer id={} reasoning={} content={} calls={}",
                        config::log_safe(exchange_->request().head.request_id),
                        config::log_safe(plain_.reasoning()), config::log_safe(plain_.content()),
                        plain_.calls());
  const auto between = [](TimePoint a, TimePoint b) {
    return a == TimePoint{} || b == TimePoint{} ? 0.0 : config::seconds(b - a);
  };
  const double decode_s = between(first_token_, last_token_);
  const auto tokens = output_.completion_tokens();
  service_->log->log(
      service_->request_level(),
      "request.done id={} key={} route=/chat/completions model={} status={} outcome={} stage={} "
      "prompt_tokens={} cached_tokens={} output_tokens={} queue_ms={:.0f} prefill_ms={:.0f} "
      "ttft_ms={:.0f} decode_ms={:.0f} tokens_per_s={:.1f} total_ms={:.0f}",
      config::log_safe(exchange_->request().head.request_id), config::log_safe(key_label_),
      config::log_safe(head_.model), status, name_of(outcome), name_of(stage_), prompt_tokens_,
      cached_tokens_, tokens, between(began_, started_) * 1e3,
      between(started_, first_token_) * 1e3, between(began_, first_token_) * 1e3, decode_s * 1e3,
      decode_s > 0 ? static_cast<double>(tokens - 1) / decode_s : 0.0,
      config::seconds(now - began_) * 1e3);
}

}  // namespace yoke::server
