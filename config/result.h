// Result<T>: a value or an Error, for failures that are expected per call (style.md 2.6).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "config/check.h"

namespace yoke::config {

/// What a caller may do about an Error. The text is for people; the kind is for code.
enum class ErrorKind {
  invalid_input,  ///< the caller's data is wrong: bad config, checkpoint, request
  not_found,      ///< a file, key or id that was named does not exist
  unsupported,    ///< well formed, but not something this build or model can do
  io,             ///< the operating system refused: read, write, socket
  exhausted,      ///< a bound was reached: queue full, too large, no memory left
  unavailable,    ///< not now: loading, draining, engine stopped
  internal,       ///< our own fault
};

struct Error {
  ErrorKind kind = ErrorKind::invalid_input;
  /// One line: what was wanted, what was found, where, and what to do.
  std::string message;
};

/// A value or an Error. Asking for the wrong one is a bug and aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  T& value() & {
    YOKE_CHECK(ok(), "Result holds an error");
    return std::get<0>(state_);
  }
  const T& value() const& {
    YOKE_CHECK(ok(), "Result holds an error");
    return std::get<0>(state_);
  }
  T&& value() && {
    YOKE_CHECK(ok(), "Result holds an error");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    YOKE_CHECK(!ok(), "Result holds a value");
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }
  const Error& error() const {
    YOKE_CHECK(error_.has_value(), "Result holds a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

inline Error invalid_input(std::string message) {
  return {ErrorKind::invalid_input, std::move(message)};
}

}  // namespace yoke::config
