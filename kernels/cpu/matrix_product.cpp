#include "kernels/cpu/matrix_product.h"

#include <dlfcn.h>

#include <algorithm>

namespace accel {
namespace {

/// SGEMM of the reference BLAS, for column-major matrices.
using Sgemm = void (*)(const char* turn_a, const char* turn_b, const int* rows, const int* columns,
                       const int* inner, const float* alpha, const float* a, const int* step_a,
                       const float* b, const int* step_b, const float* beta, float* c,
                       const int* step_c);

/// SGEMM of libtorch, which no header declares; null if this build of libtorch lacks it.
Sgemm sgemm() {
  static const auto found = reinterpret_cast<Sgemm>(dlsym(RTLD_DEFAULT, "sgemm_"));
  return found;
}

/// Number of threads of MKL's products called by this thread; returns the number before.
using SetThreads = int (*)(int threads);

/// Null where libtorch's BLAS is not MKL.
SetThreads set_threads_of_mkl() {
  static const auto found =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
  return found;
}

/// Inside a parallel region MKL computes in one thread, but with AVX2 by loops for several, whose
/// sums have another order.
class OneThreadOfMkl {
 public:
  OneThreadOfMkl() {
    if (set_threads_of_mkl()) before_ = set_threads_of_mkl()(1);
  }
  ~OneThreadOfMkl() {
    if (set_threads_of_mkl()) set_threads_of_mkl()(before_);
  }
  OneThreadOfMkl(const OneThreadOfMkl&) = delete;
  OneThreadOfMkl& operator=(const OneThreadOfMkl&) = delete;

 private:
  int before_ = 0;
};

// MKL splits longer sums, depending on the number of threads.
constexpr int64_t kLongestSum = 512;

}  // namespace

bool has_matrix_product() {
  return sgemm() != nullptr;
}

void matrix_product(const MatrixPart& a, const MatrixPart& b, const ProductShape& shape,
                    const ProductTarget& to) {
  const OneThreadOfMkl one_thread;
  // Row-major matrices are transposed column-major ones: computes the transposed product b * a.
  const char turn_a = a.turned ? 't' : 'n', turn_b = b.turned ? 't' : 'n';
  const auto rows = static_cast<int>(shape.rows), columns = static_cast<int>(shape.columns),
             step_a = static_cast<int>(a.step), step_b = static_cast<int>(b.step),
             step = static_cast<int>(to.step);
  for (int64_t first = 0; first < shape.inner; first += kLongestSum) {
    const auto inner = static_cast<int>(std::min(kLongestSum, shape.inner - first));
    const float* const from_a = a.data + (a.turned ? first * a.step : first);
    const float* const from_b = b.data + (b.turned ? first : first * b.step);
    const float alpha = 1.0F, beta = to.add || first > 0 ? 1.0F : 0.0F;
    sgemm()(&turn_b, &turn_a, &columns, &rows, &inner, &alpha, from_b, &step_b, from_a, &step_a,
            &beta, to.data, &step);
  }
}

}  // namespace accel
