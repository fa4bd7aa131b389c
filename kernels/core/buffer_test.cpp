#include "kernels/core/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace yoke::kernels {
namespace {

TEST(Buffer, is_aligned_and_zeroed_at_every_size) {
  for (size_t bytes = 0; bytes < 300; ++bytes) {
    const Buffer buffer(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0u);
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer.data()[i], std::byte{0});
  }
}

// Such buffers ask for huge pages.
TEST(Buffer, large_ones_are_zeroed_to_the_last_byte_and_freed) {
  for (const size_t bytes : {(size_t{4} << 20) - 1, size_t{4} << 20, (size_t{9} << 20) + 3}) {
    const Buffer buffer(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kBufferAlignment, 0u);
    EXPECT_TRUE(std::all_of(buffer.data(), buffer.data() + bytes,
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(Buffer, moving_leaves_nothing_behind) {
  Buffer a(100);
  std::byte* memory = a.data();
  const Buffer b = std::move(a);
  EXPECT_EQ(b.data(), memory);
  EXPECT_EQ(b.size(), 100u);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: the moved-from state is what is tested
}

TEST(Tensor, has_the_bytes_of_its_shape_and_type) {
  const Tensor t(DType::bf16, {3, 5, 7});
  EXPECT_EQ(t.bytes(), 3u * 5 * 7 * 2);
  EXPECT_EQ(t.view().elements(), 105);
  EXPECT_EQ(t.view().row_elements(), 35);
  EXPECT_EQ(t.view().rank(), 3);
  EXPECT_TRUE(static_cast<bool>(t));
  EXPECT_FALSE(static_cast<bool>(Tensor()));
}

TEST(Tensor, rows_are_a_view_of_the_first_ones) {
  Tensor t(DType::f32, {4, 2});
  const TensorView two = t.rows(2);
  EXPECT_EQ(two.shape, (Shape{2, 2}));
  EXPECT_EQ(two.data, t.view().data);
}

TEST(Tensor, view_survives_a_move) {
  Tensor a(DType::f32, {2});
  a.view().as<float>()[1] = 5;
  Tensor b = std::move(a);
  EXPECT_EQ(b.view().as<float>()[1], 5);
}

TEST(TensorView, stores_round_and_loads_widen) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    Tensor t(dtype, {2});
    store_float(t.view(), 1, 1.5f);
    EXPECT_EQ(load_float(t.view(), 1), 1.5f);
    EXPECT_EQ(load_float(t.view(), 0), 0.0f);
  }
  Tensor t(DType::bf16, {1});
  store_float(t.view(), 0, 1.0f + 0x1p-8f);  // a tie: to even
  EXPECT_EQ(load_float(t.view(), 0), 1.0f);
}

}  // namespace
}  // namespace yoke::kernels
