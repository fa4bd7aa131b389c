// Every error that a client can see: its status, type and code (spec/api.md 2.4), in one table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/message.h"
#include "server/http/request_reader.h"

namespace yoke::server {

enum class ApiCode {
  invalid_json,
  missing_required_parameter,
  invalid_type,
  invalid_value,
  unsupported_value,      ///< a value that we do not offer (yet)
  unsupported_parameter,  ///< a field that we do not offer
  unsupported_content,    ///< images and other parts that the model cannot read
  invalid_tool,
  context_length_exceeded,
  malformed_request,  ///< not HTTP
  invalid_api_key,
  forbidden,
  model_not_found,
  not_found,
  method_not_allowed,
  request_timeout,
  request_too_large,
  unsupported_encoding,
  header_too_large,
  queue_full,
  internal_error,
  not_implemented,
  loading_model,
  shutting_down,
  engine_dead,
  overloaded,
  timeout,
};

/// How a code looks on the wire.
struct ErrorRow {
  ApiCode code;
  int status;
  std::string_view type;
  std::string_view wire_code;  ///< empty: null
};
std::span<const ErrorRow> error_table() noexcept;
const ErrorRow& error_row(ApiCode code) noexcept;

struct ApiError {
  ApiCode code = ApiCode::internal_error;
  std::string message;                 ///< for people: what was wanted, what was found
  std::optional<std::string> param{};  ///< path of the field: `messages[2].content`
  std::vector<std::pair<std::string_view, int64_t>> numbers{};  ///< further keys of `error`
  std::optional<int> retry_after_s{};
};

/// `{"error":{"message","type","param","code"}}`, always with these four keys.
std::string error_body(const ApiError& error);
/// Body, status and headers (Retry-After, WWW-Authenticate, x-should-retry).
Response error_response(const ApiError& error);
/// The same in the Anthropic shape, for routes below /v1/messages.
Response anthropic_error_response(const ApiError& error, std::string_view request_id);

/// Problems of the HTTP layer as API errors.
ApiError http_error(HttpProblem problem, std::string_view detail, const ReaderLimits& limits);

}  // namespace yoke::server
