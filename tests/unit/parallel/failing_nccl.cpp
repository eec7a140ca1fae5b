// A libaccel_nccl.so whose NCCL cannot connect.
#include <stdexcept>

extern "C" __attribute__((visibility("default"))) void accel_nccl_backend(const void*, const void*,
                                                                          void*) {
  throw std::runtime_error("NCCL error: unhandled system error\nException raised from a line");
}
