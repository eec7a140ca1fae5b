// Frees what libtorch keeps of its kernels' registration and a process does not need.
//
// libtorch infers a schema from the C++ type of each kernel, compares it with the operator's and
// keeps it for kernels that precede their operator: 7 MiB of 20,000 kernels. They have been
// compared when libtorch was built. It keeps the kernel's line in its source, for messages, and
// what it takes to remove the kernel, as when a library is closed: 4 MiB.
//
// libtorch calls the function below for each kernel, and the executable's definition has precedence
// over libtorch's; in a libtorch with another signature it has no effect. Kernels of the executable
// and of plugins are registered later and keep theirs.
#include <dlfcn.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>

namespace {

bool libraries_are_initialized = false;

/// Runs after the initializers of the libraries and before the others of the executable.
__attribute__((constructor(101))) void begin_own_initializers() {
  libraries_are_initialized = true;
}

/// An explicit instantiation may name a private member.
template <auto member>
struct Removal {
  friend std::function<void()>& removal_of(c10::RegistrationHandleRAII& handle) {
    return handle.*member;
  }
};
template struct Removal<&c10::RegistrationHandleRAII::onDestruction_>;
/// What the handle calls at its end.
std::function<void()>& removal_of(c10::RegistrationHandleRAII& handle);

}  // namespace

namespace c10 {

__attribute__((visibility("default"))) RegistrationHandleRAII Dispatcher::registerImpl(
    OperatorName op_name, std::optional<DispatchKey> dispatch_key, KernelFunction kernel,
    std::optional<impl::CppSignature> cpp_signature,
    std::unique_ptr<FunctionSchema> inferred_function_schema, std::string debug) {
  using Function = RegistrationHandleRAII (*)(Dispatcher*, OperatorName, std::optional<DispatchKey>,
                                              KernelFunction, std::optional<impl::CppSignature>,
                                              std::unique_ptr<FunctionSchema>, std::string);
  static const auto of_libtorch = reinterpret_cast<Function>(dlsym(
      RTLD_NEXT,
      "_ZN3c1010Dispatcher12registerImplENS_12OperatorNameESt8optionalINS_11DispatchKeyEENS_"
      "14KernelFunctionES2_INS_4impl12CppSignatureEESt10unique_ptrINS_14FunctionSchemaESt14default_"
      "deleteISA_EENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"));
  const auto registered = [&](std::unique_ptr<FunctionSchema> schema, std::string line) {
    return of_libtorch(this, std::move(op_name), dispatch_key, std::move(kernel), cpp_signature,
                       std::move(schema), std::move(line));
  };
  if (libraries_are_initialized) {
    return registered(std::move(inferred_function_schema), std::move(debug));
  }
  RegistrationHandleRAII stays = registered(nullptr, "of libtorch");
  removal_of(stays) = nullptr;
  return stays;
}

}  // namespace c10
