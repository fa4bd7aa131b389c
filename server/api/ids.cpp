#include "server/api/ids.h"

#include <random>

namespace yoke::server {

std::string random_id(std::string_view prefix, size_t length) {
  constexpr std::string_view kAlphabet =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device device;
  std::uniform_int_distribution<size_t> pick(0, kAlphabet.size() - 1);
  std::string out(prefix);
  for (size_t i = 0; i < length; ++i) out += kAlphabet[pick(device)];
  return out;
}

int64_t random_seed() {
  std::random_device device;
  return std::uniform_int_distribution<int64_t>(0, (int64_t{1} << 53) - 1)(device);
}

}  // namespace yoke::server
