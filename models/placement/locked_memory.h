// Memory of the host that a GPU reads without the processor's help.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <span>

namespace accel {

/// Page-locks memory for CUDA while it exists (cudaHostRegister), so that copies to the GPU are
/// asynchronous. Where that is not possible, and on other devices, copies are slower and correct.
class LockedMemory {
 public:
  LockedMemory(std::span<std::byte> memory, c10::Device device);
  ~LockedMemory();
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;

 private:
  void* locked_ = nullptr;
};

}  // namespace accel
