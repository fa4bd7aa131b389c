// What `yoke inspect` prints: a checkpoint's architecture, what it holds by class, and whether it
// can be served.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint.h"

namespace yoke::server {

/// For people; ends with a newline. At most 20 problems are listed, the rest counted.
std::string inspect_text(const engine::Checkpoint& checkpoint);

/// The same as one JSON object, with all problems that the census kept.
std::string inspect_json(const engine::Checkpoint& checkpoint);

/// A folder that does not open, in the shape of inspect_json.
std::string inspect_json(const config::Error& error);

}  // namespace yoke::server
