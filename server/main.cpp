// Composition root: the command line to one sub-command. Each sub-command builds its parts and
// shuts them down in reverse order.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"
#include "server/commands/commands.h"

namespace {

constexpr int kFailed = 1;      // the command could not do its work
constexpr int kWrongUsage = 2;  // the command line makes no sense

/// The first argument that no option takes, and what it may have meant; empty when there is none.
std::string unknown_option(const CLI::App& command) {
  std::vector<std::string> owned;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) owned.push_back(name);
  const std::vector<std::string_view> known(owned.begin(), owned.end());
  for (std::string name : command.remaining()) {
    if (!name.starts_with("--")) continue;
    name = name.substr(2, name.find('=') - 2);
    std::string near(yoke::config::nearest(name, known));
    std::replace(near.begin(), near.end(), '_', '-');
    return "unknown option --" + name + (near.empty() ? "" : "; did you mean --" + near + "?");
  }
  return {};
}

/// Says what is wrong in the words of this program instead of CLI11's remark about arguments that
/// were not expected.
int explain(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  const std::string first = argc > 1 ? argv[1] : "";
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const auto known = std::find_if(commands.begin(), commands.end(),
                                  [&](const CLI::App* c) { return c->get_name() == first; });
  if (known == commands.end()) {
    if (first.empty() || first[0] == '-') {
      std::fprintf(stderr, "yoke: %s\nSee yoke --help.\n", error.what());
      return kWrongUsage;
    }
    std::fprintf(stderr, "yoke: unknown command `%s`. Commands:", first.c_str());
    for (const CLI::App* command : commands)
      std::fprintf(stderr, " %s", command->get_name().c_str());
    std::fputs(". See yoke --help.\n", stderr);
    return kWrongUsage;
  }
  const std::string unknown = unknown_option(**known);
  std::fprintf(stderr, "yoke %s: %s\nSee yoke %s --help.\n", first.c_str(),
               unknown.empty() ? error.what() : unknown.c_str(), first.c_str());
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
