// yoke inspect DIR: what a checkpoint is and whether it can be served. Exit code 0 when it can, 1
// when it cannot.
#include <cstdio>
#include <memory>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "server/commands/commands.h"
#include "server/commands/inspect_report.h"

namespace yoke::server {

namespace {

struct InspectOptions {
  std::string folder;
  bool json = false;
};

int run_inspect(const InspectOptions& options) {
  const auto checkpoint = engine::Checkpoint::open(options.folder);
  if (!checkpoint) {
    if (options.json) {
      std::fputs(inspect_json(checkpoint.error()).c_str(), stdout);
    } else {
      std::fprintf(stderr, "cannot be served: %s\n", checkpoint.error().message.c_str());
    }
    return 1;
  }
  const std::string report = options.json ? inspect_json(*checkpoint) : inspect_text(*checkpoint);
  std::fputs(report.c_str(), stdout);
  return checkpoint->census().problem_count == 0 ? 0 : 1;
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<InspectOptions>();  // shared with the callback, which outlives us
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a checkpoint holds and whether it can be served");
  command->add_option("dir", options->folder, "Folder of a Hugging Face checkpoint")->required();
  command->add_flag("--json", options->json, "Print one JSON object instead of text");
  command->footer("Exit code: 0 can be served, 1 cannot be served, 2 wrong usage.");
  command->callback([options, &exit_code] { exit_code = run_inspect(*options); });
}

}  // namespace yoke::server
