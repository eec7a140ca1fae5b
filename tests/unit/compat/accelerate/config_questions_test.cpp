#include "compat/accelerate/config_questions.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/base/error.h"

namespace accel::config_questions_test {
namespace {

const std::string kSharding =
    "Sharding (FSDP, ZeRO): none, or divide over ranks the optimizer state (1), gradients too (2), "
    "parameters too (3) (none/1/2/3) [none]: ";

/// The file that the answers make, without what is always so.
std::string file_of(const std::string& lines, int64_t gpus = 2) {
  std::istringstream in(lines);
  std::ostringstream out;
  return config_text(config_tree(ask_config(in, out, gpus)), "c.yaml");
}

std::string asked(const std::string& lines, int64_t gpus = 2) {
  std::istringstream in(lines);
  std::ostringstream out;
  ask_config(in, out, gpus);
  return out.str();
}

TEST(ConfigQuestionsTest, NoAnswersAreTheDefaults) {
  EXPECT_EQ(file_of("\n\n\n\n"),
            "compute_environment: LOCAL_MACHINE\n"
            "debug: false\n"
            "distributed_type: 'NO'\n"
            "downcast_bf16: 'no'\n"
            "enable_cpu_affinity: false\n"
            "gpu_ids: 'all'\n"
            "machine_rank: 0\n"
            "main_training_function: main\n"
            "mixed_precision: 'no'\n"
            "num_machines: 1\n"
            "num_processes: 1\n"
            "rdzv_backend: static\n"
            "same_network: true\n"
            "tpu_use_cluster: false\n"
            "tpu_use_sudo: false\n"
            "use_cpu: false\n");
}

TEST(ConfigQuestionsTest, SeveralMachinesAreAskedFor) {
  EXPECT_EQ(asked("cpu\n2\n1\nnode0\n4000\n6\nyes\nbf16\n\n"),
            "Processes: one, several on GPUs, or several on the CPU (one/gpu/cpu) [one]: "
            "Number of machines [1]: "
            "Rank of this machine, from 0 [0]: "
            "Address of machine 0: "
            "Free port of machine 0 [29500]: "
            "Number of processes, over all machines [4]: "
            "Check the shapes and types of collectives on all ranks (yes/no) [no]: "
            "Mixed precision: no, fp16, bf16 or fp8 [no]: " +
                kSharding);
  const std::string file = file_of("cpu\n2\n1\nnode0\n4000\n6\nyes\nbf16\n\n");
  for (const char* line :
       {"debug: true\n", "distributed_type: 'MULTI_CPU'\n", "machine_rank: 1\n",
        "main_process_ip: 'node0'\n", "main_process_port: 4000\n", "mixed_precision: 'bf16'\n",
        "num_machines: 2\n", "num_processes: 6\n", "use_cpu: true\n"}) {
    EXPECT_NE(file.find(line), std::string::npos) << line << file;
  }
}

TEST(ConfigQuestionsTest, GpusAreAskedFor) {
  EXPECT_EQ(asked("gpu\n2\n0\nnode0\n\n4\n\n0,0\n0\nx\n 0, 1\n\n\n"),
            "Processes: one, several on GPUs, or several on the CPU (one/gpu/cpu) [one]: "
            "Number of machines [1]: "
            "Rank of this machine, from 0 [0]: "
            "Address of machine 0: "
            "Free port of machine 0 [29500]: "
            "Number of GPUs, over all machines [4]: "
            "Check the shapes and types of collectives on all ranks (yes/no) [no]: "
            "GPUs of this machine, by number [all]:   each number once\n"
            "GPUs of this machine, by number [all]:   at least 2 numbers: one per "
            "process of this machine\n"
            "GPUs of this machine, by number [all]:   all, or numbers from 0 such as 0,1\n"
            "GPUs of this machine, by number [all]: "
            "Mixed precision: no, fp16, bf16 or fp8 [no]: " +
                kSharding);
  const std::string file = file_of("gpu\n\n1\n8\n\n4,5,6,7,0,1,2,3\nbf16\n\n");
  for (const char* line : {"distributed_type: 'MULTI_GPU'\n", "gpu_ids: '4,5,6,7,0,1,2,3'\n",
                           "mixed_precision: 'bf16'\n", "num_machines: 1\n", "num_processes: 8\n",
                           "use_cpu: false\n"}) {
    EXPECT_NE(file.find(line), std::string::npos) << line << file;
  }
  EXPECT_NE(asked("gpu\n1\n1\n2\n\n\n\n\n").find("a number from 2 to 65536"), std::string::npos)
      << "one GPU is one process";
  EXPECT_NE(file_of("one\nno\n3\n\n").find("gpu_ids: '3'\n"), std::string::npos);
}

TEST(ConfigQuestionsTest, AsManyGpusAreProposedAsTheMachineHas) {
  const std::string head =
      "Processes: one, several on GPUs, or several on the CPU (one/gpu/cpu) [one]: "
      "Number of machines [1]: ";
  const std::string tail =
      "Check the shapes and types of collectives on all ranks (yes/no) [no]: "
      "GPUs of this machine, by number [all]: Mixed precision: no, fp16, bf16 or fp8 [no]: " +
      kSharding;
  EXPECT_EQ(asked("gpu\n\n\n\n\n\n\n", 4), head + "Number of GPUs, over all machines [4]: " + tail);
  EXPECT_EQ(asked("gpu\n\n\n2\n\n\n\n\n", 0),
            head +
                "  this machine has no GPU: the config is for another machine\n"
                "Number of GPUs, over all machines:   a number from 2 to 65536\n"
                "Number of GPUs, over all machines: " +
                tail);
  EXPECT_EQ(asked("gpu\n\n2\n\n\n\n\n", 1),
            head +
                "  this machine has one GPU: answer 'one' to use it\n"
                "Number of GPUs, over all machines: " +
                tail);
  EXPECT_NE(file_of("gpu\n3\n0\na\n\n\n\n\n\n\n", 1).find("num_processes: 3\n"), std::string::npos);
}

TEST(ConfigQuestionsTest, ABadAnswerIsAskedForAgain) {
  EXPECT_EQ(asked("perhaps\ncpu\n0\n2\n2\n 1 \n\na b\nnode0\n70000\n\n3\n4\n\nfp4\nfp16\n\n"),
            "Processes: one, several on GPUs, or several on the CPU (one/gpu/cpu) [one]:   "
            "one, gpu or cpu\n"
            "Processes: one, several on GPUs, or several on the CPU (one/gpu/cpu) [one]: "
            "Number of machines [1]:   a number from 1 to 65536\n"
            "Number of machines [1]: "
            "Rank of this machine, from 0 [0]:   a number from 0 to 1\n"
            "Rank of this machine, from 0 [0]: "
            "Address of machine 0:   an address or a host name, such as "
            "10.0.0.1\n"
            "Address of machine 0:   one address or host name, without blanks "
            "and quotes\n"
            "Address of machine 0: "
            "Free port of machine 0 [29500]:   a number from 1 to 65535\n"
            "Free port of machine 0 [29500]: "
            "Number of processes, over all machines [4]:   a multiple of 2, the number of "
            "machines\n"
            "Number of processes, over all machines [4]: "
            "Check the shapes and types of collectives on all ranks (yes/no) [no]: "
            "Mixed precision: no, fp16, bf16 or fp8 [no]:   no, fp16, bf16 or fp8\n"
            "Mixed precision: no, fp16, bf16 or fp8 [no]: " +
                kSharding);
}

TEST(ConfigQuestionsTest, ScalesOfFp8AreAskedFor) {
  const std::string question =
      "Scales of fp8: of each tensor, as torchao (AO), or of earlier steps, as Transformer Engine "
      "(TE) (AO/TE) [AO]: ";
  const std::string found = asked("one\nyes\nfp8\nXX\nTE\n");
  EXPECT_NE(found.find("[no]: " + question + "  one of AO, TE\n" + question), std::string::npos)
      << found;
  EXPECT_NE(file_of("one\nyes\nfp8\n\n").find("fp8_config:\n  backend: AO\n"), std::string::npos);
  EXPECT_EQ(file_of("one\nyes\n\n").find("fp8"), std::string::npos);
  const std::string sharded = file_of("cpu\n\n\n\nfp8\nTE\n2\n\n\n\n\n\n");
  EXPECT_NE(sharded.find("  fp8:\n    filter: []\n    recipe: delayed\n"), std::string::npos)
      << sharded;
}

TEST(ConfigQuestionsTest, ShardingIsAskedFor) {
  EXPECT_EQ(asked("cpu\n\n4\n\n\n5\n3\n3\n2\nno\nbf8\nbf16\n\n-1\n1000\nfull\n"),
            "Processes: one, several on GPUs, or several on the CPU (one/gpu/cpu) [one]: "
            "Number of machines [1]: "
            "Number of processes, over all machines [2]: "
            "Check the shapes and types of collectives on all ranks (yes/no) [no]: "
            "Mixed precision: no, fp16, bf16 or fp8 [no]: " +
                kSharding + "  one of none, 1, 2, 3\n" + kSharding +
                "Ranks that share one copy of the model [auto]:   auto, or a divisor of 4, the "
                "number of processes\n"
                "Ranks that share one copy of the model [auto]: "
                "Free the parameters of a block after its forward pass (yes/no) [yes]: "
                "Type of gathered weights; auto: by the mixed precision (auto/fp32/bf16/fp16) "
                "[auto]:   one of auto, fp32, bf16, fp16\n"
                "Type of gathered weights; auto: by the mixed precision (auto/fp32/bf16/fp16) "
                "[auto]: "
                "Type of gradients in the reduction (fp32/bf16/fp16) [fp32]: "
                "Least number of parameters of a block that is gathered alone [0]:   a number "
                "from 0 to 1099511627776\n"
                "Least number of parameters of a block that is gathered alone [0]: "
                "Checkpoints: a file of each rank, or of all ranks (sharded/full) [sharded]: ");
  EXPECT_EQ(file_of("cpu\n\n4\n\n\n3\n2\nno\nbf16\n\n1000\nfull\n"),
            "accelerator:\n"
            "  debug: no\n"
            "  device: cpu\n"
            "  fsdp:\n"
            "    min_num_params: 1000\n"
            "    param_dtype: bf16\n"
            "    reduce_dtype: fp32\n"
            "    reshard_after_forward: false\n"
            "    stage: 3\n"
            "    state_dict: full\n"
            "  machine_rank: 0\n"
            "  mixed_precision: no\n"
            "  num_machines: 1\n"
            "  num_processes: 4\n"
            "  parallelism:\n"
            "    dp_shard: 2\n");
  const std::string two = file_of("gpu\n2\n1\nnode0\n\n8\n\n\nbf16\n1\n\n\n\n\n\n", 4);
  for (const char* line :
       {"  gpu_ids: 'all'\n", "  device: cuda\n", "    stage: 1\n", "    dp_shard: auto\n",
        "  main_process_ip: 'node0'\n", "  main_process_port: 29500\n", "  num_machines: 2\n"}) {
    EXPECT_NE(two.find(line), std::string::npos) << line << two;
  }
  EXPECT_EQ(two.find("reshard"), std::string::npos);
}

TEST(ConfigQuestionsTest, AnEndBeforeTheLastAnswerIsAnError) {
  for (const char* lines : {"", "cpu\n", "one\nyes\n"}) {
    try {
      asked(lines);
      ADD_FAILURE() << lines;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the answers ended before the last question");
      EXPECT_EQ(error.hint(), "answer all of them; nothing was written");
      EXPECT_EQ(error.code(), ExitCode::kRecipe);
    }
  }
}

}  // namespace
}  // namespace accel::config_questions_test
