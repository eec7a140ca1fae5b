#include "parallel/mesh.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include <algorithm>

#include "tests/unit/parallel/ranks.h"

namespace accel::mesh_test {
namespace {

TEST(MeshTest, TheInnermostAxisHasNeighbours) {
  on_ranks(4, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.replicate = 2, .tensor = 2});
    EXPECT_EQ(mesh.data->rank(), group.rank() / 2);
    EXPECT_EQ(mesh.tensor->rank(), group.rank() % 2);
    EXPECT_EQ(mesh.shard->world(), 1);
    const at::Tensor own = at::full({}, group.rank(), at::kLong);
    const int64_t first = group.rank() / 2 * 2;
    EXPECT_TRUE(at::equal(mesh.tensor->all_gather(own, "test"), at::arange(first, first + 2)));
    EXPECT_TRUE(at::equal(mesh.along(Axis::kReplicate).all_gather(own, "test"),
                          at::arange(group.rank() % 2, 4, 2)));
  });
}

TEST(MeshTest, DataIsReplicateAndShard) {
  on_ranks(8, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.replicate = 2, .shard = 2, .tensor = 2});
    EXPECT_EQ(mesh.data->world(), 4);
    EXPECT_EQ(mesh.data->rank(), group.rank() / 2);
    EXPECT_EQ(mesh.shard->rank(), group.rank() / 2 % 2);
    EXPECT_EQ(mesh.replicate->rank(), group.rank() / 4);
    const Mesh sharded = make_mesh(world, {.shard = 8});
    EXPECT_EQ(sharded.data, sharded.world);
    EXPECT_EQ(sharded.shard, sharded.world);
  });
}

TEST(MeshTest, OneAxisOfAllRanksIsTheirGroup) {
  const auto world = std::make_shared<FakeGroup>(6);
  const Mesh mesh = data_parallel_mesh(world);
  EXPECT_EQ(mesh.data, mesh.world);
  EXPECT_EQ(mesh.tensor->world(), 1);
  EXPECT_EQ(make_mesh(world, {.pipeline = 3, .context = 2}).pipeline->world(), 3);
  EXPECT_THROW(make_mesh(world, {.replicate = 4}), std::logic_error);
}

TEST(MeshTest, GroupsAreNamedByTheirAxes) {
  const MeshSizes sizes{.pipeline = 2, .replicate = 2, .shard = 4, .tensor = 8};
  EXPECT_EQ(axes_of(sizes, {8, 1}), "tp");
  EXPECT_EQ(axes_of(sizes, {4, 8}), "dp_shard");
  EXPECT_EQ(axes_of(sizes, {2, 32}), "dp_replicate");
  EXPECT_EQ(axes_of(sizes, {8, 8}), "dp_replicate x dp_shard");
  EXPECT_EQ(axes_of(sizes, {2, 64}), "pp");
  EXPECT_EQ(axes_of(sizes, {128, 1}), "pp x dp_replicate x dp_shard x tp");
  EXPECT_EQ(axes_of(sizes, {4, 1}), "");
  EXPECT_EQ(axes_of(sizes, {2, 4}), "");
}

TEST(MeshTest, AxesAreNumberedFromTheInnermost) {
  const MeshSizes sizes{.replicate = 2, .shard = 3, .tensor = 4};
  EXPECT_EQ(sizes.ranks(), 24);
  EXPECT_EQ(sizes.data(), 6);
  EXPECT_EQ(mesh_text(sizes), "dp_replicate 2 x dp_shard 3 x tp 4");
  EXPECT_EQ(mesh_text({}), "");
  const auto along = [&](const char* name, int64_t rank) {
    const auto axis = std::ranges::find_if(
        kMeshAxes, [&](const MeshAxis& item) { return item.name == std::string(name); });
    return ranks_along(sizes, *axis, rank);
  };
  EXPECT_EQ(along("tp", 6), std::vector<int64_t>({4, 5, 6, 7}));
  EXPECT_EQ(along("dp_shard", 6), std::vector<int64_t>({2, 6, 10}));
  EXPECT_EQ(along("dp_replicate", 23), std::vector<int64_t>({11, 23}));
  EXPECT_EQ(
      mesh_summary(sizes),
      "dp_replicate 2 x dp_shard 3 x tp 4: tp communicates most and has neighbouring ranks; "
      "ranks 0 and 1 to 3 along tp, 0 and 4 to 8 along dp_shard, 0 and 12 along dp_replicate");
  EXPECT_EQ(mesh_summary({.replicate = 2, .shard = 3}), "");
  EXPECT_EQ(mesh_place(sizes, 0), "dp_replicate 0, dp_shard 0, tp 0");
  EXPECT_EQ(mesh_place(sizes, 21), "dp_replicate 1, dp_shard 2, tp 1");
  EXPECT_EQ(mesh_place({.pipeline = 2, .tensor = 2}, 2), "pp 1, tp 0");
  EXPECT_EQ(mesh_place({.replicate = 2, .shard = 3}, 4), "");
}

