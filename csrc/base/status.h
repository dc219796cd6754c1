// csrc/base/status.h - the error type of every layer below csrc/device.
//
// A Status is a code, a message and, optionally, notes added on the way up. Success costs one null
// pointer. Codes carry the values of PJRT_Error_Code (the same as absl's), so a plugin's error
// keeps its code. Result<T> is a Status or a value. Exceptions do not cross these layers;
// csrc/device turns a Status into a PyTorch error. Values of both types may be used from any
// thread, one thread at a time.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dendrite {

enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,  // The caller's input is wrong whatever the state of the system.
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,   // Out of memory, disk or slots.
  kFailedPrecondition = 9,  // The system is in a state in which the call is refused.
  kAborted = 10,
  kOutOfRange = 11,     // An index outside of its tensor.
  kUnimplemented = 12,  // We (or the plugin) do not know how; another tier may.
  kInternal = 13,       // A bug of ours or of the plugin's.
  kUnavailable = 14,    // A service or plugin is not there now.
  kDataLoss = 15,       // Truncated, corrupt or tampered bytes.
};

const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : rep_(code == Code::kOk ? nullptr : std::make_shared<Rep>(Rep{code, std::move(message)})) {}

  static Status Ok() { return {}; }
  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  const std::string& message() const {
    static const std::string empty;
    return rep_ ? rep_->message : empty;
  }
  // "INVALID_ARGUMENT: message", or "OK".
  std::string ToString() const;
  // The same error with "context: " put before its message; an OK status stays OK.
  Status WithContext(std::string_view context) const;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

inline Status InvalidArgument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
inline Status Unimplemented(std::string m) { return {Code::kUnimplemented, std::move(m)}; }
inline Status Internal(std::string m) { return {Code::kInternal, std::move(m)}; }
inline Status NotFound(std::string m) { return {Code::kNotFound, std::move(m)}; }
inline Status Unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
inline Status DataLoss(std::string m) { return {Code::kDataLoss, std::move(m)}; }
inline Status FailedPrecondition(std::string m) {
  return {Code::kFailedPrecondition, std::move(m)};
}
inline Status OutOfRange(std::string m) { return {Code::kOutOfRange, std::move(m)}; }

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    if (status_.ok()) status_ = Internal("Result made from an OK status");
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // REQUIRES: ok().
  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T&& value() && { return std::move(Checked()); }
  T& operator*() { return Checked(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& Checked() {
    if (!value_) std::abort();
    return *value_;
  }
  Status status_;
  std::optional<T> value_;
};

#define DENDRITE_CONCAT_(a, b) a##b
#define DENDRITE_CONCAT(a, b) DENDRITE_CONCAT_(a, b)

// Returns from the enclosing function if `expr` is an error.
#define DENDRITE_RETURN_IF_ERROR(expr)                                      \
  do {                                                                      \
    if (::dendrite::Status status_ = (expr); !status_.ok()) return status_; \
  } while (0)

// DENDRITE_ASSIGN_OR_RETURN(auto x, MakeX()): x = the value, or returns the error.
#define DENDRITE_ASSIGN_OR_RETURN(lhs, expr) \
  DENDRITE_ASSIGN_OR_RETURN_(DENDRITE_CONCAT(result_, __LINE__), lhs, expr)
#define DENDRITE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return tmp.status();              \
  lhs = std::move(tmp).value()

}  // namespace dendrite
