#include "runner/dist/group_ranks.h"

#include "runner/dist/operations.h"

namespace accel {

at::Tensor GroupRanks::gather(const at::Tensor& tensor) {
  return accel::gather(group_, tensor);
}

at::Tensor GroupRanks::reduce(const at::Tensor& tensor, Reduce how) {
  return accel::reduce(group_, tensor, how);
}

at::Tensor GroupRanks::pad_across_processes(const at::Tensor& tensor, const RankPadding& padding) {
  return accel::pad_across_processes(group_, tensor, padding.dim, padding.value, padding.first);
}

at::Tensor GroupRanks::broadcast(const at::Tensor& tensor) {
  at::Tensor out = tensor.detach().clone(at::MemoryFormat::Contiguous);
  group_.broadcast(out, 0, "broadcast");
  return out;
}

bool GroupRanks::any(bool here) {
  return any_rank(group_, here, "whether a trigger is set");
}

void GroupRanks::wait_for_everyone() {
  group_.barrier("wait_for_everyone");
}

}  // namespace accel
