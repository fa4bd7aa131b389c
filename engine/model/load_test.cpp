// Loading: every way a checkpoint may store a matrix gives the same model; what cannot be loaded is
// refused in words; the memory plan says what is then used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "engine/model/system_memory.h"
#include "engine/testing/random_model.h"
#include "kernels/exl3/exl3.h"
#include "kernels/testing/compare.h"

namespace yoke::engine {
namespace {

using kernels::testing::Random;
using ::testing::HasSubstr;

const std::vector<int32_t> kPrompt = {5,  17, 300, 2,  77, 41,  9,  120, 33, 8,   200, 6,
                                      51, 4,  99,  13, 7,  450, 21, 3,   64, 230, 18,  1};

ModelOptions small_options(Precision precision = Precision::fp32) {
  ModelOptions options;
  options.precision = precision;
  options.max_rows = 32;
  options.max_logit_rows = 32;
  options.max_model_len = 64;
  options.max_slots = 2;
  options.max_snapshots = 3;
  return options;
}

double rms(std::span<const float> values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x) * x;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> difference(a.size());
  std::transform(a.begin(), a.end(), b.begin(), difference.begin(), std::minus<>());
  return rms(difference);
}

class Load : public ::testing::Test {
 protected:
  /// Logits of kPrompt, and the MTP layer's over the same tokens.
  std::vector<float> outputs(const std::filesystem::path& folder, const ModelOptions& options) {
    auto checkpoint = Checkpoint::open(folder);
    if (!checkpoint.ok()) throw std::runtime_error(checkpoint.error().message);
    auto model = Model::load(*checkpoint, options, threads_);
    if (!model.ok()) throw std::runtime_error(model.error().message);
    RowSet hidden;
    std::vector<float> out =
        run_prompt(**model, kPrompt, static_cast<int32_t>(kPrompt.size()), &hidden).values;
    SequenceDriver sequence(**model, 0);
    StepPlan plan;
    plan.sequences.push_back(sequence.next(kPrompt, -1, all_rows(kPrompt)));
    const StepResult mtp = (*model)->mtp_step(plan, hidden.values);
    out.insert(out.end(), mtp.logits.begin(), mtp.logits.end());
    return out;
  }

  std::vector<float> outputs(const RandomCheckpoint& what, const ModelOptions& options) {
    const TempFolder folder;
    write_random_checkpoint(folder.path(), what);
    return outputs(folder.path(), options);
  }

