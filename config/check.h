// Checks for bugs in our own code (style.md 2.6). Bad input is never a bug: it becomes a Result or
// an exception.
#pragma once

namespace yoke::config {

/// Logs `expression`, the place and `what`, then aborts. Never returns.
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const char* what) noexcept;

}  // namespace yoke::config

#define YOKE_CHECK(condition, what)                                         \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::yoke::config::check_failed(#condition, __FILE__, __LINE__, (what)); \
  } while (false)

// In hot loops: only with YOKE_DEBUG_CHECKS (presets dev, asan, tsan, fuzz).
#ifdef YOKE_DEBUG_CHECKS
#define YOKE_DCHECK(condition, what) YOKE_CHECK(condition, what)
#else
#define YOKE_DCHECK(condition, what) \
  do {                               \
  } while (false)
#endif
