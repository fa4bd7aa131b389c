#include "engine/chat/tool_schema.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace yoke::engine {
namespace {

/// JSON kinds that a schema allows.
class KindSet {
 public:
  enum Kind : uint8_t {
    null = 1,
    integer = 2,
    number = 4,
    boolean = 8,
    object = 16,
    array = 32,
    string = 64
  };
  void add(Kind kind) noexcept { bits_ |= kind; }
  bool has(Kind kind) const noexcept { return (bits_ & kind) != 0; }
  bool is(unsigned kinds) const noexcept { return bits_ == kinds; }
  bool empty() const noexcept { return bits_ == 0; }

 private:
  unsigned bits_ = 0;
};

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

/// The type names of JSON Schema and those of languages that people write instead.
void add_type_name(KindSet& kinds, const std::string& name) {
  static const std::unordered_map<std::string_view, KindSet::Kind> kNames = {
      {"null", KindSet::null},     {"none", KindSet::null},       {"nil", KindSet::null},
      {"nonetype", KindSet::null}, {"integer", KindSet::integer}, {"int", KindSet::integer},
      {"int32", KindSet::integer}, {"int64", KindSet::integer},   {"uint", KindSet::integer},
      {"long", KindSet::integer},  {"short", KindSet::integer},   {"number", KindSet::number},
      {"float", KindSet::number},  {"float32", KindSet::number},  {"float64", KindSet::number},
      {"double", KindSet::number}, {"decimal", KindSet::number},  {"boolean", KindSet::boolean},
      {"bool", KindSet::boolean},  {"object", KindSet::object},   {"dict", KindSet::object},
      {"map", KindSet::object},    {"array", KindSet::array},     {"list", KindSet::array},
      {"tuple", KindSet::array},   {"set", KindSet::array},       {"string", KindSet::string},
      {"str", KindSet::string},    {"text", KindSet::string},     {"char", KindSet::string},
  };
  const std::string key = lowered(name);
  if (const auto found = kNames.find(key); found != kNames.end()) kinds.add(found->second);
}

void add_kind_of(KindSet& kinds, const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      return kinds.add(KindSet::null);
    case Json::Kind::boolean:
      return kinds.add(KindSet::boolean);
    case Json::Kind::number:
      return kinds.add(value.is_integer_text() ? KindSet::integer : KindSet::number);
    case Json::Kind::string:
      return kinds.add(KindSet::string);
    case Json::Kind::array:
      return kinds.add(KindSet::array);
    case Json::Kind::object:
      return kinds.add(KindSet::object);
  }
}

/// The value that a local reference (`#/$defs/x`) points at, or null.
const Json* resolve(const Json& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  reference.remove_prefix(1);
  const Json* at = &root;
  while (!reference.empty() && at != nullptr) {
    if (reference.front() != '/') return nullptr;
    const size_t end = std::min(reference.find('/', 1), reference.size());
    std::string key;
    for (size_t i = 1; i < end; ++i) {
      const bool escaped = reference[i] == '~' && i + 1 < end;
      if (escaped) ++i;
      key += !escaped ? reference[i] : reference[i] == '1' ? '/' : '~';
    }
    at = at->find(key);
    reference.remove_prefix(end);
  }
  return at;
}

/// A schema with the branches that may apply as well: anyOf, oneOf, allOf and references,
/// flattened. Cycles and absurd fan-outs end at a fixed number of schemas.
std::vector<const Json*> branches(const Json& root, const Json* schema) {
  constexpr size_t kMaxBranches = 64;
  std::vector<const Json*> all;
  const auto add = [&](const Json* branch) {
    if (branch == nullptr || !branch->is_object() || all.size() >= kMaxBranches) return;
    if (std::find(all.begin(), all.end(), branch) == all.end()) all.push_back(branch);
  };
  add(schema);
  for (size_t i = 0; i < all.size(); ++i) {
    for (const std::string_view word : {"anyOf", "oneOf", "allOf"}) {
      const Json* list = all[i]->find(word);
      if (list == nullptr || !list->is_array()) continue;
      const size_t count = std::min(list->items().size(), kMaxBranches);
      for (size_t branch = 0; branch < count; ++branch) add(&list->items()[branch]);
    }
    const Json* reference = all[i]->find("$ref");
    if (reference != nullptr && reference->is_string()) {
      add(resolve(root, reference->as_string()));
    }
  }
  return all;
}

