#include "runner/dist/communicator.h"

namespace accel {
namespace {

class Done final : public Pending {
 public:
  void wait() override {}
};

}  // namespace

std::unique_ptr<Pending> SingleProcess::start_all_reduce(at::Tensor, ReduceOp, const char*) {
  return std::make_unique<Done>();
}

at::Tensor SingleProcess::all_gather(const at::Tensor& tensor, const char*) {
  return tensor.unsqueeze(0).clone();
}

}  // namespace accel
