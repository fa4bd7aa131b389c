#include "server/commands/default_model.h"

#include <system_error>

namespace yoke::server {

namespace fs = std::filesystem;

config::Result<fs::path> default_model_folder() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed = (program.parent_path() / "../share/yoke/nano").lexically_normal();
  const fs::path in_sources = fs::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint";
  for (const fs::path& folder : {installed, in_sources}) {
    if (fs::exists(folder / "config.json", ignored)) return folder;
  }
  return config::Error{config::ErrorKind::not_found,
                       "the demo model is neither in " + installed.string() + " nor in " +
                           in_sources.string() + "; name a checkpoint folder with --model"};
}

}  // namespace yoke::server
