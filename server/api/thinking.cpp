#include "server/api/thinking.h"

#include <limits>
#include <optional>

#include "engine/json/utf8.h"

namespace yoke::server {

namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();

void refuse_budget(Problem& problem, std::string param) {
  problem.report(ApiCode::unsupported_value,
                 "'" + param + "' is not supported yet: thinking cannot be given a budget", param);
}

/// One effort word of the request, checked.
std::optional<std::string> effort_word(Fields& fields, std::string_view key) {
  const std::string* word = fields.text(key);
  if (word == nullptr) return std::nullopt;
  if (template_effort(*word) == nullptr) {
    fields.problem().report(ApiCode::invalid_value,
                            "'" + fields.path_of(key) +
                                "' must be one of none, minimal, low, medium, high, xhigh, max; "
                                "found '" +
                                std::string(engine::utf8_prefix(*word, 40)) + "'",
                            fields.path_of(key));
    return std::nullopt;
  }
  return *word;
}

/// What the aliases outside chat_template_kwargs say.
struct Aliases {
  std::optional<std::string> effort;
  std::optional<bool> enabled;
};

/// `reasoning`: {effort, enabled, max_tokens, exclude}
void read_reasoning(Fields& fields, Aliases& out, Thinking& thinking) {
  const Json* object = fields.object("reasoning");
  if (object == nullptr) return;
  Fields reasoning(*object, "reasoning.", fields.problem());
  const auto effort = effort_word(reasoning, "effort");
  if (!out.effort) out.effort = effort;
  out.enabled = reasoning.boolean("enabled");
  if (reasoning.integer("max_tokens", 0, kMaxInt))
    refuse_budget(fields.problem(), "reasoning.max_tokens");
  if (reasoning.boolean("exclude").value_or(false)) thinking.include_reasoning = false;
}

/// `thinking`: a boolean, or {type: enabled | disabled | adaptive, budget_tokens}
void read_thinking_object(Fields& fields, Aliases& out) {
  const Json* value = fields.find("thinking");
  if (value == nullptr) return;
  if (value->is_boolean()) {
    out.enabled = value->as_boolean();
    return;
  }
  const Json* object = fields.object("thinking");
  if (object == nullptr) return;
  Fields thinking(*object, "thinking.", fields.problem());
  if (thinking.find("budget_tokens") != nullptr)
    refuse_budget(fields.problem(), "thinking.budget_tokens");
  const std::string* type = thinking.text("type");
  if (type == nullptr) return;
  if (*type == "enabled" || *type == "adaptive")
    out.enabled = true;
  else if (*type == "disabled")
    out.enabled = false;
  else
    fields.problem().report(ApiCode::invalid_value,
                            "'thinking.type' must be enabled, disabled or adaptive",
                            "thinking.type");
}

Aliases read_aliases(Fields& fields, Thinking& thinking) {
  Aliases out;
  out.effort = effort_word(fields, "reasoning_effort");
  read_reasoning(fields, out, thinking);
  read_thinking_object(fields, out);
  if (const auto enabled = fields.boolean("enable_thinking")) out.enabled = enabled;
  if (!fields.boolean("include_reasoning").value_or(true)) thinking.include_reasoning = false;
  return out;
}

}  // namespace

const char* template_effort(std::string_view effort) noexcept {
  if (effort == "none") return "";
  if (effort == "minimal" || effort == "low") return "low";
  if (effort == "medium" || effort == "high") return "high";
  if (effort == "xhigh" || effort == "max") return "max";
  return nullptr;
}

Thinking thinking_switches(Fields& fields, std::string_view default_effort) {
  Thinking out;
  const Aliases aliases = read_aliases(fields, out);
  std::string effort = aliases.effort.value_or(std::string(default_effort));
  const Json* kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) kwargs = fields.object("template_vars");
  if (kwargs != nullptr) {
    Fields variables(*kwargs, "chat_template_kwargs.", fields.problem());
    if (const auto word = effort_word(variables, "reasoning_effort")) effort = *word;
    const auto copy = [&](std::string_view key) {
      const Json* value = variables.find(key);
      return value != nullptr ? *value : Json();
    };
    out.thinking = copy("thinking");
    out.enable_thinking = copy("enable_thinking");
    out.clear_thinking = copy("clear_thinking");
  }
  const bool explicit_switch = !out.thinking.is_null() || !out.enable_thinking.is_null();
  if (!explicit_switch) {
    if (aliases.enabled)
      out.enable_thinking = Json::boolean(*aliases.enabled);
    else if (effort == "none")
      out.enable_thinking = Json::boolean(false);
  }
  // "none" beside a switch that says on: the least that the template knows.
  const char* word = template_effort(effort);
  out.effort = Json::string(word == nullptr || *word == '\0' ? "low" : word);
  return out;
}

}  // namespace yoke::server
