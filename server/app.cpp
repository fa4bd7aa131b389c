#include "server/app.h"

#include <algorithm>
#include <utility>

#include "engine/json/json.h"
#include "server/model_list.h"
#include "server/status_page.h"

namespace yoke::server {

namespace {

using engine::ReadyState;

/// What computes in this build.
constexpr const char* kBackend = "cpu";

ReaderLimits limits_of(const config::ServerConfig& server) {
  return {static_cast<size_t>(server.max_header_kib) << 10, static_cast<size_t>(server.max_body_mib)
                                                                << 20};
}

int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool needs_key(Route route, const config::AccessConfig& access) {
  switch (route) {
    case Route::chat_completions:
    case Route::not_offered:
    case Route::not_offered_messages:
      return true;
    case Route::models:
    case Route::model:
      return !access.models_open;
    case Route::metrics:
      return !access.metrics_open;
    default:
      return false;
  }
}

Response json_response(std::string body) {
  Response response;
  response.body = std::move(body);
  return response;
}

/// The shape that load balancers and llama.cpp's clients know.
Response unavailable(const std::string& message) {
  Response response;
  response.status = 503;
  response.headers.add("retry-after", "2");
  response.body = R"({"error":{"message":)";
  engine::append_json_string(response.body, message);
  response.body += R"(,"type":"unavailable_error","param":null,"code":503}})";
  return response;
}

ApiError not_found(const RequestHead& head) {
  return {ApiCode::not_found, "there is nothing at " + head.path.substr(0, 200)};
}

ApiError not_offered(const RequestHead& head) {
  return {ApiCode::not_implemented, head.path.substr(0, 200) +
                                        " is not offered by this version; use "
                                        "/v1/chat/completions"};
}

Response error_for(Route route, const ApiError& error, const RequestHead& head) {
  return route == Route::not_offered_messages ? anthropic_error_response(error, head.request_id)
                                              : error_response(error);
}

bool is_polled(Route route) {
  return route != Route::chat_completions && route != Route::not_offered &&
         route != Route::not_offered_messages && route != Route::none;
}

}  // namespace

Health health_of(const engine::ServiceStatus* status, bool draining, config::Duration watchdog) {
  if (draining) return {false, "Shutting down"};
  if (status == nullptr) return {false, "Loading model"};
  switch (status->state) {
    case ReadyState::loading:
      return {false, "Loading model"};
    case ReadyState::warming_up:
      return {false, "Loading model: warming up"};
    case ReadyState::draining:
      return {false, "Shutting down"};
    case ReadyState::failed:
      return {false, "The engine failed: " + status->detail};
    case ReadyState::ready:
      break;
  }
  if (status->stalled > watchdog)
    return {false, "The engine has not finished a step for " +
                       std::to_string(static_cast<int64_t>(config::seconds(status->stalled))) +
                       " s"};
  return {true, "ok"};
}

App::App(const config::Config& config, KeyRing keys, asio::thread_pool& workers, config::Logger log)
    : access_(config.access),
      limits_(limits_of(config.server)),
      watchdog_(config.engine.watchdog),
      created_(unix_now()),
      origins_(config.access.allowed_origins),
      log_(std::move(log)),
      metrics_({YOKE_VERSION, kBackend}),
      chat_(std::make_shared<ChatService>()),
      keys_(std::make_shared<const KeyRing>(std::move(keys))),
      names_(config.model.served_model_name) {
  chat_->api = config.api;
  chat_->write_timeout = config.server.write_timeout;
  chat_->accept_any_model = config.model.accept_any_model;
  chat_->log_requests = config.log.requests;
  chat_->max_preparing = static_cast<int>(
      std::min<int64_t>(config.engine.max_queue + config.engine.max_num_seqs + 16, 1 << 20));
  chat_->log = log_;
  chat_->metrics = &metrics_;
  chat_->workers = &workers;
}

Application App::application() {
  Application out;
  out.check = [this](const RequestHead& head) { return check(head); };
  out.handle = [this](std::shared_ptr<Exchange> exchange) { return handle(std::move(exchange)); };
  out.refuse = [this](HttpProblem problem, std::string_view detail, const RequestHead& head) {
    return error_for(match_route(head.path).route, http_error(problem, detail, limits_), head);
  };
  out.decorate = [this](const RequestHead& head, Headers& headers) { decorate(head, headers); };
  out.finished = [this](const RequestHead& head, int status, config::Duration time) {
    const RouteMatch match = match_route(head.path);
    metrics_.http_request(match.label, head.method, status);
    log_->debug("http.done id={} peer={} method={} route={} status={} ms={:.1f}",
                config::log_safe(head.request_id), head.peer, config::log_safe(head.method),
                match.label, status, config::seconds(time) * 1e3);
    if (!is_polled(match.route) && match.route != Route::chat_completions && status >= 400)
      log_->info("http.refused id={} method={} path={} status={}",
                 config::log_safe(head.request_id), config::log_safe(head.method),
                 config::log_safe(head.path.substr(0, 200)), status);
  };
  return out;
}

// --- state
// -----------------------------------------------------------------------------------------

void App::set_names(std::vector<std::string> names) {
  const std::lock_guard lock(mutex_);
  names_ = std::move(names);
}
void App::set_model(std::shared_ptr<const ServedModel> model) {
  const std::lock_guard lock(mutex_);
  model_ = std::move(model);
}
void App::set_keys(KeyRing keys) {
  auto fresh = std::make_shared<const KeyRing>(std::move(keys));
  const std::lock_guard lock(mutex_);
  keys_ = std::move(fresh);
}
std::shared_ptr<const ServedModel> App::model_now() const {
  const std::lock_guard lock(mutex_);
  return model_;
}
std::shared_ptr<const KeyRing> App::keys_now() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}
std::vector<std::string> App::names_now() const {
  const std::lock_guard lock(mutex_);
  return model_ != nullptr ? model_->names : names_;
}
bool App::has_keys() const {
  return !keys_now()->empty();
}
std::string App::key_label(const Headers& headers) const {
  const auto key = presented_key(headers);
  return key ? keys_now()->label_of(*key).value_or("") : "";
}
Health App::health_now() const {
  const auto model = model_now();
  if (model == nullptr) return health_of(nullptr, draining_, watchdog_);
  const engine::ServiceStatus status = model->service->status();
  return health_of(&status, draining_, watchdog_);
}

