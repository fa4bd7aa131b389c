// Random ids that no other answer ever had (spec/api.md 0, rule 12), and seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace yoke::server {

/// `prefix` and `length` base62 characters of the operating system's randomness (24: 142 bits).
std::string random_id(std::string_view prefix, size_t length = 24);

/// A seed that survives JavaScript: below 2^53.
int64_t random_seed();

}  // namespace yoke::server
