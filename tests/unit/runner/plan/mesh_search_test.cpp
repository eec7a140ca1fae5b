#include "runner/plan/mesh_search.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel::mesh_search_test {
namespace {

std::vector<std::string> names(const std::vector<MeshChoice>& choices) {
  std::vector<std::string> out;
  for (const MeshChoice& choice : choices) {
    out.push_back(mesh_text(choice.sizes) + ", stage " + std::to_string(choice.stage));
  }
  return out;
}

TEST(MeshSearchTest, AllMeshesOfTwoRanks) {
  EXPECT_EQ(names(mesh_choices(2, 8)),
            (std::vector<std::string>{"dp_replicate 2, stage 0", "dp_shard 2, stage 1",
                                      "dp_shard 2, stage 3", "cp 2, stage 0", "pp 2, stage 0",
                                      "tp 2, stage 0"}));
  EXPECT_EQ(names(mesh_choices(1, 8)), (std::vector<std::string>{", stage 0"}));
}

TEST(MeshSearchTest, TensorRanksShareAMachineAndShardsMay) {
  bool hybrid = false;
  for (const MeshChoice& choice : mesh_choices(64, 8)) {
    EXPECT_EQ(choice.sizes.ranks(), 64);
    EXPECT_LE(choice.sizes.tensor, 8);
    if (choice.sizes.shard == 1 || choice.sizes.replicate == 1) continue;
    hybrid = true;
    EXPECT_EQ(choice.sizes.shard * choice.sizes.context * choice.sizes.tensor, 8);
  }
  EXPECT_TRUE(hybrid);
}

TEST(MeshSearchTest, OverridesOfAMesh) {
  MeshChoice choice;
  choice.sizes.pipeline = 4;
  choice.sizes.tensor = 2;
  EXPECT_EQ(choice.overrides(),
            (std::vector<std::string>{
                "accelerator.num_processes=8", "accelerator.fsdp.stage=0",
                "accelerator.parallelism!={pp: 4, tp: 2, sequence_parallel: true}"}));
}

TEST(MeshSearchTest, OptionsOfPipelinesAreLeftOutWithoutStages) {
  MeshRequest request;
  request.ranks = 2;
  request.hardware = hardware_of({"h100"});
  request.has_pipeline_options = true;
  int64_t without = 0;
  search_meshes(request, [&](const std::vector<std::string>& overrides) {
    const bool drops = overrides.back() == "accelerator.pipeline!={}";
    EXPECT_NE(drops, overrides.at(2).find("pp:") != std::string::npos) << overrides.at(2);
    without += drops;
    return Plan();
  });
  EXPECT_EQ(without, 5);
}

/// Whose data parallel ranks wait for a slow network, and whose stage 3 fits into the memory.
Plan planned(const std::vector<std::string>& overrides) {
  const std::string all = joined(overrides, " ");
  const auto has = [&](const char* part) { return all.find(part) != all.npos; };
  if (has("cp:")) throw Error(ExitCode::kRecipe, "r.yaml:3: error: 'cp' is refused\n  cp", "");
  if (has("pp:")) throw Error(ExitCode::kRecipe, "'pp' is refused", "");
  Plan plan;
  plan.batches.accumulation = 1;
  plan.tokens = 1000;
  plan.flops = 2e15;
  plan.rank_flops = 1e15;
  plan.memory.weights = has("stage=3") || has("tp:") ? 10'000'000'000 : 79'000'000'000;
  plan.mesh.shard = 2;
  if (has("stage=3")) plan.traffic[{{2, 1}, "parameters"}] = {1'000'000'000'000, 1};
  return plan;
}

TEST(MeshSearchTest, TheFastestThatFitsIsFirst) {
  MeshRequest request;
  request.ranks = 2;
  request.hardware = hardware_of({"h100"});
  request.mode.is_16bit = true;
  request.whole.weights = 20'000'000'000;
  const MeshSearch search = search_meshes(request, planned);
  ASSERT_EQ(search.fitting.size(), 2);
  EXPECT_EQ(search.fitting[0].choice.sizes.tensor, 2);
  EXPECT_EQ(search.fitting[1].choice.stage, 3);
  EXPECT_EQ(search.too_large, 2);
  EXPECT_EQ(
      joined(mesh_lines(search, "r.yaml", 2), "\n"),
      "meshes of 2 ranks on h100, 8 per machine: estimates, the fastest first\n"
      "                                tokens/s  TFLOP/s     memory                in"
      "              data\n"
      "  mesh        fsdp      a step  per rank  per rank   per rank  compute   layers   "
      "bubble  parallel\n"
      "  tp 2           0      1.45 s       344    688.9   9.31 GiB     100%       0%"
      "       0%       0%\n"
      "  dp_shard 2     3      3.45 s       145    289.7   9.31 GiB      42%       0%"
      "       0%      58%\n"
      "2 need more than the 72.5 GiB of a rank\n"
      "1 does not suit the recipe: 'cp' is refused\n"
      "1 does not suit the recipe: 'pp' is refused\n"
      "the fastest: accel-run r.yaml 'accelerator.num_processes=2' 'accelerator.fsdp.stage=0' "
      "'accelerator.parallelism!={tp: 2, sequence_parallel: true}'");
}

TEST(MeshSearchTest, SlowerMeshesAreCounted) {
  MeshRequest request;
  request.ranks = 2;
  request.hardware = hardware_of({"h100"});
  const std::vector<std::string> lines = mesh_lines(search_meshes(request, planned), "r.yaml", 1);
  EXPECT_TRUE(lines.at(3).starts_with("  dp_shard 2     3 ")) << lines.at(3);
  EXPECT_EQ(lines.at(4), "  and 1 slower one");
}

TEST(MeshSearchTest, MeshesAreNotPlannedWhoseComputationTakesLonger) {
  MeshRequest request;
  request.ranks = 4;
  request.hardware = hardware_of({"h100"});
  request.top = 1;
  std::vector<std::string> calls;
  const MeshSearch search = search_meshes(request, [&](const std::vector<std::string>& overrides) {
    calls.push_back(joined(overrides, " "));
    Plan plan;
    plan.batches.accumulation = 1;
    plan.rank_flops = calls.back().find("tp: 4") != std::string::npos ? 1e15 : 2e15;
    return plan;
  });
  // One of each (tp, pp, cp).
  EXPECT_EQ(calls.size(), 10);
  EXPECT_EQ(search.slower, 8);
  EXPECT_EQ(search.fitting.front().choice.sizes.tensor, 4);
  EXPECT_EQ(search.fitting.size(), 10);
  const std::vector<std::string> lines = mesh_lines(search, "r.yaml", 1);
  EXPECT_EQ(lines.at(4), "  and 9 slower ones");
  EXPECT_EQ(lines.at(5),
            "  and 8 that were not planned: their computation alone takes longer than the last of "
            "these");
}

TEST(MeshSearchTest, NothingIsPlannedThatCannotFit) {
  MeshRequest request;
  request.ranks = 2;
  request.hardware = hardware_of({"h100"});
  request.whole.weights = 200'000'000'000;
  const MeshSearch search = search_meshes(request, [](const auto&) -> Plan {
    ADD_FAILURE() << "planned";
    return {};
  });
  EXPECT_EQ(search.too_large, 6);
  EXPECT_EQ(joined(mesh_lines(search, "r.yaml", 2), "\n"),
            "meshes of 2 ranks on h100, 8 per machine: estimates, the fastest first\n"
            "6 need more than the 72.5 GiB of a rank");
}

}  // namespace
}  // namespace accel::mesh_search_test
