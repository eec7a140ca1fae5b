#include "kernels/memory/mkl_buffers.h"

#include <dlfcn.h>

#include <cstdlib>

namespace accel {
namespace {

TensorHeap* heap_of_mkl = nullptr;

/// A block that a thread reuses without a lock, and in cached memory.
class KeptBlock {
 public:
  KeptBlock() = default;
  KeptBlock(const KeptBlock&) = delete;
  KeptBlock& operator=(const KeptBlock&) = delete;
  ~KeptBlock() {
    if (data_ && !is_used_) heap_of_mkl->give_back(data_);
  }

  /// Null if the block is smaller or in use.
  void* take(size_t bytes) {
    if (is_used_ || bytes_ < bytes) return nullptr;
    is_used_ = true;
    return data_;
  }

  bool is_used() const { return is_used_; }

  /// Replaces a block that is not in use by `data`, which is.
  void replace(void* data, size_t bytes) {
    if (is_used_ && data_ != data) return;  // the same: another thread has given it back
    if (data_ && !is_used_) heap_of_mkl->give_back(data_);
    data_ = data;
    bytes_ = bytes;
    is_used_ = true;
  }

  /// Whether `data` is this block, which is then free.
  bool keep(const void* data) {
    if (data_ != data) return false;
    is_used_ = false;
    return true;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool is_used_ = false;
};

thread_local KeptBlock kept_block;

void* allocate(size_t bytes) {
  if (static_cast<int64_t>(bytes) < kLeastTensorBlock) return std::malloc(bytes);
  const bool is_kept = bytes <= kMostKeptByMkl;
  void* data = is_kept ? kept_block.take(bytes) : nullptr;
  if (data) return data;
  // MKL touches a small part of the buffers of small products, which are the ones to be kept. Of
  // several at a time, as with several threads, the others are free for tensors after the product:
  // cleared, their pages would fault in each step.
  const bool stays = is_kept && !kept_block.is_used();
  data = stays ? heap_of_mkl->take_clear(bytes) : heap_of_mkl->take(bytes);
  if (!data) return std::malloc(bytes);
  if (is_kept) kept_block.replace(data, bytes);
  return data;
}

void free_block(void* data) {
  if (!heap_of_mkl->contains(data)) return std::free(data);
  if (!kept_block.keep(data)) heap_of_mkl->give_back(data);
}

}  // namespace

void share_heap_with_mkl(TensorHeap& heap) {
  void** const of_malloc = static_cast<void**>(dlsym(RTLD_DEFAULT, "i_malloc"));
  void** const of_free = static_cast<void**>(dlsym(RTLD_DEFAULT, "i_free"));
  void* const disable_fast_mm = dlsym(RTLD_DEFAULT, "mkl_serv_disable_fast_mm");
  if (!of_malloc || !of_free || !disable_fast_mm || heap_of_mkl) return;
  heap_of_mkl = &heap;
  // oneMKL Developer Reference, "Redefining Memory Functions": variables for the program to set.
  *of_malloc = reinterpret_cast<void*>(&allocate);
  *of_free = reinterpret_cast<void*>(&free_block);
  reinterpret_cast<int (*)()>(disable_fast_mm)();
}

}  // namespace accel