  kernels::ThreadPool threads_{2};
};

/// Rewrites a checkpoint with every EXL3 matrix decoded to a dense F32 `.weight`.
void write_decoded(const std::filesystem::path& to, const std::filesystem::path& from,
                   const ModelConfig& config) {
  const Checkpoint checkpoint = std::move(*Checkpoint::open(from));
  kernels::ThreadPool threads(1);
  kernels::Stream stream(threads);
  std::string header = "{";
  std::string data;
  const auto add = [&](const std::string& name, const std::string& dtype,
                       std::span<const int64_t> shape, const void* bytes, size_t size) {
    std::string dims;
    for (const int64_t d : shape) dims += (dims.empty() ? "" : ",") + std::to_string(d);
    header += (header.size() > 1 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" + dtype +
              "\",\"shape\":[" + dims + "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + size) + "]}";
    data.append(static_cast<const char*>(bytes), size);
  };
  const auto visit = [&](const ExpectedTensor& t) {
    const auto group = checkpoint.find_exl3(t.name);
    if (!group) {
      const TensorInfo& info = *checkpoint.find(t.name);
      std::vector<std::byte> bytes(info.bytes);
      ASSERT_TRUE(checkpoint.read(info, bytes).ok());
      add(t.name, info.dtype, t.shape(), bytes.data(), bytes.size());
      return;
    }
    std::vector<std::byte> words(group->trellis->bytes);
    std::vector<kernels::f16> suh(static_cast<size_t>(group->in));
    std::vector<kernels::f16> svh(static_cast<size_t>(group->out));
    ASSERT_TRUE(checkpoint.read(*group->trellis, words).ok());
    ASSERT_TRUE(checkpoint.read_scales(*group->in_scales, suh).ok());
    ASSERT_TRUE(checkpoint.read_scales(*group->out_scales, svh).ok());
    kernels::Tensor dense(kernels::DType::f32, {group->out, group->in});
    kernels::exl3_dense_weight(
        dense.view(),
        {group->in, group->out, group->bits, group->codebook,
         reinterpret_cast<const uint16_t*>(words.data()), suh.data(), svh.data()},
        stream);
    add(t.name, "F32", t.shape(), dense.view().data, dense.bytes());
  };
  visit_inventory(config, InventoryPart::text, visit);
  visit_inventory(config, InventoryPart::mtp, visit);
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::ofstream out(to / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << data;
  std::ofstream(to / "config.json") << config_json(config);
}

TEST_F(Load, exl3_groups_of_every_kind_equal_their_decoded_matrices) {
  for (const kernels::Codebook codebook :
       {kernels::Codebook::threeinst, kernels::Codebook::mcg, kernels::Codebook::mul1}) {
    for (const bool packed_signs : {false, true}) {
      const TempFolder packed;
      const TempFolder decoded;
      RandomCheckpoint what;
      what.config = exl3_config();
      what.bits = exl3_everything();
      what.codebook = codebook;
      what.packed_signs = packed_signs;
      write_random_checkpoint(packed.path(), what);
      write_decoded(decoded.path(), packed.path(), what.config);
      const std::vector<float> got = outputs(packed.path(), small_options());
      const std::vector<float> want = outputs(decoded.path(), small_options());
      // Two summation orders of the same float values; a choice that flips would show as ~1.
      EXPECT_LE(rms_difference(got, want), 1e-4 * rms(want))
          << "codebook " << static_cast<int>(codebook) << " packed signs " << packed_signs;
    }
  }
}

TEST_F(Load, dense_types_may_be_bf16_f16_or_f32) {
  RandomCheckpoint what;
  what.config = tiny_config();
  what.dense_dtype = "F32";
  const std::vector<float> exact = outputs(what, small_options());
  what.dense_dtype = "F16";
  const std::vector<float> half = outputs(what, small_options());
  // Weights rounded to 11 bits: the models differ, but only by rounding.
  EXPECT_LT(rms_difference(half, exact), 0.3 * rms(exact));
  EXPECT_GT(rms_difference(half, exact), 0);
}

TEST_F(Load, tied_embeddings_serve_as_head) {
  RandomCheckpoint what;
  what.config = tiny_config();
  what.config.tie_word_embeddings = true;
  const std::vector<float> tied = outputs(what, small_options());
  EXPECT_TRUE(std::all_of(tied.begin(), tied.end(), [](float x) { return std::isfinite(x); }));
  EXPECT_GT(rms(tied), 0.1);
}

TEST_F(Load, the_mtp_layer_is_left_out_on_request) {
  RandomCheckpoint what;
  what.config = tiny_config();
  ModelOptions options = small_options();
  const std::unique_ptr<LoadedModel> with = load_random_model(what, options, threads_);
  options.with_mtp = false;
  const std::unique_ptr<LoadedModel> without = load_random_model(what, options, threads_);
  EXPECT_TRUE(with->has_mtp());
  EXPECT_FALSE(without->has_mtp());
  EXPECT_LT(without->weight_bytes(), with->weight_bytes());
  EXPECT_LT(without->cache_bytes(), with->cache_bytes());
}

TEST_F(Load, progress_ends_at_the_total) {
  const TempFolder folder;
  RandomCheckpoint what;
  what.config = exl3_config();
  what.bits = exl3_everything();
  write_random_checkpoint(folder.path(), what);
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  uint64_t last = 0;
  uint64_t total = 0;
  auto model =
      Model::load(*checkpoint, small_options(), threads_, [&](uint64_t done, uint64_t all) {
        EXPECT_GE(done, last);
        last = done;
        total = all;
      });
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 0u);
}

