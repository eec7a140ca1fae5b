// Errors that end a run, and the exit codes of the process.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace accel {

/// Exit codes of the process: a stable interface for scripts and schedulers.
enum class ExitCode : int {
  kDone = 0,
  kOther = 1,
  kRecipe = 2,
  kData = 3,
  kCheckpoint = 4,
  kRank = 5,
  kTimeout = 6,
  kIo = 7,
  kMemory = 8,
  kDiverged = 9,
  kInUse = 11,
  kInterrupted = 75,
};

/// An error that ends the run. `what()` is in lower case, without a full stop, with names in
/// quotes: what was found and what was expected. `hint()` says what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(ExitCode code, const std::string& message, std::string hint = {})
      : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

  ExitCode code() const { return code_; }
  const std::string& hint() const { return hint_; }

 private:
  ExitCode code_;
  std::string hint_;
};

/// Whether an allocation failed: std::bad_alloc, or PyTorch's errors, which the CPU allocator does
/// not give a type.
inline bool is_out_of_memory(const std::exception& error) {
  const std::string_view text = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) ||
         text.find("can't allocate memory") != text.npos || text.find("out of memory") != text.npos;
}

/// A dataset cannot be read or is invalid. Exit code 3.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message, std::string hint = {})
      : Error(ExitCode::kData, message, std::move(hint)) {}
};

/// A checkpoint is damaged, incomplete or belongs to another job. Exit code 4.
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message, std::string hint = {})
      : Error(ExitCode::kCheckpoint, message, std::move(hint)) {}
};

/// I/O failure: no space, no permission, a failed write. Exit code 7.
class IoError : public Error {
 public:
  explicit IoError(const std::string& message, std::string hint = {})
      : Error(ExitCode::kIo, message, std::move(hint)) {}
};

/// Non-finite loss or gradients. Exit code 9.
class DivergedError : public Error {
 public:
  explicit DivergedError(const std::string& message, std::string hint = {})
      : Error(ExitCode::kDiverged, message, std::move(hint)) {}
};

}  // namespace accel
