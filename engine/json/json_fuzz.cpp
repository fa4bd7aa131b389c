// Any bytes: parsing never crashes; what parses prints, reads back equal and prints the same again.
#include <cstdint>

#include "config/check.h"
#include "engine/json/json.h"

using yoke::engine::Json;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed =
      yoke::engine::parse_json(text, "fuzz", {.max_depth = 256, .max_values = 10'000});
  if (!parsed.ok()) {
    YOKE_CHECK(parsed.error().message.starts_with("fuzz: byte "), "an error without its place");
    return 0;
  }
  const Json copy = *parsed;
  const std::string printed = yoke::engine::to_json(copy);
  const auto again = yoke::engine::parse_json(printed, "printed");
  YOKE_CHECK(again.ok() && *again == *parsed, "the printed text means something else");
  YOKE_CHECK(yoke::engine::to_json(*again) == printed, "printing is not stable");

  const std::string python = yoke::engine::to_python_json(copy);
  if (python.find("Infinity") == std::string::npos) {
    const auto reread = yoke::engine::parse_json(python, "python");
    YOKE_CHECK(reread.ok(), "Python's form is no JSON");
    YOKE_CHECK(yoke::engine::to_python_json(*reread) == python, "Python's form is not stable");
  }
  static_cast<void>(yoke::engine::to_python_str(copy));
  if (copy.is_number()) {
    const auto integer = copy.to_int64();
    if (integer && *integer < (int64_t{1} << 53) && *integer > -(int64_t{1} << 53)) {
      YOKE_CHECK(static_cast<double>(*integer) == *copy.to_double(), "two values of one number");
    }
  }
  return 0;
}
