// Listens, accepts up to a limit, and owns the connections until they are closed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "config/log.h"
#include "config/result.h"
#include "server/http/connection.h"

namespace yoke::server {

/// Thread: any, except where said otherwise. Must be destroyed after the io_context's threads are
/// joined, and before the io_context.
class HttpServer {
 public:
  HttpServer(asio::io_context& io, HttpOptions options, Application application,
             config::Logger log);

  /// Binds and listens; connections wait in the kernel until start(). Errors: an address that is
  /// not ours, a port in use; the message names both and what to do.
  config::Result<void> listen(const std::string& host, uint16_t port);
  uint16_t port() const noexcept { return port_; }
  /// True when only this machine can reach us.
  bool loopback_only() const noexcept { return loopback_only_; }
  void start();

  size_t connections() const;
  /// Requests that were read and are not answered yet.
  size_t active_requests() const noexcept { return shared_->active_requests.load(); }
  size_t buffered_bytes() const noexcept { return shared_->buffered_bytes.load(); }

  // Shutdown, in this order.
  /// Every connection closes when its present request is answered; idle ones now.
  void close_idle();
  /// Handlers see Exchange::aborted().
  void abort();
  void stop_accepting();
  /// False: connections were still open at `deadline`. Not on an I/O thread.
  bool wait_until_closed(config::TimePoint deadline);
  /// Waits until no request is active. False: at `deadline` some were. Not on an I/O thread.
  bool wait_until_idle(config::TimePoint deadline);

 private:
  void accept();
  void on_accept(const boost::system::error_code& error, asio::ip::tcp::socket socket);
  void add(asio::ip::tcp::socket socket);
  void remove(Connection* connection);
  void close_longest_idle();
  void retry_accept();

  asio::io_context& io_;
  std::shared_ptr<HttpShared> shared_;
  config::Logger log_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  uint16_t port_ = 0;
  bool loopback_only_ = true;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;
  bool stopped_ = false;
  bool accepting_ = false;  // acceptor's strand only
};

/// Raises the limit of open files so that `connections` fit beside what the program needs.
/// The error says which number is missing and how to raise it.
config::Result<void> reserve_descriptors(size_t connections);

}  // namespace yoke::server
