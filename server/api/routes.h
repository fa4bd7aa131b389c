// Paths → routes (spec/api.md 3). Every route exists with and without `/v1`, with a trailing slash
// and with any query string.
#pragma once

#include <string>
#include <string_view>

namespace yoke::server {

enum class Route {
  none,  ///< 404
  chat_completions,
  models,
  model,  ///< /models/{id}
  health,
  live,
  ready,
  ping,
  version,
  metrics,
  root,
  not_offered,           ///< known, but 501
  not_offered_messages,  ///< the same with errors in the Anthropic shape
};

struct RouteMatch {
  Route route = Route::none;
  std::string_view label = "other";  ///< for metrics and logs: never the raw path
  std::string_view methods;          ///< for Allow: "GET, HEAD, OPTIONS"
  std::string model_id;              ///< for Route::model, decoded
};

/// `path`: as sent, still percent-encoded, without query.
RouteMatch match_route(std::string_view path);

/// Whether `method` is one of a comma list.
bool allows_method(std::string_view methods, std::string_view method);

}  // namespace yoke::server
