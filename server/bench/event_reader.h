// Server-sent events out of a body that comes in pieces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace yoke::server {

/// Gives the `data` of each event; comments and other fields are skipped. Accepts every line end
/// of the format. Bounded: an event longer than 16 MiB makes `overflowed()` true and ends reading.
class EventReader {
 public:
  void feed(std::string_view bytes, std::vector<std::string>& out);
  bool overflowed() const noexcept { return overflowed_; }

 private:
  void line(std::string_view text, std::vector<std::string>& out);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool overflowed_ = false;
};

}  // namespace yoke::server
