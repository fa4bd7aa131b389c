#include "server/api/error.h"

#include <array>

#include "engine/json/json.h"
#include "engine/json/utf8.h"

namespace yoke::server {

namespace {

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr std::string_view kServer = "server_error";

constexpr std::array kTable = {
    ErrorRow{ApiCode::invalid_json, 400, kInvalid, "invalid_json"},
    ErrorRow{ApiCode::missing_required_parameter, 400, kInvalid, "missing_required_parameter"},
    ErrorRow{ApiCode::invalid_type, 400, kInvalid, "invalid_type"},
    ErrorRow{ApiCode::invalid_value, 400, kInvalid, "invalid_value"},
    ErrorRow{ApiCode::unsupported_value, 400, kInvalid, "unsupported_value"},
    ErrorRow{ApiCode::unsupported_parameter, 400, kInvalid, "unsupported_parameter"},
    ErrorRow{ApiCode::unsupported_content, 400, kInvalid, "unsupported_content"},
    ErrorRow{ApiCode::invalid_tool, 400, kInvalid, "invalid_tool"},
    ErrorRow{ApiCode::context_length_exceeded, 400, kInvalid, "context_length_exceeded"},
    ErrorRow{ApiCode::malformed_request, 400, kInvalid, "malformed_request"},
    ErrorRow{ApiCode::invalid_api_key, 401, "authentication_error", "invalid_api_key"},
    ErrorRow{ApiCode::forbidden, 403, "permission_error", "forbidden"},
    ErrorRow{ApiCode::model_not_found, 404, kInvalid, "model_not_found"},
    ErrorRow{ApiCode::not_found, 404, kInvalid, "not_found"},
    ErrorRow{ApiCode::method_not_allowed, 405, kInvalid, "method_not_allowed"},
    ErrorRow{ApiCode::request_timeout, 408, kInvalid, "request_timeout"},
    ErrorRow{ApiCode::request_too_large, 413, kInvalid, "request_too_large"},
    ErrorRow{ApiCode::unsupported_encoding, 415, kInvalid, ""},
    ErrorRow{ApiCode::header_too_large, 431, kInvalid, ""},
    ErrorRow{ApiCode::queue_full, 429, "rate_limit_error", "queue_full"},
    ErrorRow{ApiCode::internal_error, 500, kServer, "internal_error"},
    ErrorRow{ApiCode::not_implemented, 501, "not_implemented_error", ""},
    ErrorRow{ApiCode::loading_model, 503, kServer, "loading_model"},
    ErrorRow{ApiCode::shutting_down, 503, kServer, "shutting_down"},
    ErrorRow{ApiCode::engine_dead, 503, kServer, "engine_dead"},
    ErrorRow{ApiCode::overloaded, 503, kServer, "overloaded"},
    ErrorRow{ApiCode::timeout, 504, kServer, "timeout"},
};

/// Clients wait this long when we know nothing better.
constexpr int kRetryAfterSeconds = 2;

void append_nullable(std::string& out, std::string_view text) {
  if (text.empty())
    out += "null";
  else
    engine::append_json_string(out, text);
}

Headers error_headers(const ApiError& error, int status) {
  Headers headers;
  if (status == 401) headers.add("www-authenticate", "Bearer");
  if (status == 429 || status == 503)
    headers.add("retry-after", std::to_string(error.retry_after_s.value_or(kRetryAfterSeconds)));
  // These would fail again: SDKs must not try on their own.
  if (status == 500 || status == 501 || status == 504) headers.add("x-should-retry", "false");
  return headers;
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

std::span<const ErrorRow> error_table() noexcept {
  return kTable;
}

const ErrorRow& error_row(ApiCode code) noexcept {
  for (const ErrorRow& row : kTable)
    if (row.code == code) return row;
  config::check_failed("error_row", __FILE__, __LINE__, "an ApiCode without a row in the table");
}

std::string error_body(const ApiError& error) {
  const ErrorRow& row = error_row(error.code);
  std::string out = R"({"error":{"message":)";
  engine::append_json_string(out, engine::utf8_repaired(error.message));
  out += R"(,"type":)";
  engine::append_json_string(out, row.type);
  out += R"(,"param":)";
  append_nullable(out, error.param.value_or(""));
  out += R"(,"code":)";
  append_nullable(out, row.wire_code);
  for (const auto& [key, value] : error.numbers) {
    out += ',';
    engine::append_json_string(out, key);
    out += ':' + std::to_string(value);
  }
  return out + "}}";
}

Response error_response(const ApiError& error) {
  Response response;
  response.status = error_row(error.code).status;
  response.headers = error_headers(error, response.status);
  response.body = error_body(error);
  return response;
}

Response anthropic_error_response(const ApiError& error, std::string_view request_id) {
  Response response;
  response.status = error_row(error.code).status;
  response.headers = error_headers(error, response.status);
  response.body = R"({"type":"error","error":{"type":)";
  engine::append_json_string(response.body, anthropic_type(response.status));
  response.body += R"(,"message":)";
  engine::append_json_string(response.body, engine::utf8_repaired(error.message));
  response.body += R"(},"request_id":)";
  append_nullable(response.body, request_id);
  response.body += '}';
  return response;
}

ApiError http_error(HttpProblem problem, std::string_view detail, const ReaderLimits& limits) {
  const std::string what(detail);
  switch (problem) {
    case HttpProblem::malformed:
      return {ApiCode::malformed_request, "this is not an HTTP/1.1 request: " + what};
    case HttpProblem::header_too_large:
      return {ApiCode::header_too_large, "the header section exceeds " +
                                             std::to_string(limits.header_bytes) +
                                             " bytes (--max-header-kib)"};
    case HttpProblem::body_too_large:
      return {ApiCode::request_too_large, "the request body exceeds " +
                                              std::to_string(limits.body_bytes) +
                                              " bytes (--max-body-mib)"};
    case HttpProblem::timeout:
      return {ApiCode::request_timeout, what + " did not arrive in time"};
    case HttpProblem::overloaded:
      return {ApiCode::overloaded, "too many " + what + " are in memory now (--max-buffered-mib)"};
  }
  return {ApiCode::internal_error, "unknown problem"};
}

}  // namespace yoke::server
