// Where the demo model is when no --model is given (design.md 1).
#pragma once

#include <filesystem>

#include "config/result.h"

namespace yoke::server {

/// The folder of nano: ../share/yoke/nano beside the program, else tools/nano/checkpoint of the
/// source tree that built it. not_found names both places.
config::Result<std::filesystem::path> default_model_folder();

}  // namespace yoke::server
