// The grammar of spec/tokenizer_chat.md 2.2–2.6 and 3, in the order of the text it makes.
#include "engine/chat/render.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/chat/prompt_text.h"
#include "engine/chat/tool_schema.h"

namespace yoke::engine {
namespace {

using config::Error;
using config::ErrorKind;

constexpr std::string_view kToolsHead =
    "<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n";
constexpr std::string_view kToolsTail =
    "</tools>\n\nFor each function call, output the function name and arguments within the "
    "following XML format:\n<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>"
    "{arg-value-1}</arg_value><arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>"
    "...</tool_call>";

bool truthy(const Json* value) noexcept {
  return value != nullptr && value->truthy();
}

bool is_string(const Json* value, std::string_view text) noexcept {
  return value != nullptr && value->is_string() && value->as_string() == text;
}

bool has_role(const Json& message, std::string_view role) noexcept {
  return is_string(message.find("role"), role);
}

std::string at_index(std::string_view path, size_t i) {
  return std::string(path) + "[" + std::to_string(i) + "]";
}

/// What the template writes for a content part that is no text; empty for unknown parts.
std::string_view media_placeholder(std::string_view type) noexcept {
  if (type == "image" || type == "image_url") {
    return "<|begin_of_image|><|image|><|end_of_image|>";
  }
  if (type == "video" || type == "video_url") {
    return "<|begin_of_video|><|video|><|end_of_video|>";
  }
  if (type == "audio" || type == "audio_url" || type == "input_audio") {
    return "<|begin_of_audio|><|end_of_audio|>";
  }
  return {};
}

/// The mapping that describes a call: the member `function` if it holds anything.
const Json& call_body(const Json& call) noexcept {
  const Json* function = call.find("function");
  return truthy(function) ? *function : call;
}

/// `tool_call_id`, else `id`; falsy ones count as missing.
const Json* result_id(const Json& value) noexcept {
  const Json* id = value.find("tool_call_id");
  if (!truthy(id)) id = value.find("id");
  return truthy(id) ? id : nullptr;
}

/// A list whose first element is a tool reference.
bool starts_with_reference(const Json* content) noexcept {
  return content != nullptr && content->is_array() && !content->items().empty() &&
         is_string(content->items().front().find("type"), "tool_reference");
}

/// A list whose first element has the key `output`.
bool is_output_list(const Json* content) noexcept {
  return content != nullptr && content->is_array() && !content->items().empty() &&
         content->items().front().find("output") != nullptr;
}

/// One line of the tools block. Keys of the top level are not escaped, as in the template.
std::string tool_line(const Json& body) {
  std::string line = "{";
  bool first = true;
  for (const auto& [key, value] : body.members()) {
    if (key == "defer_loading" || key == "strict") continue;
    if (!first) line += ", ";
    first = false;
    line += '"';
    line += key;
    line += "\": ";
    append_python_json(line, value);
  }
  return line + "}";
}

/// One tool result of a run: a message or an element of a list of outputs.
struct ToolResult {
  const Json* id = nullptr;       // null: none
  const Json* content = nullptr;  // null: empty response
  std::string path;
};

class Renderer {
 public:
  explicit Renderer(const ChatInput& input) : input_(input) {}

  config::Result<RenderedChat> run() {
    if (!render()) return *std::move(error_);
    RenderedChat chat;
    chat.starts_in_reasoning = truthy(input_.add_generation_prompt) && thinking_enabled();
    chat.boundaries = std::move(boundaries_);
    chat.literal = std::move(out_).take_literal();
    chat.text = std::move(out_).take_text();
    return chat;
  }

