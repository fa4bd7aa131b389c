// `tools` and `tool_choice` of a chat request (spec/api.md 2.5).
#pragma once

#include "engine/json/json.h"
#include "server/api/fields.h"

namespace yoke::server {

struct Tools {
  /// For the prompt: entries `{"type":"function","function":{…}}`, keys as sent. Null: no tools.
  Json prompt;
  /// For the parser of the answer: those that may be called. Null: none.
  Json callable;
};

/// Reads `tools`, `tool_choice` and their predecessors `functions`, `function_call`.
Tools read_tools(Fields& fields);

}  // namespace yoke::server
