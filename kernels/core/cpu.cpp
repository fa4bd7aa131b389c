#include "kernels/core/cpu.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <string_view>

#include "config/check.h"
#include "kernels/core/simd_targets.h"

#include "hwy/highway.h"

namespace yoke::kernels {
namespace {

#if HWY_ARCH_X86
/// The operating system saves the AVX-512 registers when Highway lists AVX3; the dot itself has a
/// flag of its own.
bool has_bf16_dot() {
  return __builtin_cpu_supports("avx512bf16") != 0;
}
#endif

/// The Highway targets that `target` stands for: itself, then what to fall back to where a file has
/// no version for it.
int64_t highway_targets(SimdTarget target) {
  switch (target) {
#if HWY_ARCH_X86
    case SimdTarget::avx2:
      return HWY_AVX2;
    case SimdTarget::avx512:
      return HWY_AVX3 | HWY_AVX2;
    case SimdTarget::avx512_dl:
    case SimdTarget::avx512_bf16:
      return HWY_AVX3_DL | HWY_AVX3 | HWY_AVX2;
#endif
#if HWY_ARCH_ARM
    case SimdTarget::neon:
      return HWY_NEON;
#endif
    default:
      return 0;  // Highway then takes its fallback, whose kernels are the plain versions
  }
}

class Targets {
 public:
  Targets() {
#if HWY_ARCH_X86
    const int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;  // of those compiled
    const bool dl = (supported & HWY_AVX3_DL) != 0;
    if (dl && has_bf16_dot()) add(SimdTarget::avx512_bf16);
    if (dl) add(SimdTarget::avx512_dl);
    if ((supported & HWY_AVX3) != 0) add(SimdTarget::avx512);
    if ((supported & HWY_AVX2) != 0) add(SimdTarget::avx2);
    add(SimdTarget::scalar);
#elif HWY_ARCH_ARM_A64
    add(SimdTarget::neon);
#else
    add(SimdTarget::scalar);
#endif
    use(list_[0]);
  }

  std::span<const SimdTarget> list() const {
    return {list_.data(), count_};
  }
  SimdTarget used() const {
    return used_.load(std::memory_order_relaxed);
  }
  void use(SimdTarget target) {
    used_.store(target, std::memory_order_relaxed);
    hwy::GetChosenTarget().Update(highway_targets(target));
  }

 private:
  void add(SimdTarget target) {
    list_[count_++] = target;
  }

  std::array<SimdTarget, 6> list_{};
  size_t count_ = 0;
  std::atomic<SimdTarget> used_{SimdTarget::scalar};
};

Targets& targets() {
  static Targets instance;
  return instance;
}

}  // namespace

const char* simd_target_name(SimdTarget target) noexcept {
  switch (target) {
    case SimdTarget::scalar:
      return "scalar";
    case SimdTarget::neon:
      return "NEON";
    case SimdTarget::avx2:
      return "AVX2";
    case SimdTarget::avx512:
      return "AVX-512";
    case SimdTarget::avx512_dl:
      return "AVX-512-DL";
    case SimdTarget::avx512_bf16:
      return "AVX-512-BF16";
  }
  return "?";
}

std::span<const SimdTarget> simd_targets() noexcept {
  return targets().list();
}

SimdTarget simd_target() noexcept {
  return targets().used();
}

void set_simd_target(SimdTarget target) noexcept {
  YOKE_CHECK(std::ranges::count(simd_targets(), target) == 1, "this machine lacks the target");
  targets().use(target);
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  std::string parts;  // aarch64 has numbers only
  while (std::getline(info, line)) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer") && parts.empty()) parts = "implementer " + value;
    if (line.starts_with("CPU part")) return parts + " part " + value;
  }
  return "unknown processor";
}

}  // namespace yoke::kernels