 private:
  bool fail(ErrorKind kind, std::string message) {
    error_ = Error{kind, std::move(message)};
    return false;
  }
  bool want(std::string_view path, std::string_view wanted, const Json* found) {
    return fail(ErrorKind::invalid_input,
                std::string(path) + ": want " + std::string(wanted) + ", found " +
                    std::string(found == nullptr ? "nothing" : kind_name(*found)));
  }
  bool fits() {
    if (out_.size() <= input_.max_text_bytes) return true;
    return fail(ErrorKind::exhausted, "the prompt is longer than " +
                                          std::to_string(input_.max_text_bytes) +
                                          " bytes; send fewer tool references");
  }

  bool thinking_enabled() const noexcept {
    if (input_.variant == ChatInput::Variant::official) return true;
    if (input_.thinking == nullptr && input_.enable_thinking == nullptr) return true;
    return truthy(input_.thinking) || truthy(input_.enable_thinking);
  }

  bool render() {
    out_.write("[gMASK]<sop>");
    if (thinking_enabled()) {
      out_.write("<|system|>Reasoning Effort: ");
      out_.write(is_string(input_.reasoning_effort, "low")    ? "Low"
                 : is_string(input_.reasoning_effort, "high") ? "High"
                                                              : "Max");
    }
    if (!tools_block() || !messages()) return false;
    if (truthy(input_.add_generation_prompt)) {
      out_.write(thinking_enabled() ? "<|assistant|><think>" : "<|assistant|><think></think>");
    }
    return fits();
  }

  bool tools_block() {
    if (!truthy(input_.tools)) return true;
    if (!input_.tools->is_array()) return want("tools", "an array of objects", input_.tools);
    out_.write(kToolsHead);
    const Json::Array& tools = input_.tools->items();
    for (size_t i = 0; i < tools.size(); ++i) {
      if (!tools[i].is_object()) return want(at_index("tools", i), "an object", &tools[i]);
      const Json& body = tool_body(tools[i]);
      if (!body.is_object()) return want(at_index("tools", i) + ".function", "an object", &body);
      if (truthy(body.find("defer_loading"))) continue;
      out_.quote(tool_line(body));
      out_.write("\n");
    }
    out_.write(kToolsTail);
    return true;
  }

  bool messages() {
    if (input_.messages == nullptr) return true;
    if (!input_.messages->is_array()) return want("messages", "an array", input_.messages);
    const Json::Array& all = input_.messages->items();
    for (size_t i = 0; i < all.size(); ++i) {
      if (has_role(all[i], "user")) last_user_ = i;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t before = out_.size();
      if (has_role(all[i], "tool")) {
        const size_t begin = i;
        while (i + 1 < all.size() && has_role(all[i + 1], "tool")) ++i;
        if (!tool_run(all, begin, i + 1)) return false;
      } else if (!message(all[i], i)) {
        return false;
      }
      if (out_.size() > before) boundaries_.push_back(out_.size());
      if (!fits()) return false;
    }
    return true;
  }

  bool message(const Json& message, size_t i) {
    const std::string path = at_index("messages", i);
    if (has_role(message, "assistant")) return assistant(message, i, path);
    if (has_role(message, "user")) {
      out_.write("<|user|>");
    } else if (has_role(message, "system")) {
      out_.write("<|system|>");
    } else {
      return true;
    }
    return append_text(out_, message.find("content"), path + ".content");
  }

  // --- text(content), 2.4 ---

  bool append_printed(PromptText& out, const Json& value, const std::string& path) {
    auto printed = to_python_str(value);
    if (!printed.ok()) return fail(printed.error().kind, path + ": " + printed.error().message);
    out.quote(*printed);
    return true;
  }

  bool append_text(PromptText& out, const Json* content, const std::string& path) {
    if (content == nullptr || content->is_null()) return true;
    if (!content->is_array()) return append_printed(out, *content, path);
    const Json::Array& parts = content->items();
    for (size_t i = 0; i < parts.size(); ++i) {
      const Json* type = parts[i].find("type");
      if (parts[i].is_string()) {
        out.quote(parts[i].as_string());
      } else if (is_string(type, "text")) {
        const Json* text = parts[i].find("text");
        if (text != nullptr && !append_printed(out, *text, at_index(path, i) + ".text")) {
          return false;
        }
      } else if (type != nullptr && type->is_string()) {
        out.write(media_placeholder(type->as_string()));
      }
    }
    return true;
  }

