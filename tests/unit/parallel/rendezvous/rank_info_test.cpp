#include "parallel/rendezvous/rank_info.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"

namespace accel::rank_info_test {
namespace {

using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Environment& environment) {
  return [&environment](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
}

/// "rank/world local/local address:port launcher", "none", or the error with its hint.
std::string found_in(const Environment& environment) {
  try {
    const auto place = find_rank(lookup_in(environment));
    if (!place) return "none";
    return std::to_string(place->rank) + "/" + std::to_string(place->world) + " " +
           std::to_string(place->local_rank) + "/" + std::to_string(place->local_world) + " " +
           place->main_address + ":" + std::to_string(place->main_port) + " " + place->launcher;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + " | " + error.hint();
  }
}

const Environment kTorchrun = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "node-a"},
                               {"MASTER_PORT", "29500"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"PMIX_NAMESPACE", "prterun-a-7@1"}};
const Environment kHydra = {{"PMI_RANK", "1"},
                            {"PMI_SIZE", "2"},
                            {"MPI_LOCALRANKID", "1"},
                            {"MPI_LOCALNRANKS", "2"},
                            {"MASTER_PORT", "29500"}};
const Environment kFlux = {
    {"FLUX_TASK_RANK", "5"},  {"FLUX_TASK_LOCAL_ID", "1"}, {"FLUX_JOB_SIZE", "8"},
    {"FLUX_JOB_NNODES", "2"}, {"FLUX_JOB_ID", "f2X"},      {"PMI_RANK", "5"},
    {"PMI_SIZE", "8"},        {"MASTER_ADDR", "a"},        {"MASTER_PORT", "29500"}};
const Environment kBatchScript = {{"SLURM_JOB_ID", "123"}, {"SLURM_PROCID", "0"},
                                  {"SLURM_NTASKS", "7"},   {"SLURM_LOCALID", "0"},
                                  {"SLURM_NODEID", "0"},   {"SLURM_NODELIST", "n[01-03,7],gpu5"}};
