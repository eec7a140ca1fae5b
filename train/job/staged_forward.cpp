#include "train/job/staged_forward.h"

#include <algorithm>
#include <array>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "train/job/job.h"

namespace accel {
namespace {

constexpr auto kStagedPurpose = "output of the last stage";
/// The type, the number of dimensions, and their sizes.
using FormNumbers = std::array<int64_t, 8>;

/// `output` of the rank with the head, on all ranks of the group.
at::Tensor shared_output(Communicator& group, const at::Tensor& output, bool has_head,
                         at::Device device) {
  std::array<int64_t, 1> head = {has_head ? group.rank() : 0};
  const at::Tensor root = at::from_blob(head.data(), {1}, at::kLong);
  group.all_reduce(root, ReduceOp::kMax, kStagedPurpose);
  FormNumbers numbers = {};
  if (has_head) {
    numbers[0] = static_cast<int64_t>(output.scalar_type());
    numbers[1] = output.dim();
    std::copy(output.sizes().begin(), output.sizes().end(), numbers.begin() + 2);
  }
  group.broadcast(at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::kLong),
                  head[0], kStagedPurpose);
  const auto options = at::TensorOptions(static_cast<at::ScalarType>(numbers[0])).device(device);
  const at::IntArrayRef sizes(numbers.data() + 2, static_cast<size_t>(numbers[1]));
  at::Tensor out = has_head ? output.contiguous() : at::empty(sizes, options);
  group.broadcast(out, head[0], kStagedPurpose);
  return out;
}

}  // namespace

StagedForward staged_forward(const Job& job) {
  if (job.mesh.pipeline->world() == 1) return nullptr;
  return [&job](const at::Tensor& inputs, const StageForward& compute) {
    Strategy& strategy = *job.optimizers.front().strategy;
    Batch batch;
    batch.inputs = inputs;
    at::Tensor output;
    size_t stage = 0;
    strategy.run_forward({batch}, [&](size_t) { output = compute(stage++); });
    return shared_output(*job.mesh.pipeline, output, strategy.has_head(), inputs.device());
  };
}

}  // namespace accel
