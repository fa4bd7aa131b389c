#include "server/api/messages.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "engine/json/utf8.h"

namespace yoke::server {

namespace {

constexpr std::string_view kImageTypes[] = {"image_url", "input_image", "image"};

std::string index_path(std::string_view base, size_t i) {
  return std::string(base) + "[" + std::to_string(i) + "]";
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A string member of an object, or nullptr.
const std::string* string_member(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && value->is_string() ? &value->as_string() : nullptr;
}

/// The text that a value holds: itself, or the `text` of an object, or of each element of a list.
std::string loose_text(const Json& value) {
  if (value.is_string()) return value.as_string();
  if (const std::string* text = string_member(value, "text")) return *text;
  std::string out;
  if (value.is_array())
    for (const Json& item : value.items())
      if (!item.is_array()) out += loose_text(item);
  return out;
}

struct Content {
  std::string text;
  std::string reasoning;  ///< from parts of type thinking or reasoning
};

class MessageReader {
 public:
  MessageReader(const Json& messages, Problem& problem) : messages_(messages), problem_(problem) {}

  Json read() {
    Json out = Json::array();
    for (size_t i = 0; i < messages_.items().size() && !problem_.found(); ++i) {
      path_ = index_path("messages", i);
      out.items().push_back(message(messages_.items()[i]));
    }
    return out;
  }

 private:
  void report(ApiCode code, std::string message, std::string_view field) {
    std::string param = path_;
    if (!field.empty()) param += "." + std::string(field);
    problem_.report(code, "'" + param + "' " + std::move(message), param);
  }

  Json message(const Json& message) {
    if (!message.is_object()) {
      report(ApiCode::invalid_type, "must be an object, found " + std::string(kind_name(message)),
             "");
      return {};
    }
    const Json* role = message.find("role");
    if (role == nullptr || role->is_null()) {
      report(ApiCode::missing_required_parameter, "is missing", "role");
      return {};
    }
    if (!role->is_string()) {
      report(ApiCode::invalid_type, "must be a string, found " + std::string(kind_name(*role)),
             "role");
      return {};
    }
    const std::string& name = role->as_string();
    if (name == "user") return plain(message, "user");
    if (name == "system" || name == "developer") return plain(message, "system");
    if (name == "assistant") return assistant(message);
    if (name == "tool") return tool_result(message);
    if (name == "function") return function_result(message);
    report(ApiCode::invalid_value,
           "must be one of system, developer, user, assistant, tool, function; found '" +
               std::string(engine::utf8_prefix(name, 40)) + "'",
           "role");
    return {};
  }

  Json plain(const Json& message, std::string_view role) {
    Content content = read_content(message.find("content"), false);
    Json out = Json::object();
    out.set("role", Json::string(std::string(role)));
    out.set("content", Json::string(std::move(content.text)));
    return out;
  }

  // --- content ---------------------------------------------------------------------------------

  Content read_content(const Json* content, bool of_assistant) {
    if (content == nullptr || content->is_null()) return {};
    if (content->is_string()) return {content->as_string(), ""};
    Content out;
    if (!content->is_array()) {
      report(
          ApiCode::invalid_type,
          "must be a string, null or an array of parts, found " + std::string(kind_name(*content)),
          "content");
      return out;
    }
    const Json::Array& parts = content->items();
    for (size_t i = 0; i < parts.size() && !problem_.found(); ++i)
      part(parts[i], index_path("content", i), of_assistant, out);
    return out;
  }

  void part(const Json& part, const std::string& field, bool of_assistant, Content& out) {
    if (part.is_string()) {
      out.text += part.as_string();
      return;
    }
    if (!part.is_object()) {
      report(ApiCode::invalid_type, "must be an object, found " + std::string(kind_name(part)),
             field);
      return;
    }
    const std::string type = part_type(part, field);
    if (problem_.found()) return;
    if (type == "text" || type == "input_text" || type == "output_text") {
      append_text(part, "text", field, out.text);
    } else if (type == "refusal") {
      append_text(part, "refusal", field, out.text);
    } else if (of_assistant && (type == "thinking" || type == "reasoning")) {
      const Json* text = part.find(type);
      if (text == nullptr) text = part.find("text");
      if (text != nullptr) out.reasoning += loose_text(*text);
    } else if (is_one_of(type, kImageTypes)) {
      report(ApiCode::unsupported_content,
             "holds an image, but this model reads text only (it has no image input)", field);
    } else {
      report(ApiCode::unsupported_content,
             "has type '" + std::string(engine::utf8_prefix(type, 40)) +
                 "', which this server cannot give to the model",
             field);
    }
  }

  /// The `type`, or what a part without one evidently is.
  std::string part_type(const Json& part, const std::string& field) {
    const Json* type = part.find("type");
    if (type != nullptr && type->is_string()) return type->as_string();
    if (type != nullptr && !type->is_null()) {
      report(ApiCode::invalid_type, "must be a string", field + ".type");
      return {};
    }
    for (const std::string_view key : {"text", "refusal", "image_url"})
      if (part.find(key) != nullptr) return std::string(key);
    report(ApiCode::missing_required_parameter, "is missing", field + ".type");
    return {};
  }

  void append_text(const Json& part, std::string_view key, const std::string& field,
                   std::string& out) {
    const Json* text = part.find(key);
    if (text == nullptr || text->is_null()) return;
    if (!text->is_string()) {
      report(ApiCode::invalid_type, "must be a string, found " + std::string(kind_name(*text)),
             field + "." + std::string(key));
      return;
    }
    out += text->as_string();
  }

  // --- assistant -------------------------------------------------------------------------------

  Json assistant(const Json& message) {
    Content content = read_content(message.find("content"), true);
    Json out = Json::object();
    out.set("role", Json::string("assistant"));
    out.set("content", Json::string(std::move(content.text)));
    std::string reasoning = history_reasoning(message);
    if (reasoning.empty()) reasoning = std::move(content.reasoning);
    if (reasoning.empty()) reasoning = reasoning_details(message);
    // An empty `reasoning_content` still says that think tags in the content are text.
    if (!reasoning.empty() || string_member(message, "reasoning_content") != nullptr)
      out.set("reasoning_content", Json::string(std::move(reasoning)));
    Json calls = tool_calls(message);
    if (!calls.items().empty()) out.set("tool_calls", std::move(calls));
    return out;
  }

  /// The first of the known fields that holds text.
  static std::string history_reasoning(const Json& message) {
    for (const std::string_view key :
         {"reasoning_content", "reasoning", "reasoning_text", "cot_summary"}) {
      const Json* value = message.find(key);
      if (value == nullptr) continue;
      std::string text = loose_text(*value);
      if (!text.empty()) return text;
    }
    return {};
  }

  static std::string reasoning_details(const Json& message) {
    const Json* details = message.find("reasoning_details");
    return details != nullptr && details->is_array() ? loose_text(*details) : std::string();
  }

  Json tool_calls(const Json& message) {
    Json out = Json::array();
    if (const Json* calls = message.find("tool_calls"); calls != nullptr && !calls->is_null()) {
      if (!calls->is_array()) {
        report(ApiCode::invalid_type, "must be an array, found " + std::string(kind_name(*calls)),
               "tool_calls");
        return out;
      }
      for (size_t i = 0; i < calls->items().size() && !problem_.found(); ++i)
        tool_call(calls->items()[i], index_path("tool_calls", i), out);
    }
    const Json* legacy = message.find("function_call");
    if (legacy != nullptr && !legacy->is_null() && !problem_.found())
      add_call(*legacy, "function_call", Json::string("function_call_" + std::to_string(next_id_)),
               out);
    return out;
  }

  void tool_call(const Json& call, const std::string& field, Json& out) {
    if (!call.is_object()) {
      report(ApiCode::invalid_type, "must be an object, found " + std::string(kind_name(call)),
             field);
      return;
    }
    const Json* function = call.find("function");
    const Json* id = call.find("id");
    add_call(function != nullptr ? *function : call, field + ".function",
             id != nullptr ? *id : Json(), out);
  }

  void add_call(const Json& function, const std::string& field, Json id, Json& out) {
    const std::string* name = string_member(function, "name");
    if (name == nullptr || name->empty()) {
      report(ApiCode::missing_required_parameter, "must name the function that was called",
             field + ".name");
      return;
    }
    ++next_id_;
    last_call_[*name] = id;
    Json called = Json::object();
    called.set("name", Json::string(*name));
    called.set("arguments", call_arguments(function.find("arguments")));
    Json out_call = Json::object();
    out_call.set("id", std::move(id));
    out_call.set("type", Json::string("function"));
    out_call.set("function", std::move(called));
    out.items().push_back(std::move(out_call));
  }

  // --- results ---------------------------------------------------------------------------------

  Json tool_result(const Json& message) {
    const std::string* id = string_member(message, "tool_call_id");
    if (id == nullptr) {
      report(ApiCode::missing_required_parameter, "must be the id of the call, a string",
             "tool_call_id");
      return {};
    }
    return result(message, Json::string(*id));
  }

  /// Role `function` of the first API: the result of the last call of that name.
  Json function_result(const Json& message) {
    const std::string* name = string_member(message, "name");
    if (name == nullptr || name->empty()) {
      report(ApiCode::missing_required_parameter, "must be the name of the function", "name");
      return {};
    }
    const auto call = last_call_.find(*name);
    return result(message, call == last_call_.end() ? Json::string("") : call->second);
  }

  Json result(const Json& message, Json id) {
    Json out = Json::object();
    out.set("role", Json::string("tool"));
    out.set("tool_call_id", std::move(id));
    const Json* content = message.find("content");
    if (content != nullptr && is_template_form(*content)) {
      out.set("content", *content);
    } else {
      out.set("content", Json::string(read_content(content, false).text));
    }
    return out;
  }

  /// Lists that the template itself knows: tool references and lists of outputs
  /// (spec/tokenizer_chat.md 2.6).
  static bool is_template_form(const Json& content) {
    if (!content.is_array() || content.items().empty()) return false;
    const Json& first = content.items().front();
    const std::string* type = string_member(first, "type");
    return (type != nullptr && *type == "tool_reference") || first.find("output") != nullptr;
  }

  const Json& messages_;
  Problem& problem_;
  std::string path_;
  std::unordered_map<std::string, Json> last_call_;  // name → id
  size_t next_id_ = 0;
};

}  // namespace

Json call_arguments(const Json* arguments) {
  if (arguments == nullptr || arguments->is_null()) return Json::object();
  if (arguments->is_object()) return *arguments;
  std::string raw;
  if (arguments->is_string()) {
    const std::string& text = arguments->as_string();
    if (text.empty()) return Json::object();
    config::Result<Json> parsed = engine::parse_json(text, "arguments");
    if (parsed.ok() && parsed->is_object()) return *std::move(parsed);
    raw = text;
  } else {
    raw = engine::to_json(*arguments);
  }
  Json out = Json::object();
  out.set("_raw", Json::string(std::move(raw)));
  return out;
}

Json normalised_messages(const Json& messages, Problem& problem) {
  if (!messages.is_array()) {
    problem.report(ApiCode::invalid_type,
                   "'messages' must be an array, found " + std::string(kind_name(messages)),
                   "messages");
    return Json::array();
  }
  if (messages.items().empty()) {
    problem.report(ApiCode::invalid_value, "'messages' must hold at least one message", "messages");
    return Json::array();
  }
  return MessageReader(messages, problem).read();
}

}  // namespace yoke::server
