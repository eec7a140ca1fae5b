// Declarations in place of Gloo's headers, which PyTorch's wheel includes but does not hold. Its
// ProcessGroupGloo.hpp only passes pointers to these classes around; their code is in libtorch_cpu.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
