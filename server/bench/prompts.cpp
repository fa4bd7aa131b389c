#include "server/bench/prompts.h"

#include "engine/json/json.h"
#include "engine/json/json_lines.h"

namespace yoke::server {

using engine::Json;

std::vector<BenchPrompt> built_in_prompts() {
  return {
      {"structured", "Count from 1 to 200, numbers separated by spaces."},
      {"code", "Write Python functions named clamp_00 to clamp_09, code only."},
      {"prose", "Please describe how a hash map works in running text."},
      {"json", "Give me JSON with name Zoe, city Kyiv and age 44."},
  };
}

config::Result<std::vector<BenchPrompt>> read_prompts(std::string_view text,
                                                      std::string_view file) {
  std::vector<BenchPrompt> out;
  const auto read = engine::each_json_line(
      text, file,
      [&](const Json& json, const std::string& where, size_t number) -> config::Result<void> {
        const Json* prompt = json.find("prompt");
        const Json* kind = json.find("kind");
        if (prompt == nullptr || !prompt->is_string() || prompt->as_string().empty())
          return config::invalid_input(where +
                                       ": wanted an object with a non-empty string `prompt`");
        if (kind != nullptr && !kind->is_string())
          return config::invalid_input(where + ": `kind` must be a string");
        out.push_back({kind != nullptr ? kind->as_string() : "line " + std::to_string(number),
                       prompt->as_string()});
        return {};
      });
  if (!read.ok()) return read.error();
  if (out.empty()) return config::invalid_input(std::string(file) + ": no prompt in it");
  return out;
}

std::string bench_body(const BenchPrompt& prompt, const BenchRequestOptions& options,
                       std::string_view tag) {
  const auto message = [](const char* role, std::string content) {
    return Json::object(
        {{"role", Json::string(role)}, {"content", Json::string(std::move(content))}});
  };
  Json::Array messages;
  if (options.cold)
    messages.push_back(message("system", "Session " + std::string(tag) + ". Answer briefly."));
  messages.push_back(message("user", prompt.text));
  Json body = Json::object({{"messages", Json::array(std::move(messages))},
                            {"temperature", Json::integer(0)},
                            {"top_p", Json::integer(1)},
                            {"max_tokens", Json::integer(options.max_tokens)},
                            {"stream", Json::boolean(true)}});
  if (!options.model.empty()) body.set("model", Json::string(options.model));
  body.set("stream_options", Json::object({{"include_usage", Json::boolean(true)},
                                           {"continuous_usage_stats", Json::boolean(true)}}));
  body.set("chat_template_kwargs",
           Json::object({{"enable_thinking", Json::boolean(options.thinking)}}));
  return to_json(body);
}

}  // namespace yoke::server