KindSet allowed_kinds(const std::vector<const Json*>& schemas) {
  constexpr size_t kMaxEnumMembers = 1024;  // the kinds of a longer list are known by then
  KindSet kinds;
  for (const Json* schema : schemas) {
    const Json* type = schema->find("type");
    if (type != nullptr && type->is_string()) add_type_name(kinds, type->as_string());
    if (type != nullptr && type->is_array()) {
      for (const Json& name : type->items()) {
        if (name.is_string()) add_type_name(kinds, name.as_string());
      }
    }
    const Json* members = schema->find("enum");
    if (members != nullptr && members->is_array()) {
      const size_t count = std::min(members->items().size(), kMaxEnumMembers);
      for (size_t i = 0; i < count; ++i) add_kind_of(kinds, members->items()[i]);
    }
    if (const Json* constant = schema->find("const")) add_kind_of(kinds, *constant);
    const Json* nullable = schema->find("nullable");
    if (nullable != nullptr && nullable->truthy()) kinds.add(KindSet::null);
  }
  return kinds;
}

/// Text of a decimal number as people and Python write it (`+5`, `.5`, `007`, `1.`), spelled as
/// JSON; empty if it is none.
std::string json_number_of(std::string_view text) {
  std::string out;
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) {
    if (text.front() == '-') out += '-';
    text.remove_prefix(1);
  }
  const auto take_digits = [&] {
    const size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view digits = text.substr(0, n);
    text.remove_prefix(n);
    return digits;
  };
  const std::string_view whole = take_digits();
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits();
  }
  if (whole.empty() && fraction.empty()) return {};
  const size_t zeros = std::min(whole.find_first_not_of('0'), whole.size());
  out += zeros == whole.size() ? std::string_view("0") : whole.substr(zeros);
  if (!fraction.empty()) out.append(".").append(fraction);
  out += text;  // an exponent, or what makes this no number
  return Json::is_number_text(out) ? out : std::string();
}

