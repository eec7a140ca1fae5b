// Regions of shares in whole tensors.
#include "parallel/share_region.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "tests/unit/parallel/ranks.h"

namespace accel::share_region_test {
namespace {

at::Tensor part_of(at::Tensor whole, const ShareRegion& region) {
  for (size_t dim = 0; dim < region.sizes.size(); ++dim) {
    whole = whole.narrow(static_cast<int64_t>(dim), region.offsets[dim], region.sizes[dim]);
  }
  return whole;
}

/// Four ranks of two shards and two replicas, or as `sizes` says.
void check_regions(const Shape& shape, const std::vector<Placement>& placements,
                   const MeshSizes& sizes) {
  on_ranks(4, [&](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, sizes);
    const at::Tensor whole = at::arange(count_of(shape)).view(shape);
    const at::Tensor own = share_of(whole, placements, mesh);
    const Parameter parameter{"weight", own, shape, placements};
    const ShareRegion region = share_region(parameter, mesh);
    EXPECT_TRUE(at::equal(part_of(whole, region), own));
    // The first of the ranks with equal shares has it: together they have each element once.
    const at::Tensor times = at::zeros(shape);
    if (replica_of(parameter, mesh).index == 0) part_of(times, region).fill_(1);
    group.all_reduce(times, ReduceOp::kSum, "test");
    EXPECT_TRUE(at::equal(times, at::ones(shape)));
  });
}

TEST(ShareRegionTest, RegionsAreThoseOfSharesAndReplicasShareThem) {
  check_regions({7, 3}, {{Axis::kShard, 0}}, {.shard = 4});
  check_regions({7, 3}, {{Axis::kShard, 0}}, {.replicate = 2, .shard = 2});
  check_regions({7, 3}, {{Axis::kShard, 0}, {Axis::kTensor, 1}}, {.shard = 2, .tensor = 2});
  check_regions({7, 3}, {{Axis::kShard, 0}, {Axis::kTensor, 0}}, {.shard = 2, .tensor = 2});
  check_regions({7, 3}, {}, {.replicate = 2, .shard = 2});
  check_regions({1}, {{Axis::kShard, 0}}, {.shard = 4});
}

TEST(ShareRegionTest, EmptySharesAfterTheFirstRepeatIt) {
  on_ranks(4, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.shard = 4});
    const auto repeats = [&](int64_t rows) {
      return repeats_empty_share({"bias", at::zeros({0}), {rows}, {{Axis::kShard, 0}}}, mesh);
    };
    EXPECT_EQ(repeats(2), group.rank() > 2);
    EXPECT_EQ(repeats(5), false);
    EXPECT_EQ(repeats(0), group.rank() > 0);
  });
}

}  // namespace
}  // namespace accel::share_region_test
