// What the output parser needs to know about the tools of a request: their names and, per
// parameter, which JSON kinds its text may become (spec/tokenizer_chat.md 5.3).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/json/json.h"

namespace yoke::engine {

/// The mapping that describes a declared tool: the member `function` if the wrapper has one.
const Json& tool_body(const Json& tool) noexcept;

/// The parameters of one tool. Keeps a copy of their schema; immutable.
class ToolSchema {
 public:
  /// `parameters` may be null or anything: what is no schema declares nothing.
  explicit ToolSchema(const Json* parameters);
  ToolSchema(const ToolSchema&) = delete;
  ToolSchema& operator=(const ToolSchema&) = delete;

  /// How the text of a parameter becomes JSON.
  enum class Form : uint8_t {
    string,          ///< always a string: may be written while it arrives
    string_or_null,  ///< `null` in any case, else a string
    when_complete,   ///< depends on the whole text
  };
  Form form(std::string_view key) const;

  /// The JSON text of a complete value.
  std::string coerce(std::string_view key, std::string_view text) const;

 private:
  const Json* find(std::string_view key) const;

  Json root_;
  std::unordered_map<std::string_view, const Json*> parameters_;  // into root_
};

/// Declared tools by name; of equal names the first counts.
class ToolSet {
 public:
  /// `tools` as sent, wrapped or flat; null or no array: none. Entries without a name are skipped.
  explicit ToolSet(const Json* tools);

  bool empty() const noexcept { return by_name_.empty(); }
  const ToolSchema* find(std::string_view name) const;
  /// Whether some name starts with `text`.
  bool has_prefix(std::string_view text) const;

 private:
  std::map<std::string, std::unique_ptr<ToolSchema>, std::less<>> by_name_;
};

}  // namespace yoke::engine
