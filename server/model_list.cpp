#include "server/model_list.h"

#include "engine/json/json.h"

namespace yoke::server {

using engine::Json;

std::string model_entry(const std::string& name, const ServedModel* model, int64_t created) {
  Json entry = Json::object();
  entry.set("id", Json::string(name));
  entry.set("object", Json::string("model"));
  entry.set("created", Json::integer(created));
  entry.set("owned_by", Json::string("yoke"));
  entry.set("root", Json::string(model != nullptr ? model->root : name));
  entry.set("parent", Json());
  if (model != nullptr) {
    entry.set("max_model_len", Json::integer(model->max_model_len));
    entry.set("context_length", Json::integer(model->max_model_len));
  }
  Json capabilities = Json::object();
  capabilities.set("tools", Json::boolean(true));
  capabilities.set("vision", Json::boolean(false));
  capabilities.set("reasoning", Json::boolean(true));
  entry.set("capabilities", std::move(capabilities));
  if (model != nullptr) {
    Json meta = Json::object();
    meta.set("n_ctx_train", Json::integer(model->max_positions));
    meta.set("n_vocab", Json::integer(model->vocab_size));
    meta.set("n_params", Json::integer(static_cast<int64_t>(model->parameters)));
    meta.set("size", Json::integer(static_cast<int64_t>(model->bytes)));
    entry.set("meta", std::move(meta));
  }
  return to_json(entry);
}

std::string model_list(const std::vector<std::string>& names, const ServedModel* model,
                       int64_t created) {
  std::string out = R"({"object":"list","data":[)";
  for (const std::string& name : names) {
    if (&name != &names.front()) out += ',';
    out += model_entry(name, model, created);
  }
  return out + "]}";
}

}  // namespace yoke::server
