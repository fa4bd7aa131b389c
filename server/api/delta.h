// One step of an answer, in the order of the wire: what a stream sends and a plain answer joins.
#pragma once

#include <cstdint>
#include <string>

namespace yoke::server {

struct Delta {
  enum class Kind {
    reasoning,
    content,
    call_begin,      ///< `text` is the function's name, `call_id` set
    call_arguments,  ///< `text` is a piece of the JSON object
  };
  Kind kind = Kind::content;
  std::string text;
  int32_t call_index = 0;
  std::string call_id{};

  friend bool operator==(const Delta&, const Delta&) = default;
};

}  // namespace yoke::server
