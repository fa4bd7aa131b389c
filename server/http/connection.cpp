#include "server/http/connection.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <exception>
#include <utility>

#include "config/check.h"

namespace yoke::server {

using boost::system::error_code;
using config::Clock;
using config::TimePoint;

namespace {

/// Input kept beyond one header while an answer is computed: pipelined requests.
constexpr size_t kPipelineBytes = 256 << 10;
/// A refused request's body up to this size is read and dropped, so that the connection lives on.
constexpr uint64_t kDrainBytes = 1 << 20;
constexpr config::Duration kLingerTime = std::chrono::seconds(2);
#ifdef YOKE_DEBUG_CHECKS
constexpr config::Duration kSlowHandler = std::chrono::milliseconds(5);
#endif

}  // namespace

Connection::Connection(Socket socket, std::string peer, std::shared_ptr<HttpShared> shared)
    : socket_(std::move(socket)),
      executor_(socket_.get_executor()),
      timer_(executor_),
      peer_(std::move(peer)),
      shared_(std::move(shared)),
      wake_posted_(std::make_shared<std::atomic<bool>>(false)),
      reader_(shared_->options.limits) {}

// --- waiting -----------------------------------------------------------------------------------

asio::awaitable<void> Connection::wait(TimePoint deadline) {
  if (pulsed_) {
    pulsed_ = false;
    co_return;
  }
#ifdef YOKE_DEBUG_CHECKS
  const config::Duration busy = Clock::now() - resumed_at_;
  if (resumed_at_ != TimePoint{} && busy > kSlowHandler)
    shared_->log->debug("connection.slow_handler peer={} ms={:.1f}", peer_,
                        config::seconds(busy) * 1e3);
#endif
  timer_.expires_at(deadline);
  waiting_ = true;
  error_code ignored;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  waiting_ = false;
  pulsed_ = false;
  resumed_at_ = Clock::now();
}

void Connection::pulse() {
  pulsed_ = true;
  if (waiting_) timer_.cancel();
}

std::optional<TimePoint> Connection::idle_since() const noexcept {
  const config::Duration::rep ticks = idle_since_.load();
  if (ticks == kBusy) return std::nullopt;
  return TimePoint(config::Duration(ticks));
}

void Connection::close_if_idle() {
  asio::post(executor_, [self = shared_from_this()] {
    if (!self->idle_since()) return;
    self->keep_open_ = false;
    self->pulse();
  });
}

void Connection::abort() {
  asio::post(executor_, [self = shared_from_this()] {
    self->aborted_ = true;
    self->keep_open_ = false;
    self->pulse();
  });
}

// --- input -------------------------------------------------------------------------------------

size_t Connection::input_limit() const noexcept {
  return shared_->options.limits.header_bytes + kPipelineBytes;
}

void Connection::arm_read() {
  if (reading_ || eof_ || in_.size() >= input_limit()) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](const error_code& error, size_t bytes) {
                            self->on_read(error, bytes);
                          });
}

void Connection::on_read(const error_code& error, size_t bytes) {
  reading_ = false;
  in_.append(chunk_.data(), bytes);
  if (error) eof_ = true;
  arm_read();
  pulse();
}

/// Lets the reader take what it can of the input.
RequestReader::State Connection::feed() {
  const size_t taken = reader_.feed(in_);
  in_.erase(0, taken);
  arm_read();
  return reader_.state();
}

// --- output ------------------------------------------------------------------------------------

void Connection::send(std::string data) {
  if (write_failed_) return;
  if (unsent_bytes() == 0) last_progress_ = Clock::now();
  if (out_.empty())
    out_ = std::move(data);
  else
    out_ += data;
  if (!writing_) write_some();
}

void Connection::write_some() {
  if (offset_ == in_flight_.size()) {
    in_flight_ = std::exchange(out_, {});
    offset_ = 0;
  }
  writing_ = true;
  socket_.async_write_some(asio::buffer(in_flight_.data() + offset_, in_flight_.size() - offset_),
                           [self = shared_from_this()](const error_code& error, size_t bytes) {
                             self->on_written(error, bytes);
                           });
}

