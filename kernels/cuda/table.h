// The C interface of libaccel_cuda.so, which needs neither libtorch nor CUDA's headers: a table of
// functions over raw pointers. docs/gpu.md says how the library is built, tested and loaded.
#pragma once

#include <cstdint>

namespace accel {

/// Of the table and its structs: a library with another one is not used.
constexpr int32_t kCudaTableVersion = 2;
/// The symbol of the library: a CudaTableFunction.
constexpr auto kCudaTableSymbol = "accel_cuda_table";

/// Type of elements. bfloat16: the upper 16 bits of a float32.
enum class CudaType : int32_t { kFloat, kBFloat16 };

/// Token cross-entropy of logits [rows, classes] of `type`, whose rows are `stride` elements apart;
/// all pointers are on the device. An ignored row has loss and gradient 0; a row whose target is
/// neither `ignored` nor in [0, classes) has loss and gradient NaN. The gradient of the elements
/// between rows is 0.
struct CudaCrossEntropy {
  CudaType type;
  int64_t rows, classes, stride, ignored;
  const void* logits;
  const int64_t* targets;  ///< [rows]
  float* log_sums;         ///< [rows], log of the sum of e^logit: forward writes, backward reads
  float* losses;           ///< [rows], for forward
  float* mean;  ///< [2]: the mean loss of rows that are not ignored, 1 / their number; null: none
  const float* row_slope;  ///< [1], of each row's loss: forward writes `gradient` too; or null
  const float* slope;      ///< [1], the gradient of the mean, for backward
  void* gradient;          ///< [rows, stride]; may be `logits` itself
};

/// LayerNorm (Ba, Kiros and Hinton 2016, arXiv:1607.06450) or RMSNorm (Zhang and Sennrich 2019,
/// arXiv:1910.07467) of contiguous x [rows, width] of `type`, or of x + branch, computed in
/// float32. `weight`, `bias` and their gradients are [width] of `type`, or null. RMSNorm has
/// neither `bias` nor `mean`.
struct CudaNorm {
  CudaType type;
  CudaType y_type;  ///< `type`, or kBFloat16
  bool is_rms;
  int64_t rows, width;
  float eps;
  const void *x, *weight, *bias;
  const void* branch;  ///< [rows, width] of `y_type`; null: none
  void* sum;           ///< [rows, width] of `type`: x + branch, for forward with a branch
  void* y;             ///< [rows, width] of `y_type`, for forward
  float *mean, *rstd;  ///< [rows]: forward writes, backward reads
  const void* dy;      ///< [rows, width] of `y_type`, for backward, as the rest; x is the sum there
  const void* dsum;  ///< [rows, width] of `type`: gradient of x of other uses, added to dx; or null
  void* dx;          ///< [rows, width] of `type`
  void* dbranch;     ///< [rows, width] of `y_type`: dx; null: none
  void *weight_grad, *bias_grad;
  float* workspace;  ///< [norm_workspace()]; null without both gradients of [width]
};

/// kGeluTanh, kGeluErf: Hendrycks and Gimpel 2016 (arXiv:1606.08415), section 2, approximated by a
/// tanh or exact. kSwiGlu: x sigmoid(x) up (Shazeer 2020, arXiv:2002.05202).
enum class CudaActivation : int32_t { kGeluTanh, kGeluErf, kSwiGlu };

/// Contiguous arrays of `count` elements. `up` and its gradient are SwiGLU's only.
struct CudaElementwise {
  CudaType type;
  CudaActivation activation;
  int64_t count;
  const void *x, *up;
  void* y;         ///< for forward
  const void* dy;  ///< for backward, as the rest
  void *dx, *dup;
};

/// A parameter of AdamW with its contiguous arrays of `count` elements, which do not overlap.
struct CudaAdamTensor {
  void* parameter;
  const void* gradient;  ///< of the parameter's type
  void *average, *square;
  float* ema;         ///< exponential moving average of the parameter, or null
  const float* step;  ///< [1], number of this step from 1 on
  int64_t count;
};

/// Adam or AdamW (kernels/adam.h) with all that touches a parameter in one pass.
struct CudaAdam {
  CudaType parameter_type, moment_type;
  bool is_decoupled;           ///< AdamW
  bool rounds_stochastically;  ///< bfloat16 parameters and moments; else to nearest, ties to even
  double lr, beta1, beta2, eps, weight_decay;
  double ema_decay;              ///< ema = decay ema + (1 - decay) parameter
  const float* gradient_factor;  ///< [1], 1 / loss scale and clipping, or null
  const float* skip;             ///< [1], not 0: nothing is written; or null
  uint64_t seed;                 ///< of stochastic rounding
};

/// Kernels run on `stream`, a cudaStream_t of the calling thread's current device, and do not wait
/// for it. They return 0, or a cudaError_t for error_text(). Each sums in an order that depends on
/// the sizes alone, without atomic operations: equal inputs give equal bits on one kind of GPU.
struct CudaTable {
  int32_t version;  ///< kCudaTableVersion
  /// "" when kernels can run on device `index` here, else why not, valid until the next call.
  const char* (*problem)(int32_t index);
  const char* (*error_text)(int32_t code);

  int32_t (*cross_entropy)(const CudaCrossEntropy* in, void* stream);
  int32_t (*cross_entropy_backward)(const CudaCrossEntropy* in, void* stream);
  int32_t (*norm)(const CudaNorm* in, void* stream);
  int32_t (*norm_backward)(const CudaNorm* in, void* stream);
  int64_t (*norm_workspace)(const CudaNorm* in);  ///< number of floats
  int32_t (*elementwise)(const CudaElementwise* in, void* stream);
  int32_t (*elementwise_backward)(const CudaElementwise* in, void* stream);
  int32_t (*adam)(const CudaAdam* rule, const CudaAdamTensor* tensors, int64_t count, void* stream);

  /// Memory of the current device, for programs without libtorch, such as tests. copy() takes
  /// pointers of either side and waits for the device.
  int32_t (*allocate)(int64_t bytes, void** memory);
  int32_t (*release)(void* memory);
  int32_t (*copy)(void* to, const void* from, int64_t bytes);
};

using CudaTableFunction = const CudaTable*();

}  // namespace accel
