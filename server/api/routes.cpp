#include "server/api/routes.h"

#include <array>

#include "server/http/message.h"

namespace yoke::server {

namespace {

constexpr std::string_view kGet = "GET, HEAD, OPTIONS";
constexpr std::string_view kPost = "POST, OPTIONS";
constexpr std::string_view kBoth = "GET, HEAD, POST, OPTIONS";
constexpr std::string_view kAny = "GET, HEAD, POST, DELETE, OPTIONS";

struct Row {
  std::string_view path;  // without /v1
  Route route;
  std::string_view methods;
};

constexpr std::array kRows = {
    Row{"/chat/completions", Route::chat_completions, kPost},
    Row{"/models", Route::models, kGet},
    Row{"/health", Route::health, kGet},
    Row{"/health/live", Route::live, kGet},
    Row{"/live", Route::live, kGet},
    Row{"/livez", Route::live, kGet},
    Row{"/healthz", Route::live, kGet},
    Row{"/health/ready", Route::ready, kGet},
    Row{"/ready", Route::ready, kGet},
    Row{"/readyz", Route::ready, kGet},
    Row{"/ping", Route::ping, kBoth},
    Row{"/version", Route::version, kGet},
    Row{"/metrics", Route::metrics, kGet},
    Row{"/", Route::root, kGet},
    Row{"/completions", Route::not_offered, kPost},
    Row{"/responses", Route::not_offered, kPost},
    Row{"/embeddings", Route::not_offered, kPost},
    Row{"/rerank", Route::not_offered, kPost},
    Row{"/tokenize", Route::not_offered, kPost},
    Row{"/detokenize", Route::not_offered, kPost},
    Row{"/messages", Route::not_offered_messages, kPost},
    Row{"/messages/count_tokens", Route::not_offered_messages, kPost},
};

/// Whole families that are not offered.
constexpr std::array kPrefixes = {
    Row{"/responses/", Route::not_offered, kAny},
    Row{"/audio/", Route::not_offered, kPost},
    Row{"/images/", Route::not_offered, kPost},
};

/// Repeated slashes count as one: base addresses often end in one already.
std::string without_double_slashes(std::string_view path) {
  std::string out;
  out.reserve(path.size());
  for (const char c : path)
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  return out;
}

bool has_version(std::string_view path) {
  return path.starts_with("/v1") && (path.size() == 3 || path[3] == '/');
}

}  // namespace

RouteMatch match_route(std::string_view raw) {
  constexpr std::string_view kModel = "/models/";
  const std::string clean = without_double_slashes(raw);
  std::string_view path = clean;
  if (has_version(path)) path.remove_prefix(3);
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.empty()) path = "/";
  RouteMatch match;
  for (const Row& row : kRows) {
    if (row.path != path) continue;
    match.route = row.route;
    match.label = row.path;
    match.methods = row.methods;
    return match;
  }
  for (const Row& row : kPrefixes) {
    if (!path.starts_with(row.path)) continue;
    match.route = row.route;
    match.label = row.path;
    match.methods = row.methods;
    return match;
  }
  if (path.starts_with(kModel)) {
    match.route = Route::model;
    match.label = "/models/{id}";
    match.methods = kGet;
    match.model_id = percent_decoded(path.substr(kModel.size()));
  }
  return match;
}

bool allows_method(std::string_view methods, std::string_view method) {
  while (!methods.empty()) {
    const size_t comma = methods.find(", ");
    if (methods.substr(0, comma) == method) return true;
    if (comma == std::string_view::npos) return false;
    methods.remove_prefix(comma + 2);
  }
  return false;
}

}  // namespace yoke::server
