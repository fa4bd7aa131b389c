// Element types and their exact conversions. No arithmetic is done in 16 bits: values are widened
// to float, and rounded to nearest, ties to even, where a contract says so.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace yoke::kernels {

enum class DType : uint8_t { bf16, f16, f32, i16, i32 };

constexpr size_t dtype_bytes(DType dtype) noexcept {
  return dtype == DType::f32 || dtype == DType::i32 ? 4 : 2;
}
constexpr const char* dtype_name(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::f32:
      return "F32";
    case DType::i16:
      return "I16";
    case DType::i32:
      return "I32";
  }
  return "?";
}

/// Upper half of an IEEE binary32.
struct bf16 {
  uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};

/// IEEE binary16.
struct f16 {
  uint16_t bits;
  friend bool operator==(f16, f16) = default;
};

constexpr float to_float(bf16 x) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

/// Nearest even; NaN stays NaN (quiet), overflow becomes infinity, subnormals are kept.
constexpr bf16 to_bf16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}

constexpr float to_float(f16 x) noexcept {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 31u;
  const uint32_t mantissa = x.bits & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  // Subnormal: mantissa · 2^-24, exact in float.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// Nearest even; NaN stays NaN (quiet), overflow becomes infinity, subnormals are kept.
constexpr f16 to_f16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u)
    return {static_cast<uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x1FFu))};
  if (magnitude >= 0x477FF000u) return {static_cast<uint16_t>(sign | 0x7C00u)};
  if (magnitude >= 0x38800000u) {
    const uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
  }
  if (magnitude < 0x33000000u) return {sign};  // below half of the smallest subnormal
  const int shift = 126 - static_cast<int>(magnitude >> 23);
  const uint32_t significand = (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t kept = significand >> shift;
  const uint32_t rest = significand & ((1u << shift) - 1u);
  const uint32_t up = rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
  return {static_cast<uint16_t>(sign | (kept + up))};
}

}  // namespace yoke::kernels
