#include "server/http/http_server.h"

#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <utility>

namespace yoke::server {

using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr config::Duration kAcceptRetry = std::chrono::milliseconds(100);
/// Files, the engine's threads and the rest of the program.
constexpr rlim_t kOtherDescriptors = 256;

config::Error cannot_listen(const std::string& host, uint16_t port, const error_code& error) {
  std::string message =
      "cannot listen on " + host + " port " + std::to_string(port) + ": " + error.message();
  if (error == asio::error::address_in_use)
    message += "; another program has it: stop that, or choose another with --port";
  else if (error == asio::error::access_denied)
    message += "; ports below 1024 need root: choose another with --port";
  else
    message += "; --host must be an address of this machine";
  return {config::ErrorKind::io, std::move(message)};
}

}  // namespace

HttpServer::HttpServer(asio::io_context& io, HttpOptions options, Application application,
                       config::Logger log)
    : io_(io),
      shared_(std::make_shared<HttpShared>()),
      log_(std::move(log)),
      acceptor_(asio::make_strand(io)),
      retry_(acceptor_.get_executor()) {
  shared_->options = options;
  shared_->application = std::move(application);
  shared_->log = log_;
  shared_->request_ended = [this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  };
}

config::Result<void> HttpServer::listen(const std::string& host, uint16_t port) {
  error_code error;
  tcp::resolver resolver(io_);
  const auto results = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return cannot_listen(host, port, error);
  const tcp::endpoint endpoint = results.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return cannot_listen(host, port, error);
  port_ = acceptor_.local_endpoint().port();
  loopback_only_ = endpoint.address().is_loopback();
  return {};
}

void HttpServer::start() {
  asio::post(acceptor_.get_executor(), [this] { accept(); });
}

/// On the acceptor's strand, as are its callbacks.
void HttpServer::accept() {
  if (accepting_) return;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    // One above the limit may wait for an idle one to go: until somebody needs the place, idle
    // connections are worth keeping.
    if (connections_.size() > shared_->options.max_connections) {
      close_longest_idle();
      retry_accept();  // or earlier, when one closes
      return;
    }
  }
  accepting_ = true;
  acceptor_.async_accept(asio::make_strand(io_), [this](const error_code& error, auto socket) {
    on_accept(error, tcp::socket(std::move(socket)));
  });
}

void HttpServer::on_accept(const error_code& error, tcp::socket socket) {
  accepting_ = false;
  if (!error) {
    add(std::move(socket));
    accept();
    return;
  }
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  // Out of descriptors, most likely: without a pause the loop would spin.
  log_->warn("http.accept_failed what={}", error.message());
  close_longest_idle();
  retry_accept();
}

void HttpServer::retry_accept() {
  retry_.expires_after(kAcceptRetry);
  retry_.async_wait([this](const error_code& cancelled) {
    if (!cancelled) accept();
  });
}

void HttpServer::add(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const tcp::endpoint remote = socket.remote_endpoint(ignored);
  std::string peer = remote.address().to_string() + ":" + std::to_string(remote.port());
  auto connection =
      std::make_shared<Connection>(Connection::Socket(std::move(socket)), std::move(peer), shared_);
  {
    const std::lock_guard lock(mutex_);
    connections_.emplace(connection.get(), connection);
  }
  asio::co_spawn(connection->executor(), Connection::run(connection),
                 [this, connection](const std::exception_ptr& failure) {
                   try {
                     if (failure) std::rethrow_exception(failure);
                   } catch (const std::exception& e) {
                     log_->error("http.connection_failed what={}", config::log_safe(e.what()));
                   }
                   remove(connection.get());
                 });
}

void HttpServer::remove(Connection* connection) {
  const std::lock_guard lock(mutex_);
  const bool was_full = connections_.size() > shared_->options.max_connections;
  connections_.erase(connection);
  if (was_full) asio::post(acceptor_.get_executor(), [this] { accept(); });
  changed_.notify_all();
}

/// With mutex_ held.
void HttpServer::close_longest_idle() {
  std::shared_ptr<Connection> longest;
  std::optional<config::TimePoint> since;
  for (const auto& [raw, weak] : connections_) {
    const auto connection = weak.lock();
    if (connection == nullptr) continue;
    const auto idle = connection->idle_since();
    if (!idle || (since && *since <= *idle)) continue;
    longest = connection;
    since = idle;
  }
  if (longest != nullptr) longest->close_if_idle();
}

size_t HttpServer::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void HttpServer::close_idle() {
  shared_->closing = true;
  const std::lock_guard lock(mutex_);
  for (const auto& [raw, weak] : connections_)
    if (const auto connection = weak.lock()) connection->close_if_idle();
}

void HttpServer::abort() {
  const std::lock_guard lock(mutex_);
  for (const auto& [raw, weak] : connections_)
    if (const auto connection = weak.lock()) connection->abort();
}

void HttpServer::stop_accepting() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
    retry_.cancel();
  });
}

bool HttpServer::wait_until_idle(config::TimePoint deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return active_requests() == 0; });
}

bool HttpServer::wait_until_closed(config::TimePoint deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return connections_.empty(); });
}

config::Result<void> reserve_descriptors(size_t connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const rlim_t needed = static_cast<rlim_t>(connections) + kOtherDescriptors;
  if (limit.rlim_cur >= needed) return {};
  const rlim_t had = limit.rlim_cur;
  limit.rlim_cur = needed;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) limit.rlim_max = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  return config::Error{config::ErrorKind::exhausted,
                       "max_connections " + std::to_string(connections) + " needs " +
                           std::to_string(needed) + " open files, the limit is " +
                           std::to_string(had) + ": raise it (ulimit -n " + std::to_string(needed) +
                           ", or LimitNOFILE in the service file), or lower it with "
                           "--max-connections " +
                           std::to_string(had > kOtherDescriptors ? had - kOtherDescriptors : 1)};
}

}  // namespace yoke::server
