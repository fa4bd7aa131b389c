#include "engine/checkpoint/exl3_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace yoke::engine {
namespace {

using kernels::f16;

TensorInfo scales(const char* dtype) {
  TensorInfo info;
  info.name = "p.suh";
  info.dtype = dtype;
  return info;
}

std::vector<std::byte> bytes_of(const std::vector<uint16_t>& words) {
  std::vector<std::byte> bytes(words.size() * 2);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

TEST(Exl3Scales, fp16_passes_through_with_zeros_and_subnormals) {
  const std::vector<uint16_t> words = {0x3C00, 0x0000, 0x8000, 0x0001, 0xFBFF};
  std::vector<f16> out(words.size());
  ASSERT_TRUE(decode_exl3_scales(scales("F16"), bytes_of(words), out).ok());
  for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(out[i].bits, words[i]);
}

TEST(Exl3Scales, infinities_and_nans_are_named) {
  for (const uint16_t bad : {0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x7C01}) {
    std::vector<f16> out(3);
    const auto done = decode_exl3_scales(scales("F16"), bytes_of({0x3C00, 0x3C00, bad}), out);
    ASSERT_FALSE(done.ok());
    EXPECT_THAT(done.error().message, ::testing::HasSubstr("'p.suh': channel 2"));
  }
}

TEST(Exl3Scales, packed_signs_are_lowest_bit_first) {
  std::vector<f16> out(32);
  ASSERT_TRUE(decode_exl3_scales(scales("I16"), bytes_of({0x0001, 0x8002}), out).ok());
  for (size_t i = 0; i < out.size(); ++i) {
    const bool minus = i == 0 || i == 17 || i == 31;
    EXPECT_EQ(out[i].bits, minus ? 0xBC00 : 0x3C00) << i;
  }
}

}  // namespace
}  // namespace yoke::engine
