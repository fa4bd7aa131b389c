// The runtime over nano: the gate of the known answer, and what a damaged folder says.
#include "engine/runtime.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/known_answers.h"

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;

const fs::path kNano = fs::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint";

RuntimeOptions nano_options() {
  RuntimeOptions options;
  options.folder = kNano;
  options.max_sequences = 2;
  options.max_model_len = 2048;
  return options;
}

/// A copy of nano that a test may damage; gone with the object.
class NanoCopy {
 public:
  NanoCopy() : folder_(fs::temp_directory_path() / ("yoke-nano-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::copy(kNano, folder_);
    for (const auto& entry : fs::directory_iterator(folder_))
      fs::permissions(entry, fs::perms::owner_write, fs::perm_options::add);
  }
  ~NanoCopy() { fs::remove_all(folder_); }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

TEST(KnownAnswers, the_nano_of_this_tree_is_known) {
  const auto nano = Checkpoint::open(kNano);
  ASSERT_TRUE(nano.ok());
  ASSERT_TRUE(known_answer(nano->identity()).has_value())
      << "the checkpoint changed; its identity is now " << nano->identity();
  EXPECT_FALSE(known_answer("another").has_value());
}

TEST(Runtime, nano_gives_its_known_answer_and_serves) {
  auto runtime = Runtime::open(nano_options(), config::null_logger());
  ASSERT_TRUE(runtime.ok()) << runtime.error().message;
  EXPECT_EQ((*runtime)->max_model_len(), 2048);
  EXPECT_EQ((*runtime)->eos_token_ids(), (std::vector<int32_t>{1220, 1227, 1229}));
  EXPECT_EQ((*runtime)->default_sampling().temperature, 0) << "do_sample is false";
  const auto ready = (*runtime)->engine().wait_until_ready();
  EXPECT_TRUE(ready.ok()) << ready.error().message;
  EXPECT_EQ((*runtime)->engine().status().state, ReadyState::ready);
}

TEST(Runtime, damaged_weights_fail_the_known_answer) {
  const NanoCopy copy;
  {
    // The identity covers headers and sizes, so nano is still recognised; but half of its output
    // matrix is zero.
    const auto nano = Checkpoint::open(kNano);
    const TensorInfo* head = nano->find("lm_head.weight");
    ASSERT_NE(head, nullptr);
    std::fstream shard(copy.folder() / nano->shards()[head->shard].filename(),
                       std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(static_cast<std::streamoff>(head->file_offset));
    const std::string zeros(head->bytes / 2, '\0');
    shard.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
    ASSERT_TRUE(shard.good());
  }
  RuntimeOptions options = nano_options();
  options.folder = copy.folder();
  auto runtime = Runtime::open(options, config::null_logger());
  ASSERT_TRUE(runtime.ok()) << runtime.error().message;
  const auto ready = (*runtime)->engine().wait_until_ready();
  ASSERT_FALSE(ready.ok());
  EXPECT_NE(ready.error().message.find("must begin with \"I need 17 times 23."), std::string::npos)
      << ready.error().message;
}

TEST(Runtime, a_folder_that_cannot_be_served_is_refused_before_loading) {
  const NanoCopy copy;
  fs::remove(copy.folder() / "model-00002-of-00003.safetensors");
  RuntimeOptions options = nano_options();
  options.folder = copy.folder();
  const auto runtime = Runtime::open(options, config::null_logger());
  ASSERT_FALSE(runtime.ok());
  EXPECT_NE(runtime.error().message.find("model-00002-of-00003"), std::string::npos)
      << runtime.error().message;
}

TEST(Runtime, options_that_contradict_checkpoint_or_each_other_are_named) {
  const auto message = [](auto change) {
    RuntimeOptions options = nano_options();
    change(options);
    const auto runtime = Runtime::open(options, config::null_logger());
    return runtime.ok() ? std::string() : runtime.error().message;
  };
  EXPECT_EQ(message([](auto& o) { o.max_model_len = 1 << 20; }),
            "max_model_len: the checkpoint allows 131072 tokens, got 1048576");
  EXPECT_NE(message([](auto& o) { o.max_batched_tokens = 3; }).find("max_num_batched_tokens"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.folder = "/nowhere"; }).find("/nowhere"), std::string::npos);
}

}  // namespace
}  // namespace yoke::engine
