#include "server/bench/statistics.h"

#include <algorithm>
#include <cmath>

namespace yoke::server {
namespace {

double milliseconds(config::Duration d) {
  return 1e3 * config::seconds(d);
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// Tokens that came with each piece, summing up to the answer's tokens. Without running usage every
/// piece gets an equal share.
std::vector<double> tokens_of_pieces(const RequestRecord& record, bool& counted) {
  const size_t n = record.pieces.size();
  std::vector<double> out(n);
  const bool knows = std::all_of(record.pieces.begin(), record.pieces.end(),
                                 [](const AnswerPiece& piece) { return piece.tokens.has_value(); });
  if (!knows) {
    counted = false;
    std::fill(out.begin(), out.end(),
              static_cast<double>(record.output_tokens) / static_cast<double>(n));
    return out;
  }
  int64_t before = 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t now = *record.pieces[i].tokens;
    out[i] = static_cast<double>(std::max<int64_t>(0, now - before));
    before = std::max(before, now);
  }
  return out;
}

/// One sample per token after the first piece: the gap before its piece, shared by the piece's
/// tokens.
void add_inter_token(const RequestRecord& record, std::vector<double>& samples, bool& counted) {
  if (record.pieces.size() < 2) return;
  const std::vector<double> tokens = tokens_of_pieces(record, counted);
  for (size_t i = 1; i < record.pieces.size(); ++i) {
    const auto n = static_cast<int64_t>(std::lround(tokens[i]));
    const double gap = milliseconds(record.pieces[i].at - record.pieces[i - 1].at);
    // Pieces without a token of their own (held-back text) belong to the token before them.
    for (int64_t k = 0; k < n; ++k) samples.push_back(gap / static_cast<double>(n));
  }
}

/// Tokens per second between a stream's first and last piece; nullopt for answers of one piece.
std::optional<double> own_rate(const RequestRecord& record) {
  if (record.pieces.size() < 2 || record.output_tokens < 2) return std::nullopt;
  const double time = config::seconds(record.ended - record.pieces.front().at);
  if (time <= 0) return std::nullopt;
  return static_cast<double>(record.output_tokens - 1) / time;
}

}  // namespace

Percentiles percentiles(std::vector<double>& samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double p) {
    const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(samples.size())));
    return samples[std::clamp<size_t>(rank, 1, samples.size()) - 1];
  };
  return {at(0.50), at(0.90), at(0.99)};
}

BenchLine summarise(std::span<const Wave> waves) {
  BenchLine line;
  std::vector<double> ttft;
  std::vector<double> inter_token;
  std::vector<double> rates;
  double prompt_tokens = 0;
  double output_tokens = 0;
  double cached_tokens = 0;
  double wall_sum = 0;
  double active_sum = 0;
  int64_t answered = 0;
  for (const Wave& wave : waves) {
    double tokens = 0;
    std::optional<config::TimePoint> begin;
    std::optional<config::TimePoint> end;
    for (const RequestRecord& record : wave) {
      ++line.requests;
      if (!record.failure.empty()) {
        if (line.failed++ == 0) line.failure = record.failure;
        continue;
      }
      ++answered;
      begin = begin ? std::min(*begin, record.sent) : record.sent;
      end = end ? std::max(*end, record.ended) : record.ended;
      tokens += static_cast<double>(record.output_tokens);
      prompt_tokens += static_cast<double>(record.prompt_tokens);
      cached_tokens += static_cast<double>(record.cached_tokens);
      if (!record.pieces.empty())
        ttft.push_back(milliseconds(record.pieces.front().at - record.sent));
      add_inter_token(record, inter_token, line.counted_tokens);
      if (const auto rate = own_rate(record)) {
        rates.push_back(*rate);
        active_sum += *rate;
      }
    }
    output_tokens += tokens;
    if (begin) wall_sum += share(tokens, config::seconds(*end - *begin));
  }
  const auto waves_count = static_cast<double>(waves.size());
  line.prompt_tokens = share(prompt_tokens, static_cast<double>(answered));
  line.output_tokens = share(output_tokens, static_cast<double>(answered));
  line.cached_share = share(cached_tokens, prompt_tokens);
  line.ttft_ms = percentiles(ttft);
  line.inter_token_ms = percentiles(inter_token);
  line.stream_tps = percentiles(rates).p50;
  line.wall_tps = share(wall_sum, waves_count);
  line.active_tps = share(active_sum, waves_count);
  return line;
}

}  // namespace yoke::server