  // --- assistant turns, 2.5 ---

  bool assistant(const Json& message, size_t i, const std::string& path) {
    PromptText content;
    if (!append_text(content, message.find("content"), path + ".content")) return false;
    std::optional<PromptText> reasoning;
    const Json* given = message.find("reasoning_content");
    if (given != nullptr && given->is_string()) {
      reasoning.emplace().quote(given->as_string());
    } else {
      reasoning = split_reasoning(content);
    }
    const bool keep = !truthy(input_.clear_thinking) || !last_user_ || i > *last_user_;
    out_.write("<|assistant|><think>");
    if (reasoning && keep) out_.append(*reasoning);
    out_.write("</think>");
    out_.append(content.stripped());
    return calls(message, path);
  }

  /// Content that holds `</think>` is cut: the reasoning lies between the last `<think>` before the
  /// first `</think>` and that; the content is what follows the last `</think>`.
  static std::optional<PromptText> split_reasoning(PromptText& content) {
    constexpr std::string_view kOpen = "<think>";
    constexpr std::string_view kClose = "</think>";
    const std::string_view text = content.text();
    const size_t first_close = text.find(kClose);
    if (first_close == text.npos) return std::nullopt;
    const size_t open = text.substr(0, first_close).rfind(kOpen);
    PromptText reasoning = content.slice(open == text.npos ? 0 : open + kOpen.size(), first_close);
    content = content.slice(text.rfind(kClose) + kClose.size(), text.size());
    return reasoning;
  }

  bool calls(const Json& message, const std::string& message_path) {
    const Json* calls = message.find("tool_calls");
    if (!truthy(calls)) return true;
    const std::string path = message_path + ".tool_calls";
    if (!calls->is_array()) return want(path, "an array of objects", calls);
    for (size_t i = 0; i < calls->items().size(); ++i) {
      if (!call(calls->items()[i], at_index(path, i))) return false;
    }
    return true;
  }

  bool call(const Json& call, const std::string& call_path) {
    if (!call.is_object()) return want(call_path, "an object", &call);
    const Json& body = call_body(call);
    const std::string path = &body == &call ? call_path : call_path + ".function";
    if (!body.is_object()) return want(path, "an object", &body);
    out_.write("<tool_call>");
    if (const Json* name = body.find("name")) {
      if (!append_printed(out_, *name, path + ".name")) return false;
    }
    const Json* arguments = body.find("arguments");
    const bool dropped =
        input_.variant == ChatInput::Variant::mia && arguments != nullptr && arguments->is_string();
    if (!dropped) {
      if (arguments == nullptr || !arguments->is_object()) {
        return want(path + ".arguments", "an object", arguments);
      }
      for (const auto& [key, value] : arguments->members()) {
        out_.write("<arg_key>");
        out_.quote(key);
        out_.write("</arg_key><arg_value>");
        out_.quote(value.is_string() ? value.as_string() : to_python_json(value));
        out_.write("</arg_value>");
      }
    }
    out_.write("</tool_call>");
    return true;
  }

  // --- tool results, 2.6 ---

  bool tool_run(const Json::Array& all, size_t begin, size_t end) {
    std::vector<ToolResult> results;
    for (size_t i = begin; i < end; ++i) {
      if (!collect_results(all[i], at_index("messages", i), results)) return false;
    }
    std::vector<size_t> order;
    if (!call_order(begin > 0 ? &all[begin - 1] : nullptr, results, order)) return false;
    out_.write("<|observation|>");
    for (const size_t i : order) {
      out_.write("<tool_response>");
      const bool ok = starts_with_reference(results[i].content)
                          ? references(results[i])
                          : append_text(out_, results[i].content, results[i].path);
      if (!ok) return false;
      out_.write("</tool_response>");
    }
    return true;
  }

