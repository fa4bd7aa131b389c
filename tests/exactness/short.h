// How much of the suite runs where: instrumented builds and emulated processors are ten times
// slower and look for other faults, so they get a short form of every test.
#pragma once

#include <cstdlib>

namespace yoke::tests {

/// True under sanitizers, and where YOKE_SHORT is set.
inline bool is_short() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return std::getenv("YOKE_SHORT") != nullptr;
#endif
}

/// True under ThreadSanitizer: tests that bring no threads of their own into play skip.
constexpr bool looks_for_races() {
#if defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

}  // namespace yoke::tests
