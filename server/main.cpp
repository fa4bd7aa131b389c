// Composition root: the command line to one sub-command. Each sub-command builds its parts and
// shuts them down in reverse order.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "server/commands/commands.h"

namespace {

constexpr int kFailed = 1;      // the command could not do its work
constexpr int kWrongUsage = 2;  // the command line makes no sense

/// "unknown command" instead of CLI11's remark about arguments that were not expected.
int explain(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const std::string first = argc > 1 ? argv[1] : "";
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool known = std::any_of(commands.begin(), commands.end(),
                                 [&](const CLI::App* c) { return c->get_name() == first; });
  if (!first.empty() && first[0] != '-' && !known) {
    std::fprintf(stderr, "yoke: unknown command `%s`. Commands:", first.c_str());
    for (const CLI::App* command : commands)
      std::fprintf(stderr, " %s", command->get_name().c_str());
    std::fputs(". See yoke --help.\n", stderr);
  } else {
    std::fprintf(stderr, "yoke: %s\nSee yoke --help.\n", error.what());
  }
  return kWrongUsage;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("yoke serves GLM-5.3-Flash over the OpenAI API.");
  app.set_version_flag("--version", "yoke " YOKE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted; yoke COMMAND --help says "
      "more.");
  int exit_code = 0;
  yoke::server::add_serve_command(app, exit_code);
  yoke::server::add_chat_command(app, exit_code);
  yoke::server::add_inspect_command(app, exit_code);
  yoke::server::add_plan_command(app, exit_code);
  yoke::server::add_eval_command(app, exit_code);
  yoke::server::add_bench_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "yoke: %s\n", error.what());
    return kFailed;
  }
  return exit_code;
}
