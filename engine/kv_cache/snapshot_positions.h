// Where in a prompt snapshots are worth their memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace yoke::engine {

/// A snapshot of the first message costs a step of its own, so the message must save others about
/// as much: so many tokens.
constexpr int32_t kFirstMessageTokens = 256;

/// Token counts after which a snapshot is to be taken, ascending, each at least 1 and below
/// `prompt_tokens`, of the message ends in `boundaries` (ascending; others are ignored):
///   - the last one, where the next turn of the conversation goes on;
///   - the first one, the instructions and tools that conversations share, if they are
///     kFirstMessageTokens or more.
/// Without boundaries (a plain completion) all but the last token, where the same prompt or a
/// longer one goes on.
std::vector<int32_t> snapshot_positions(std::span<const int32_t> boundaries, int32_t prompt_tokens);

}  // namespace yoke::engine
