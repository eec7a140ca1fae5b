// The environment of a rank: this process's with some variables replaced.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace accel {

class RankEnvironment {
 public:
  /// An empty value removes the variable.
  void set(const std::string& name, const std::string& value) { set_.emplace_back(name, value); }
  void set(const std::string& name, int64_t value) { set(name, std::to_string(value)); }

  /// NAME=value of all variables.
  std::vector<std::string> all() const;

 private:
  std::vector<std::pair<std::string, std::string>> set_;
};

}  // namespace accel