  bool collect_results(const Json& message, const std::string& message_path,
                       std::vector<ToolResult>& results) {
    const Json* content = message.find("content");
    const std::string path = message_path + ".content";
    if (is_output_list(content) && !starts_with_reference(content)) {
      const Json::Array& outputs = content->items();
      for (size_t i = 0; i < outputs.size(); ++i) {
        results.push_back(
            {result_id(outputs[i]), outputs[i].find("output"), at_index(path, i) + ".output"});
      }
      return true;
    }
    if (truthy(content) && !content->is_string() && !content->is_array()) {
      return want(path, "a string or an array", content);
    }
    results.push_back({result_id(message), content, path});
    return true;
  }

  /// The calls' order if results and calls can be matched one by one (spec 2.6 lists the
  /// conditions), else the given order.
  bool call_order(const Json* before, const std::vector<ToolResult>& results,
                  std::vector<size_t>& order) {
    order.clear();
    for (size_t i = 0; i < results.size(); ++i) order.push_back(i);
    if (before == nullptr || !has_role(*before, "assistant")) return true;
    const Json* calls = before->find("tool_calls");
    if (!truthy(calls)) return true;

    std::unordered_map<std::string, size_t> result_of;
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].id == nullptr) return true;
      const auto id = to_python_str(*results[i].id);
      if (!id.ok()) return fail(id.error().kind, results[i].path + ": id: " + id.error().message);
      if (!result_of.emplace(*id, i).second) return true;
    }
    std::vector<size_t> sorted;
    std::unordered_map<std::string, bool> seen;
    for (const Json& call : calls->items()) {
      const Json* call_id = result_id(call);
      if (call_id == nullptr) return true;
      const auto id = to_python_str(*call_id);
      if (!id.ok()) return fail(id.error().kind, "tool_calls: id: " + id.error().message);
      if (!seen.emplace(*id, true).second) return true;
      if (const auto found = result_of.find(*id); found != result_of.end()) {
        sorted.push_back(found->second);
      }
    }
    if (sorted.size() == results.size()) order = std::move(sorted);
    return true;
  }

  /// The declared tools that a result reveals. References and tools without a name match each
  /// other, as undefined equals undefined in the template.
  bool references(const ToolResult& result) {
    if (!truthy(input_.tools)) {
      return fail(ErrorKind::invalid_input,
                  result.path + ": a tool reference needs tools in the request");
    }
    if (!tools_by_name_) index_tools();
    out_.write("<tools>\n");
    const Json::Array& references = result.content->items();
    for (size_t i = 0; i < references.size(); ++i) {
      const Json* name = references[i].find("name");
      const auto found = tools_by_name_->find(name_key(name));
      if (found == tools_by_name_->end()) continue;
      for (const std::string& line : found->second) {
        out_.quote(line);
        out_.write("\n");
      }
      if (!fits()) return false;
    }
    out_.write("</tools>");
    return true;
  }

  void index_tools() {
    tools_by_name_.emplace();
    for (const Json& tool : input_.tools->items()) {
      const Json& body = tool_body(tool);
      (*tools_by_name_)[name_key(body.find("name"))].push_back(tool_line(body));
    }
  }

  /// Equal iff Python's == says so for strings, null and missing names; names of other kinds are
  /// equal when they print alike.
  static std::string name_key(const Json* name) {
    if (name == nullptr) return "";
    return name->is_string() ? "\"" + name->as_string() : to_python_json(*name);
  }

  const ChatInput& input_;
  PromptText out_;
  std::vector<size_t> boundaries_;
  std::optional<size_t> last_user_;
  std::optional<std::unordered_map<std::string, std::vector<std::string>>> tools_by_name_;
  std::optional<Error> error_;
};

}  // namespace

config::Result<RenderedChat> render_chat(const ChatInput& input) {
  return Renderer(input).run();
}

}  // namespace yoke::engine
