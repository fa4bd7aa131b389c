#include "config/load.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "config/keys.h"

namespace yoke::config {

namespace {

constexpr std::string_view kPrefix = "YOKE_";
constexpr std::string_view kConfigVariable = "YOKE_CONFIG";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

Error at(const std::string& place, std::string_view message) {
  return invalid_input(place + ": " + std::string(message));
}

std::string suggestion(std::string_view near) {
  return near.empty() ? "" : "; did you mean \"" + std::string(near) + "\"?";
}

/// Collects settings in ascending order of precedence.
class Builder {
 public:
  Result<void> set(const Key& key, const Value& value, std::string place) {
    const Result<void> done = key.set(loaded_.config, value);
    if (!done) return at(place, std::string(key.name) + ": " + done.error().message);
    loaded_.origins.insert_or_assign(std::string(key.name), std::move(place));
    return {};
  }

  LoadedConfig& loaded() { return loaded_; }

 private:
  LoadedConfig loaded_;
};

Result<Value> from_toml(const toml::node& node) {
  if (const auto* b = node.as_boolean()) return Value(b->get());
  if (const auto* i = node.as_integer()) return Value(i->get());
  if (const auto* d = node.as_floating_point()) return Value(d->get());
  if (const auto* s = node.as_string()) return Value(s->get());
  if (const auto* array = node.as_array()) {
    std::vector<std::string> items;
    for (const toml::node& item : *array) {
      if (!item.is_string()) return invalid_input("want a list of texts, found another element");
      items.push_back(item.as_string()->get());
    }
    return Value(std::move(items));
  }
  return invalid_input("want a plain value or a list, found a table, date or time");
}

std::string place_of(const std::string& file, const toml::node& node) {
  return file + ":" + std::to_string(node.source().begin.line);
}

std::string place_of(const std::string& file, const toml::key& key) {
  return file + ":" + std::to_string(key.source().begin.line);
}

std::vector<std::string_view> section_names() {
  std::vector<std::string_view> names;
  for (const Key& key : keys())
    if (names.empty() || names.back() != key.section) names.push_back(key.section);
  return names;
}

Error unknown_file_key(const std::string& place, std::string_view section, std::string_view name) {
  std::string message = "unknown key \"" + std::string(name) + "\"";
  if (!section.empty()) message += " in [" + std::string(section) + "]";
  if (const Key* elsewhere = find_key(name)) {
    message += elsewhere->name == name
                   ? "; it belongs in [" + std::string(elsewhere->section) + "]"
                   : "; in files it is called \"" + std::string(elsewhere->name) + "\", in [" +
                         std::string(elsewhere->section) + "]";
    return at(place, message);
  }
  return at(place, message + suggestion(nearest_key(name)));
}

Result<void> read_section(Builder& builder, const std::string& file, std::string_view section,
                          const toml::table& table) {
  for (const auto& [name, node] : table) {
    const std::string place = place_of(file, name);
    const Key* key = find_key(name.str());
    if (key == nullptr || key->section != section || key->name != name.str())
      return unknown_file_key(place, section, name.str());
    Result<Value> value = from_toml(node);
    if (!value) return at(place, std::string(key->name) + ": " + value.error().message);
    if (Result<void> done = builder.set(*key, *value, place); !done) return done;
  }
  return {};
}

Result<void> read_file(Builder& builder, const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  if (!stream)
    return Error{ErrorKind::io, path.string() + ": cannot be read; check --config and YOKE_CONFIG"};
  const std::string file = path.string();
  toml::table root;
  try {
    root = toml::parse(text.str());
  } catch (const toml::parse_error& e) {
    return at(file + ":" + std::to_string(e.source().begin.line), e.description());
  }
  const std::vector<std::string_view> sections = section_names();
  for (const auto& [name, node] : root) {
    const bool known = std::find(sections.begin(), sections.end(), name.str()) != sections.end();
    const toml::table* table = node.as_table();
    if (table == nullptr && known)
      return at(place_of(file, name), "\"" + std::string(name.str()) + "\" is a section; write [" +
                                          std::string(name.str()) + "]");
    if (table == nullptr) return unknown_file_key(place_of(file, name), "", name.str());
    if (!known)
      return at(place_of(file, node), "unknown section [" + std::string(name.str()) + "]" +
                                          suggestion(nearest(name.str(), sections)));
    if (Result<void> done = read_section(builder, file, name.str(), *table); !done) return done;
  }
  return {};
}

/// `origin` sets `key`; two spellings of one key in one source must agree.
Result<void> set_text(Builder& builder, const Key& key, const std::vector<std::string>& values,
                      const std::string& origin, std::map<const Key*, std::string>& seen) {
  const auto [known, fresh] = seen.emplace(&key, origin);
  if (!fresh)
    return at(origin, "contradicts " + known->second + ": both set " + std::string(key.name));
  Value joined;
  if (key.kind == ValueKind::list) {
    std::vector<std::string> items;
    for (const std::string& text : values) {
      Result<Value> part = parse_value(key.kind, text);
      if (!part) return at(origin, part.error().message);
      const auto& list = std::get<std::vector<std::string>>(*part);
      items.insert(items.end(), list.begin(), list.end());
    }
    joined = std::move(items);
  } else {
    if (values.size() != 1) return at(origin, "given more than once");
    Result<Value> value = parse_value(key.kind, values.front());
    if (!value) return at(origin, value.error().message);
    joined = *std::move(value);
  }
  return builder.set(key, joined, origin);
}

Result<void> read_environment(Builder& builder,
                              const std::vector<std::pair<std::string, std::string>>& variables) {
  std::map<const Key*, std::string> seen;
  for (const auto& [name, value] : variables) {
    if (name.rfind(kPrefix, 0) != 0 || name == kConfigVariable) continue;
    const std::string key_name = lower(std::string_view(name).substr(kPrefix.size()));
    const Key* key = find_key(key_name);
    if (key == nullptr) {
      // Others use the prefix too (build scripts, service discovery): fail only for likely slips.
      const std::string_view near = nearest_key(key_name);
      if (!near.empty())
        return at(name, "unknown variable" + suggestion(std::string(kPrefix) + upper(near)));
      builder.loaded().warnings.push_back(name + ": no setting has this name; ignored");
      continue;
    }
    if (Result<void> done = set_text(builder, *key, {value}, name, seen); !done) return done;
  }
  return {};
}

Result<void> read_flags(Builder& builder, const std::vector<FlagSetting>& flags) {
  std::map<const Key*, std::string> seen;
  for (const FlagSetting& flag : flags) {
    const std::string origin = "--" + flag.flag;
    const Key* key = find_key(flag.flag);
    if (key == nullptr) return at(origin, "unknown flag" + suggestion(nearest_key(flag.flag)));
    if (Result<void> done = set_text(builder, *key, flag.values, origin, seen); !done) return done;
  }
  return {};
}

std::string origin_of(const LoadedConfig& loaded, std::string_view key) {
  const auto found = loaded.origins.find(key);
  return found == loaded.origins.end() ? "default" : found->second;
}

/// Pairs of keys that cannot both hold.
Result<void> check_contradictions(const LoadedConfig& loaded) {
  const Config& c = loaded.config;
  const auto clash = [&](std::string_view a, std::string_view b, std::string_view rule) {
    return invalid_input(std::string(a) + " (" + origin_of(loaded, a) + ") contradicts " +
                         std::string(b) + " (" + origin_of(loaded, b) + "): " + std::string(rule));
  };
  if (c.engine.max_num_batched_tokens < c.engine.max_num_seqs)
    return clash("max_num_batched_tokens", "max_num_seqs",
                 "a step needs room for one row of each running request");
  if (c.engine.max_model_len > 0 && c.api.max_tokens > c.engine.max_model_len)
    return clash("max_tokens", "max_model_len", "an answer cannot be longer than the context");
  if (c.server.max_body_mib > c.server.max_buffered_mib)
    return clash("max_body_mib", "max_buffered_mib", "one body must fit into the common budget");
  if (c.api.stream_interval >= c.api.heartbeat_interval)
    return clash("stream_interval_ms", "heartbeat_interval_s",
                 "tokens must be joined over less time than the silence between heartbeats");
  return {};
}

/// `text` in lines of at most 96 characters, each behind `# `.
void append_comment(std::string& out, std::string_view text) {
  constexpr size_t kWidth = 96;
  while (!text.empty()) {
    size_t end = text.size();
    if (end > kWidth) {
      end = text.rfind(' ', kWidth);
      if (end == std::string_view::npos || end == 0) end = text.size();
    }
    out += "# " + std::string(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(text.size(), end + 1));
  }
}

}  // namespace

Result<LoadedConfig> load_config(const Sources& sources) {
  Builder builder;
  if (sources.file) {
    if (Result<void> done = read_file(builder, *sources.file); !done) return done.error();
  }
  if (Result<void> done = read_environment(builder, sources.environment); !done)
    return done.error();
  if (Result<void> done = read_flags(builder, sources.flags); !done) return done.error();
  if (Result<void> done = check_contradictions(builder.loaded()); !done) return done.error();
  return std::move(builder.loaded());
}

std::optional<std::filesystem::path> default_config_file(
    const std::vector<std::pair<std::string, std::string>>& environment) {
  for (const auto& [name, value] : environment)
    if (name == kConfigVariable && !value.empty()) return value;
  std::error_code ignored;
  if (std::filesystem::exists("yoke.toml", ignored)) return "yoke.toml";
  return std::nullopt;
}

std::string to_toml(const LoadedConfig& loaded) {
  std::string out =
      "# Settings of yoke: flag > environment > file > default. Each key is also a flag\n"
      "# (`port`: --port) and an environment variable (YOKE_PORT). All take effect at start;\n"
      "# what SIGHUP reads again says so. `yoke serve --print-config` prints the settings in "
      "use.\n";
  std::string_view section;
  for (const Key& key : keys()) {
    if (key.section != section) {
      section = key.section;
      out += "\n[" + std::string(section) + "]\n";
    }
    out += "\n";
    std::string comment(key.help);
    const std::string unset_value = format_value(key.get(Config{}));
    comment += unset_value.empty() ? " Default: generation_config.json, else off."
                                   : " Default: " + unset_value + ".";
    comment += " Takes effect " + std::string(key.takes_effect) + ".";
    append_comment(out, comment);
    const std::string origin = origin_of(loaded, key.name);
    const std::string value = format_value(key.get(loaded.config));
    if (value.empty()) {
      out += "# " + std::string(key.name) + " =\n";
    } else if (key.secret && origin != "default") {
      out += "# " + std::string(key.name) + " = (hidden)  # " + origin + "\n";
    } else {
      out += std::string(key.name) + " = " + value + (origin == "default" ? "" : "  # " + origin) +
             "\n";
    }
  }
  return out;
}

std::vector<std::string> changed_settings(const LoadedConfig& loaded) {
  std::vector<std::string> lines;
  for (const Key& key : keys()) {
    const std::string origin = origin_of(loaded, key.name);
    if (origin == "default") continue;
    const std::string value = key.secret ? "(hidden)" : format_value(key.get(loaded.config));
    lines.push_back(std::string(key.name) + "=" + value + " (" + origin + ")");
  }
  return lines;
}

}  // namespace yoke::config
