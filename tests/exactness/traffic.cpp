#include "tests/exactness/traffic.h"

#include <algorithm>
#include <numeric>

#include "engine/testing/step_driver.h"

namespace yoke::tests {

using engine::LoadedModel;
using engine::StepPlan;
using engine::StepResult;
using engine::StepSequence;
using kernels::testing::Random;

namespace {

bool chance(Random& random, double p) {
  return random.uniform() < p;
}

template <class T>
void shuffle(Random& random, std::vector<T>& items) {
  for (size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
}

int32_t size_of(const std::vector<int32_t>& v) {
  return static_cast<int32_t>(v.size());
}

void append(std::vector<float>& to, const std::vector<float>& values) {
  to.insert(to.end(), values.begin(), values.end());
}

/// What a client of ours may go on from. The snapshot's number is the client's.
struct Saved {
  int32_t position = 0;         ///< 0: nothing
  std::vector<int32_t> blocks;  ///< before the one of the newest row, held for us
};

/// A client that runs, or waits to.
struct Run {
  int32_t client = 0;
  int64_t arrival = 0;  ///< step
  bool done = false;
  std::vector<int32_t> tokens;  ///< known
  engine::TokenCounts counts;
  std::vector<int32_t> drafts;  ///< of the MTP layer, for the next step
  int32_t slot = -1;
  std::vector<int32_t> blocks;
  int32_t committed = 0;
  int32_t kept = 0;      ///< rows of the last window that were right: replayed next
  int32_t restore = -1;  ///< snapshot that the next rows go on from
  Saved saved;

  int32_t computed() const { return committed + kept; }
};

/// One run's rows in the step.
struct Part {
  Run* run = nullptr;
  int32_t start = 0;
  int32_t known = 0;  ///< rows whose tokens are known
  int32_t commit = 0;
  int32_t replay = 0;
  int32_t restore = -1;
  bool saves = false;           ///< a snapshot, after its rows
  std::vector<int32_t> drafts;  ///< rows after them
  std::vector<int32_t> logit_rows;
  int32_t first_row = 0;
  int32_t accepted = 0;  ///< rows that turned out true: `known` and right drafts

  int32_t rows() const { return known + size_of(drafts); }
  bool complete() const { return start + known == size_of(run->tokens); }
};

/// A run that drafts with the MTP layer: its newest draft, and the hidden row of that.
struct Chain {
  Run* run = nullptr;
  std::vector<float> hidden;
  int32_t draft = 0;
};

class Traffic {
 public:
  Traffic(LoadedModel& model, const std::vector<Client>& clients, Truth& truth, const Knobs& knobs,
          uint64_t seed, const TrafficHooks& hooks)
      : model_(model),
        clients_(clients),
        truth_(truth),
        knobs_(knobs),
        hooks_(hooks),
        seed_(seed),
        random_(seed),
        watch_(model, truth.digests, OpWatch::Mode::compare) {
    if (hooks.op_fault) watch_.set_fault(hooks.op_fault);
    slots_.resize(static_cast<size_t>(knobs.slots));
    std::iota(slots_.begin(), slots_.end(), 0);
    for (int32_t block = 0; block < model.num_blocks(); ++block) blocks_.push_back(block);
    holders_.resize(blocks_.size());
    for (size_t i = 0; i < clients.size(); ++i) {
      Run run;
      run.client = static_cast<int32_t>(i);
      run.arrival = knobs.random_arrival ? random_.below(12) : 0;
      runs_.push_back(std::move(run));
      ask(runs_.back());
    }
  }

  TrafficOutcome run() {
    while (outcome_.failure.empty() && !all_done()) {
      YOKE_CHECK(++ticks_ < 100'000, "traffic does not come to its end");
      disturb();
      admit();
      if (!plan()) continue;
      step();
      ++outcome_.steps;
      if (hooks_.after_step) hooks_.after_step(model_, outcome_.steps);
    }
    model_.parts().buffers.set_least_buckets(0, 0);
    outcome_.compared = watch_.compared();
    return outcome_;
  }

 private:
  const Client& client(const Run& run) const { return clients_[static_cast<size_t>(run.client)]; }
  const std::vector<int32_t>& truth(const Run& run) const {
    return truth_.tokens[static_cast<size_t>(run.client)];
  }
  bool all_done() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const Run& r) { return r.done; });
  }
  std::vector<Run*> running() {
    std::vector<Run*> out;
    for (Run& run : runs_) {
      if (run.slot >= 0) out.push_back(&run);
    }
    return out;
  }

