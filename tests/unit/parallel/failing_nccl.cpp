// A libaccel_nccl.so whose NCCL cannot connect.
#include <stdexcept>

extern "C" __attribute__((visibility("default"))) void accel_nccl_backend(const void*, const void*,
                                                                          void*) {
  throw std::runtime_error(
      "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system "
      "error "
      "(run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n"
      "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
      "device "
      "error. \nLast error:\nConnect to 10.0.0.2<5000> failed : Connection timed out\n"
      "Exception raised from a line");
}
