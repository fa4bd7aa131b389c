#include "server/api/chat_request.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/json/utf8.h"
#include "server/api/fields.h"
#include "server/api/messages.h"
#include "server/api/thinking.h"
#include "server/api/tools.h"

namespace yoke::server {

namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopTokens = 1024;

// --- model ---------------------------------------------------------------------------------------

std::string read_model(Fields& fields, const ChatContext& context) {
  const std::string main = context.model_names.empty() ? "" : context.model_names.front();
  const std::string* asked = fields.text("model");
  if (asked == nullptr || asked->empty()) return main;
  const auto& names = context.model_names;
  if (context.accept_any_model || std::find(names.begin(), names.end(), *asked) != names.end())
    return *asked;
  fields.problem().report(ApiCode::model_not_found,
                          "the model '" + std::string(engine::utf8_prefix(*asked, 200)) +
                              "' does not exist here; this server has '" + main + "'",
                          "model");
  return main;
}

// --- what we do not offer
// --------------------------------------------------------------------------

void refuse(Fields& fields, std::string_view key, std::string_view why,
            ApiCode code = ApiCode::unsupported_value) {
  fields.problem().report(code, "'" + fields.path_of(key) + "' " + std::string(why),
                          fields.path_of(key));
}

/// Fields of later versions: only their neutral values are taken.
void refuse_what_comes_later(Fields& fields) {
  constexpr std::string_view kLater = "is not supported yet";
  if (fields.integer("n", 1, kMaxInt).value_or(1) != 1) refuse(fields, "n", "must be 1 for now");
  const bool logprobs = fields.boolean("logprobs").value_or(false);
  if (logprobs) refuse(fields, "logprobs", kLater);
  if (fields.integer("top_logprobs", 0, 20).value_or(0) > 0)
    refuse(fields, "top_logprobs", "needs 'logprobs', which is not supported yet");
  if (fields.integer("min_tokens", 0, kMaxInt).value_or(0) > 0)
    refuse(fields, "min_tokens", kLater);
  if (fields.boolean("ignore_eos").value_or(false)) refuse(fields, "ignore_eos", kLater);
  for (const std::string_view key : {"structured_outputs", "guided_json", "guided_regex",
                                     "guided_choice", "guided_grammar", "grammar"})
    if (fields.find(key) != nullptr) refuse(fields, key, kLater);
  for (const std::string_view key :
       {"thinking_budget", "thinking_token_budget", "reasoning_budget_tokens"})
    if (const auto budget = fields.integer(key, -1, kMaxInt); budget && *budget != -1)
      refuse(fields, key, kLater);
  if (const Json* format = fields.object("response_format")) {
    const Json* type = format->find("type");
    if (type == nullptr || !type->is_string())
      fields.problem().report(ApiCode::invalid_type, "'response_format.type' must be a string",
                              "response_format.type");
    else if (type->as_string() == "json_object" || type->as_string() == "json_schema")
      refuse(fields, "response_format", "must be of type \"text\" for now");
    else if (type->as_string() != "text")
      fields.problem().report(ApiCode::invalid_value,
                              "'response_format.type' must be text, json_object or json_schema",
                              "response_format.type");
  }
}

/// Fields that this server does not have in view: refused rather than silently ignored, because
/// they change what the answer means.
void refuse_what_we_do_not_offer(Fields& fields) {
  constexpr std::string_view kNo = "is not supported";
  for (const std::string_view key : {"use_beam_search", "echo"})
    if (fields.boolean(key).value_or(false))
      refuse(fields, key, kNo, ApiCode::unsupported_parameter);
  if (fields.integer("best_of", 1, kMaxInt).value_or(1) != 1)
    refuse(fields, "best_of", kNo, ApiCode::unsupported_parameter);
  for (const std::string_view key : {"prompt_logprobs", "prompt_embeds", "lora", "documents",
                                     "chat_template", "audio", "truncate_prompt_tokens"}) {
    const Json* value = fields.find(key);
    if (value != nullptr && value->truthy())
      refuse(fields, key, kNo, ApiCode::unsupported_parameter);
  }
  if (const Json* modalities = fields.array("modalities"))
    for (const Json& item : modalities->items())
      if (item.is_string() && item.as_string() == "audio")
        refuse(fields, "modalities", "must be [\"text\"]: there is no audio output");
}

// --- sampling
// --------------------------------------------------------------------------------------

std::optional<int32_t> narrow(std::optional<int64_t> value) {
  if (!value) return std::nullopt;
  return static_cast<int32_t>(*value);
}

std::optional<int64_t> to_token_id(const Json& value) {
  if (value.is_number()) return value.to_int64();
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.as_string();
  int64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return id;
}

/// `{"12": -100}` or `[[12, -100]]`.
class LogitBiasReader {
 public:
  LogitBiasReader(Problem& problem, int32_t vocab_size)
      : problem_(problem), vocab_size_(vocab_size) {}

