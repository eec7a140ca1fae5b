#include "parallel/rendezvous/machine_info.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "core/base/error.h"
#include "parallel/rendezvous/rank_info.h"

namespace accel::machine_info_test {
namespace {

using Environment = std::map<std::string, std::string>;

EnvironmentLookup lookup_in(const Environment& environment) {
  return [&environment](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  };
}

std::string text_of(const MachineInfo& info) {
  std::string out = info.scheduler + " " + std::to_string(info.machine_rank) + "/";
  if (info.least_machines < info.machines) out += std::to_string(info.least_machines) + ":";
  out += std::to_string(info.machines) + " " + info.main_address + ":";
  out += std::to_string(info.main_port);
  return info.ranks_per_machine ? out + " x" + std::to_string(*info.ranks_per_machine) : out;
}

/// "Kubeflow 1/2 a:29500 x4", "none", or the error with its hint.
std::string found_in(const Environment& environment, int64_t machines) {
  try {
    const auto info = find_machine_of(machines, "n2.site", lookup_in(environment));
    return info ? text_of(*info) : "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + " | " + error.hint();
  }
}

const Environment kPet = {{"PET_NNODES", "2"},
                          {"PET_NODE_RANK", "1"},
                          {"PET_NPROC_PER_NODE", "4"},
                          {"PET_MASTER_ADDR", "a"},
                          {"PET_MASTER_PORT", "29400"}};
const Environment kPyTorchJob = {
    {"PET_NNODES", "2"},      {"PET_NODE_RANK", "1"},       {"PET_NPROC_PER_NODE", "4"},
    {"PET_MASTER_ADDR", "a"}, {"PET_MASTER_PORT", "29400"}, {"RANK", "1"},
    {"WORLD_SIZE", "8"},      {"MASTER_ADDR", "a"},         {"MASTER_PORT", "29400"}};
const Environment kBatch = {{"AWS_BATCH_JOB_NUM_NODES", "3"},
                            {"AWS_BATCH_JOB_NODE_INDEX", "2"},
                            {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "10.0.0.4"}};
const Environment kSky = {{"SKYPILOT_NUM_NODES", "2"},
                          {"SKYPILOT_NODE_RANK", "1"},
                          {"SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2"},
                          {"SKYPILOT_NUM_GPUS_PER_NODE", "8"}};
const Environment kDstack = {{"DSTACK_NODES_NUM", "2"},
                             {"DSTACK_NODE_RANK", "0"},
                             {"DSTACK_MASTER_NODE_IP", "fd00::1"},
                             {"DSTACK_GPUS_PER_NODE", "0"}};
const Environment kLsf = {{"LSB_MCPU_HOSTS", "n1 8 n2 8"}, {"LSB_JOBID", "7"}};
const Environment kNothing;

struct Case {
  const char* name;
  const Environment& base;
  Environment changes;
  int64_t machines;
  const char* found;
};

const Case kCases[] = {
    {"Alone", kNothing, {}, 1, "none"},
    {"Pet", kPet, {}, 1, "Kubeflow 1/2 a:29400 x4"},
    {"PetElastic", kPet, {{"PET_NNODES", "1:4"}}, 1, "Kubeflow 1/1:4 a:29400 x4"},
    {"PetAutoRanks", kPet, {{"PET_NPROC_PER_NODE", "auto"}}, 1, "Kubeflow 1/2 a:29400"},
    {"PetDefaultPort", kPet, {{"PET_MASTER_PORT", ""}}, 1, "Kubeflow 1/2 a:29500 x4"},
    {"PetOfTorchrun", kPet, {{"RANK", "3"}, {"LOCAL_RANK", "1"}}, 1, "none"},
    {"PetOfOwnRank",
     kPet,
     {{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"ACCEL_RUN_TOKEN", "x"}},
     1,
     "Kubeflow 1/2 a:29400 x4"},
    {"PetRange",
     kPet,
     {{"PET_NNODES", "4:2"}},
     1,
     "environment variable 'PET_NNODES' is '4:2', not a number of machines or MIN:MAX | set it to "
     "'2', or '1:4' for an elastic job"},
    {"PetRankTooLarge",
     kPet,
     {{"PET_NODE_RANK", "2"}},
     1,
     "environment variable 'PET_NODE_RANK' is 2, but 'PET_NNODES' is 2 | machines are counted from "
     "0"},
    {"PetNoAddress",
     kPet,
     {{"PET_MASTER_ADDR", ""}},
     1,
     "environment variable 'PET_NNODES' is set, but not 'PET_MASTER_ADDR' | set both, as Kubeflow "
     "does, or unset 'PET_NNODES'"},
    {"PetIPv6", kPet, {{"PET_MASTER_ADDR", "[fd00::1]"}}, 1, "Kubeflow 1/2 fd00::1:29400 x4"},
    {"PetGpuRanks", kPet, {{"PET_NPROC_PER_NODE", "gpu"}}, 1, "Kubeflow 1/2 a:29400"},
    {"PetWithoutRank",
     kPet,
     {{"PET_NODE_RANK", ""}},
     1,
     "environment variable 'PET_NNODES' is set, but not 'PET_NODE_RANK' | set both, as Kubeflow "
     "does, or unset 'PET_NNODES'"},
    {"PetWithoutMachines",
     kPet,
     {{"PET_NNODES", ""}},
     1,
     "environment variable 'PET_NODE_RANK' is set, but not 'PET_NNODES' | set both, as Kubeflow "
     "does, or unset 'PET_NODE_RANK'"},
    {"PetPortOfAService",
     kPet,
     {{"PET_MASTER_PORT", "tcp://10.0.0.1:29500"}},
     1,
     "environment variable 'PET_MASTER_PORT' is 'tcp://10.0.0.1:29500', not a whole number from 1 "
     "to 65535 | it must have the value that Kubeflow sets"},
    {"PetOfATaskOfSrun",
     kPet,
     {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}},
     1,
     "Kubeflow 1/2 a:29400 x4"},
    {"PetInAShellOfSlurm",
     kPet,
     {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
     1,
     "Kubeflow 1/2 a:29400 x4"},
    {"PetOfEveryRankOfSrun",
     kPet,
     {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}},
     1,
     "environment variables 'SLURM_STEP_NUM_TASKS' and 'PET_NNODES' contradict each other: 8 tasks "
     "and 2 machines | start one task on each machine with 'srun --ntasks-per-node=1', or unset "
     "the variables PET_*"},
    {"PyTorchJob", kPyTorchJob, {}, 1, "Kubeflow 1/2 a:29400 x4"},
    {"PyTorchJobOfOldOperator", kPyTorchJob, {{"WORLD_SIZE", "2"}}, 1, "Kubeflow 1/2 a:29400 x4"},
    {"PyTorchJobRank",
     kPyTorchJob,
     {{"RANK", "0"}},
     1,
     "environment variables 'RANK' and 'PET_NODE_RANK' contradict each other: '0' and '1' | unset "
     "the one that Kubeflow has not set"},
    {"PyTorchJobWorld",
     kPyTorchJob,
     {{"WORLD_SIZE", "3"}},
     1,
     "environment variables 'WORLD_SIZE' and 'PET_NNODES' contradict each other: '3' and '2' | "
     "unset the one that Kubeflow has not set"},
    {"PyTorchJobAddress",
     kPyTorchJob,
     {{"MASTER_ADDR", "b"}},
     1,
     "environment variables 'MASTER_ADDR' and 'PET_MASTER_ADDR' contradict each other: 'b' and 'a' "
     "| unset the one that Kubeflow has not set"},
    {"Batch", kBatch, {}, 1, "AWS Batch 2/3 10.0.0.4:29500"},
    {"BatchWithoutMain",
     kBatch,
     {{"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", ""}},
     1,
     "environment variable 'AWS_BATCH_JOB_NODE_INDEX' is set, but not "
     "'AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS' | set both, as AWS Batch does, or unset "
     "'AWS_BATCH_JOB_NODE_INDEX'"},
    {"BatchMain",
     kBatch,
     {{"AWS_BATCH_JOB_MAIN_NODE_INDEX", "2"}},
     1,
     "AWS Batch 0/3 10.0.0.4:29500"},
    {"BatchBeforeMain",
     kBatch,
     {{"AWS_BATCH_JOB_MAIN_NODE_INDEX", "1"}, {"AWS_BATCH_JOB_NODE_INDEX", "0"}},
     1,
     "AWS Batch 1/3 10.0.0.4:29500"},
    {"BatchMainTooLarge",
     kBatch,
     {{"AWS_BATCH_JOB_MAIN_NODE_INDEX", "3"}},
     1,
     "environment variable 'AWS_BATCH_JOB_MAIN_NODE_INDEX' is '3', not a whole number from 0 to 2 "
     "| "
     "it must have the value that AWS Batch sets"},
    {"SkyIPv6",
     kSky,
     {{"SKYPILOT_NODE_IPS", "\n[fd00::1]\n[fd00::2]\n"}},
     1,
     "SkyPilot 1/2 fd00::1:29500 x8"},
    {"SkyOtherCount",
     kSky,
     {{"SKYPILOT_NODE_IPS", "10.0.0.1\n10.0.0.2\n10.0.0.3"}},
     1,
     "environment variables 'SKYPILOT_NODE_IPS' and 'SKYPILOT_NUM_NODES' contradict each other: 3 "
     "addresses and 2 machines | unset the one that SkyPilot has not set"},
    {"SkyWithoutCount",
     kSky,
     {{"SKYPILOT_NUM_NODES", ""}},
     1,
     "environment variable 'SKYPILOT_NODE_RANK' is set, but not 'SKYPILOT_NUM_NODES' | set both, "
     "as "
     "SkyPilot does, or unset 'SKYPILOT_NODE_RANK'"},
    {"SageMakerWithoutFile",
     kNothing,
     {{"SM_INPUT_CONFIG_DIR", "/missing"}},
     1,
     "'/missing/resourceconfig.json' of SageMaker cannot be read | correct or unset "
     "'SM_INPUT_CONFIG_DIR'"},
    {"SageMakerElsewhere", kNothing, {{"TRAINING_JOB_NAME", "my own"}}, 1, "none"},
    {"Sky", kSky, {}, 1, "SkyPilot 1/2 10.0.0.1:29500 x8"},
    {"Dstack", kDstack, {}, 1, "dstack 0/2 fd00::1:29500"},
    {"SkyOfRank", kSky, {{"RANK", "0"}, {"WORLD_SIZE", "2"}}, 1, "none"},
    {"LsfOfOneMachine", kLsf, {}, 1, "none"},
    {"Lsf", kLsf, {}, 2, "LSF 1/2 n1:21446"},
    {"LsfDomains", kLsf, {{"LSB_MCPU_HOSTS", "n2.other 8 n2.site 8"}}, 2, "LSF 1/2 n2.other:21446"},
    {"LsfLongNames", kLsf, {{"LSB_MCPU_HOSTS", "n1.site 8 n2.site 8"}}, 2, "LSF 1/2 n1.site:21446"},
    {"LsfOtherDomain",
     kLsf,
     {{"LSB_MCPU_HOSTS", "n1.other 8 n2.other 8"}},
     2,
     "LSF 1/2 n1.other:21446"},
    {"LsfAmbiguous",
     kLsf,
     {{"LSB_MCPU_HOSTS", "n2.a 8 n2.b 8"}},
     2,
     "this machine is 'n2.site', which is not in the hosts of 'LSB_MCPU_HOSTS': n2.a, n2.b | set "
     "'accelerator.machine_rank' on each machine"},
    {"LsfOfOthers",
     kLsf,
     {{"LSB_MCPU_HOSTS", "n3 8 n4 8"}},
     2,
     "this machine is 'n2.site', which is not in the hosts of 'LSB_MCPU_HOSTS': n3, n4 | set "
     "'accelerator.machine_rank' on each machine"},
    {"PbsWithoutFile",
     kNothing,
     {{"PBS_NODEFILE", "/missing"}},
     2,
     "environment variable 'PBS_NODEFILE' is '/missing', which cannot be read | start accel-run "
     "with pbsdsh on each machine of the job"},
    {"IndexedJob", kNothing, {{"JOB_COMPLETION_INDEX", "1"}}, 2, "Kubernetes 1/2 :0"},
};

class MachineInfoTest : public testing::TestWithParam<Case> {};

TEST_P(MachineInfoTest, IsReadFromTheEnvironment) {
  Environment environment = GetParam().base;
  for (const auto& [name, value] : GetParam().changes) environment[name] = value;
  EXPECT_EQ(found_in(environment, GetParam().machines), GetParam().found);
}

INSTANTIATE_TEST_SUITE_P(Cases, MachineInfoTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

/// SageMaker's file in a folder of its own.
class ResourceFile {
 public:
  explicit ResourceFile(const std::string& text) : folder_(testing::TempDir() + "resources") {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/resourceconfig.json") << text;
  }
  ~ResourceFile() { std::filesystem::remove_all(folder_); }

  std::string found() const {
    const std::string text = found_in({{"SM_INPUT_CONFIG_DIR", folder_}}, 1);
    const size_t at = text.find(folder_);
    return at == text.npos ? text : text.substr(0, at) + text.substr(at + folder_.size());
  }

 private:
  std::string folder_;
};

TEST(MachineInfoTest, SageMakerSortsHostsByNumber) {
  EXPECT_EQ(ResourceFile(R"({"current_host": "algo-10", "hosts": ["algo-10", "algo-1", "algo-9"]})")
                .found(),
            "SageMaker 2/3 algo-1:29500");
}

TEST(MachineInfoTest, SageMakerOfAnotherHost) {
  EXPECT_EQ(ResourceFile(R"({"current_host": "algo-3", "hosts": ["algo-1"]})").found(),
            "'/resourceconfig.json' of SageMaker is invalid: 'current_host' is 'algo-3', which is "
            "not in 'hosts' | it has 'current_host' and 'hosts'");
}

TEST(MachineInfoTest, SageMakerWithoutHosts) {
  EXPECT_EQ(ResourceFile("{").found(),
            "'/resourceconfig.json' of SageMaker is invalid: it lacks the list 'hosts' or the text "
            "'current_host' | it has 'current_host' and 'hosts'");
}

TEST(MachineInfoTest, AMachineIsNoRank) {
  EXPECT_FALSE(find_rank(lookup_in(kPyTorchJob)));
}

}  // namespace
}  // namespace accel::machine_info_test
