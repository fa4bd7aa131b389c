#include "config/check.h"

#include <cstdio>
#include <cstdlib>

namespace yoke::config {

void check_failed(const char* expression, const char* file, int line, const char* what) noexcept {
  // stderr directly: the logger may be the thing that is broken.
  std::fprintf(stderr, "yoke: internal error: %s (%s) at %s:%d\n", what, expression, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace yoke::config
