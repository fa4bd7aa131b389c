// The sub-commands of yoke, one file each. Besides main.cpp only these may know several folders
// (design.md 1).
#pragma once

#include <CLI/App.hpp>

namespace yoke::server {

/// Each adds one sub-command; its callback runs the command and writes the process's exit code.
void add_serve_command(CLI::App& app, int& exit_code);
void add_chat_command(CLI::App& app, int& exit_code);
void add_inspect_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace yoke::server
