#include "parallel/shard_unit.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>

#include "kernels/memory/deferred_init.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::shard_unit_test {
namespace {

at::Tensor numbers(int64_t rows, int64_t row_size) {
  return at::arange(rows * row_size, at::kFloat).view({rows, row_size});
}

/// A parameter that gets numbers() when it gets memory; `written` counts the elements.
Parameter waiting(const std::string& name, std::vector<int64_t> sizes, int64_t& written) {
  at::Tensor tensor = at::empty(sizes);
  EXPECT_TRUE(is_deferred(tensor));
  write_rows(tensor, [&written](const at::Tensor& to, int64_t first) {
    const c10::NoGradGuard no_grad;
    written += to.numel();
    to.copy_(numbers(first + to.size(0), to.size(1)).narrow(0, first, to.size(0)));
  });
  return {name, tensor.requires_grad_(name != "frozen")};
}

TEST(ShardUnitTest, OnlyRowsOfDeferredParametersAreWritten) {
  on_ranks(2, [](Communicator& group) {
    int64_t written = 0;
    std::vector<Parameter> parameters;
    {
      const DeferredInit scope;
      parameters = {waiting("trained", {41, 30}, written), waiting("frozen", {1, 2000}, written)};
    }
    SingleProcess alone;
    ShardUnit unit(parameters, {}, {&group, &alone}, {});
    const bool first = group.rank() == 0;
    EXPECT_EQ(written, first ? 21 * 30 + 2000 : 20 * 30);
    EXPECT_EQ(unit.shards()[0].local.size(0), first ? 21 : 20);
    EXPECT_EQ(unit.shards()[1].local.size(0), first ? 1 : 0);
    for (const Parameter& item : parameters) {
      EXPECT_FALSE(is_deferred(item.local));
      EXPECT_EQ(item.local.storage().nbytes(), 0U);
    }
    unit.unshard();
    EXPECT_TRUE(at::equal(parameters[0].local, numbers(41, 30)));
    EXPECT_TRUE(at::equal(parameters[1].local, numbers(1, 2000)));
    unit.reshard();
  });
}

}  // namespace
}  // namespace accel::shard_unit_test
