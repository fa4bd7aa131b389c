// yoke plan DIR: what serving a checkpoint takes of memory at given settings, from its headers
// alone. Exit code 0 when this machine has it, 1 when not.
#include <cstdio>
#include <memory>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "server/commands/commands.h"
#include "server/commands/plan_report.h"
#include "server/commands/settings_flags.h"

namespace yoke::server {
namespace {

constexpr size_t kHoldersNamed = 3;

struct PlanCommand {
  std::string folder;
  bool json = false;
  SettingsFlags settings;
};

int complain(const config::Error& error) {
  std::fprintf(stderr, "yoke plan: %s\n", error.message.c_str());
  return 1;
}

int run_plan(const PlanCommand& command) {
  const auto loaded = command.settings.load();
  if (!loaded.ok()) return complain(loaded.error());
  const auto checkpoint = engine::Checkpoint::open(command.folder);
  if (!checkpoint.ok()) return complain(checkpoint.error());
  const engine::RuntimeOptions options = runtime_options(loaded->config, command.folder);
  auto plan = engine::plan_memory(*checkpoint, options);
  if (!plan.ok()) return complain(plan.error());

  const engine::ModelOptions model = engine::model_options(options, checkpoint->config());
  PlanFacts facts;
  facts.model = checkpoint->name();
  facts.max_model_len = model.max_model_len;
  facts.max_num_seqs = model.max_slots;
  facts.max_num_batched_tokens = model.max_rows;
  facts.plan = std::move(*plan);
  facts.system = engine::system_memory();
  if (!facts.fits()) facts.holders = engine::memory_holders(kHoldersNamed);
  std::fputs((command.json ? plan_json(facts) : plan_text(facts)).c_str(), stdout);
  return facts.fits() ? 0 : 1;
}

}  // namespace

void add_plan_command(CLI::App& app, int& exit_code) {
  auto command = std::make_shared<PlanCommand>();  // shared with the callback, which outlives us
  CLI::App* plan =
      app.add_subcommand("plan", "show the memory that serving a checkpoint takes, by class");
  plan->add_option("dir", command->folder, "folder of a Hugging Face checkpoint")->required();
  plan->add_flag("--json", command->json, "print one JSON object instead of text");
  command->settings.add_to(*plan, {"engine", "precision", "max_buffered_mib"});
  plan->footer(
      "The settings are those of yoke serve; what a settings file or the environment says counts "
      "here too. Only headers are read.\n"
      "Exit code: 0 it fits into what is available, 1 it does not or cannot be planned, 2 wrong "
      "usage.");
  plan->callback([command, &exit_code] { exit_code = run_plan(*command); });
}

}  // namespace yoke::server
