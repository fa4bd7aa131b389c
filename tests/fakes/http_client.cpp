#include "tests/fakes/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>

#include "config/check.h"

namespace yoke::tests {

namespace {

constexpr int kPatienceMs = 60'000;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

std::string HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

engine::Json HttpReply::json() const {
  auto parsed = engine::parse_json(body, "reply");
  YOKE_CHECK(parsed.ok(), ("not JSON: " + body.substr(0, 200)).c_str());
  return *std::move(parsed);
}

HttpClient::HttpClient(uint16_t port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  YOKE_CHECK(connected == 0, "cannot connect to the server under test");
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      in_(std::move(other.in_)),
      joined_(std::move(other.joined_)) {}

HttpClient::~HttpClient() {
  close();
}

void HttpClient::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void HttpClient::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void HttpClient::finish_sending() {
  ::shutdown(fd_, SHUT_WR);
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd poll_fd{fd_, POLLOUT, 0};
    YOKE_CHECK(::poll(&poll_fd, 1, kPatienceMs) == 1, "the server does not take bytes");
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool HttpClient::request(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view more_headers) {
  std::string wire = std::string(method) + " " + std::string(path) +
                     " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + std::string(more_headers);
  if (method != "GET" && method != "HEAD")
    wire +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  return send(wire + "\r\n" + std::string(body));
}

/// False at the peer's end.
bool HttpClient::fill() {
  pollfd poll_fd{fd_, POLLIN, 0};
  YOKE_CHECK(::poll(&poll_fd, 1, kPatienceMs) == 1, "the server does not answer");
  char buffer[64 << 10];
  const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
  if (n <= 0) return false;
  in_.append(buffer, static_cast<size_t>(n));
  return true;
}

std::string HttpClient::take_line() {
  size_t end = 0;
  while ((end = in_.find("\r\n")) == std::string::npos)
    if (!fill()) return "";
  std::string line = in_.substr(0, end);
  in_.erase(0, end + 2);
  return line;
}

HttpReply HttpClient::read_head() {
  HttpReply reply;
  const std::string status = take_line();
  if (status.size() < 12) return reply;
  std::from_chars(status.data() + 9, status.data() + 12, reply.status);
  for (std::string line = take_line(); !line.empty(); line = take_line()) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t value = line.find_first_not_of(' ', colon + 1);
    reply.headers.emplace_back(lower(line.substr(0, colon)),
                               value == std::string::npos ? "" : line.substr(value));
  }
  joined_.clear();
  return reply;
}

std::optional<std::string> HttpClient::next_chunk() {
  const std::string line = take_line();
  size_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  if (error != std::errc()) return std::nullopt;  // the peer's end: no last chunk
  while (in_.size() < size + 2)
    if (!fill()) return std::nullopt;
  std::string chunk = in_.substr(0, size);
  in_.erase(0, size + 2);
  if (size == 0) return std::nullopt;
  joined_ += chunk;
  return chunk;
}

std::string HttpClient::read_until(std::string_view needle) {
  while (joined_.find(needle) == std::string::npos) {
    const auto chunk = next_chunk();
    YOKE_CHECK(chunk.has_value(), ("the stream ended before: " + std::string(needle)).c_str());
  }
  return joined_;
}

HttpReply HttpClient::read_reply(bool head_only) {
  HttpReply reply = read_head();
  if (reply.status == 0 || head_only || reply.status == 204) return reply;
  if (reply.status == 100) return reply;
  if (reply.header("transfer-encoding") == "chunked") {
    while (const auto chunk = next_chunk()) reply.body += *chunk;
    return reply;
  }
  const std::string length = reply.header("content-length");
  if (length.empty()) {
    while (fill()) {
    }
    reply.body = std::exchange(in_, {});
    return reply;
  }
  const size_t size = std::stoul(length);
  while (in_.size() < size)
    if (!fill()) break;
  reply.body = in_.substr(0, size);
  in_.erase(0, size);
  return reply;
}

bool HttpClient::wait_for_end() {
  bool silent = in_.empty();
  while (fill()) silent = false;
  return silent;
}

bool HttpClient::is_open() {
  char byte;
  const ssize_t n = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

HttpReply ask(uint16_t port, std::string_view method, std::string_view path, std::string_view body,
              std::string_view more_headers) {
  HttpClient client(port);
  client.request(method, path, body, more_headers);
  return client.read_reply(method == "HEAD");
}

std::vector<std::string> events_of(std::string_view stream) {
  std::vector<std::string> out;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    const std::string_view block = stream.substr(0, end);
    if (block.starts_with("data: ")) out.emplace_back(block.substr(6));
    if (end == std::string_view::npos) break;
    stream.remove_prefix(end + 2);
  }
  return out;
}

}  // namespace yoke::tests
