// The requests of a serving bench, over Beast. One io_context, one thread: figures of many streams
// share one clock, and nothing in the client waits for anything but the endpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/clock.h"
#include "config/result.h"
#include "server/bench/endpoint.h"
#include "server/bench/statistics.h"

namespace yoke::server {

struct BenchTarget {
  Endpoint endpoint;
  std::string api_key;  ///< sent as bearer; empty: none
  config::Duration silence =
      std::chrono::seconds(300);  ///< an endpoint that says nothing has failed
};

struct BenchReply {
  int status = 0;
  std::string body;
};

/// GET of `path` below the endpoint's base. Errors (unavailable): no connection, silence, a reply
/// that is not HTTP; the message says which, and what to do.
config::Result<BenchReply> bench_get(const BenchTarget& target, const std::string& path);

/// Opens a connection for each body, then sends all of them at once and reads the streams to their
/// ends. One record per body, in order; what went wrong is in the record.
Wave bench_wave(const BenchTarget& target, const std::vector<std::string>& bodies);

}  // namespace yoke::server
