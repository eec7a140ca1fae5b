#include "core/host_name.h"

#include <unistd.h>

namespace accel {

std::string host_name() {
  char name[256] = {};
  const bool known = ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0';
  return known ? name : "localhost";
}

}  // namespace accel
