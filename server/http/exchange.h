// One request in the hands of a handler, and the way to answer it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "config/clock.h"
#include "server/http/message.h"
#include "server/http/request_reader.h"

namespace yoke::server {

namespace asio = boost::asio;

class Connection;

/// Thread: the connection's strand only, except where said otherwise. A handler answers with
/// respond(), or with begin_stream(), write()… and finish_stream(). Output never blocks: it is
/// queued, and unsent_bytes() tells the handler when to slow down.
class Exchange {
 public:
  Exchange(std::shared_ptr<Connection> connection, Request request);

  const Request& request() const noexcept { return request_; }
  std::string take_body() noexcept { return std::move(request_.body); }

  /// Suspends until something happened (wake, peer closed, abort, output written, input arrived) or
  /// `deadline`. May also return for no reason: look at the state again.
  asio::awaitable<void> wait(config::TimePoint deadline);
  /// Ends a wait(). Any thread may call it, also after the exchange is over; never blocks.
  std::function<void()> waker() const;

  /// The peer went away: nobody reads an answer any more.
  bool peer_closed() const noexcept;
  /// The server ends now: the handler must finish with what it has.
  bool aborted() const noexcept;

  void respond(Response response);
  /// Status 200 and headers of a body without known length; sent at once.
  void begin_stream(std::string_view content_type, Headers headers);
  void write(std::string_view data);
  /// `data` and the end of the body in one write. `close`: no further request on this connection.
  void finish_stream(std::string_view data, bool close = false);

  bool answered() const noexcept { return state_ != State::open; }
  bool streaming() const noexcept { return state_ == State::streaming; }
  int status() const noexcept { return status_; }
  size_t unsent_bytes() const noexcept;
  /// When the peer last took a byte of the queued output.
  config::TimePoint last_progress() const noexcept;

 private:
  enum class State { open, streaming, complete };

  std::shared_ptr<Connection> connection_;
  Request request_;
  State state_ = State::open;
  int status_ = 0;
  bool chunked_ = false;
};

/// What the HTTP layer asks of the program behind it. All are called on a connection's strand and
/// must not block.
struct Application {
  /// Looks at a head before the body is read. A response refuses the request.
  std::function<std::optional<Response>(const RequestHead&)> check;
  std::function<asio::awaitable<void>(std::shared_ptr<Exchange>)> handle;
  /// The response for a request that could not be read. `head` may be incomplete.
  std::function<Response(HttpProblem, std::string_view detail, const RequestHead& head)> refuse;
  /// Adds headers that every response carries (CORS).
  std::function<void(const RequestHead&, Headers&)> decorate;
  /// After the last byte of a response was queued.
  std::function<void(const RequestHead&, int status, config::Duration)> finished;
};

}  // namespace yoke::server
