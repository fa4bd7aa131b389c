#include "server/api/tools.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "engine/json/utf8.h"

namespace yoke::server {

namespace {

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxName = 128;

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '.' || c == ':' || c == '-';
         });
}

const std::string* name_of(const Json& function) {
  const Json* name = function.find("name");
  return name != nullptr && name->is_string() ? &name->as_string() : nullptr;
}

const std::string& tool_name(const Json& tool) {
  return *name_of(*tool.find("function"));
}

class ToolReader {
 public:
  explicit ToolReader(Problem& problem) : problem_(problem) {}

  /// Entries of the array that are functions; others are dropped.
  Json read(const Json& entries, std::string_view key, bool bare_functions) {
    Json out = Json::array();
    const Json::Array& items = entries.items();
    for (size_t i = 0; i < items.size() && !problem_.found(); ++i) {
      path_ = std::string(key) + "[" + std::to_string(i) + "]";
      entry(items[i], bare_functions, out);
      if (out.items().size() > kMaxTools)
        report(ApiCode::invalid_tool,
               "is one tool too many: at most " + std::to_string(kMaxTools) + " are allowed", "");
    }
    return out;
  }

 private:
  void report(ApiCode code, std::string message, std::string_view field) {
    std::string param = path_;
    if (!field.empty()) param += "." + std::string(field);
    problem_.report(code, "'" + param + "' " + std::move(message), param);
  }

  void entry(const Json& entry, bool bare_function, Json& out) {
    if (!entry.is_object()) {
      report(ApiCode::invalid_type, "must be an object, found " + std::string(kind_name(entry)),
             "");
      return;
    }
    const Json* function = entry.find("function");
    if (!bare_function) {
      const Json* type = entry.find("type");
      if (type != nullptr && type->is_string() && type->as_string() != "function") return;
      if (function == nullptr && type == nullptr && name_of(entry) == nullptr) {
        report(ApiCode::missing_required_parameter, "is missing", "type");
        return;
      }
    }
    // The flat form of the Responses API carries the function's keys beside the type.
    const bool flat = !bare_function && function == nullptr;
    const std::string prefix = bare_function || flat ? "" : "function.";
    const Json& body = bare_function || flat ? entry : *function;
    if (!body.is_object()) {
      report(ApiCode::invalid_type, "must be an object", "function");
      return;
    }
    Json checked = body;
    if (!check(checked, prefix)) return;
    if (flat) remove_type(checked);
    Json tool = Json::object();
    tool.set("type", Json::string("function"));
    tool.set("function", std::move(checked));
    out.items().push_back(std::move(tool));
  }

  bool check(Json& function, const std::string& prefix) {
    const std::string* name = name_of(function);
    if (name == nullptr) {
      report(ApiCode::invalid_tool, "must be a string", prefix + "name");
      return false;
    }
    if (!is_tool_name(*name)) {
      report(ApiCode::invalid_tool,
             "must be 1 to 128 of A-Z a-z 0-9 _ . : -, found '" +
                 std::string(engine::utf8_prefix(*name, 140)) + "'",
             prefix + "name");
      return false;
    }
    if (!names_.insert(*name).second) {
      report(ApiCode::invalid_tool, "names '" + *name + "' a second time", prefix + "name");
      return false;
    }
    const Json* strict = function.find("strict");
    if (strict != nullptr && strict->is_boolean() && strict->as_boolean()) {
      report(ApiCode::unsupported_value,
             "must be false: arguments are not yet constrained by the schema", prefix + "strict");
      return false;
    }
    Json* parameters = function.find("parameters");
    if (parameters == nullptr || parameters->is_null()) {
      Json schema = Json::object();
      schema.set("type", Json::string("object"));
      schema.set("properties", Json::object());
      function.set("parameters", std::move(schema));
    } else if (!parameters->is_object()) {
      report(ApiCode::invalid_tool,
             "must be a JSON schema, an object; found " + std::string(kind_name(*parameters)),
             prefix + "parameters");
      return false;
    }
    return true;
  }

  static void remove_type(Json& function) {
    Json::Object& members = function.members();
    std::erase_if(members, [](const Json::Member& member) { return member.first == "type"; });
  }

  Problem& problem_;
  std::string path_;
  std::unordered_set<std::string> names_;
};