const Environment kSrun = {{"SLURM_JOB_ID", "123"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "7"},
                           {"SLURM_PROCID", "6"},
                           {"SLURM_LOCALID", "2"},
                           {"SLURM_NODEID", "1"},
                           {"MASTER_PORT", "29500"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                           {"SLURM_STEP_NODELIST", "n[01-03,7],gpu5"}};

/// A launcher's variables with some changed; an empty value is as good as none.
struct Case {
  const char* name;
  const Environment& base;
  Environment changes;
  const char* found;
};

const Environment kNothing;

const Case kCases[] = {
    {"Alone", kNothing, {}, "none"},
    {"Torchrun", kTorchrun, {}, "3/4 1/2 node-a:29500 torchrun"},
    {"OwnLauncher", kTorchrun, {{"ACCEL_RUN_TOKEN", "x"}}, "3/4 1/2 node-a:29500 accel-run"},
    {"OneRankOfTorchrun",
     kTorchrun,
     {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}},
     "0/1 0/1 node-a:29500 torchrun"},
    {"Kubernetes",
     kTorchrun,
     {{"LOCAL_RANK", ""}, {"LOCAL_WORLD_SIZE", ""}},
     "3/4 0/1 node-a:29500 torchrun"},
    {"TorchrunBeforeSrun",
     kSrun,
     {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}},
     "0/2 0/1 a:29500 torchrun"},
    {"RankAlone",
     kNothing,
     {{"RANK", "0"}},
     "environment variable 'RANK' is set, but not 'WORLD_SIZE' | set both, as torchrun does, or "
     "unset 'RANK'"},
    {"WorldAlone",
     kNothing,
     {{"WORLD_SIZE", "2"}},
     "environment variable 'WORLD_SIZE' is set, but not 'RANK' | set both, as torchrun does, or "
     "unset 'WORLD_SIZE'"},
    {"LocalRankAlone",
     kTorchrun,
     {{"LOCAL_WORLD_SIZE", ""}},
     "environment variable 'RANK' is set, but not 'LOCAL_WORLD_SIZE' | set both, as torchrun "
     "does, or unset 'RANK'"},
    {"LocalWorldAlone",
     kTorchrun,
     {{"LOCAL_RANK", ""}},
     "environment variable 'LOCAL_WORLD_SIZE' is set, but not 'LOCAL_RANK' | set both, as "
     "torchrun does, or unset 'LOCAL_WORLD_SIZE'"},
    {"NoAddress",
     kTorchrun,
     {{"MASTER_ADDR", ""}},
     "environment variable 'RANK' is set, but not 'MASTER_ADDR' | set both, as torchrun does, or "
     "unset 'RANK'"},
    {"RankIsWorld",
     kTorchrun,
     {{"RANK", "4"}},
     "environment variable 'RANK' is 4, but 'WORLD_SIZE' is 4 | ranks are counted from 0"},
    {"LocalRankIsLocalWorld",
     kTorchrun,
     {{"LOCAL_RANK", "2"}},
     "environment variable 'LOCAL_RANK' is 2, but 'LOCAL_WORLD_SIZE' is 2 | ranks are counted "
     "from 0"},
    {"LocalWorldAboveWorld",
     kTorchrun,
     {{"LOCAL_WORLD_SIZE", "5"}},
     "environment variable 'LOCAL_WORLD_SIZE' is 5, but 'WORLD_SIZE' is 4 | no machine has more "
     "ranks than there are"},
    {"NoNumber",
     kTorchrun,
     {{"WORLD_SIZE", "four"}},
     "environment variable 'WORLD_SIZE' is 'four', not a whole number from 1 to 16777216 | it "
     "must have the value that torchrun sets"},
    {"HalfANumber",
     kTorchrun,
     {{"RANK", "1x"}},
     "environment variable 'RANK' is '1x', not a whole number from 0 to 16777216 | it must have "
     "the "
     "value that torchrun sets"},
    {"Negative",
     kTorchrun,
     {{"RANK", "-1"}},
     "environment variable 'RANK' is '-1', not a whole number from 0 to 16777216 | it must have "
     "the "
     "value that torchrun sets"},
    {"Huge",
     kTorchrun,
     {{"WORLD_SIZE", "99999999999999999999"}},
     "environment variable 'WORLD_SIZE' is '99999999999999999999', not a whole number from 1 to "
     "16777216 | it must have the value that torchrun sets"},
    {"NoPort",
     kTorchrun,
     {{"MASTER_PORT", "65536"}},
     "environment variable 'MASTER_PORT' is '65536', not a whole number from 1 to 65535 | it "
     "must have the value that torchrun sets"},

    {"OpenMpi", kOpenMpi, {}, "1/2 1/2 127.0.0.1:26480 mpirun"},
    {"OpenMpiOfAnotherJob",
     kOpenMpi,
     {{"PMIX_NAMESPACE", "prterun-a-8@1"}},
     "1/2 1/2 127.0.0.1:24093 mpirun"},
    {"OpenMpiInSlurm", kSrun, kOpenMpi, "1/2 1/2 127.0.0.1:29500 mpirun"},
    {"OpenMpiOnSeveralMachines",
     kOpenMpi,
     {{"OMPI_COMM_WORLD_SIZE", "4"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29500"}},
     "1/4 1/2 node-a:29500 mpirun"},
    {"OpenMpiWithoutAddress",
     kOpenMpi,
     {{"OMPI_COMM_WORLD_SIZE", "4"}},
     "environment variables 'MASTER_ADDR' and 'MASTER_PORT' must say where rank 0 is found when "
     "mpirun uses several machines | give mpirun -x MASTER_ADDR=HOST -x MASTER_PORT=29500, or "
     "with MPICH and Intel MPI -genv NAME VALUE"},
    {"OpenMpiWithoutSize",
     kOpenMpi,
     {{"OMPI_COMM_WORLD_SIZE", ""}},
     "environment variable 'OMPI_COMM_WORLD_RANK' is set, but not 'OMPI_COMM_WORLD_SIZE' | set "
     "both, as mpirun does, or unset 'OMPI_COMM_WORLD_RANK'"},
    {"Hydra", kHydra, {}, "1/2 1/2 127.0.0.1:29500 mpirun"},
    {"HydraWithoutLocalRank",
     kHydra,
     {{"MPI_LOCALRANKID", ""}},
     "environment variable 'PMI_RANK' is set, but not 'MPI_LOCALRANKID' | set both, as mpirun "
     "does, or unset 'PMI_RANK'"},
    {"HydraInSlurm", kSrun, kHydra, "1/2 1/2 127.0.0.1:29500 mpirun"},

    {"Flux", kFlux, {}, "5/8 1/4 a:29500 flux run"},
    {"FluxOnOneNode",
     kFlux,
     {{"FLUX_JOB_NNODES", "1"}, {"MASTER_ADDR", ""}},
     "5/8 1/8 127.0.0.1:29500 flux run"},
    {"FluxOfOneTask", kFlux, {{"FLUX_JOB_SIZE", "1"}, {"FLUX_TASK_RANK", "0"}}, "none"},
    {"FluxUneven",
     kFlux,
     {{"FLUX_JOB_NNODES", "3"}},
     "environment variable 'FLUX_JOB_SIZE' is 8, which the 3 nodes of 'FLUX_JOB_NNODES' cannot "
     "share evenly | give 'flux run' as many tasks for each node: --tasks-per-node=N"},
    {"FluxWithoutAddress",
     kFlux,
     {{"MASTER_ADDR", ""}},
     "environment variable 'MASTER_ADDR' must say where rank 0 is found when 'flux run' uses "
     "several nodes | give 'flux run' --env=MASTER_ADDR=HOST, the first of 'flux resource list'"},
    {"FluxWithoutNodes",
     kFlux,
     {{"FLUX_JOB_NNODES", ""}},
     "environment variable 'FLUX_JOB_SIZE' is set, but not 'FLUX_JOB_NNODES' | set both, as flux "
     "run does, or unset 'FLUX_JOB_SIZE'"},

    {"IPv6InBrackets", kTorchrun, {{"MASTER_ADDR", "[fd00::1]"}}, "3/4 1/2 fd00::1:29500 torchrun"},
    {"Blank",
     kNothing,
     {{"RANK", " "}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}},
     "environment variable 'RANK' is ' ', not a whole number from 0 to 16777216 | it must have the "
     "value that torchrun sets"},
    {"BatchScript", kBatchScript, {}, "none"},
    {"BatchScriptThatIsAStep",
     kBatchScript,
     {{"SLURM_STEP_ID", "4294967291"}, {"SLURM_STEP_NUM_TASKS", "1"}},
     "none"},
    {"Srun", kSrun, {}, "6/7 2/3 n01:29500 srun"},
    {"SrunWithPmi2", kSrun, {{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}}, "6/7 2/3 n01:29500 srun"},
    {"SrunPortOfJob", kSrun, {{"MASTER_PORT", ""}}, "6/7 2/3 n01:21581 srun"},
    {"SrunPortOfAnotherStep",
     kSrun,
     {{"MASTER_PORT", ""}, {"SLURM_STEP_ID", "1"}},
     "6/7 2/3 n01:23370 srun"},
    {"SrunWithAddress",
     kSrun,
     {{"MASTER_ADDR", "10.0.0.1"}, {"SLURM_STEP_NODELIST", ""}},
     "6/7 2/3 10.0.0.1:29500 srun"},
    {"SrunOnOneMachine",
     kSrun,
     {{"SLURM_STEP_TASKS_PER_NODE", "7"}, {"SLURM_NODEID", "0"}},
     "6/7 2/7 127.0.0.1:29500 srun"},
    {"SrunEqualNodes",
     kSrun,
     {{"SLURM_STEP_TASKS_PER_NODE", "1,3(x2)"}, {"SLURM_NODEID", "2"}},
     "6/7 2/3 n01:29500 srun"},
    {"SrunOldNames",
     kSrun,
     {{"SLURM_STEP_TASKS_PER_NODE", ""},
      {"SLURM_NTASKS_PER_NODE", "4"},
      {"SLURM_STEP_NUM_TASKS", ""},
      {"SLURM_NTASKS", "8"},
      {"SLURM_STEP_NODELIST", ""},
      {"SLURM_NODELIST", "gpu5"}},
     "6/8 2/4 gpu5:29500 srun"},
    {"SrunWithoutNodes",
     kSrun,
     {{"SLURM_STEP_NODELIST", ""}},
     "environment variable 'SLURM_PROCID' is set, but not 'SLURM_STEP_NODELIST' | set both, as "
     "srun does, or unset 'SLURM_PROCID'"},
    {"SrunNodeBeyondTheList",
     kSrun,
     {{"SLURM_NODEID", "2"}},
     "environment variable 'SLURM_STEP_TASKS_PER_NODE' is '4,3', without node 2 | "
     "it must have the value that srun sets, such as '4(x2),3'"},
    {"SrunNoTasks",
     kSrun,
     {{"SLURM_STEP_TASKS_PER_NODE", "4(x2"}},
     "environment variable 'SLURM_STEP_TASKS_PER_NODE' is '4(x2', without node 1 | "
     "it must have the value that srun sets, such as '4(x2),3'"},
    {"SrunRankIsWorld",
     kSrun,
     {{"SLURM_PROCID", "7"}},
     "environment variable 'SLURM_PROCID' is 7, but 'SLURM_STEP_NUM_TASKS' is 7 | ranks are "
     "counted from 0"},
};