void Connection::on_written(const error_code& error, size_t bytes) {
  writing_ = false;
  last_progress_ = Clock::now();
  offset_ += bytes;
  if (error) {
    write_failed_ = true;
    out_.clear();
    in_flight_.clear();
    offset_ = 0;
  } else if (offset_ < in_flight_.size() || !out_.empty()) {
    write_some();
  } else {
    in_flight_.clear();
    offset_ = 0;
  }
  pulse();
}

asio::awaitable<void> Connection::flush(std::shared_ptr<Connection> self) {
  while (self->unsent_bytes() > 0 && !self->write_failed_) {
    const TimePoint deadline = self->last_progress_ + self->shared_->options.write_timeout;
    if (Clock::now() >= deadline) {
      self->write_failed_ = true;
      break;
    }
    co_await self->wait(deadline);
  }
}

/// Closing while unread input is queued would reset the connection and with it the answer that is
/// still on its way: so say that we are done, and read to the peer's end for a moment.
asio::awaitable<void> Connection::linger(std::shared_ptr<Connection> self) {
  error_code ignored;
  self->socket_.shutdown(Socket::shutdown_send, ignored);
  const TimePoint deadline = Clock::now() + kLingerTime;
  while (!self->eof_ && Clock::now() < deadline) {
    self->in_.clear();
    self->arm_read();
    co_await self->wait(deadline);
  }
}

// --- requests ----------------------------------------------------------------------------------

bool Connection::charge_body(size_t bytes) {
  if (bytes <= body_bytes_) return true;
  const size_t more = bytes - body_bytes_;
  const size_t before = shared_->buffered_bytes.fetch_add(more);
  if (before + more > shared_->options.max_buffered_bytes) {
    shared_->buffered_bytes.fetch_sub(more);
    return false;
  }
  body_bytes_ = bytes;
  return true;
}

void Connection::release_body() {
  shared_->buffered_bytes.fetch_sub(std::exchange(body_bytes_, 0));
}

void Connection::send_response(const RequestHead& head, Response response) {
  keep_open_ = keep_open_ && head.keep_alive && !response.close && !shared_->closing.load();
  lingers_ = !keep_open_;
  answered_ = true;
  if (shared_->application.decorate) shared_->application.decorate(head, response.headers);
  ResponseHead out;
  out.status = response.status;
  out.version = head.version;
  out.request_id = head.request_id;
  out.keep_alive = keep_open_;
  if (response.status != 204) {
    out.content_type = response.content_type;
    out.content_length = response.body.size();
  }
  std::string wire = format_head(out, response.headers);
  if (head.method != "HEAD" && response.status != 204) wire += response.body;
  send(std::move(wire));
  if (shared_->application.finished)
    shared_->application.finished(head, response.status, Clock::now() - request_began_);
}

void Connection::refuse(HttpProblem problem, std::string_view detail, const RequestHead& head) {
  Response response = shared_->application.refuse(problem, detail, head);
  response.close = true;
  send_response(head, std::move(response));
}

void Connection::prepare_head(RequestHead& head) {
  head.peer = peer_;
  const std::string* id = head.headers.find("x-request-id");
  if (id != nullptr && is_usable_request_id(*id)) {
    head.request_id = *id;
    return;
  }
  char own[32];
  std::snprintf(own, sizeof own, "req_%016llx",
                static_cast<unsigned long long>(shared_->next_request.fetch_add(1)));
  head.request_id = own;
}

