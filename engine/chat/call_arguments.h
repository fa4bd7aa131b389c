// Writes the arguments of one call as JSON while they arrive. What was written is always the
// beginning of one valid JSON object, and close() completes it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "engine/chat/tool_schema.h"

namespace yoke::engine {

class CallArguments {
 public:
  /// `schema` must outlive this.
  explicit CallArguments(const ToolSchema& schema) : schema_(&schema) {}

  // Each appends to `out` what became certain. Values come as begin, text…, end; text is UTF-8.

  /// A value whose key was used before is dropped: its first value is already with the client.
  void begin_value(std::string_view key, std::string& out);
  void value_text(std::string_view text, std::string& out);
  void end_value(std::string& out);
  void close(std::string& out);

 private:
  enum class Mode {
    none,        ///< between values
    dropped,     ///< a repeated key
    streaming,   ///< a string whose opening quote is out
    maybe_null,  ///< `null`, or a string that begins like it
    held,        ///< converted when complete
  };

  void write_key(std::string& out);

  const ToolSchema* schema_;
  std::unordered_set<std::string> keys_;
  Mode mode_ = Mode::none;
  std::string key_;
  std::string held_;
};

}  // namespace yoke::engine