  /// A request as new.
  void ask(Run& run) {
    run.tokens = client(run).prompt;
    run.counts = engine::TokenCounts(run.tokens);
  }

  void leave(Run& run) {
    slots_.push_back(run.slot);
    release(run.blocks);
    run.drafts.clear();
    run.slot = run.restore = -1;
    run.committed = run.kept = 0;
  }

  void hold(int32_t block) { ++holders_[static_cast<size_t>(block)]; }
  void release(std::vector<int32_t>& blocks) {
    for (const int32_t block : blocks) {
      if (--holders_[static_cast<size_t>(block)] == 0) blocks_.push_back(block);
    }
    blocks.clear();
  }

  /// After a step that saved: the blocks that the snapshot relies on stay as they are.
  void keep_saved(Run& run, int32_t position) {
    release(run.saved.blocks);
    run.saved.position = position;
    const auto full = static_cast<size_t>((position - 1) / model_.block_tokens());
    run.saved.blocks.assign(run.blocks.begin(), run.blocks.begin() + static_cast<int64_t>(full));
    for (const int32_t block : run.saved.blocks) hold(block);
  }

  /// A run that just got its slot goes on from its snapshot, if it has one before its end.
  void resume(Run& run) {
    if (run.saved.position == 0 || run.saved.position >= size_of(run.tokens)) return;
    if (outcome_.resumed_tokens > 0 && chance(random_, 0.25)) return;
    run.blocks = run.saved.blocks;
    for (const int32_t block : run.blocks) hold(block);
    run.committed = run.saved.position;
    run.restore = run.client;
    outcome_.resumed_tokens += run.committed;
  }

  void preempt(Run& run) {
    leave(run);
    ++outcome_.preemptions;
  }

  /// The first of each kind comes as soon as it costs something, so that short traffic has it, too:
  /// how long that is depends on what the model says on this target.
  void disturb() {
    for (Run* run : running()) {
      const bool ripe = knobs_.snapshots ? run->saved.position > 0 : run->computed() > 0;
      if (knobs_.preempt && ((ripe && outcome_.preemptions == 0) || chance(random_, 0.04))) {
        preempt(*run);
      } else if (knobs_.cancel &&
                 ((ripe && outcome_.cancellations == 0) || chance(random_, 0.02))) {
        leave(*run);
        ask(*run);
        ++outcome_.cancellations;
      }
    }
  }

