#include "core/base/shared_library.h"

#include <dlfcn.h>

namespace accel {
namespace {

// glibc declares dlopen() noexcept, but initialisers of the library may throw through it: by this
// pointer the compiler does not know.
void* (*volatile const open_library)(const char*, int) = ::dlopen;

std::string loader_message() {
  const char* const message = ::dlerror();
  return message ? message : "";
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& name, Symbols symbols)
    : handle_(open_library(name.c_str(),
                           RTLD_NOW | (symbols == Symbols::kGlobal ? RTLD_GLOBAL : RTLD_LOCAL))) {
  if (!handle_) error_ = loader_message();
}

void* SharedLibrary::address_of(const char* name) {
  if (!handle_) return nullptr;
  void* const address = ::dlsym(handle_, name);
  if (!address) error_ = loader_message();
  return address;
}

}  // namespace accel
