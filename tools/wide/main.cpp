// yoke_make_wide FOLDER [OPTION=VALUE...]: writes `wide`, a random checkpoint with the widths that
// small models lack (engine/testing/random_checkpoint.h), with nano's tokenizer beside it, so that
// `yoke serve --model FOLDER` runs it. For benches and load tests; what it writes is noise.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "engine/checkpoint/checkpoint.h"
#include "engine/testing/random_checkpoint.h"

namespace {

using namespace yoke::engine;

constexpr const char* kUsage =
    "usage: yoke_make_wide FOLDER [experts=64] [layers=8] [vocab=32768] [topk=256] [bits=4] "
    "[mtp=1] "
    "[seed=1]\n"
    "bits: EXL3 bits of the experts, 0 = BF16\n";

struct Request {
  std::filesystem::path folder;
  WideShape shape;
  uint64_t seed = 1;
};

/// nullopt: something is not understood.
std::optional<Request> parse(int count, char** words) {
  if (count < 2) return std::nullopt;
  Request request{words[1], {}, 1};
  for (int i = 2; i < count; ++i) {
    const std::string_view word = words[i];
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = word.substr(0, equals);
    int32_t value = 0;
    const char* end = word.data() + word.size();
    if (std::from_chars(word.data() + equals + 1, end, value).ptr != end || value < 0)
      return std::nullopt;
    if (name == "experts")
      request.shape.experts = value;
    else if (name == "layers")
      request.shape.layers = value;
    else if (name == "vocab")
      request.shape.vocab_size = value;
    else if (name == "topk")
      request.shape.index_topk = value;
    else if (name == "bits")
      request.shape.expert_bits = value;
    else if (name == "mtp")
      request.shape.with_mtp = value != 0;
    else if (name == "seed")
      request.seed = static_cast<uint64_t>(value);
    else
      return std::nullopt;
  }
  return request;
}

void make(const Request& request) {
  const std::filesystem::path nano = YOKE_SOURCE_DIR "/tools/nano/checkpoint";
  RandomCheckpoint what = wide_checkpoint(request.shape);
  what.seed = request.seed;
  const auto tokenizer_of = Checkpoint::open(nano);
  if (!tokenizer_of.ok()) throw std::runtime_error(tokenizer_of.error().message);
  what.config.eos_token_ids = tokenizer_of->config().eos_token_ids;
  std::filesystem::create_directories(request.folder);
  write_random_checkpoint(request.folder, what);
  for (const char* name : {"tokenizer.json", "generation_config.json"}) {
    std::filesystem::copy_file(nano / name, request.folder / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  const auto made = Checkpoint::open(request.folder);
  if (!made.ok()) throw std::runtime_error(made.error().message);
  for (const auto& problem : made->census().problems) throw std::runtime_error(problem);
}

}  // namespace

int main(int count, char** words) {
  const std::optional<Request> request = parse(count, words);
  if (!request) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    const auto begin = std::chrono::steady_clock::now();
    make(*request);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf(
        "%s: %.1f MiB in %.1f s\n", request->folder.c_str(),
        static_cast<double>(std::filesystem::file_size(request->folder / "model.safetensors")) /
            (1 << 20),
        took.count());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "yoke_make_wide: %s\n", e.what());
    return 1;
  }
}
