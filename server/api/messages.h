// The messages of a chat request, checked and brought into the one form that the renderer reads
// (spec/api.md 2.3): roles system, user, assistant and tool; content a string; reasoning in
// `reasoning_content`; call arguments objects. Nothing is merged, added or reordered.
#pragma once

#include "engine/json/json.h"
#include "server/api/fields.h"

namespace yoke::server {

/// `messages` as sent. Problems carry the path (`messages[2].content`).
Json normalised_messages(const Json& messages, Problem& problem);

/// Arguments of a call in the history, as the template needs them: an object. A text that is no
/// JSON object becomes {"_raw": text}; "" and null become {}.
Json call_arguments(const Json* arguments);

}  // namespace yoke::server
