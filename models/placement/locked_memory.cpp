#include "models/placement/locked_memory.h"

#include <dlfcn.h>

namespace accel {
namespace {

/// A function of CUDA's runtime, which libtorch's CUDA library has loaded; null: it has not.
template <class Function>
Function* of_runtime(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

LockedMemory::LockedMemory(std::span<std::byte> memory, c10::Device device) {
  if (!device.is_cuda() || memory.empty()) return;
  auto* const lock = of_runtime<int(void*, size_t, unsigned)>("cudaHostRegister");
  constexpr unsigned kDefault = 0;
  if (lock && lock(memory.data(), memory.size(), kDefault) == 0) locked_ = memory.data();
}

LockedMemory::~LockedMemory() {
  if (!locked_) return;
  auto* const unlock = of_runtime<int(void*)>("cudaHostUnregister");
  if (unlock) unlock(locked_);
}

}  // namespace accel
