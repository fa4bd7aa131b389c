// One client connection: reads requests, hands them to the application, writes answers.
//
// Everything happens on the connection's strand. One coroutine runs the connection; reads and
// writes are plain callbacks that change state and then end the coroutine's wait, so that there is
// one place to wait and one timer for all deadlines. A read stays pending whatever the coroutine
// does: that is how a closed peer is noticed while its answer is being computed.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>

#include "config/log.h"
#include "server/http/exchange.h"

namespace yoke::server {

struct HttpOptions {
  ReaderLimits limits;
  size_t max_buffered_bytes = size_t{1} << 30;  ///< all request bodies together
  size_t max_connections = 4096;
  config::Duration header_timeout = std::chrono::seconds(30);
  config::Duration body_timeout = std::chrono::seconds(60);
  config::Duration idle_timeout = std::chrono::seconds(180);
  config::Duration write_timeout = std::chrono::seconds(300);
};

/// What all connections of a server share. Outlives them.
struct HttpShared {
  HttpOptions options;
  Application application;
  config::Logger log;
  std::atomic<size_t> buffered_bytes{0};
  std::atomic<size_t> active_requests{0};
  std::atomic<bool> closing{false};  ///< no further request on any connection
  std::atomic<uint64_t> next_request{0};
  std::function<void()> request_ended;  ///< after active_requests went down
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = asio::generic::stream_protocol::socket;

  /// The socket's executor must be a strand of its own.
  Connection(Socket socket, std::string peer, std::shared_ptr<HttpShared> shared);

  /// The connection's life; ends when it is closed. Run it on the socket's executor.
  static asio::awaitable<void> run(std::shared_ptr<Connection> self);

  // Any thread.
  asio::any_io_executor executor() { return executor_; }
  /// Closes when no request is being read or answered.
  void close_if_idle();
  /// Exchange::aborted() turns true; an idle connection closes.
  void abort();
  /// Since when it has waited for a request; nothing while it has one.
  std::optional<config::TimePoint> idle_since() const noexcept;

 private:
  friend class Exchange;
  static asio::awaitable<std::optional<Request>> read_request(std::shared_ptr<Connection> self);
  static asio::awaitable<bool> read_head(std::shared_ptr<Connection> self);
  static asio::awaitable<bool> read_body(std::shared_ptr<Connection> self);
  static asio::awaitable<void> answer(std::shared_ptr<Connection> self, Request request);
  static asio::awaitable<void> flush(std::shared_ptr<Connection> self);
  static asio::awaitable<void> linger(std::shared_ptr<Connection> self);
  asio::awaitable<void> wait(config::TimePoint deadline);

  void pulse();
  void arm_read();
  void on_read(const boost::system::error_code& error, size_t bytes);
  size_t input_limit() const noexcept;
  RequestReader::State feed();

  void send(std::string data);
  void write_some();
  void on_written(const boost::system::error_code& error, size_t bytes);
  size_t unsent_bytes() const noexcept { return out_.size() + in_flight_.size() - offset_; }

  void prepare_head(RequestHead& head);
  void send_response(const RequestHead& head, Response response);
  void refuse(HttpProblem problem, std::string_view detail, const RequestHead& head);
  bool charge_body(size_t bytes);
  void release_body();

  Socket socket_;
  asio::any_io_executor executor_;
  asio::steady_timer timer_;
  std::string peer_;
  std::shared_ptr<HttpShared> shared_;

  // Waiting. `pulsed_` remembers an event that came while nobody waited.
  bool waiting_ = false;
  bool pulsed_ = false;
  config::TimePoint resumed_at_{};
  std::shared_ptr<std::atomic<bool>> wake_posted_;

  // Input: what was read and not yet taken by a request.
  RequestReader reader_;
  std::array<char, 16 << 10> chunk_;
  std::string in_;
  bool reading_ = false;
  bool eof_ = false;

  // Output: `in_flight_` is being written, `out_` follows.
  std::string out_;
  std::string in_flight_;
  size_t offset_ = 0;
  bool writing_ = false;
  bool write_failed_ = false;
  config::TimePoint last_progress_{};

  size_t body_bytes_ = 0;  // charged to shared_->buffered_bytes
  bool keep_open_ = true;
  bool lingers_ = false;   // an answer was sent that ends the connection
  bool answered_ = false;  // at least one request
  bool aborted_ = false;
  static constexpr config::Duration::rep kBusy = 0;
  std::atomic<config::Duration::rep> idle_since_{kBusy};  // ticks of the clock
  config::TimePoint request_began_{};
};

}  // namespace yoke::server