  std::vector<std::pair<int32_t, double>> read(const Json& value) {
    if (value.is_object()) {
      for (const auto& [key, bias] : value.members()) add(Json::string(key), bias);
    } else if (value.is_array()) {
      for (const Json& item : value.items()) {
        if (!item.is_array() || item.items().size() != 2)
          report(ApiCode::invalid_type, "must hold pairs [id, bias]");
        else
          add(item.items()[0], item.items()[1]);
      }
    } else {
      report(ApiCode::invalid_type, "must be an object from token ids to numbers");
    }
    // One entry per id, the last one given, in the order of ids.
    std::stable_sort(out_.begin(), out_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::pair<int32_t, double>> unique;
    for (const auto& entry : out_) {
      if (!unique.empty() && unique.back().first == entry.first) unique.pop_back();
      unique.push_back(entry);
    }
    return unique;
  }

 private:
  void report(ApiCode code, std::string_view message) {
    problem_.report(code, "'logit_bias' " + std::string(message), "logit_bias");
  }

  void add(const Json& key, const Json& bias) {
    if (problem_.found()) return;
    const auto id = to_token_id(key);
    if (!id || *id < 0 || *id >= vocab_size_)
      return report(ApiCode::invalid_value, "names a token that is not in the vocabulary (0 to " +
                                                std::to_string(vocab_size_ - 1) + ")");
    const auto number = bias.to_double();
    if (!number) return report(ApiCode::invalid_type, "must map to numbers");
    if (!(*number >= -100 && *number <= 100))
      return report(ApiCode::invalid_value, "must map to numbers from -100 to 100");
    out_.emplace_back(static_cast<int32_t>(*id), *number);
  }

  Problem& problem_;
  int32_t vocab_size_;
  std::vector<std::pair<int32_t, double>> out_;
};

SamplingFields read_sampling(Fields& fields, const ChatContext& context) {
  constexpr double kSmallest = std::numeric_limits<double>::min();
  SamplingFields out;
  out.temperature = fields.number("temperature", 0, 2);
  out.top_p = fields.number("top_p", 0, 1);
  out.top_k = narrow(fields.integer("top_k", -1, kMaxInt));
  out.min_p = fields.number("min_p", 0, 1);
  out.presence_penalty = fields.number("presence_penalty", -2, 2);
  out.frequency_penalty = fields.number("frequency_penalty", -2, 2);
  out.repetition_penalty = fields.number("repetition_penalty", 0, 1e6);
  if (out.repetition_penalty && *out.repetition_penalty < kSmallest)
    fields.problem().report(ApiCode::invalid_value, "'repetition_penalty' must be above 0",
                            "repetition_penalty");
  out.seed = fields.integer("seed", std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max());
  if (const Json* bias = fields.find("logit_bias"))
    out.logit_bias = LogitBiasReader(fields.problem(), context.vocab_size).read(*bias);
  return out;
}

// --- limits and stops
// --------------------------------------------------------------------------------

std::optional<int64_t> read_max_tokens(Fields& fields) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto old_name = fields.integer("max_tokens", 1, kMost);
  const auto new_name = fields.integer("max_completion_tokens", 1, kMost);
  return new_name ? new_name : old_name;
}

std::vector<std::string> read_stop(Fields& fields) {
  std::vector<std::string> out;
  const auto add = [&](const Json& item) {
    if (!item.is_string())
      fields.problem().report(ApiCode::invalid_type, "'stop' must be a string or strings", "stop");
    else if (!item.as_string().empty())
      out.push_back(item.as_string());
  };
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return out;
  if (!stop->is_array()) {
    add(*stop);
    return out;
  }
  if (stop->items().size() > kMaxStops) {
    fields.problem().report(ApiCode::invalid_value,
                            "'stop' may hold " + std::to_string(kMaxStops) + " strings, found " +
                                std::to_string(stop->items().size()),
                            "stop");
    return out;
  }
  for (const Json& item : stop->items()) add(item);
  return out;
}

std::vector<int32_t> read_stop_token_ids(Fields& fields, const ChatContext& context) {
  std::vector<int32_t> out;
  const Json* ids = fields.array("stop_token_ids");
  if (ids == nullptr) return out;
  const auto wrong = [&](std::string_view message) {
    fields.problem().report(ApiCode::invalid_value, "'stop_token_ids' " + std::string(message),
                            "stop_token_ids");
  };
  if (ids->items().size() > kMaxStopTokens) {
    wrong("may hold " + std::to_string(kMaxStopTokens) + " ids");
    return out;
  }
  for (const Json& item : ids->items()) {
    const auto id = item.to_int64();
    if (!id || *id < 0 || *id >= context.vocab_size) {
      wrong("must hold ids from 0 to " + std::to_string(context.vocab_size - 1));
      return out;
    }
    out.push_back(static_cast<int32_t>(*id));
  }
  return out;
}

// --- the whole
// ---------------------------------------------------------------------------------------

void read_stream(Fields& fields, ChatRequest& out) {
  out.stream = fields.boolean("stream").value_or(false);
  const Json* object = fields.object("stream_options");
  if (object == nullptr) return;
  Fields options(*object, "stream_options.", fields.problem());
  out.include_usage = options.boolean("include_usage").value_or(false);
  out.running_usage = options.boolean("continuous_usage_stats").value_or(false);
}

/// A last assistant message is continued when no new turn is wanted.
bool read_add_generation_prompt(Fields& fields) {
  const bool continues = fields.boolean("continue_final_message").value_or(false);
  const auto add = fields.boolean("add_generation_prompt");
  if (continues && add.value_or(false))
    fields.problem().report(ApiCode::invalid_value,
                            "'continue_final_message' and 'add_generation_prompt' cannot both be "
                            "true",
                            "continue_final_message");
  return add.value_or(!continues);
}

void read_thinking(Fields& fields, const ChatContext& context, ChatRequest& out) {
  Thinking thinking = thinking_switches(fields, context.reasoning_effort);
  out.effort = std::move(thinking.effort);
  out.thinking = std::move(thinking.thinking);
  out.enable_thinking = std::move(thinking.enable_thinking);
  out.clear_thinking = std::move(thinking.clear_thinking);
  out.include_reasoning = thinking.include_reasoning;
}

ApiError unreadable(const config::Error& error) {
  return {ApiCode::invalid_json, error.message};
}

}  // namespace