/// The name in `{"type":"function","function":{"name":N}}`, `{"type":"function","name":N}` or
/// `{"name":N}`.
const std::string* chosen_name(const Json& choice) {
  const Json* function = choice.find("function");
  return name_of(function != nullptr ? *function : choice);
}

void not_yet(Problem& problem, std::string_view what) {
  problem.report(
      ApiCode::unsupported_value,
      "'tool_choice' " + std::string(what) + " is not supported yet: use \"auto\" or \"none\"",
      "tool_choice");
}

bool has_tool(const Json& tools, std::string_view name) {
  return std::any_of(tools.items().begin(), tools.items().end(),
                     [&](const Json& tool) { return tool_name(tool) == name; });
}

void demand(Problem& problem, const Json& tools, const std::string* name) {
  const auto wrong = [&](std::string message) {
    problem.report(ApiCode::invalid_value, std::move(message), "tool_choice");
  };
  if (tools.is_null()) return wrong("'tool_choice' demands a call, but 'tools' holds none");
  if (name == nullptr) return not_yet(problem, "\"required\"");
  if (!has_tool(tools, *name))
    return wrong("'tool_choice' names '" + std::string(engine::utf8_prefix(*name, 140)) +
                 "', which is not in 'tools'");
  not_yet(problem, "naming a function");
}

/// `{"type":"allowed_tools","allowed_tools":{"mode":…,"tools":[…]}}`
Json allowed_tools(Problem& problem, const Json& tools, const Json& choice) {
  const Json* allowed = choice.find("allowed_tools");
  const Json* mode = allowed == nullptr ? nullptr : allowed->find("mode");
  const Json* list = allowed == nullptr ? nullptr : allowed->find("tools");
  if (list == nullptr || !list->is_array()) {
    problem.report(ApiCode::invalid_type, "'tool_choice.allowed_tools.tools' must be an array",
                   "tool_choice.allowed_tools.tools");
    return {};
  }
  if (mode != nullptr && mode->is_string() && mode->as_string() == "required") {
    not_yet(problem, "with mode \"required\"");
    return {};
  }
  std::unordered_set<std::string> names;
  for (const Json& item : list->items())
    if (const std::string* name = chosen_name(item)) names.insert(*name);
  Json out = Json::array();
  if (!tools.is_null())
    for (const Json& tool : tools.items())
      if (names.contains(tool_name(tool))) out.items().push_back(tool);
  return out.items().empty() ? Json() : out;
}

/// The tools that the answer may call.
Json callable_tools(Fields& fields, const Json& tools) {
  Problem& problem = fields.problem();
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) choice = fields.find("function_call");
  if (choice == nullptr) return tools;
  if (choice->is_string()) {
    const std::string& word = choice->as_string();
    if (word == "auto") return tools;
    if (word == "none") return {};
    if (word == "required" || word == "any") {
      demand(problem, tools, nullptr);
      return {};
    }
    problem.report(ApiCode::invalid_value,
                   "'tool_choice' must be \"none\", \"auto\", \"required\" or a function, found '" +
                       std::string(engine::utf8_prefix(word, 40)) + "'",
                   "tool_choice");
    return {};
  }
  if (!choice->is_object()) {
    problem.report(
        ApiCode::invalid_type,
        "'tool_choice' must be a string or an object, found " + std::string(kind_name(*choice)),
        "tool_choice");
    return {};
  }
  const Json* type = choice->find("type");
  if (type != nullptr && type->is_string() && type->as_string() == "allowed_tools")
    return allowed_tools(problem, tools, *choice);
  const std::string* name = chosen_name(*choice);
  if (name == nullptr) {
    problem.report(ApiCode::invalid_value, "'tool_choice' must name a function", "tool_choice");
    return {};
  }
  demand(problem, tools, name);
  return {};
}

}  // namespace

Tools read_tools(Fields& fields) {
  Tools out;
  const Json* entries = fields.array("tools");
  const bool legacy = entries == nullptr;
  if (legacy) entries = fields.array("functions");
  if (fields.problem().found()) return out;
  if (entries != nullptr) {
    Json tools =
        ToolReader(fields.problem()).read(*entries, legacy ? "functions" : "tools", legacy);
    if (!tools.items().empty()) out.prompt = std::move(tools);
  }
  if (fields.problem().found()) return out;
  out.callable = callable_tools(fields, out.prompt);
  return out;
}

}  // namespace yoke::server
