// Environment variables of one launcher: reading, and errors that name them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "core/base/environment.h"

namespace accel {

constexpr int64_t kLargestPort = 65535;
constexpr int64_t kMostRanks = 1 << 24;

/// Throws Error (exit code 2).
[[noreturn]] void refuse_variables(const std::string& message, const std::string& hint);

/// Without the brackets of "[fd00::1]".
std::string plain_address(const std::string& address);

/// An empty variable counts as unset, as templates of jobs leave it.
class LauncherVariables {
 public:
  /// `lookup` must outlive this object.
  LauncherVariables(const EnvironmentLookup& lookup, std::string launcher);

  std::optional<std::string> value(const std::string& name) const;
  bool has(const std::string& name) const { return value(name).has_value(); }
  /// The first variable that is set.
  std::optional<std::string> first(std::initializer_list<const char*> names) const;
  /// `because` is the variable that requires this one. Throws Error (exit code 2).
  std::string need(const std::string& name, const std::string& because) const;
  /// A whole number in [least, most]. Throws Error (exit code 2).
  int64_t number(const std::string& name, const std::string& because, int64_t least = 0,
                 int64_t most = kMostRanks) const;

  const std::string& launcher() const { return launcher_; }

 private:
  const EnvironmentLookup& lookup_;
  std::string launcher_;
};

/// A port from a hash of the job: equal on all its ranks, and below Linux's ephemeral ports.
int64_t port_of_job(const std::string& job);

}  // namespace accel