class RankPlaceTest : public testing::TestWithParam<Case> {};

TEST_P(RankPlaceTest, Is) {
  Environment environment = GetParam().base;
  for (const auto& [name, value] : GetParam().changes) environment[name] = value;
  EXPECT_EQ(found_in(environment), GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(Launchers, RankPlaceTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FirstHostTest, OfSlurmsLists) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpu5", "gpu5"},     {"gpu5,gpu6", "gpu5"}, {"n[01-03,7],gpu5", "n01"},
      {"n[7,01-03]", "n7"}, {"n[12]", "n12"},      {"rack[1-2]n[3-4]-ib,x", "rack1n3-ib"},
  };
  for (const auto& [list, host] : cases) EXPECT_EQ(first_host(list), host);
  for (const char* list : {"", ",a", "n[01-03", "n[", "n[]", "n[,1]"}) {
    try {
      first_host(list);
      ADD_FAILURE() << list;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "'" + std::string(list) + "' is not a list of Slurm's hosts");
      EXPECT_EQ(error.hint(),
                "'SLURM_STEP_NODELIST' must have the value that srun sets, such as "
                "'n[01-03,7],gpu5', or else "
                "set 'MASTER_ADDR'");
      EXPECT_EQ(error.code(), ExitCode::kRecipe);
    }
  }
}

}  // namespace
}  // namespace accel::rank_info_test