bool is_integer_text(std::string_view text) {
  if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// A number that has an integral value becomes an integer; beyond int64 it stays as spelled.
std::string integral_spelling(const Json& number) {
  if (number.is_integer_text()) return to_python_json(number);  // `-0` is 0
  const auto value = number.to_int64();
  return value ? std::to_string(*value) : number.number_text();
}

Json coerce_text(const Json& root, const std::vector<const Json*>& schemas, std::string_view text,
                 int depth);

/// Coerces what lies inside parsed objects and arrays: strings whose schema does not allow strings,
/// and integral numbers where only integers are allowed. `depth` is that of `value` in its tree.
void coerce_parsed(const Json& root, const std::vector<const Json*>& schemas, Json& value,
                   int depth) {
  const auto inside = [&](Json& child, std::string_view word, const std::string* key) {
    for (const Json* schema : schemas) {
      const Json* found = schema->find(word);
      if (found != nullptr && key != nullptr) found = found->find(*key);
      if (found == nullptr || !found->is_object()) continue;
      coerce_parsed(root, branches(root, found), child, depth + 1);
      return;
    }
  };
  if (value.is_object()) {
    for (auto& [key, child] : value.members()) inside(child, "properties", &key);
  } else if (value.is_array()) {
    for (Json& child : value.items()) inside(child, "items", nullptr);
  } else if (value.is_string()) {
    const KindSet kinds = allowed_kinds(schemas);
    if (kinds.empty() || kinds.has(KindSet::string)) return;
    value = coerce_text(root, schemas, value.as_string(), depth);
  } else if (value.is_number()) {
    const KindSet kinds = allowed_kinds(schemas);
    if (kinds.has(KindSet::integer) && !kinds.has(KindSet::number) && value.to_int64()) {
      value = Json::integer(*value.to_int64());
    }
  }
}

/// Rules 2 and 3 of spec/tokenizer_chat.md 5.3, in their order.
Json coerce_text(const Json& root, const std::vector<const Json*>& schemas, std::string_view text,
                 int depth) {
  const KindSet kinds = allowed_kinds(schemas);
  const std::string word = text.size() <= 5 ? lowered(text) : std::string();
  if (kinds.has(KindSet::null) && word == "null") return {};
  if (kinds.has(KindSet::integer) || kinds.has(KindSet::number)) {
    const std::string spelled = json_number_of(text);
    if (!spelled.empty()) {
      const Json number = Json::number(spelled);
      const bool integral = is_integer_text(text) || number.to_int64().has_value();
      if (integral || (kinds.has(KindSet::number) && std::isfinite(*number.to_double()))) {
        return Json::number(integral_spelling(number));
      }
    }
  }
  if (kinds.has(KindSet::boolean)) {
    if (word == "true" || word == "1") return Json::boolean(true);
    if (word == "false" || word == "0") return Json::boolean(false);
  }
  const bool wants_container = kinds.has(KindSet::object) || kinds.has(KindSet::array);
  if (!wants_container && kinds.has(KindSet::string)) return Json::string(std::string(text));
  // Text inside text must not grow a tree deeper than any parsed one.
  auto parsed = parse_json(text, "argument", {.max_depth = JsonLimits().max_depth - depth});
  const bool infinite = parsed.ok() && parsed->is_number() && !std::isfinite(*parsed->to_double());
  if (parsed.ok() && !infinite) {
    const bool fits = (parsed->is_object() && kinds.has(KindSet::object)) ||
                      (parsed->is_array() && kinds.has(KindSet::array));
    if (fits || !kinds.has(KindSet::string)) {
      if (!parsed->is_string()) coerce_parsed(root, schemas, *parsed, depth);
      return *std::move(parsed);
    }
  }
  return Json::string(std::string(text));
}

}  // namespace

const Json& tool_body(const Json& tool) noexcept {
  const Json* function = tool.find("function");
  return function != nullptr ? *function : tool;
}

ToolSchema::ToolSchema(const Json* parameters) {
  if (parameters != nullptr) root_ = *parameters;
  const Json* properties = root_.find("properties");
  if (properties == nullptr || !properties->is_object()) return;
  for (const auto& [key, schema] : properties->members()) parameters_.emplace(key, &schema);
}

const Json* ToolSchema::find(std::string_view key) const {
  const auto found = parameters_.find(key);
  return found == parameters_.end() ? nullptr : found->second;
}

ToolSchema::Form ToolSchema::form(std::string_view key) const {
  const Json* schema = find(key);
  if (schema == nullptr) return Form::string;
  const KindSet kinds = allowed_kinds(branches(root_, schema));
  if (kinds.is(KindSet::string)) return Form::string;
  return kinds.is(KindSet::string | KindSet::null) ? Form::string_or_null : Form::when_complete;
}

std::string ToolSchema::coerce(std::string_view key, std::string_view text) const {
  const Json* schema = find(key);
  if (schema == nullptr) return to_json(Json::string(std::string(text)));
  return to_json(coerce_text(root_, branches(root_, schema), text, 0));
}

ToolSet::ToolSet(const Json* tools) {
  if (tools == nullptr || !tools->is_array()) return;
  for (const Json& tool : tools->items()) {
    const Json& body = tool_body(tool);
    const Json* name = body.find("name");
    if (name == nullptr || !name->is_string() || name->as_string().empty()) continue;
    if (by_name_.contains(name->as_string())) continue;
    by_name_.emplace(name->as_string(), std::make_unique<ToolSchema>(body.find("parameters")));
  }
}

const ToolSchema* ToolSet::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second.get();
}

bool ToolSet::has_prefix(std::string_view text) const {
  const auto next = by_name_.lower_bound(text);
  return next != by_name_.end() && next->first.starts_with(text);
}

}  // namespace yoke::engine
