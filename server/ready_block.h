// What a user sees once the server answers (design.md 10): where, what, and how to use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace yoke::server {

struct ReadyFacts {
  std::string host;         ///< as bound: 127.0.0.1, 0.0.0.0, ::, or an address
  std::string lan_address;  ///< the address other machines reach when bound to all; empty = unknown
  uint16_t port = 0;
  bool loopback_only = true;
  bool has_keys = false;
  std::string model;  ///< first served name
  int32_t context_tokens = 0;
  int32_t max_output_tokens = 0;  ///< advice for the editor: what a reply may take
  std::string reasoning_effort;   ///< default of requests that name none
  double seconds_to_ready = 0;
  std::string weights_licence;  ///< one line about the weights in use
};

/// `http://host:port`, IPv6 in brackets; the LAN address when bound to all interfaces.
std::string base_url(const ReadyFacts& facts);

/// The `chatLanguageModels.json` group for VS Code (spec/api.md 1.2), indented by two blanks.
std::string vscode_settings(const ReadyFacts& facts);

/// The whole READY block, ending in a newline.
std::string ready_block(const ReadyFacts& facts);

/// One line about the licence of a checkpoint: from a LICENSE file's first line when the folder has
/// one; what we know of the published ones by name; else that it is the user's to check.
std::string weights_licence(std::string_view checkpoint_name, std::string_view licence_file_text);

/// The first address of this machine that is neither loopback nor link-local, IPv4 first; empty
/// when there is none.
std::string lan_address();

}  // namespace yoke::server
