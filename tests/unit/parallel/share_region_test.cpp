// Regions of shares in whole tensors.
#include "parallel/share_region.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
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
    std::vector<at::Tensor> parts;
    const at::Tensor times = at::zeros(shape);
    for (const ShareRegion& region : share_regions(parameter, mesh)) {
      parts.push_back(part_of(whole, region));
      // The first of the ranks with equal shares has it: together they have each element once.
      if (replica_of(parameter, mesh).index == 0) part_of(times, region).fill_(1);
    }
    EXPECT_TRUE(at::equal(at::cat(parts), own));
    group.all_reduce(times, ReduceOp::kSum, "test");
    EXPECT_TRUE(at::equal(times, at::ones(shape)));
  });
}

TEST(ShareRegionTest, RegionsAreThoseOfSharesAndReplicasShareThem) {
  check_regions({7, 3}, {{Axis::kShard, 0}}, {.shard = 4});
  check_regions({7, 3}, {{Axis::kShard, 0}}, {.replicate = 2, .shard = 2});
  check_regions({7, 3}, {{Axis::kShard, 0}, {Axis::kTensor, 1}}, {.shard = 2, .tensor = 2});
  check_regions({7, 3}, {{Axis::kShard, 0}, {Axis::kTensor, 0}}, {.shard = 2, .tensor = 2});
  check_regions({7, 3}, {{Axis::kTensor, 0}, {Axis::kShard, 0}}, {.shard = 2, .tensor = 2});
  check_regions({7, 3}, {}, {.replicate = 2, .shard = 2});
  check_regions({1}, {{Axis::kShard, 0}}, {.shard = 4});
}

TEST(ShareRegionTest, TheRankOfAnExpertHasIt) {
  const Placement second = {.axis = Axis::kExpert, .dim = 0, .owner = 1};
  check_regions({6, 3}, {second}, {.replicate = 4, .expert = 2});
  check_regions({6, 3}, {second}, {.shard = 4, .expert = 4});
  check_regions({7, 3}, {second, {Axis::kExpertShard, 0}}, {.shard = 4, .expert = 2});
  check_regions({6, 3}, {{Axis::kTensor, 1}, second}, {.replicate = 2, .tensor = 2, .expert = 2});
  check_regions({6, 3}, {second}, {.context = 4, .expert = 2});
}

TEST(ShareRegionTest, BlocksAreDividedEach) {
  const Placement fused = {Axis::kTensor, 0, 3};
  check_regions({12, 2}, {fused}, {.replicate = 2, .tensor = 2});
  check_regions({12, 2}, {fused}, {.tensor = 4});
  check_regions({15, 2}, {fused}, {.replicate = 2, .tensor = 2});
  // Rows of the shares of blocks, which begin and end inside of them.
  check_regions({24}, {fused, {Axis::kShard, 0}}, {.shard = 2, .tensor = 2});
  check_regions({6, 2}, {fused, {Axis::kShard, 0}}, {.shard = 2, .tensor = 2});
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.tensor = 2});
    const auto regions =
        share_regions({"qkv", at::zeros({6}), {12}, {{Axis::kTensor, 0, 3}}}, mesh);
    ASSERT_EQ(regions.size(), 3);
    EXPECT_EQ(regions[1].offsets, Shape({4 + group.rank() * 2}));
    EXPECT_EQ(regions[1].sizes, Shape({2}));
  });
}

TEST(ShareRegionTest, AnEmptyShareOfTwoAxesIsNotWritten) {
  on_ranks(4, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.shard = 2, .tensor = 2});
    // Rows 0 and 1 by tensor; of each the first shard has all.
    const Parameter bias{"bias", at::zeros({0}), {2}, {{Axis::kTensor, 0}, {Axis::kShard, 0}}};
    EXPECT_EQ(repeats_empty_share(bias, mesh), mesh.shard->rank() == 1);
  });
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
