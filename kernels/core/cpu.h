// The processor this runs on, and which of the compiled instruction sets the kernels use.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace yoke::kernels {

/// Instruction sets with kernels of their own.
///   scalar      the plain versions; x86-64 only (NEON is part of every aarch64)
///   avx512_bf16 products of BF16 rows with BF16 weights use the BF16 dot (kernels/linear); all
///   else
///               is avx512_dl. The one target whose sums are not those of the other targets.
enum class SimdTarget : uint8_t { scalar, neon, avx2, avx512, avx512_dl, avx512_bf16 };

const char* simd_target_name(SimdTarget target) noexcept;

/// What this machine can run, best first; never empty.
std::span<const SimdTarget> simd_targets() noexcept;

/// What the kernels use: the best at start.
SimdTarget simd_target() noexcept;

/// For tests and benches. `target` must be one of simd_targets(); no kernel may be running.
void set_simd_target(SimdTarget target) noexcept;

/// The processor's own name, for reports; "unknown processor" where the system does not say.
std::string processor_name();

}  // namespace yoke::kernels
