#include "server/bench/client.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "server/bench/answer_reader.h"

namespace yoke::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;
using config::Clock;
using config::TimePoint;

constexpr config::Duration kConnectTime = std::chrono::seconds(10);
constexpr size_t kMaxReply = 16 << 20;  // of an answer that is no stream

/// One connection, plain or TLS. Lives as long as the coroutine that uses it.
struct Wire {
  Wire(asio::io_context& io, const BenchTarget& bench_target)
      : target(bench_target), plain(io), context(asio::ssl::context::tls_client) {
    if (!target.endpoint.tls) return;
    context.set_default_verify_paths();
    context.set_verify_mode(asio::ssl::verify_peer);
    context.set_verify_callback(asio::ssl::host_name_verification(target.endpoint.host));
    tls.emplace(std::move(plain), context);
    SSL_set_tlsext_host_name(tls->native_handle(), target.endpoint.host.c_str());
  }
  beast::tcp_stream& tcp() { return tls ? beast::get_lowest_layer(*tls) : plain; }

  const BenchTarget& target;
  beast::tcp_stream plain;
  asio::ssl::context context;
  std::optional<beast::ssl_stream<beast::tcp_stream>> tls;
  beast::flat_buffer buffer;
  std::string failure;  ///< empty: connected
};

std::string reason_of(const error_code& error) {
  return error == beast::error::timeout ? "no answer in time" : error.message();
}

asio::awaitable<void> connect(std::shared_ptr<Wire> wire) {
  const Endpoint& endpoint = wire->target.endpoint;
  error_code error;
  asio::ip::tcp::resolver resolver(wire->tcp().get_executor());
  const auto addresses =
      co_await resolver.async_resolve(endpoint.host, std::to_string(endpoint.port),
                                      asio::redirect_error(asio::use_awaitable, error));
  if (!error) {
    wire->tcp().expires_after(kConnectTime);
    co_await wire->tcp().async_connect(addresses, asio::redirect_error(asio::use_awaitable, error));
  }
  if (!error && wire->tls)
    co_await wire->tls->async_handshake(asio::ssl::stream_base::client,
                                        asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    wire->failure = "cannot connect to " + endpoint.url() + ": " + reason_of(error);
    co_return;
  }
  error_code ignored;
  wire->tcp().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

using Request = http::request<http::string_body>;

Request request_for(const BenchTarget& target, http::verb verb, const std::string& path,
                    std::string body) {
  Request request(verb, target.endpoint.base + path, 11);
  request.set(http::field::host, target.endpoint.authority());
  request.set(http::field::user_agent, "yoke-bench");
  if (!target.api_key.empty()) request.set(http::field::authorization, "Bearer " + target.api_key);
  if (verb == http::verb::post) request.set(http::field::content_type, "application/json");
  request.body() = std::move(body);
  request.prepare_payload();
  return request;
}

/// What a request gets: its status, then its body in the pieces in which it comes.
struct Answer {
  std::function<void()> sending;  ///< just before the first byte goes out
  std::function<void(int status, std::string_view body, TimePoint now)> body;
  std::string failure;
};

template <class Stream>
asio::awaitable<void> exchange(Stream& stream, std::shared_ptr<Wire> wire, Request request,
                               std::shared_ptr<Answer> answer) {
  const auto silence = wire->target.silence;
  error_code error;
  wire->tcp().expires_after(silence);
  answer->sending();
  co_await http::async_write(stream, request, asio::redirect_error(asio::use_awaitable, error));
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);  // streams have no length; the sink bounds what is kept
  if (!error)
    co_await http::async_read_header(stream, wire->buffer, parser,
                                     asio::redirect_error(asio::use_awaitable, error));
  std::string& body = parser.get().body();
  while (!error) {
    if (!body.empty()) {
      answer->body(parser.get().result_int(), body, Clock::now());
      body.clear();
    }
    if (parser.is_done()) break;
    wire->tcp().expires_after(silence);
    co_await http::async_read_some(stream, wire->buffer, parser,
                                   asio::redirect_error(asio::use_awaitable, error));
  }
  if (error)
    answer->failure =
        wire->target.endpoint.url() + ": " +
        (error == http::error::end_of_stream ? "the connection was closed" : reason_of(error));
  else if (body.empty())
    answer->body(parser.get().result_int(), {}, Clock::now());  // also of answers without a body
}

asio::awaitable<void> ask(std::shared_ptr<Wire> wire, Request request,
                          std::shared_ptr<Answer> answer) {
  if (wire->tls)
    co_await exchange(*wire->tls, wire, std::move(request), answer);
  else
    co_await exchange(wire->plain, wire, std::move(request), answer);
}

/// Exceptions of a coroutine are our own bugs or no memory: they end the bench.
void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

/// Runs what was spawned to its end.
void run(asio::io_context& io) {
  io.run();
  io.restart();
}

}  // namespace

config::Result<BenchReply> bench_get(const BenchTarget& target, const std::string& path) {
  asio::io_context io;
  const auto wire = std::make_shared<Wire>(io, target);
  asio::co_spawn(io, connect(wire), rethrow);
  run(io);
  if (!wire->failure.empty()) return config::Error{config::ErrorKind::unavailable, wire->failure};
  BenchReply reply;
  const auto answer = std::make_shared<Answer>();
  answer->sending = [] {};
  answer->body = [&](int status, std::string_view bytes, TimePoint) {
    reply.status = status;
    if (reply.body.size() < kMaxReply) reply.body += bytes;
  };
  asio::co_spawn(io, ask(wire, request_for(target, http::verb::get, path, {}), answer), rethrow);
  run(io);
  if (!answer->failure.empty())
    return config::Error{config::ErrorKind::unavailable, answer->failure};
  return reply;
}

namespace {

/// One streamed request of a wave.
struct Stream {
  Stream(asio::io_context& io, const BenchTarget& target)
      : wire(std::make_shared<Wire>(io, target)),
        answer(std::make_shared<Answer>()),
        reader(record) {
    answer->sending = [this] { record.sent = Clock::now(); };
    answer->body = [this](int code, std::string_view bytes, TimePoint now) {
      status = code;
      if (code == 200)
        reader.feed(bytes, now);
      else if (refusal.size() < kMaxReply)
        refusal += bytes;
    };
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  RequestRecord finished() {
    const TimePoint now = Clock::now();
    if (!answer->failure.empty() && record.failure.empty()) record.failure = answer->failure;
    if (status != 200 && status != 0)
      record.failure = "HTTP " + std::to_string(status) + ": " + error_text(refusal);
    reader.finish(now);
    return std::move(record);
  }

  std::shared_ptr<Wire> wire;
  std::shared_ptr<Answer> answer;
  RequestRecord record;
  AnswerReader reader;
  int status = 0;
  std::string refusal;
};

}  // namespace

Wave bench_wave(const BenchTarget& target, const std::vector<std::string>& bodies) {
  asio::io_context io;
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < bodies.size(); ++i) {
    streams.push_back(std::make_unique<Stream>(io, target));
    asio::co_spawn(io, connect(streams.back()->wire), rethrow);
  }
  run(io);
  for (size_t i = 0; i < bodies.size(); ++i) {
    Stream& stream = *streams[i];
    stream.record.failure = stream.wire->failure;
    if (!stream.record.failure.empty()) continue;
    asio::co_spawn(
        io,
        ask(stream.wire, request_for(target, http::verb::post, "/chat/completions", bodies[i]),
            stream.answer),
        rethrow);
  }
  run(io);
  Wave wave;
  for (const auto& stream : streams) wave.push_back(stream->finished());
  return wave;
}

}  // namespace yoke::server
