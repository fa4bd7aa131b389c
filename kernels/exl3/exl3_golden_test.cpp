// golden/exl3: what the reference implementation's device code computes. Names, bits, codebooks and
// shapes are taken from the files; README.md there gives the bounds.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "kernels/exl3/exl3.h"
#include "kernels/exl3/exl3_product.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/simd.h"
#include "kernels/testing/tensors.h"

namespace yoke::kernels {
namespace {

using engine::SafetensorsFile;

std::filesystem::path folder() {
  const char* root = std::getenv("YOKE_GOLDEN_ROOT");
  return std::filesystem::path(root != nullptr ? root : YOKE_GOLDEN_ROOT) / "exl3";
}

SafetensorsFile read(const std::filesystem::path& path) {
  auto file = SafetensorsFile::read(path);
  if (!file.ok()) ADD_FAILURE() << file.error().message;
  return std::move(file).value();
}

constexpr Codebook kCodebooks[] = {Codebook::threeinst, Codebook::mcg, Codebook::mul1};

std::string codebook_name(Codebook codebook) {
  switch (codebook) {
    case Codebook::threeinst:
      return "3inst";
    case Codebook::mcg:
      return "mcg";
    case Codebook::mul1:
      return "mul1";
  }
  return "?";
}

const uint16_t* words(ConstTensorView view) {
  return reinterpret_cast<const uint16_t*>(view.as<int16_t>());
}

/// The matrix `prefix`; legacy sign words are unpacked into `signs`.
Exl3Matrix matrix(const SafetensorsFile& file, const std::string& prefix,
                  std::vector<f16>* signs = nullptr) {
  const ConstTensorView trellis = file.tensor(prefix + ".trellis");
  Exl3Matrix w;
  w.in = trellis.dim(0) * 16;
  w.out = trellis.dim(1) * 16;
  w.bits = static_cast<int>(trellis.dim(2) / 16);
  w.codebook = file.has(prefix + ".mcg")    ? Codebook::mcg
               : file.has(prefix + ".mul1") ? Codebook::mul1
                                            : Codebook::threeinst;
  w.trellis = words(trellis);
  if (file.has(prefix + ".suh")) {
    w.suh = file.tensor(prefix + ".suh").as<f16>();
    w.svh = file.tensor(prefix + ".svh").as<f16>();
  } else {
    signs->resize(static_cast<size_t>(w.in + w.out));
    exl3_unpack_signs(signs->data(), words(file.tensor(prefix + ".su")), w.in);
    exl3_unpack_signs(signs->data() + w.in, words(file.tensor(prefix + ".sv")), w.out);
    w.suh = signs->data();
    w.svh = signs->data() + w.in;
  }
  return w;
}

// --- linear cases -------------------------------------------------------------------------------

std::vector<std::filesystem::path> linear_files() {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder())) return files;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") && name.find("_k") != std::string::npos &&
        name.find("moe") == std::string::npos)
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(Exl3Golden, linear_files_exist) {
  EXPECT_FALSE(linear_files().empty()) << "no linear cases in " << folder();
}