/// False: no request came (closed, silent, or refused and answered).
asio::awaitable<bool> Connection::read_head(std::shared_ptr<Connection> self) {
  const HttpOptions& options = self->shared_->options;
  self->idle_since_ = Clock::now().time_since_epoch().count();
  TimePoint deadline = Clock::now() + options.idle_timeout;
  self->arm_read();
  bool begun = false;
  while (true) {
    if (!begun && !self->in_.empty()) {
      begun = true;
      self->idle_since_ = kBusy;
      self->request_began_ = Clock::now();
      deadline = self->request_began_ + options.header_timeout;
    }
    if (begun && self->feed() != RequestReader::State::header) break;
    if (self->eof_ || self->write_failed_ || self->aborted_) co_return false;
    // A fresh connection gets one answer even while the server ends: that it does.
    const bool over = !self->keep_open_ || (self->answered_ && self->shared_->closing.load());
    if (!begun && over) co_return false;
    if (Clock::now() >= deadline) {
      if (begun) {
        self->prepare_head(self->reader_.head());
        self->refuse(HttpProblem::timeout, "the request's header", self->reader_.head());
      }
      co_return false;
    }
    co_await self->wait(deadline);
  }
  self->prepare_head(self->reader_.head());
  if (self->reader_.state() == RequestReader::State::failed) {
    self->refuse(self->reader_.problem(), self->reader_.problem_text(), self->reader_.head());
    co_return false;
  }
  co_return true;
}

/// False: the body did not come; the client was told if it can be.
asio::awaitable<bool> Connection::read_body(std::shared_ptr<Connection> self) {
  const HttpOptions& options = self->shared_->options;
  TimePoint deadline = Clock::now() + options.body_timeout;
  size_t seen = 0;
  while (self->feed() == RequestReader::State::body) {
    if (self->eof_ || self->write_failed_ || self->aborted_) co_return false;
    if (!self->charge_body(self->reader_.body_bytes())) {
      self->refuse(HttpProblem::overloaded, "request bodies", self->reader_.head());
      co_return false;
    }
    if (self->reader_.body_bytes() > seen) {
      seen = self->reader_.body_bytes();
      deadline = Clock::now() + options.body_timeout;
    } else if (Clock::now() >= deadline) {
      self->refuse(HttpProblem::timeout, "the request's body", self->reader_.head());
      co_return false;
    }
    co_await self->wait(deadline);
  }
  if (self->reader_.state() == RequestReader::State::failed) {
    self->refuse(self->reader_.problem(), self->reader_.problem_text(), self->reader_.head());
    co_return false;
  }
  co_return true;
}

/// The next request, or nothing when the connection must close. Refused requests are answered here.
asio::awaitable<std::optional<Request>> Connection::read_request(std::shared_ptr<Connection> self) {
  while (true) {
    self->reader_ = RequestReader(self->shared_->options.limits);
    const bool has_head = co_await read_head(self);
    if (!has_head) co_return std::nullopt;
    RequestHead& head = self->reader_.head();
    std::optional<Response> refusal = self->shared_->application.check(head);
    if (!refusal && head.content_length.value_or(0) > self->shared_->options.limits.body_bytes)
      refusal = self->shared_->application.refuse(HttpProblem::body_too_large, "", head);
    if (refusal) {
      const bool drain =
          !head.expects_continue && !head.chunked && head.content_length.value_or(0) <= kDrainBytes;
      if (head.has_body() && !drain) {
        refusal->close = true;
        self->send_response(head, std::move(*refusal));
        co_return std::nullopt;
      }
      self->reader_.discard_body();
    } else if (head.expects_continue && self->reader_.state() == RequestReader::State::body &&
               self->in_.empty()) {
      self->send("HTTP/1.1 100 Continue\r\n\r\n");
    }
    if (self->reader_.state() == RequestReader::State::body) {
      const bool has_body = co_await read_body(self);
      if (!has_body) co_return std::nullopt;
    }
    if (!refusal) co_return self->reader_.take();
    self->release_body();
    self->send_response(head, std::move(*refusal));
    co_await flush(self);
    if (!self->keep_open_) co_return std::nullopt;
  }
}

asio::awaitable<void> Connection::answer(std::shared_ptr<Connection> self, Request request) {
  self->shared_->active_requests.fetch_add(1);
  const auto exchange = std::make_shared<Exchange>(self, std::move(request));
  std::exception_ptr failure;
  try {
    co_await self->shared_->application.handle(exchange);
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure || (!exchange->answered() && !exchange->peer_closed())) {
    std::string what = "no answer was given";
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
      what = "unknown exception";
    }
    self->shared_->log->error("request.failed id={} what={}",
                              config::log_safe(exchange->request().head.request_id),
                              config::log_safe(what));
    if (!exchange->answered()) {
      Response response;
      response.status = 500;
      response.close = true;
      exchange->respond(std::move(response));
    }
  }
  // A stream without its end must not look complete: no further byte, and the connection closes.
  if (exchange->streaming()) self->keep_open_ = false;
  self->release_body();
  self->shared_->active_requests.fetch_sub(1);
  if (self->shared_->request_ended) self->shared_->request_ended();
}

