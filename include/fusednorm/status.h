// SPDX-License-Identifier: Apache-2.0
// Errors as values: a Status says what was wrong with which argument; nothing in fusednorm throws
// or exits.
#pragma once

#include <string>
#include <utility>

namespace fusednorm {

enum class StatusCode {
  ok,
  invalid_argument,  ///< the sentence names the argument, the value it had and what was expected
  unsupported,       ///< a valid request that this build or this device cannot serve
  device_error,      ///< a CUDA call failed; the sentence carries CUDA's own reason
};

/// The outcome of a call. On anything but ok the outputs of the call are untouched, unless the
/// code is device_error and the sentence says that a launch had already begun.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status invalid_argument(std::string message) {
    return {StatusCode::invalid_argument, std::move(message)};
  }
  static Status unsupported(std::string message) {
    return {StatusCode::unsupported, std::move(message)};
  }
  static Status device_error(std::string message) {
    return {StatusCode::device_error, std::move(message)};
  }

  bool ok() const { return code_ == StatusCode::ok; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;  // empty when ok, so success never allocates
};

/// A value, or the Status that says why there is none. Read the value only when ok().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design

  bool ok() const { return status_.ok(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }
  T& operator*() { return value_; }
  T* operator->() { return &value_; }

 private:
  Status status_;
  T value_{};
};

}  // namespace fusednorm
