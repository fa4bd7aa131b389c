// Any bytes as a header: parsing never crashes, and what is accepted lies in the file without
// overlap or holes. The first four bytes are the number of data bytes behind the header.
#include <cstdint>
#include <cstring>

#include "config/check.h"
#include "engine/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t data_bytes = 0;
  if (size < sizeof data_bytes) return 0;
  std::memcpy(&data_bytes, data, sizeof data_bytes);
  const std::string_view header(reinterpret_cast<const char*>(data) + sizeof data_bytes,
                                size - sizeof data_bytes);
  const uint64_t file_size = 8 + header.size() + data_bytes;
  const auto parsed = yoke::engine::parse_safetensors_header(header, file_size, "fuzz");
  if (!parsed.ok()) {
    const std::string& message = parsed.error().message;
    YOKE_CHECK(message.starts_with("fuzz: "), "an error without its file");
    YOKE_CHECK(message.find('\n') == std::string::npos, "an error of two lines");
    YOKE_CHECK(message.size() < 2000, "an endless error");
    return 0;
  }
  uint64_t position = 8 + header.size();
  for (const yoke::engine::TensorInfo& tensor : *parsed) {
    YOKE_CHECK(tensor.file_offset == position, "overlap or hole");
    YOKE_CHECK(tensor.bytes <= file_size - position, "beyond the file");
    position += tensor.bytes;
    uint64_t elements = 1;
    for (const int64_t d : tensor.shape) elements *= static_cast<uint64_t>(d);
    YOKE_CHECK(elements == 0 ? tensor.bytes == 0 : tensor.bytes % elements == 0, "odd size");
  }
  YOKE_CHECK(position == file_size, "bytes without an owner");
  return 0;
}
