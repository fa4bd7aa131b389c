#include "tests/fakes/test_server.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "config/check.h"

namespace yoke::tests {

namespace {

constexpr int32_t kEndOfTurn = 1227;  // <|user|>

server::KeyRing keys_of(const config::Config& config) {
  auto keys = server::KeyRing::load(config.access);
  YOKE_CHECK(keys.ok(), keys.error().message.c_str());
  return *std::move(keys);
}

}  // namespace

config::Logger test_logger() {
  const char* level = std::getenv("YOKE_TEST_LOG");
  return level != nullptr ? config::make_logger(level) : config::null_logger();
}

const engine::Tokenizer& nano_tokenizer() {
  static const auto tokenizer =
      engine::Tokenizer::load(std::string(YOKE_SOURCE_DIR) + "/tools/nano/tokenizer.json");
  YOKE_CHECK(tokenizer.ok(), "nano's tokenizer does not load");
  return *tokenizer;
}

std::vector<int32_t> ids_of(std::string_view text, bool end) {
  auto ids = nano_tokenizer().encode_ids(text);
  YOKE_CHECK(ids.ok(), "a script does not encode");
  if (end) ids->push_back(kEndOfTurn);
  return *std::move(ids);
}

std::vector<std::vector<int32_t>> steps_of(std::string_view text, size_t step, bool end) {
  const std::vector<int32_t> ids = ids_of(text, end);
  std::vector<std::vector<int32_t>> out;
  for (size_t i = 0; i < ids.size(); i += step)
    out.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(i),
                     ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), i + step)));
  return out;
}

config::Config test_config() {
  config::Config config;
  config.server.port = 0;
  config.server.worker_threads = 1;
  config.api.stream_interval = std::chrono::milliseconds(0);
  return config;
}

std::string chat_body(std::string_view more, std::string_view text) {
  std::string body = R"({"messages":[{"role":"user","content":)";
  engine::append_json_string(body, text);
  return body + "}]" + std::string(more) + "}";
}

TestServer::TestServer(config::Config config, bool with_model, config::Logger log)
    : server(config, keys_of(config), std::move(log)) {
  model.names = config.model.served_model_name.empty()
                    ? std::vector<std::string>{"nano", "org/alias"}
                    : config.model.served_model_name;
  model.root = "nano-folder";
  model.fingerprint = "fp_test";
  model.max_model_len = kContext;
  model.max_positions = 8192;
  model.vocab_size = nano_tokenizer().size();
  model.eos_token_ids = {1220, kEndOfTurn, 1229};
  model.tokenizer = &nano_tokenizer();
  model.service = &engine;
  const auto started = server.start();
  YOKE_CHECK(started.ok(), started.error().message.c_str());
  if (with_model) set_model();
}

void TestServer::set_model() {
  server.set_model(std::make_shared<const server::ServedModel>(model));
}

TestServer::~TestServer() {
  server.stop();
}

}  // namespace yoke::tests
