// Stops a fuzz target when reading an input takes far more memory than the input's size.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>

// Of the sanitizers' runtime; GCC has no header that declares them.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));
extern "C" size_t __sanitizer_get_allocated_size(const volatile void* memory);

namespace accel {

/// Counts what is allocated while it lives, after its making.
class MemoryWatch {
 public:
  static constexpr long kRoom = 64L << 20;

  explicit MemoryWatch(size_t input_bytes) {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(taken, freed);
    if (installed == 0) std::abort();
    limit_ = kRoom + static_cast<long>(input_bytes);
    live_ = 0;
    watching_ = true;
  }
  ~MemoryWatch() { watching_ = false; }
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

 private:
  static void taken(const volatile void*, size_t bytes) {
    if (!watching_) return;
    live_ += static_cast<long>(bytes);
    if (live_ <= limit_) return;
    watching_ = false;
    std::fprintf(stderr, "an input led to %ld bytes of memory, at most %ld are allowed\n", live_,
                 limit_);
    std::abort();
  }
  static void freed(const volatile void* memory) {
    if (watching_ && memory) {
      live_ -= static_cast<long>(__sanitizer_get_allocated_size(memory));
    }
  }

  static inline bool watching_ = false;
  static inline long live_ = 0;
  static inline long limit_ = 0;
};

}  // namespace accel
