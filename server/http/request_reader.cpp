#include "server/http/request_reader.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <utility>

namespace yoke::server {

namespace http = boost::beast::http;
using boost::beast::error_code;
using BeastView = boost::beast::string_view;

namespace {

std::string to_string(BeastView view) {
  return {view.data(), view.size()};
}

/// `/v1/x?y` or `http://host/v1/x?y` → path and query.
void split_target(std::string_view target, RequestHead& head) {
  const size_t scheme = target.find("://");
  if (scheme != std::string_view::npos && !target.empty() && target.front() != '/') {
    const size_t path = target.find_first_of("/?", scheme + 3);
    target = path == std::string_view::npos ? std::string_view() : target.substr(path);
  }
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  head.path = target.substr(0, mark);
  if (mark != std::string_view::npos) head.query = target.substr(mark + 1);
  if (head.path.empty()) head.path = "/";
}

}  // namespace

class RequestReader::Parser : public http::basic_parser<true> {
 public:
  explicit Parser(ReaderLimits limits) : limits_(limits) {
    header_limit(static_cast<std::uint32_t>(limits.header_bytes));
    // The check of the body sits in keep(): Beast's would fail before the route and the key are
    // looked at.
    body_limit(boost::none);
    eager(false);
  }

  size_t step(std::string_view bytes) {
    error_code error;
    size_t taken = 0;
    while (state_ == State::header || state_ == State::body) {
      const std::string_view rest = bytes.substr(taken);
      const bool was_header = !is_header_done();
      if (rest.empty()) break;
      const size_t used = put(boost::asio::const_buffer(rest.data(), rest.size()), error);
      taken += used;
      // Beast limits what it holds back, not what it took field by field.
      if (was_header) header_bytes_ += used;
      const size_t held_back = is_header_done() ? 0 : rest.size() - used;
      if (was_header && header_bytes_ + held_back > limits_.header_bytes)
        error = http::error::header_limit;
      if (error == http::error::need_more) break;
      if (error) {
        fail(error);
        break;
      }
      if (is_done())
        state_ = State::done;
      else if (is_header_done())
        state_ = State::body;
      if (was_header && is_header_done()) break;  // the caller looks at the head first
    }
    return taken;
  }

  RequestHead head_;
  std::string body_;
  size_t body_bytes_ = 0;
  bool discard_ = false;
  State state_ = State::header;
  HttpProblem problem_ = HttpProblem::malformed;
  std::string problem_text_;

 private:
  void fail(const error_code& error) {
    state_ = State::failed;
    problem_text_ = error.message();
    if (error == http::error::header_limit)
      problem_ = HttpProblem::header_too_large;
    else if (error == http::error::body_limit)
      problem_ = HttpProblem::body_too_large;
    else
      problem_ = HttpProblem::malformed;
  }

  void keep(BeastView data, error_code& error) {
    body_bytes_ += data.size();
    if (discard_) return;
    if (body_bytes_ > limits_.body_bytes) {
      error = http::error::body_limit;
      return;
    }
    body_.append(data.data(), data.size());
  }

  void on_request_impl(http::verb, BeastView method, BeastView target, int version,
                       error_code&) override {
    head_.method = to_string(method);
    head_.version = version;
    split_target({target.data(), target.size()}, head_);
  }
  void on_response_impl(int, BeastView, int, error_code&) override {}
  void on_field_impl(http::field, BeastView name, BeastView value, error_code&) override {
    // Fields behind a chunked body (trailers) mean nothing to us.
    if (!is_header_done()) head_.headers.add(to_string(name), to_string(value));
  }
  void on_header_impl(error_code& error) override {
    head_.keep_alive = keep_alive();
    head_.chunked = chunked();
    if (const auto length = content_length()) head_.content_length = *length;
    if (const std::string* expect = head_.headers.find("expect"))
      head_.expects_continue = head_.version == 11 && equal_ignoring_case(*expect, "100-continue");
    // A coding that we would not undo would leave the body's end in doubt.
    if (const std::string* coding = head_.headers.find("transfer-encoding"))
      if (!equal_ignoring_case(*coding, "chunked")) error = http::error::bad_transfer_encoding;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  size_t on_body_impl(BeastView data, error_code& error) override {
    keep(data, error);
    return data.size();
  }
  void on_chunk_header_impl(std::uint64_t, BeastView, error_code&) override {}
  size_t on_chunk_body_impl(std::uint64_t, BeastView data, error_code& error) override {
    keep(data, error);
    return data.size();
  }
  void on_finish_impl(error_code&) override {}

  ReaderLimits limits_;
  size_t header_bytes_ = 0;
};

RequestReader::RequestReader(ReaderLimits limits) : parser_(std::make_unique<Parser>(limits)) {}
RequestReader::RequestReader(RequestReader&&) noexcept = default;
RequestReader& RequestReader::operator=(RequestReader&&) noexcept = default;
RequestReader::~RequestReader() = default;

size_t RequestReader::feed(std::string_view bytes) {
  return parser_->step(bytes);
}
RequestReader::State RequestReader::state() const noexcept {
  return parser_->state_;
}
HttpProblem RequestReader::problem() const noexcept {
  return parser_->problem_;
}
std::string RequestReader::problem_text() const {
  return parser_->problem_text_;
}
RequestHead& RequestReader::head() noexcept {
  return parser_->head_;
}
size_t RequestReader::body_bytes() const noexcept {
  return parser_->body_bytes_;
}
void RequestReader::discard_body() noexcept {
  parser_->discard_ = true;
  parser_->body_ = {};
}
Request RequestReader::take() {
  return {std::move(parser_->head_), std::move(parser_->body_)};
}

}  // namespace yoke::server
