// The suite can fail: a single bit that depends on who else is in the step is found, and the report
// names the row and the op.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/exactness/short.h"
#include "tests/exactness/traffic.h"

namespace yoke::tests {
namespace {

constexpr Knobs kMixed = {
    .name = "mixed", .slots = 3, .max_chunk = 16, .max_drafts = 4, .mtp = true};
constexpr uint64_t kSeed = 77;

/// nano has KDA in 0, 2, 4, DSA in 1 and 3; its MTP layer is 5.
struct FaultyOp {
  Pass pass;
  int32_t layer;
  const char* op;
};

class Faults : public ::testing::Test {
 protected:
  Faults()
      : subject_(Subject::nano()),
        clients_(
            random_clients(4, subject_.config(), {.count = 3, .prompt_max = 20, .output_max = 12})),
        truth_(serial_decoding(subject_, clients_)),
        model_(subject_.load(traffic_options(subject_, clients_), threads_)) {}

  void SetUp() override {
    if (looks_for_races()) GTEST_SKIP() << "no threads of their own";
  }

  std::string report(const TrafficHooks& hooks) {
    return run_traffic(*model_, clients_, truth_, kMixed, kSeed, hooks).failure;
  }

  Subject subject_;
  std::vector<Client> clients_;
  Truth truth_;
  kernels::ThreadPool threads_{2};
  std::unique_ptr<engine::LoadedModel> model_;
};

TEST_F(Faults, without_one_the_traffic_passes) {
  EXPECT_EQ(report({}), "");
}

TEST_F(Faults, one_wrong_bit_in_a_shared_step_is_reported_with_row_and_op) {
  const FaultyOp ops[] = {
      {Pass::trunk, -1, "embedding"},
      {Pass::trunk, 0, "recurrence"},
      {Pass::trunk, 1, "q_a norm"},
      {Pass::trunk, 1, "selection"},
      {Pass::trunk, 3, "attended"},
      {Pass::trunk, 4, "expert down"},
      {Pass::trunk, -1, "final norm"},
      {Pass::trunk, -1, "logits"},
      {Pass::mtp, 5, "eh"},
      {Pass::mtp, 5, "experts"},
  };
  for (const FaultyOp& faulty : ops) {
    SCOPED_TRACE(faulty.op);
    std::optional<WatchedRow> spoilt;
    TrafficHooks hooks;
    hooks.op_fault = [&](const engine::OpOutput& output, Pass pass,
                         std::span<const WatchedRow> rows) {
      if (spoilt || pass != faulty.pass || output.layer != faulty.layer ||
          std::strcmp(output.name, faulty.op) != 0)
        return;
      // The last row of a step that another sequence is in; of logits, the first that is wanted.
      const WatchedRow& row = rows.back();
      if (!row.is_true || rows.front().sequence == row.sequence) return;
      const size_t line = output.of_logit_rows ? 0 : rows.size() - 1;
      const size_t bytes =
          static_cast<size_t>(output.y.row_elements()) * kernels::dtype_bytes(output.y.dtype);
      static_cast<uint8_t*>(output.y.data)[line * bytes] ^= 1;
      spoilt = row;
    };
    const std::string found = report(hooks);
    ASSERT_TRUE(spoilt.has_value());
    const auto has = [&](const std::string& text) {
      EXPECT_NE(found.find(text), std::string::npos) << "wanted " << text << " in:\n" << found;
    };
    has("seed " + std::to_string(kSeed));
    has(std::string("op \"") + faulty.op + "\"");
    has(faulty.layer < 0 ? "outside layers" : "layer " + std::to_string(faulty.layer) + ",");
    has("DIFFERENT");
    if (std::strcmp(faulty.op, "logits") == 0) continue;  // which row that is, the hook is not told
    has("sequence " + std::to_string(spoilt->sequence) + ", position " +
        std::to_string(spoilt->position));
  }
}

TEST_F(Faults, a_spoilt_cache_is_reported_at_the_op_that_reads_it) {
  struct SpoiltCache {
    std::function<kernels::TensorView(engine::Caches&)> cache;
    const char* op;
  };
  const SpoiltCache caches[] = {
      {[](engine::Caches& c) { return c.kda(2).state.view(); }, "layer 2, op \"recurrence\""},
      {[](engine::Caches& c) { return c.kda(0).k.history.view(); },
       "layer 0, op \"k convolution\""},
      {[](engine::Caches& c) { return c.dsa(3).latent.view(); }, "layer 3, op \"attended\""},
      {[](engine::Caches& c) { return c.dsa(5).latent.view(); }, "layer 5, op \"attended\""},
  };
  for (const SpoiltCache& spoilt : caches) {
    SCOPED_TRACE(spoilt.op);
    TrafficHooks hooks;
    hooks.after_step = [&](engine::LoadedModel& model, int64_t step) {
      if (step != 6) return;
      const kernels::TensorView view = spoilt.cache(model.parts().caches);
      for (size_t i = 0; i < view.bytes(); i += 2) static_cast<uint8_t*>(view.data)[i + 1] ^= 0x40;
    };
    const std::string found = report(hooks);
    EXPECT_NE(found.find(spoilt.op), std::string::npos) << found;
    // The model is spoilt only until its sequences start again.
    EXPECT_EQ(report({}), "");
  }
}

}  // namespace
}  // namespace yoke::tests
