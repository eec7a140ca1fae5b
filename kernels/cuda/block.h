// Blocks of threads, on a GPU or emulated on the CPU, and the launch of kernels.
//
// A kernel is a struct with a number of threads, its arguments and a body:
//
//   struct Kernel {
//     static constexpr int kThreads = 256;
//     struct Args { ... };
//     template <class Block> ACCEL_ON_DEVICE static void run(Block& block, const Args& args);
//   };
//
// The body is a sequence of phases: block.run(phase) calls phase(thread) for each thread, and
// reductions come between phases. nvcc compiles it for a GPU, where each thread runs the body once;
// another compiler for the CPU, where a phase is a loop over threads, so that sanitizers see it.
#pragma once

#include <cstdint>

#include "kernels/cuda/numbers.h"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#else
#include <vector>
#endif

namespace accel::cuda {

constexpr int kWarp = 32;  // threads

#ifdef __CUDACC__

/// `value` of the thread of this warp whose number differs in the bits of `mask`.
template <class Value>
ACCEL_ON_DEVICE Value value_across(const Value& value, int mask) {
  static_assert(sizeof(Value) % 4 == 0);
  uint32_t words[sizeof(Value) / 4];
  memcpy(words, &value, sizeof value);
  for (uint32_t& word : words) word = __shfl_xor_sync(0xFFFFFFFFU, word, mask);
  Value other;
  memcpy(&other, words, sizeof other);
  return other;
}

template <int kThreads>
class Block {
 public:
  /// A variable of each thread.
  template <class Value>
  class Each {
   public:
    ACCEL_ON_DEVICE Value& operator[](int /*thread*/) { return value_; }

   private:
    Value value_;
  };

  ACCEL_ON_DEVICE int64_t index() const { return blockIdx.x; }
  /// Memory of the block, as large as the launch says; the same thread writes and reads a place.
  ACCEL_ON_DEVICE float* shared() const {
    extern __shared__ float memory[];
    return memory;
  }

  template <class Phase>
  ACCEL_ON_DEVICE void run(const Phase& phase) const {
    phase(static_cast<int>(threadIdx.x));
  }

  /// join() of the values of all threads, pairwise in a warp, then over warps in order.
  template <class Value, class Join>
  ACCEL_ON_DEVICE Value reduce(Each<Value>& each, const Join& join) const {
    __shared__ Value of_warps[kThreads / kWarp];
    Value value = each[0];
    for (int mask = kWarp / 2; mask > 0; mask /= 2) value = join(value, value_across(value, mask));
    if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = of_warps[0];
    for (int warp = 1; warp < kThreads / kWarp; ++warp) value = join(value, of_warps[warp]);
    __syncthreads();  // before the next reduction writes
    return value;
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads)
    run_kernel(const __grid_constant__ typename Kernel::Args args) {
  Block<Kernel::kThreads> block;
  Kernel::run(block, args);
}

/// Returns a cudaError_t. `shared_bytes`: at most 48 KiB.
template <class Kernel>
int32_t launch(const typename Kernel::Args& args, int64_t blocks, void* stream,
               int64_t shared_bytes = 0) {
  if (blocks == 0) return cudaSuccess;
  run_kernel<Kernel>
      <<<static_cast<unsigned>(blocks), Kernel::kThreads, static_cast<size_t>(shared_bytes),
         static_cast<cudaStream_t>(stream)>>>(args);
  return cudaGetLastError();
}

#else

template <int kThreads>
class Block {
 public:
  template <class Value>
  class Each {
   public:
    Value& operator[](int thread) { return values_[thread]; }

   private:
    Value values_[kThreads];
  };

  Block(int64_t index, float* shared) : index_(index), shared_(shared) {}
  int64_t index() const { return index_; }
  float* shared() const { return shared_; }

  template <class Phase>
  void run(const Phase& phase) const {
    for (int thread = 0; thread < kThreads; ++thread) phase(thread);
  }

  template <class Value, class Join>
  Value reduce(Each<Value>& each, const Join& join) const {
    for (int warp = 0; warp < kThreads; warp += kWarp) {
      for (int mask = kWarp / 2; mask > 0; mask /= 2) {
        Value joined[kWarp];
        for (int i = 0; i < kWarp; ++i) joined[i] = join(each[warp + i], each[warp + (i ^ mask)]);
        for (int i = 0; i < kWarp; ++i) each[warp + i] = joined[i];
      }
    }
    Value value = each[0];
    for (int warp = kWarp; warp < kThreads; warp += kWarp) value = join(value, each[warp]);
    return value;
  }

 private:
  int64_t index_;
  float* shared_;
};

template <class Kernel>
int32_t launch(const typename Kernel::Args& args, int64_t blocks, void* /*stream*/,
               int64_t shared_bytes = 0) {
  std::vector<float> shared(static_cast<size_t>(shared_bytes) / sizeof(float));
  for (int64_t i = 0; i < blocks; ++i) {
    Block<Kernel::kThreads> block(i, shared.data());
    Kernel::run(block, args);
  }
  return 0;
}

#endif

/// Number of blocks of `size` elements.
constexpr int64_t blocks_of(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

}  // namespace accel::cuda
