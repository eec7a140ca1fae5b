#include "core/base/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace accel {

std::optional<std::string> environment_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::string host_name() {
  char name[256] = {};
  const bool known = ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0';
  return known ? name : "localhost";
}

}  // namespace accel