  void admit() {
    std::vector<Run*> waiting;
    for (Run& run : runs_) {
      if (!run.done && run.slot < 0 && run.arrival <= ticks_) waiting.push_back(&run);
    }
    shuffle(random_, waiting);
    for (Run* run : waiting) {
      if (slots_.empty()) return;
      const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(slots_.size())));
      run->slot = slots_[at];
      slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(at));
      resume(*run);
    }
  }

  /// Blocks for so many positions; takes them from others if need be, but not from those that are
  /// planned already.
  bool cover(Run& run, int32_t positions) {
    const auto wanted =
        static_cast<size_t>((positions + model_.block_tokens() - 1) / model_.block_tokens());
    while (run.blocks.size() < wanted) {
      if (blocks_.empty() && !evict(run)) return false;
      if (blocks_.empty()) continue;  // what was evicted held shared blocks only
      const auto at = static_cast<size_t>(random_.below(static_cast<int64_t>(blocks_.size())));
      run.blocks.push_back(blocks_[at]);
      hold(blocks_[at]);
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return true;
  }

  bool evict(const Run& beneficiary) {
    for (Run& run : runs_) {
      if (run.saved.blocks.empty() || run.restore >= 0) continue;
      run.saved.position = 0;
      release(run.saved.blocks);
      return true;
    }
    std::vector<Run*> others;
    for (Run* run : running()) {
      const auto is_planned = [&](const Part& p) { return p.run == run; };
      if (run != &beneficiary && !run->blocks.empty() &&
          std::none_of(parts_.begin(), parts_.end(), is_planned))
        others.push_back(run);
    }
    if (others.empty()) return false;
    preempt(*others[static_cast<size_t>(random_.below(static_cast<int64_t>(others.size())))]);
    return true;
  }

  /// False: nobody runs in this step.
  bool plan() {
    parts_.clear();
    std::vector<Run*> order = running();
    shuffle(random_, order);
    int32_t rows = 0;
    for (Run* run : order) {
      if (run->slot < 0) continue;  // lost its place to one before it
      if (order.size() > 1 && chance(random_, 0.2)) continue;
      const int32_t room = model_.options().max_rows - rows;
      if (room == 0) break;
      Part part = part_of(*run, room);
      if (!cover(*run, part.start + part.rows())) continue;
      part.first_row = rows;
      rows += part.rows();
      parts_.push_back(std::move(part));
    }
    return !parts_.empty();
  }

  Part part_of(Run& run, int32_t room) {
    Part part;
    part.run = &run;
    part.start = run.computed();
    part.replay = run.kept;
    part.restore = run.restore;
    const int32_t missing = size_of(run.tokens) - part.start;
    const int32_t chunk =
        knobs_.max_chunk >= missing ? missing : at_random(random_, 1, knobs_.max_chunk);
    part.known = std::min({missing, chunk, room});
    if (part.complete()) part.drafts = drafts_for(run, room - part.known);
    part.commit = part.known;
    // Certain rows may be told as window rows, too.
    if (knobs_.max_drafts > 0 && chance(random_, 0.15)) {
      const int32_t spare = model_.options().max_window - size_of(part.drafts);
      part.commit -= at_random(random_, 0, std::min(part.known, spare));
    }
    part.saves =
        knobs_.snapshots && part.restore < 0 && part.commit == part.rows() && chance(random_, 0.4);
    for (int32_t r = 0; r < part.rows(); ++r) {
      const bool needed = part.complete() && r >= part.known - 1;
      if (needed || chance(random_, 0.1)) part.logit_rows.push_back(r);
    }
    return part;
  }

  /// Serial decoding's last token is never run, so rows end before it.
  std::vector<int32_t> drafts_for(const Run& run, int32_t room) {
    const std::vector<int32_t>& right = truth(run);
    const int32_t end = size_of(right) - 1;
    const int32_t most = std::min({knobs_.max_drafts, room, end - size_of(run.tokens)});
    std::vector<int32_t> drafts;
    if (most <= 0) return drafts;
    if (!run.drafts.empty()) {
      drafts = run.drafts;
      drafts.resize(std::min(drafts.size(), static_cast<size_t>(most)));
      return drafts;
    }
    const int32_t count = at_random(random_, 0, most);
    for (int32_t i = 0; i < count; ++i) {
      const int32_t token = right[run.tokens.size() + static_cast<size_t>(i)];
      drafts.push_back(chance(random_, knobs_.right_drafts)
                           ? token
                           : (token + at_random(random_, 1, 99)) % model_.config().vocab_size);
    }
    return drafts;
  }

  StepPlan step_plan() {
    StepPlan plan;
    std::vector<WatchedRow> watched;
    std::vector<int32_t> logit_rows;
    bool has_prompt = false, has_decoding = false;
    for (const Part& part : parts_) {
      const Run& run = *part.run;
      StepSequence s;
      s.slot = run.slot;
      s.start_position = part.start;
      s.tokens.assign(run.tokens.begin() + part.start,
                      run.tokens.begin() + part.start + part.known);
      s.tokens.insert(s.tokens.end(), part.drafts.begin(), part.drafts.end());
      s.commit = part.commit;
      s.replay = part.replay;
      s.logit_rows = part.logit_rows;
      s.blocks = run.blocks;
      s.restore = part.restore;
      s.save = part.saves ? run.client : -1;
      bool is_true = true;
      for (int32_t r = 0; r < part.rows(); ++r) {
        const auto position = static_cast<size_t>(part.start + r);
        is_true = is_true && s.tokens[static_cast<size_t>(r)] == truth(run)[position];
        watched.push_back({run.client, part.start + r, is_true});
        note(static_cast<uint64_t>(s.tokens[static_cast<size_t>(r)]));
      }
      for (const int32_t r : part.logit_rows) logit_rows.push_back(part.first_row + r);
      note(static_cast<uint64_t>(run.client * 1000 + run.slot));
      (part.known > 1 ? has_prompt : has_decoding) = true;
      plan.sequences.push_back(std::move(s));
    }
    outcome_.mixed_steps += has_prompt && has_decoding;
    watch_.begin(Pass::trunk, std::move(watched), std::move(logit_rows));
    return plan;
  }

  void step() {
    engine::StepBuffers& buffers = model_.parts().buffers;
    const StepPlan plan = step_plan();
    if (knobs_.pad) {
      buffers.set_least_buckets(plan.rows() + at_random(random_, 0, 9), at_random(random_, 0, 9));
    }
    const StepResult result = model_.step(plan);
    outcome_.rows += buffers.rows();
    outcome_.padding_rows += buffers.bucket() - buffers.rows();
    check("trunk");  // before a spoilt row is sampled from
    if (!outcome_.failure.empty()) return;
    int32_t logit_row = 0;
    for (Part& part : parts_) {
      take(part, result, logit_row);
      logit_row += size_of(part.logit_rows);
    }
    check("trunk");
    if (!outcome_.failure.empty()) return;
    if (knobs_.mtp) run_mtp(model_.hidden());
    // Before drafts: what they leave behind is none of a snapshot's business.
    if (knobs_.snapshots) model_.take_snapshots(plan);
    if (knobs_.mtp) draft();
    for (Part& part : parts_) {
      Run& run = *part.run;
      run.restore = -1;
      if (part.saves) keep_saved(run, part.start + part.commit);
      if (run.tokens.size() == truth(run).size()) {
        run.done = true;
        leave(run);
      }
    }
  }

  /// New tokens of one part: the longest prefix of its drafts that its own logits confirm, and one.
  void take(Part& part, const StepResult& result, int32_t logit_row) {
    Run& run = *part.run;
    run.drafts.clear();
    part.accepted = part.known;
    if (part.complete()) {
      const int32_t before = size_of(part.logit_rows) - size_of(part.drafts) - 1;
      for (int32_t i = 0; i <= size_of(part.drafts); ++i) {
        const int32_t token =
            sample(result.row(logit_row + before + i), client(run), run.counts, run.tokens.size());
        if (token != truth(run)[run.tokens.size()] && outcome_.failure.empty())
          outcome_.failure = "a token differs from serial decoding's";
        run.tokens.push_back(token);
        run.counts.add_output(token);
        note(static_cast<uint64_t>(token));
        if (i == size_of(part.drafts)) break;
        if (part.drafts[static_cast<size_t>(i)] != token) {
          outcome_.wrong_drafts += size_of(part.drafts) - i;
          break;
        }
        ++part.accepted;
        ++outcome_.right_drafts;
      }
    }
    run.committed = part.start + part.commit;
    run.kept = part.accepted - part.commit;
  }

  /// The MTP layer over all rows that turned out true. Leaves a first draft for each part.
  void run_mtp(kernels::ConstTensorView hidden) {
    StepPlan plan;
    std::vector<WatchedRow> watched;
    std::vector<int32_t> logit_rows;
    std::vector<float> in;
    chains_.clear();
    int32_t rows = 0;
    for (const Part& part : parts_) {
      const Run& run = *part.run;
      const auto next = run.tokens.begin() + part.start + 1;
      append(in, hidden_rows(hidden, part.first_row, part.accepted));
      for (int32_t r = 0; r < part.accepted; ++r)
        watched.push_back({run.client, part.start + r, true});
      plan.sequences.push_back({.slot = run.slot,
                                .start_position = part.start,
                                .tokens = {next, next + part.accepted},
                                .commit = part.accepted,
                                .logit_rows = {part.accepted - 1},
                                .blocks = run.blocks});
      rows += part.accepted;
      logit_rows.push_back(rows - 1);
      chains_.push_back({part.run, {}, 0});
    }
    watch_.begin(Pass::mtp, std::move(watched), logit_rows);
    const StepResult result = model_.mtp_step(plan, in);
    check("MTP layer");
    take_drafts(result, logit_rows);
  }

  /// One draft of each chain from a result with one row of logits per chain.
  void take_drafts(const StepResult& result, const std::vector<int32_t>& hidden_row) {
    for (size_t i = 0; i < chains_.size(); ++i) {
      chains_[i].draft = engine::argmax_of(result.row(static_cast<int32_t>(i)));
      chains_[i].hidden = hidden_rows(model_.mtp_hidden(), hidden_row[i], 1);
    }
  }

  /// Chains of drafts: each with the token just drafted, and the hidden row that it came from.
  void draft() {
    for (int32_t depth = 0; depth < knobs_.max_drafts; ++depth) {
      std::vector<Chain> going;
      StepPlan plan;
      std::vector<float> in;
      for (Chain& chain : chains_) {
        Run& run = *chain.run;
        if (run.computed() + 1 != size_of(run.tokens) || !chance(random_, 0.6)) continue;
        run.drafts.push_back(chain.draft);
        const int32_t position = run.computed() + depth;
        if (depth + 1 == knobs_.max_drafts || position >= size_of(truth(run)) - 1 ||
            position >= size_of(run.blocks) * model_.block_tokens())
          continue;
        append(in, chain.hidden);
        plan.sequences.push_back({.slot = run.slot,
                                  .start_position = position,
                                  .tokens = {chain.draft},
                                  .commit = 1,
                                  .logit_rows = {0},
                                  .blocks = run.blocks});
        going.push_back(chain);
      }
      if (going.empty()) return;
      chains_ = std::move(going);
      watch_.begin(Pass::mtp, std::vector<WatchedRow>(chains_.size()), {});
      const StepResult result = model_.mtp_step(plan, in);
      std::vector<int32_t> rows(chains_.size());
      std::iota(rows.begin(), rows.end(), 0);
      take_drafts(result, rows);
    }
  }

  /// Makes the report of a difference that the pass just showed.
  void check(const char* pass) {
    const std::optional<Difference>& d = watch_.difference();
    if (!d && outcome_.failure.empty()) return;
    std::string text = "traffic \"" + std::string(knobs_.name) + "\", seed " +
                       std::to_string(seed_) + ", step " + std::to_string(outcome_.steps + 1) +
                       " (" + std::to_string(parts_.size()) + " sequences, " +
                       std::to_string(model_.parts().buffers.rows()) + " rows, bucket " +
                       std::to_string(model_.parts().buffers.bucket()) + "), " + pass + "\n";
    if (!d) {
      outcome_.failure = text + "  " + outcome_.failure;
      return;
    }
    text += "  first differing row: sequence " + std::to_string(d->row.sequence) + ", position " +
            std::to_string(d->row.position);
    for (const Part& part : parts_) {
      if (part.run->client != d->row.sequence) continue;
      const int32_t r = d->row.position - part.start;
      text += std::string(", ") +
              (r < part.commit ? (part.known > 1 ? "a chunk's" : "a decoding") : "a window") +
              " row (" + std::to_string(part.start) + " + " + std::to_string(part.commit) +
              " committed + " + std::to_string(part.rows() - part.commit) + " window, " +
              std::to_string(part.replay) + " replayed before them, slot " +
              std::to_string(part.run->slot) + ")";
    }
    outcome_.failure = text + "\n  first differing op: " + d->describe(truth_.digests);
  }

  void note(uint64_t word) {
    outcome_.fingerprint = (outcome_.fingerprint ^ word) * 0x100000001B3u + 0x9E3779B97F4A7C15u;
  }

  LoadedModel& model_;
  const std::vector<Client>& clients_;
  Truth& truth_;
  const Knobs& knobs_;
  const TrafficHooks& hooks_;
  const uint64_t seed_;
  Random random_;
  OpWatch watch_;
  std::vector<Run> runs_;
  std::vector<int32_t> slots_, blocks_;  // free ones
  std::vector<int32_t> holders_;         // [blocks]
  std::vector<Part> parts_;              // of the current step
  std::vector<Chain> chains_;            // the same
  int64_t ticks_ = 0;
  TrafficOutcome outcome_;
};

}  // namespace

TrafficOutcome run_traffic(LoadedModel& model, const std::vector<Client>& clients, Truth& truth,
                           const Knobs& knobs, uint64_t seed, const TrafficHooks& hooks) {
  return Traffic(model, clients, truth, knobs, seed, hooks).run();
}

}  // namespace yoke::tests
