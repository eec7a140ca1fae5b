// Python's arithmetic on sizes, which exported programs call beside operators.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace accel {

/// Replaces the arguments on the stack by the result.
using PythonFunction = void (*)(std::vector<c10::IValue>& stack);

/// By its qualified name, "_operator.floordiv"; null for one that is not known.
PythonFunction python_function(const std::string& name);

}  // namespace accel
