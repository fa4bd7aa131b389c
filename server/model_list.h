// GET /v1/models on the wire (spec/api.md 3.1).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/served_model.h"

namespace yoke::server {

/// One entry. `model` is null while nothing is loaded: then sizes are left out.
std::string model_entry(const std::string& name, const ServedModel* model, int64_t created);
std::string model_list(const std::vector<std::string>& names, const ServedModel* model,
                       int64_t created);

}  // namespace yoke::server
