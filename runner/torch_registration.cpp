// Frees inferred schemas of libtorch's kernels at registration.
//
// libtorch infers a schema from the C++ type of each kernel, compares it with the operator's and
// keeps it for kernels that precede their operator: 7 MiB of 12,000 kernels. They have been
// compared when libtorch was built. libtorch calls the function below for each kernel, and the
// executable's definition has precedence over libtorch's; in a libtorch with another signature it
// has no effect. Kernels of the executable and of plugins are registered later and keep theirs.
#include <dlfcn.h>

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
  if (!libraries_are_initialized) inferred_function_schema.reset();
  return of_libtorch(this, std::move(op_name), dispatch_key, std::move(kernel), cpp_signature,
                     std::move(inferred_function_schema), std::move(debug));
}

}  // namespace c10