ParsedChat parse_chat_request(std::string_view body, const ChatContext& context) {
  config::Result<Json> parsed = engine::parse_json(body, "request body");
  if (!parsed) return unreadable(parsed.error());
  if (!parsed->is_object())
    return ApiError{ApiCode::invalid_json, "the request body must be a JSON object, found " +
                                               std::string(kind_name(*parsed)) + " at byte 0"};
  Problem problem;
  Fields fields(*parsed, "", problem);
  ChatRequest out;
  out.model = read_model(fields, context);
  const Json* messages = fields.find("messages");
  if (messages == nullptr)
    problem.report(ApiCode::missing_required_parameter, "'messages' is missing", "messages");
  else if (!problem.found())
    out.messages = normalised_messages(*messages, problem);
  read_stream(fields, out);
  out.max_tokens = read_max_tokens(fields);
  out.sampling = read_sampling(fields, context);
  out.stop = read_stop(fields);
  out.stop_token_ids = read_stop_token_ids(fields, context);
  out.include_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  if (!problem.found()) {
    Tools tools = read_tools(fields);
    out.tools = std::move(tools.prompt);
    out.callable = std::move(tools.callable);
  }
  out.single_call = !fields.boolean("parallel_tool_calls").value_or(true);
  read_thinking(fields, context, out);
  out.add_generation_prompt = read_add_generation_prompt(fields);
  out.echo_service_tier = fields.find("service_tier") != nullptr;
  refuse_what_comes_later(fields);
  refuse_what_we_do_not_offer(fields);
  if (problem.found()) return problem.take();
  return out;
}

}  // namespace yoke::server
