#include "server/completions.h"

#include <boost/asio/post.hpp>
#include <exception>
#include <utility>
#include <variant>

#include "server/chat_answer.h"

namespace yoke::server {

using config::Clock;

namespace {

/// Work on the pool, and where its result goes. Shared by the worker and the coroutine.
struct Preparation {
  std::string body;
  ChatContext context;
  PromptLimits limits;
  std::atomic<bool> done{false};
  std::variant<PreparedChat, ApiError> result;  // before done: the worker's
};

constexpr config::Duration kPreparationCheck = std::chrono::minutes(10);

std::shared_ptr<Preparation> begin_preparation(Exchange& exchange, const ChatService& service,
                                               const ServedModel& model) {
  auto out = std::make_shared<Preparation>();
  out->body = exchange.take_body();
  out->context.model_names = model.names;
  out->context.accept_any_model = service.accept_any_model;
  out->context.vocab_size = model.vocab_size;
  out->context.reasoning_effort = service.api.reasoning_effort;
  out->limits.max_model_len = model.max_model_len;
  out->limits.default_max_tokens = model.default_max_tokens;
  out->limits.max_tokens = service.api.max_tokens;
  out->limits.strict_max_tokens = service.api.strict_max_tokens;
  return out;
}

/// On the worker pool, which no exception may leave.
void prepare(Preparation& work, const ServedModel& model, const ChatService& service) noexcept {
  try {
    work.result =
        prepare_chat(work.body, work.context, work.limits, *model.tokenizer, model.sampling);
  } catch (const std::exception& e) {
    service.log->error("request.preparation_failed what={}", config::log_safe(e.what()));
    work.result = ApiError{ApiCode::internal_error, "the request could not be prepared"};
  }
}

Rejection rejection_reason(ApiCode code) {
  switch (code) {
    case ApiCode::queue_full:
      return Rejection::queue_full;
    case ApiCode::context_length_exceeded:
      return Rejection::context;
    case ApiCode::shutting_down:
      return Rejection::draining;
    case ApiCode::loading_model:
      return Rejection::loading;
    case ApiCode::internal_error:
    case ApiCode::engine_dead:
      return Rejection::failed;
    default:
      return Rejection::invalid;
  }
}

void reject(Exchange& exchange, const ChatService& service, const ApiError& error) {
  service.metrics->request_rejected(rejection_reason(error.code));
  service.log->log(service.request_level(), "request.rejected id={} status={} code={} what={}",
                   config::log_safe(exchange.request().head.request_id),
                   error_row(error.code).status, error_row(error.code).wire_code,
                   config::log_safe(error.message));
  exchange.respond(error_response(error));
}

}  // namespace

void ChatService::record_time(config::Duration request_time) {
  const std::lock_guard lock(mutex_);
  retry_after_.record(request_time);
}

int ChatService::retry_after_s(int waiting, int parallel) const {
  const std::lock_guard lock(mutex_);
  return retry_after_.seconds(waiting, parallel);
}

asio::awaitable<void> serve_response(std::shared_ptr<Exchange> exchange, Response response) {
  exchange->respond(std::move(response));
  co_return;
}

asio::awaitable<void> serve_chat(std::shared_ptr<Exchange> exchange,
                                 std::shared_ptr<ChatService> service,
                                 std::shared_ptr<const ServedModel> model, std::string key_label) {
  if (service->preparing.fetch_add(1) >= service->max_preparing) {
    service->preparing.fetch_sub(1);
    ApiError error{ApiCode::queue_full, "too many requests are being read"};
    error.retry_after_s = service->retry_after_s(service->max_preparing, model->max_num_seqs);
    reject(*exchange, *service, error);
    co_return;
  }
  auto work = begin_preparation(*exchange, *service, *model);
  asio::post(*service->workers, [work, service, model, wake = exchange->waker()] {
    prepare(*work, *model, *service);
    service->preparing.fetch_sub(1);
    work->done.store(true, std::memory_order_release);
    wake();
  });
  while (!work->done.load(std::memory_order_acquire)) {
    if (exchange->peer_closed()) {
      service->metrics->client_disconnected(DisconnectStage::queued);
      co_return;
    }
    co_await exchange->wait(Clock::now() + kPreparationCheck);
  }
  if (const auto* error = std::get_if<ApiError>(&work->result)) {
    reject(*exchange, *service, *error);
    co_return;
  }
  ChatAnswer answer(exchange, service, model, std::get<PreparedChat>(std::move(work->result)),
                    std::move(key_label));
  work.reset();  // with the body
  if (const auto error = answer.submit()) {
    reject(*exchange, *service, *error);
    co_return;
  }
  answer.step(Clock::now());
  while (!answer.done()) {
    co_await exchange->wait(answer.next_deadline());
    answer.step(Clock::now());
  }
}

}  // namespace yoke::server