// --- before the body
// -------------------------------------------------------------------------------

/// Route → method → access → readiness (spec/api.md 2.4). Size and body come after.
std::optional<Response> App::check(const RequestHead& head) {
  if (head.method == "OPTIONS") return std::nullopt;
  const RouteMatch match = match_route(head.path);
  if (match.route == Route::none) return error_response(not_found(head));
  if (!allows_method(match.methods, head.method)) {
    Response response = error_for(
        match.route,
        {ApiCode::method_not_allowed,
         head.method.substr(0, 40) + " is not allowed here; use " + std::string(match.methods)},
        head);
    response.headers.add("allow", std::string(match.methods));
    return response;
  }
  if (auto error = check_access(head, match.route)) {
    if (match.route == Route::chat_completions)
      metrics_.request_rejected(error->code == ApiCode::invalid_api_key ? Rejection::auth
                                                                        : Rejection::origin);
    return error_for(match.route, *error, head);
  }
  if (match.route == Route::not_offered || match.route == Route::not_offered_messages)
    return error_for(match.route, not_offered(head), head);
  if (match.route != Route::chat_completions) return std::nullopt;
  const std::string* coding = head.headers.find("content-encoding");
  if (coding != nullptr && !coding->empty() && !equal_ignoring_case(*coding, "identity"))
    return error_response({ApiCode::unsupported_encoding,
                           "content-encoding must be identity, found " + coding->substr(0, 40)});
  if (auto error = check_ready()) {
    metrics_.request_rejected(error->code == ApiCode::shutting_down ? Rejection::draining
                              : error->code == ApiCode::engine_dead ? Rejection::failed
                                                                    : Rejection::loading);
    Response response = error_response(*error);
    response.close = error->code == ApiCode::shutting_down;
    return response;
  }
  return std::nullopt;
}

std::optional<ApiError> App::check_access(const RequestHead& head, Route route) const {
  const auto keys = keys_now();
  if (keys->empty() && loopback_only_) {
    const std::string* host = head.headers.find("host");
    if (host != nullptr && !origins_.allows_host(*host))
      return ApiError{ApiCode::forbidden,
                      "this server answers to addresses and to localhost only, not to the name '" +
                          host->substr(0, 100) + "'; see --allowed-origins and --api-key"};
    const std::string* origin = head.headers.find("origin");
    if (origin != nullptr && !origins_.allows_origin(*origin))
      return ApiError{ApiCode::forbidden, "web pages of '" + origin->substr(0, 100) +
                                              "' may not ask this server; see --allowed-origins"};
  }
  if (keys->empty() || !needs_key(route, access_)) return std::nullopt;
  const auto key = presented_key(head.headers);
  if (!key)
    return ApiError{ApiCode::invalid_api_key,
                    "this server needs an API key: send 'Authorization: Bearer KEY'"};
  if (!keys->label_of(*key))
    return ApiError{ApiCode::invalid_api_key, "this API key is not known here"};
  return std::nullopt;
}

