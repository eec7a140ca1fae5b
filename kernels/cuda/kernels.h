// The functions that the table of libaccel_cuda.so points to; kernels/cuda/table.h describes them.
#pragma once

#include "kernels/cuda/table.h"

namespace accel::cuda {

int32_t cross_entropy(const CudaCrossEntropy* in, void* stream);
int32_t cross_entropy_backward(const CudaCrossEntropy* in, void* stream);
int32_t norm(const CudaNorm* in, void* stream);
int32_t norm_backward(const CudaNorm* in, void* stream);
int64_t norm_workspace(const CudaNorm* in);
int32_t elementwise(const CudaElementwise* in, void* stream);
int32_t elementwise_backward(const CudaElementwise* in, void* stream);
int32_t adam(const CudaAdam* rule, const CudaAdamTensor* tensors, int64_t count, void* stream);

}  // namespace accel::cuda