class Exl3Linear : public ::testing::TestWithParam<std::filesystem::path> {};
INSTANTIATE_TEST_SUITE_P(Files, Exl3Linear, ::testing::ValuesIn(linear_files()),
                         [](const auto& test) { return test.param.stem().string(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Exl3Linear);

TEST_P(Exl3Linear, inner_weights_are_bit_exact) {
  const SafetensorsFile file = read(GetParam());
  const Exl3Matrix w = matrix(file, "lin");
  Tensor inner = testing::unwritten(DType::f16, {w.in, w.out});
  exl3_decode_inner(inner.view(), w);
  EXPECT_TRUE(testing::same_bits(inner.view(), file.tensor("ref.inner")));
}

// The order of float operations is the reference's, so even the last bit agrees.
TEST_P(Exl3Linear, dense_weight_rounds_to_the_reference) {
  const SafetensorsFile file = read(GetParam());
  const Exl3Matrix w = matrix(file, "lin");
  testing::Compute compute(2);
  Tensor dense = testing::unwritten(DType::f32, {w.out, w.in});
  exl3_dense_weight(dense.view(), w, compute.stream);
  Tensor rounded(DType::f16, {w.in, w.out});
  for (int64_t k = 0; k < w.in; ++k) {
    for (int64_t n = 0; n < w.out; ++n)
      store_float(rounded.view(), k * w.out + n, load_float(dense.view(), n * w.in + k));
  }
  EXPECT_TRUE(testing::same_bits(rounded.view(), file.tensor("ref.weight_f16")));

  if (!file.has("ref.weight_f32_block")) return;
  const ConstTensorView block = file.tensor("ref.weight_f32_block");
  Tensor corner(DType::f32, block.shape);
  for (int64_t k = 0; k < block.dim(0); ++k) {
    for (int64_t n = 0; n < block.dim(1); ++n)
      store_float(corner.view(), k * block.dim(1) + n, load_float(dense.view(), n * w.in + k));
  }
  EXPECT_TRUE(testing::all_close(corner.view(), block, {0, 1e-6}));
}

// x of the file is fp16, so the rounded path takes it without loss: as from bf16, the first
// rounding (of x to fp16) apart, which changes nothing here.
TEST_P(Exl3Linear, transformed_input_is_the_reference) {
  const SafetensorsFile file = read(GetParam());
  const Exl3Matrix w = matrix(file, "lin");
  const ConstTensorView x = file.tensor("ref.x");
  const int64_t rows = x.dim(0);
  std::vector<float> inputs(static_cast<size_t>(rows * w.in));
  testing::for_each_simd_target([&] {
    for (int64_t r = 0; r < rows; ++r) exl3_transform_input(inputs.data(), r, rows, x, r, w);
    Tensor z(DType::f16, {rows, w.in});
    for (int64_t k = 0; k < w.in; ++k) {
      const int64_t place = k / 16 * 16 + exl3_row_place(k % 16);
      for (int64_t r = 0; r < rows; ++r)
        store_float(z.view(), r * w.in + k, inputs[static_cast<size_t>(place * rows + r)]);
    }
    EXPECT_TRUE(testing::same_bits(z.view(), file.tensor("ref.x_had")));
  });
}

class Product {
 public:
  Product(const Exl3Matrix& w, int64_t rows)
      : w_(w),
        y_(testing::unwritten(DType::f32, {rows, w.out})),
        scratch_(DType::f32, {exl3_scratch_floats(w, rows)}) {}
  ConstTensorView operator()(ConstTensorView x) {
    exl3_matmul(y_.view(), x, w_, scratch_.view(), compute_.stream);
    return y_.view();
  }

 private:
  Exl3Matrix w_;
  testing::Compute compute_{2};
  Tensor y_;
  Tensor scratch_;
};

TEST_P(Exl3Linear, product_with_the_reference_roundings) {
  const SafetensorsFile file = read(GetParam());
  const Exl3Matrix w = matrix(file, "lin");
  const ConstTensorView x = file.tensor("ref.x");
  testing::for_each_simd_target([&] {
    Product product(w, x.dim(0));
    const ConstTensorView y = product(x);
    EXPECT_TRUE(testing::rows_close(y, file.tensor("ref.y_f32"), 1e-4, 1e-4));
    EXPECT_TRUE(testing::rows_close(y, file.tensor("ref.y_f16"), 1e-2, 1e-2));
    EXPECT_TRUE(testing::rows_close(y, file.tensor("ref.y_exact"), 1e-3, 5e-3));
  });
}

TEST_P(Exl3Linear, product_in_fp32_is_exact) {
  const SafetensorsFile file = read(GetParam());
  const Exl3Matrix w = matrix(file, "lin");
  const Tensor x = testing::converted(file.tensor("ref.x"), DType::f32);
  testing::for_each_simd_target([&] {
    Product product(w, x.view().dim(0));
    EXPECT_TRUE(testing::rows_close(product(x.view()), file.tensor("ref.y_exact"), 1e-5, 1e-4));
  });
}

// Given x rounded to bf16, the product is as close to exact as from fp16. Against the exact product
// of the unrounded x the README allows 3e-3, which holds where many inputs' roundings average out;
// in a heavy-tailed row one input may carry its whole rounding of up to 2^-8 (3inst_k4: 3.7e-3).
TEST_P(Exl3Linear, product_of_bf16_activations) {
  const SafetensorsFile file = read(GetParam());
  const Exl3Matrix w = matrix(file, "lin");
  const Tensor x = testing::converted(file.tensor("ref.x"), DType::bf16);
  const Tensor x32 = testing::converted(x.view(), DType::f32);
  testing::Compute compute;
  Tensor exact(DType::f32, {x.view().dim(0), w.out});
  exl3_matmul_ref(exact.view(), x32.view(), w, compute.stream);
  testing::for_each_simd_target([&] {
    Product product(w, x.view().dim(0));
    const ConstTensorView y = product(x.view());
    EXPECT_TRUE(testing::rows_close(y, exact.view(), 1e-3, 5e-3));
    EXPECT_TRUE(testing::rows_close(y, file.tensor("ref.y_exact"), 1e-3 + 0x1p-8, 3e-2));
    EXPECT_TRUE(testing::rows_close(testing::row_range(y, 0, 1),
                                    testing::row_range(file.tensor("ref.y_exact"), 0, 1), 3e-3,
                                    3e-2));
  });
}

TEST_P(Exl3Linear, reference_product_meets_the_same_bounds) {
  const SafetensorsFile file = read(GetParam());
  const Exl3Matrix w = matrix(file, "lin");
  const ConstTensorView x = file.tensor("ref.x");
  const Tensor x32 = testing::converted(x, DType::f32);
  testing::Compute compute;
  Tensor y = testing::unwritten(DType::f32, {x.dim(0), w.out});
  exl3_matmul_ref(y.view(), x, w, compute.stream);
  EXPECT_TRUE(testing::rows_close(y.view(), file.tensor("ref.y_f32"), 1e-4, 1e-4));
  exl3_matmul_ref(y.view(), x32.view(), w, compute.stream);
  EXPECT_TRUE(testing::rows_close(y.view(), file.tensor("ref.y_exact"), 1e-6, 1e-5));
}

// --- codebooks
// ------------------------------------------------------------------------------------

Tensor codebook_table(Codebook codebook) {
  Tensor table(DType::f16, {65536});
  for (int64_t s = 0; s < 65536; ++s)
    table.view().as<f16>()[s] = exl3_codebook_value(codebook, static_cast<uint16_t>(s));
  return table;
}

std::string sha256(ConstTensorView view) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_Digest(view.data, view.bytes(), digest, &length, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    constexpr char kHex[] = "0123456789abcdef";
    text += kHex[digest[i] >> 4];
    text += kHex[digest[i] & 15];
  }
  return text;
}

uint32_t crc32(ConstTensorView view) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < view.bytes(); ++i) {
    crc ^= static_cast<const unsigned char*>(view.data)[i];
    for (int b = 0; b < 8; ++b) crc = crc >> 1 ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

TEST(Exl3Golden, codebooks_are_bit_exact) {
  const SafetensorsFile file = read(folder() / "exl3_codebooks.safetensors");
  for (const Codebook codebook : kCodebooks) {
    SCOPED_TRACE(codebook_name(codebook));
    EXPECT_TRUE(
        testing::same_bits(codebook_table(codebook).view(), file.tensor(codebook_name(codebook))));
  }
}

TEST(Exl3Codebooks, have_the_checksums_of_the_specification) {
  struct Case {
    Codebook codebook;
    const char* sha;
    uint32_t crc;
  };
  const Case cases[] = {
      {Codebook::threeinst, "ad88de2dcff5bb05fff2faec37cceceb43aa1c2e8203f9d81a6fbd6dd3393eea",
       0x4c83d524},
      {Codebook::mcg, "95383563929baa9d1ae5de0be22490284382673620bdd85929feea7bdbef04a9",
       0xd2d13c52},
      {Codebook::mul1, "bc48d02cb1c14939dc47b90f870dd689d63e3b1ab69a157e65538db68677a6c8",
       0x2bdf05c5},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(codebook_name(c.codebook));
    const Tensor table = codebook_table(c.codebook);
    EXPECT_EQ(sha256(table.view()), c.sha);
    EXPECT_EQ(crc32(table.view()), c.crc);
  }
}

// --- tiles
// ------------------------------------------------------------------------------------------

/// The bit rates K for which the file has `k<K>` entries that end in `suffix`.
std::vector<int> bit_rates(const SafetensorsFile& file, const std::string& prefix,
                           const std::string& suffix) {
  std::vector<int> rates;
  for (int bits = 1; bits <= 8; ++bits) {
    if (file.has(prefix + "k" + std::to_string(bits) + suffix)) rates.push_back(bits);
  }
  return rates;
}

TEST(Exl3Golden, tiles_unpack_decode_and_pack_bit_exactly) {
  const SafetensorsFile file = read(folder() / "exl3_tiles.safetensors");
  const std::vector<int> rates = bit_rates(file, "", ".words");
  ASSERT_FALSE(rates.empty());
  for (const int bits : rates) {
    const std::string key = "k" + std::to_string(bits);
    const ConstTensorView packed = file.tensor(key + ".words");
    const ConstTensorView expected = file.tensor(key + ".states");
    for (int64_t tile = 0; tile < packed.dim(0); ++tile) {
      SCOPED_TRACE(key + ", tile " + std::to_string(tile));
      const uint16_t* tile_words = words(packed) + tile * packed.dim(1);
      uint16_t states[256];
      exl3_tile_states(states, tile_words, bits);
      const uint16_t* expected_states = words(expected) + tile * 256;
      for (int i = 0; i < 256; ++i) ASSERT_EQ(states[i], expected_states[i]) << "state " << i;

      std::vector<uint16_t> repacked(static_cast<size_t>(packed.dim(1)), 0xFFFF);
      exl3_pack_tile(repacked.data(), states, bits);
      for (size_t i = 0; i < repacked.size(); ++i)
        ASSERT_EQ(repacked[i], tile_words[i]) << "word " << i;

      for (const Codebook codebook : kCodebooks) {
        const f16* values = file.tensor(key + "." + codebook_name(codebook)).as<f16>() + tile * 256;
        for (int i = 0; i < 256; ++i)
          ASSERT_EQ(exl3_codebook_value(codebook, states[i]), values[i])
              << codebook_name(codebook) << ", weight " << i;
      }
    }
  }
}

TEST(Exl3Golden, tile_positions) {
  const SafetensorsFile file = read(folder() / "exl3_tiles.safetensors");
  const int16_t* position = file.tensor("position").as<int16_t>();
  for (int i = 0; i < 256; ++i) EXPECT_EQ(exl3_tile_position(i), position[i]) << i;
}

// --- the rest
// ---------------------------------------------------------------------------------------

TEST(Exl3Golden, legacy_signs) {
  const SafetensorsFile file = read(folder() / "exl3_legacy_signs.safetensors");
  std::vector<f16> signs;
  const Exl3Matrix w = matrix(file, "lin", &signs);
  EXPECT_TRUE(testing::same_bits({w.suh, DType::f16, {w.in}}, file.tensor("ref.suh")));
  EXPECT_TRUE(testing::same_bits({w.svh, DType::f16, {w.out}}, file.tensor("ref.svh")));
  testing::Compute compute;
  Tensor dense(DType::f32, {w.out, w.in});
  exl3_dense_weight(dense.view(), w, compute.stream);
  const ConstTensorView expected = file.tensor("ref.weight_f16");
  for (int64_t k = 0; k < w.in; ++k) {
    for (int64_t n = 0; n < w.out; ++n)
      ASSERT_EQ(to_f16(load_float(dense.view(), n * w.in + k)), expected.as<f16>()[k * w.out + n])
          << "[" << k << ", " << n << "]";
  }
}

// The table of the README: relative error of the states that the reference encoder chose.
TEST(Exl3Golden, anchor_states_decode_to_the_stated_error) {
  constexpr double kError[8][3] = {
      {0.26849, 0.26787, 0.27531},       {0.068168, 0.067896, 0.069011},
      {0.017548, 0.017087, 0.017366},    {0.0045483, 0.0044540, 0.0044530},
      {1.1839e-3, 1.1611e-3, 1.1277e-3}, {3.1762e-4, 3.1415e-4, 2.9965e-4},
      {8.763e-5, 8.657e-5, 8.036e-5},    {2.408e-5, 2.414e-5, 2.057e-5},
  };
  const SafetensorsFile file = read(folder() / "exl3_quant_anchor.safetensors");
  const ConstTensorView targets = file.tensor("tiles");
  int seen = 0;
  for (size_t c = 0; c < std::size(kCodebooks); ++c) {
    const std::string prefix = codebook_name(kCodebooks[c]) + ".";
    for (const int bits : bit_rates(file, prefix, ".states")) {
      const std::string key = prefix + "k" + std::to_string(bits);
      SCOPED_TRACE(key);
      const ConstTensorView states = file.tensor(key + ".states");
      const double scale = file.tensor(key + ".scale").as<float>()[0];
      double error = 0;
      double energy = 0;
      for (int64_t i = 0; i < targets.elements(); ++i) {
        const double t = targets.as<float>()[i];
        const double q = to_float(exl3_codebook_value(kCodebooks[c], words(states)[i]));
        error += (q / scale - t) * (q / scale - t);
        energy += t * t;
      }
      const double expected = kError[bits - 1][c];
      EXPECT_NEAR(error / energy, expected, 1e-3 * expected);
      // The states are a valid trellis: they survive packing.
      for (int64_t tile = 0; tile < states.dim(0); ++tile) {
        uint16_t packed[128];
        uint16_t unpacked[256];
        exl3_pack_tile(packed, words(states) + tile * 256, bits);
        exl3_tile_states(unpacked, packed, bits);
        for (int i = 0; i < 256; ++i) ASSERT_EQ(unpacked[i], words(states)[tile * 256 + i]);
      }
      ++seen;
    }
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace yoke::kernels