asio::awaitable<void> Connection::run(std::shared_ptr<Connection> self) {
  while (self->keep_open_) {
    std::optional<Request> request = co_await read_request(self);
    if (!request) break;
    co_await answer(self, std::move(*request));
    co_await flush(self);
    if (self->write_failed_ || self->aborted_) break;
  }
  self->release_body();
  self->idle_since_ = kBusy;
  co_await flush(self);
  if (self->lingers_ && !self->eof_ && !self->write_failed_) co_await linger(self);
  error_code ignored;
  self->socket_.close(ignored);
}

// --- Exchange ----------------------------------------------------------------------------------

Exchange::Exchange(std::shared_ptr<Connection> connection, Request request)
    : connection_(std::move(connection)), request_(std::move(request)) {}

asio::awaitable<void> Exchange::wait(TimePoint deadline) {
  return connection_->wait(deadline);
}

std::function<void()> Exchange::waker() const {
  return [connection = std::weak_ptr<Connection>(connection_), executor = connection_->executor_,
          posted = connection_->wake_posted_] {
    if (posted->exchange(true)) return;  // one post serves all wakes until it runs
    asio::post(executor, [connection, posted] {
      posted->store(false);
      if (const auto alive = connection.lock()) alive->pulse();
    });
  };
}

bool Exchange::peer_closed() const noexcept {
  return connection_->eof_ || connection_->write_failed_;
}
bool Exchange::aborted() const noexcept {
  return connection_->aborted_;
}
size_t Exchange::unsent_bytes() const noexcept {
  return connection_->unsent_bytes();
}
TimePoint Exchange::last_progress() const noexcept {
  return connection_->last_progress_;
}

void Exchange::respond(Response response) {
  YOKE_CHECK(state_ == State::open, "a request is answered once");
  state_ = State::complete;
  status_ = response.status;
  connection_->send_response(request_.head, std::move(response));
}

void Exchange::begin_stream(std::string_view content_type, Headers headers) {
  YOKE_CHECK(state_ == State::open, "a request is answered once");
  state_ = State::streaming;
  status_ = 200;
  connection_->answered_ = true;
  const RequestHead& head = request_.head;
  HttpShared& shared = *connection_->shared_;
  chunked_ = head.version == 11;
  connection_->keep_open_ =
      connection_->keep_open_ && head.keep_alive && chunked_ && !shared.closing.load();
  if (shared.application.decorate) shared.application.decorate(head, headers);
  ResponseHead out;
  out.version = head.version;
  out.content_type = content_type;
  out.request_id = head.request_id;
  out.chunked = chunked_;
  out.keep_alive = connection_->keep_open_;
  connection_->send(format_head(out, headers));
}

void Exchange::write(std::string_view data) {
  YOKE_CHECK(state_ == State::streaming, "write() belongs to a stream");
  if (data.empty()) return;  // an empty chunk would end the body
  connection_->send(chunked_ ? format_chunk(data) : std::string(data));
}

void Exchange::finish_stream(std::string_view data, bool close) {
  YOKE_CHECK(state_ == State::streaming, "finish_stream() belongs to a stream");
  state_ = State::complete;
  if (close) connection_->keep_open_ = false;
  connection_->lingers_ = !connection_->keep_open_;
  std::string wire;
  if (!data.empty()) wire = chunked_ ? format_chunk(data) : std::string(data);
  if (chunked_) wire += kLastChunk;
  connection_->send(std::move(wire));
  const auto& finished = connection_->shared_->application.finished;
  if (finished) finished(request_.head, status_, Clock::now() - connection_->request_began_);
}

}  // namespace yoke::server