TEST(MeshTest, ExpertsAreDividedOverNeighboursOfTheDataParallelRanks) {
  on_ranks(8, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const at::Tensor own = at::full({}, group.rank(), at::kLong);
    const auto ranks_of = [&](Communicator& some) { return some.all_gather(own, "test"); };
    const int64_t rank = group.rank(), copy = rank / 4 * 4;
    const Mesh inside = make_mesh(world, {.replicate = 2, .shard = 4, .expert = 2});
    EXPECT_TRUE(at::equal(ranks_of(*inside.expert), at::arange(rank / 2 * 2, rank / 2 * 2 + 2)));
    EXPECT_TRUE(at::equal(ranks_of(inside.along(Axis::kExpertShard)),
                          at::arange(copy + rank % 2, copy + 4, 2)));
    EXPECT_TRUE(at::equal(ranks_of(*inside.expert_replicate), at::arange(rank % 4, 8, 4)));
    EXPECT_TRUE(at::equal(ranks_of(*inside.expert_data), at::arange(rank % 2, 8, 2)));
    const Mesh across = make_mesh(world, {.replicate = 4, .shard = 2, .expert = 4});
    EXPECT_TRUE(at::equal(ranks_of(*across.expert), at::arange(copy, copy + 4)));
    EXPECT_EQ(across.expert_shard->world(), 1);
    EXPECT_EQ(across.expert_data, across.expert_replicate);
    EXPECT_TRUE(at::equal(ranks_of(*across.expert_data), at::arange(rank % 4, 8, 4)));
    // Under tensor parallelism, which has the neighbours.
    const Mesh tensor = make_mesh(world, {.replicate = 4, .tensor = 2, .expert = 4});
    EXPECT_TRUE(at::equal(ranks_of(*tensor.expert), at::arange(rank % 2, 8, 2)));
    EXPECT_EQ(tensor.expert_data->world(), 1);
    // Ranks of context parallelism have different tokens too.
    const Mesh context = make_mesh(world, {.shard = 2, .context = 2, .tensor = 2, .expert = 2});
    EXPECT_TRUE(at::equal(ranks_of(*context.expert), ranks_of(*context.context)));
    EXPECT_TRUE(at::equal(ranks_of(*context.expert_shard), at::arange(rank % 4, 8, 4)));
  });
}

TEST(MeshTest, ExpertsNeedADivisorOfTheDataParallelRanks) {
  const auto world = std::make_shared<FakeGroup>(12);
  EXPECT_THROW(make_mesh(world, {.replicate = 12, .expert = 5}), std::logic_error);
  EXPECT_THROW(make_mesh(world, {.replicate = 2, .shard = 6, .expert = 4}), std::logic_error);
  EXPECT_THROW(make_mesh(world, {.replicate = 6, .context = 2, .expert = 3}), std::logic_error);
}

TEST(MeshTest, OneOfTheRanksWithTheSameSamplesLeads) {
  on_ranks(4, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.replicate = 2, .tensor = 2});
    EXPECT_EQ(mesh.leads(), group.rank() % 2 == 0);
    EXPECT_EQ(mesh.data->rank(), group.rank() / 2);
  });
}

/// Gathers the shares of [rows, 3] numbers.
void check_shares(const std::vector<Placement>& placements, int64_t rows = 7) {
  on_ranks(4, [&](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.shard = 2, .tensor = 2});
    const at::Tensor whole = at::arange(rows * 3).view({rows, 3});
    Parameter parameter{.name = "weight",
                        .local = share_of(whole, placements, mesh).clone(),
                        .global = {rows, 3},
                        .placements = placements};
    EXPECT_TRUE(at::equal(gather_whole(parameter, mesh), whole));
  });
}

TEST(GatherWholeTest, SharesOfAnyPlacementAreJoined) {
  check_shares({{Axis::kShard, 0}});
  check_shares({{Axis::kTensor, 1}});
  check_shares({{Axis::kShard, 0}, {Axis::kTensor, 1}});
  check_shares({{Axis::kShard, 0}, {Axis::kTensor, 0}});
  check_shares({{Axis::kTensor, 0, 3}}, 12);
  check_shares({{Axis::kTensor, 0, 3}, {Axis::kShard, 0}}, 15);
}

TEST(GatherWholeTest, SharesAreTorchChunks) {
  on_ranks(4, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    const Mesh mesh = make_mesh(world, {.shard = 4});
    // torch.chunk of five rows into four: 2, 2, 1, and none.
    const std::vector<int64_t> rows = {2, 2, 1, 0};
    const at::Tensor share = share_of(at::arange(5), {{Axis::kShard, 0}}, mesh);
    EXPECT_EQ(share.numel(), rows[static_cast<size_t>(group.rank())]);
    EXPECT_TRUE(
        at::equal(gather_whole({"bias", share, {5}, {{Axis::kShard, 0}}}, mesh), at::arange(5)));
  });
}

TEST(GatherWholeTest, AReplicatedTensorIsItself) {
  const Parameter parameter{"bias", at::arange(3)};
  EXPECT_TRUE(gather_whole(parameter, Mesh()).is_same(parameter.local));
}

}  // namespace
}  // namespace accel::mesh_test