std::optional<ApiError> App::check_ready() const {
  if (draining_) return ApiError{ApiCode::shutting_down, "the server is shutting down"};
  const auto model = model_now();
  if (model == nullptr) return ApiError{ApiCode::loading_model, "the model is loading"};
  const engine::ServiceStatus status = model->service->status();
  switch (status.state) {
    case ReadyState::loading:
    case ReadyState::warming_up:
      return ApiError{ApiCode::loading_model, "the model is loading: " + status.detail};
    case ReadyState::draining:
      return ApiError{ApiCode::shutting_down, "the server is shutting down"};
    case ReadyState::failed:
      return ApiError{ApiCode::engine_dead, "the engine failed: " + status.detail};
    case ReadyState::ready:
      return std::nullopt;
  }
  return std::nullopt;
}

void App::decorate(const RequestHead& head, Headers& headers) const {
  const std::string* origin = head.headers.find("origin");
  if (origin != nullptr && origins_.allows_origin(*origin)) add_cors_headers(*origin, headers);
}

// --- answers
// ---------------------------------------------------------------------------------------

asio::awaitable<void> App::handle(std::shared_ptr<Exchange> exchange) {
  const RequestHead& head = exchange->request().head;
  const RouteMatch match = match_route(head.path);
  if (head.method != "OPTIONS" && match.route == Route::chat_completions) {
    // The head was let in; between then and now the model can only have begun to drain.
    auto model = model_now();
    std::string label = key_label(head.headers);
    return serve_chat(std::move(exchange), chat_, std::move(model), std::move(label));
  }
  Response response = answer(head, match);
  return serve_response(std::move(exchange), std::move(response));
}

Response App::answer(const RequestHead& head, const RouteMatch& match) const {
  if (head.method == "OPTIONS") {
    Response response;
    response.status = 204;
    add_preflight_headers(head.headers, response.headers);
    return response;
  }
  switch (match.route) {
    case Route::models:
      return models();
    case Route::model:
      return model(match.model_id);
    case Route::health:
      return health(head);
    case Route::live:
    case Route::ping:
      return json_response(R"({"status":"ok"})");
    case Route::ready:
      return ready();
    case Route::version:
      return version();
    case Route::metrics:
      return metrics_page();
    case Route::root:
      return status_page();
    case Route::none:
    case Route::chat_completions:
    case Route::not_offered:
    case Route::not_offered_messages:
      break;
  }
  return error_response(not_found(head));
}

Response App::health(const RequestHead& head) const {
  const Health health = health_now();
  if (!health.ok) return unavailable(health.message);
  std::string body = R"({"status":"ok")";
  const auto model = model_now();
  if (model != nullptr && (!has_keys() || !key_label(head.headers).empty())) {
    const engine::ServiceStatus status = model->service->status();
    body += ",\"busy\":";
    body += status.running + status.waiting > 0 ? "true" : "false";
    body += ",\"requests_running\":" + std::to_string(status.running) +
            ",\"requests_waiting\":" + std::to_string(status.waiting);
  }
  return json_response(body + "}");
}

Response App::ready() const {
  const Health health = health_now();
  if (!health.ok) return unavailable(health.message);
  return json_response(R"({"status":"ready"})");
}

Response App::models() const {
  return json_response(model_list(names_now(), model_now().get(), created_));
}

Response App::model(const std::string& id) const {
  const std::vector<std::string> names = names_now();
  if (std::find(names.begin(), names.end(), id) == names.end())
    return error_response({ApiCode::model_not_found,
                           "the model '" + id.substr(0, 200) + "' does not exist here", "model"});
  return json_response(model_entry(id, model_now().get(), created_));
}

Response App::version() const {
  return json_response(R"({"version":")" YOKE_VERSION R"(","api":"openai","build":")" +
                       std::string(kBackend) + "\"}");
}

Response App::metrics_page() const {
  Metrics::Snapshot snapshot;
  if (const auto model = model_now()) snapshot.engine = model->service->status();
  const std::vector<std::string> names = names_now();
  if (!names.empty()) snapshot.model = names.front();
  if (http_counts_) {
    const HttpCounts counts = http_counts_();
    snapshot.http_connections = counts.connections;
    snapshot.request_body_bytes = counts.buffered_bytes;
  }
  Response response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(snapshot);
  return response;
}

Response App::status_page() const {
  Response response;
  response.content_type = "text/html; charset=utf-8";
  response.headers.add("content-security-policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src "
                       "'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'");
  response.headers.add("cache-control", "no-cache");
  response.body = kStatusPage;
  return response;
}

}  // namespace yoke::server