TEST_F(Load, the_memory_plan_is_what_a_model_then_holds) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const TempFolder folder;
    RandomCheckpoint what;
    what.config = exl3_config();
    what.bits = exl3_everything();
    write_random_checkpoint(folder.path(), what);
    auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_TRUE(checkpoint.ok());
    const auto plan = plan_memory(*checkpoint, small_options(precision), threads_.threads());
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    auto model = LoadedModel::load(*checkpoint, small_options(precision), threads_);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(plan->total(), (*model)->weight_bytes() + (*model)->cache_bytes() +
                                 (*model)->parts().snapshots.bytes() +
                                 (*model)->parts().memory.bytes());
    EXPECT_EQ(plan->classes.front().name, "weights");
    EXPECT_EQ(plan->classes.front().bytes, (*model)->weight_bytes());
  }
}

TEST_F(Load, caches_that_do_not_fit_are_refused_with_what_is_missing) {
  if (!system_memory()) GTEST_SKIP() << "this system does not say how much memory is available";
  const TempFolder folder;
  RandomCheckpoint what;
  what.config = tiny_config();
  write_random_checkpoint(folder.path(), what);
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  ModelOptions options = small_options();
  options.num_blocks = 2'000'000'000;
  const auto model = Model::load(*checkpoint, options, threads_);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().kind, config::ErrorKind::exhausted);
  EXPECT_THAT(model.error().message, HasSubstr("KV pool"));
  EXPECT_THAT(model.error().message, HasSubstr("TiB are missing"));
}

TEST_F(Load, options_and_sizes_out_of_bounds_are_refused_by_name) {
  RandomCheckpoint what;
  what.config = tiny_config();
  const auto refusal = [&](const ModelOptions& options) {
    const TempFolder folder;
    write_random_checkpoint(folder.path(), what);
    auto checkpoint = Checkpoint::open(folder.path());
    EXPECT_TRUE(checkpoint.ok());
    const auto model = Model::load(*checkpoint, options, threads_);
    return model.ok() ? "" : model.error().message;
  };
  ModelOptions options = small_options();
  options.max_rows = 0;
  EXPECT_THAT(refusal(options), HasSubstr("max_rows: want at least 1, found 0"));
  what.config.index_kpool = 32;
  what.config.index_topk = 64;
  EXPECT_THAT(refusal(small_options()), HasSubstr("index_kpool is 32"));
}

TEST_F(Load, a_damaged_folder_is_refused_with_its_first_problem) {
  const TempFolder folder;
  RandomCheckpoint what;
  what.config = tiny_config();
  write_random_checkpoint(folder.path(), what);
  what.config.hidden_size = 64;  // the files say otherwise
  std::ofstream(folder.path() / "config.json") << config_json(what.config);
  auto checkpoint = Checkpoint::open(folder.path());
  if (!checkpoint.ok()) return;  // refused even earlier
  const auto model = Model::load(*checkpoint, small_options(), threads_);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().message, HasSubstr("cannot be served"));
}

TEST(RandomCheckpoint, its_config_reads_back_as_it_was) {
  for (const ModelConfig& c : {tiny_config(), exl3_config()}) {
    const auto read = parse_model_config(config_json(c), "config.json");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(read->num_layers, c.num_layers);
    EXPECT_EQ(read->attention, c.attention);
    EXPECT_EQ(read->mlp, c.mlp);
    EXPECT_EQ(read->kda_head_dim, c.kda_head_dim);
    EXPECT_EQ(read->index_topk, c.index_topk);
    EXPECT_EQ(read->num_mtp_layers, c.num_mtp_layers);
    EXPECT_EQ(read->swiglu_limit, c.swiglu_limit);
    EXPECT_EQ(read->gate_lower_bound, c.gate_lower_bound);
  }
}

}  // namespace
}  // namespace yoke::engine
