#include "compat/accelerate/config_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "compat/accelerate/sagemaker_config.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::config_file_test {
namespace {

namespace fs = std::filesystem;

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    std::string pattern = (fs::temp_directory_path() / "config_file_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ConfigFileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  std::string short_paths(std::string text) const {
    const std::string prefix = folder_.string() + "/";
    for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    return text;
  }

  /// The layer that `text` is read as: its tree and warnings on lines of their own, or what is
  /// wrong with it.
  std::string layer(const std::string& text, bool on_cpu = false,
                    const std::string& name = "c.yaml") {
    write(name, text);
    std::string out;
    const std::string problems = complaint([&](Diagnostics& diagnostics) {
      read_ = read_config(path(name), on_cpu, diagnostics);
      out = outline(read_.tree);
      for (const std::string& warning : read_.warnings) out += "\n" + warning;
    });
    return short_paths(problems.empty() ? out : problems);
  }

  fs::path folder_;
  ConfigLayer read_;
};

const std::string kAlone = "distributed_type: 'NO'\n";

TEST_F(ConfigFileTest, WhatAccelerateWritesIsTakenOver) {
  EXPECT_EQ(layer(R"(compute_environment: LOCAL_MACHINE
debug: true
distributed_type: MULTI_CPU
downcast_bf16: 'no'
enable_cpu_affinity: false
machine_rank: 1
main_process_ip: 10.0.0.1
main_process_port: 29500
main_training_function: main
mixed_precision: bf16
num_machines: 2
num_processes: 4
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: true
)"),
            "{accelerator: {debug: collectives, machine_rank: 1, main_process_ip: 10.0.0.1, "
            "main_process_port: 29500, mixed_precision: bf16, num_machines: 2, device: cpu, "
            "distributed_type: multi_cpu, num_processes: 4}}");
  EXPECT_EQ(layer(R"({"compute_environment": "LOCAL_MACHINE", "debug": false,
  "distributed_type": "NO", "downcast_bf16": false, "enable_cpu_affinity": false,
  "machine_rank": 0, "main_training_function": "main", "mixed_precision": "no",
  "num_machines": 1, "num_processes": 1, "rdzv_backend": "static", "same_network": false,
  "tpu_use_cluster": false, "tpu_use_sudo": false, "use_cpu": true})",
                  false, "c.json"),
            "{accelerator: {machine_rank: 0, mixed_precision: 'no', num_machines: 1, "
            "device: cpu, num_processes: 1}}");
}

TEST_F(ConfigFileTest, ValuesKeepTheirPlace) {
  layer(kAlone + "mixed_precision: BF16\nuse_cpu: yes\n");
  const Node& section = read_.tree.find("accelerator")->node;
  EXPECT_EQ(section.find("mixed_precision")->node.where.line, 2);
  EXPECT_EQ(section.find("mixed_precision")->node.where.column, 18);
  EXPECT_EQ(section.find("device")->node.where.line, 3);
  EXPECT_EQ(section.find("device")->node.where.source->path, path("c.yaml"));
}

TEST_F(ConfigFileTest, OldFormsAndWordsOfPythonAreRead) {
  const std::pair<const char*, const char*> cases[] = {
      {"fp16: true\n", "{accelerator: {mixed_precision: fp16}}"},
      {"fp16: false\n", "{}"},
      {"mixed_precision: 'BF16'\n", "{accelerator: {mixed_precision: 'bf16'}}"},
      {"fp16: true\nmixed_precision: fp16\n", "{accelerator: {mixed_precision: fp16}}"},
      {"dynamo_backend: 'NO'\n", "{}"},
      {"dynamo_config: {dynamo_backend: 'no', mode: default}\n", "{}"},
      {"dynamo_config:\n", "{}"},
      {"use_cpu: Yes\n", "{accelerator: {device: cpu}}"},
      {"debug: off\n", "{}"},
      {"main_process_ip: null\nmain_process_port: null\ngpu_ids: all\n", "{}"},
      {"main_process_port: 0\n", "{}"},
      {"fsdp_config: {}\ndeepspeed_config: {}\nmegatron_lm_config: {}\n", "{}"},
      {"mpirun_config: {mpirun_ccl: '1'}\n", "{}"},
      {"ipex_config: {ipex: false, use_xpu: false}\n", "{}"},
      {"tpu_name: null\ncommands: null\ntpu_vm: ['']\n", "{}"},
      {"gradient_accumulation_steps: 4\ngradient_clipping: 1.0\n",
       "{train: {gradient_accumulation_steps: 4, max_grad_norm: 1.0}}"},
      {"gradient_clipping: none\n", "{}"},
      {"main_process_ip: '${env:HOST}'\n", "{accelerator: {main_process_ip: '$${env:HOST}'}}"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(layer(kAlone + text), expected) << text;
  EXPECT_EQ(layer("distributed_type: NO\n"), "{}");
}

TEST_F(ConfigFileTest, WhatChangesNothingIsTold) {
  const std::pair<const char*, const char*> cases[] = {
      {"rdzv_backend: c10d\n",
       "c.yaml:2:15: 'rdzv_backend: c10d' has no effect: the rendezvous is at 'main_process_ip' "
       "and "
       "'main_process_port'"},
      {"main_training_function: train\n",
       "c.yaml:2:25: 'main_training_function: train' has no effect: a recipe has no functions"},
      {"mpirun_config: {mpirun_ccl: 4}\n",
       "c.yaml:2:29: 'mpirun_ccl: 4' has no effect: accel-run does not use oneCCL"},
      {"ipex_config: {ipex: true}\n",
       "c.yaml:2:21: 'ipex: true' has no effect: accel-run does not use Intel's extension of "
       "PyTorch"},
  };
  for (const auto& [text, warning] : cases) {
    EXPECT_EQ(layer(kAlone + text), std::string("{}\n") + warning);
  }
  EXPECT_EQ(layer(kAlone + "gpu_ids: 0,1\n", true),
            "{}\nc.yaml:2:10: 'gpu_ids' has no effect on the CPU");
}

/// What `accelerate config` writes for its backends.
TEST_F(ConfigFileTest, Fp8IsThatOfTheBackend) {
  EXPECT_EQ(layer(kAlone + "mixed_precision: FP8\n"), "{accelerator: {mixed_precision: fp8}}");
  EXPECT_EQ(
      layer(kAlone + "mixed_precision: fp8\nfp8_config: {backend: AO, pad_inner_dim: true, "
                     "enable_fsdp_float8_all_gather: false}\n"),
      "{accelerator: {mixed_precision: fp8, fp8: {recipe: tensorwise, pad_inner_dim: true}}}");
  EXPECT_EQ(
      layer(kAlone +
            "fp8_config: {backend: TE, use_autocast_during_eval: true, margin: 1, interval: 2,\n"
            "  fp8_format: E4M3, amax_history_len: 16, fp8_amax_compute_algo: MAX,\n"
            "  override_linear_precision: [false, true, true]}\n"),
      "{accelerator: {fp8: {recipe: delayed, filter: [], use_autocast_during_eval: true, "
      "margin: 1, interval: 2, format: e4m3, amax_history_len: 16, amax_compute_algo: max, "
      "override_linear_precision: [dgrad, wgrad]}}}");
  EXPECT_EQ(layer(kAlone + "fp8_config: {use_autocast_during_eval: false}\n"), "{}");
}

TEST_F(ConfigFileTest, TheGatherInFp8IsTakenWithFsdp) {
  EXPECT_EQ(
      layer("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n"
            "fp8_config: {backend: AO, enable_fsdp_float8_all_gather: true}\n"),
      "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 3}, fp8: {recipe: tensorwise, "
      "all_gather: true}}}");
}

TEST_F(ConfigFileTest, NamesThatOnlyTheQuestionsOfAccelerateWriteAreRead) {
  EXPECT_EQ(
      layer(kAlone + "fp8_config: {amax_history_length: 8}\n"),
      "{accelerator: {fp8: {amax_history_len: 8}}}\n"
      "c.yaml:2:35: 'amax_history_length: 8' is read as 'amax_history_len': Accelerate writes "
      "this name and does not read it");
}

TEST_F(ConfigFileTest, WhatFp8LacksIsRefusedOrTold) {
  EXPECT_EQ(layer(kAlone + "fp8_config: {opt_level: O1}\n"),
            "{}\nc.yaml:2:25: 'opt_level: O1' has no effect: it is an option of MS-AMP");
  EXPECT_EQ(layer(kAlone + "fp8_config: {enable_fsdp_float8_all_gather: true}\n"),
            "{}\nc.yaml:2:45: 'enable_fsdp_float8_all_gather: true' has no effect without FSDP");
  EXPECT_EQ(
      layer("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n"
            "fp8_config: {backend: TE, enable_fsdp_float8_all_gather: true}\n"),
      "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 3}, fp8: {recipe: delayed, "
      "filter: []}}}\nc.yaml:3:58: 'enable_fsdp_float8_all_gather: true' has no effect: it is "
      "an option of AO");
  const std::pair<const char*, const char*> cases[] = {
      {"backend: MSAMP",
       "'backend: MSAMP' is not supported: MS-AMP keeps weights and optimizer state in fp8, which "
       "accel-run does not\n"},
      {"backend: XX", "'backend: XX' is no backend of fp8: AO, TE and MSAMP are\n"},
      {"fp8_format: E5M2",
       "'fp8_format: E5M2' is not supported: at::_scaled_mm does not multiply two matrices of "
       "e5m2\n"},
      {"use_mxfp8_block_scaling: true",
       "'use_mxfp8_block_scaling: true' is not supported: MXFP8 blocks need a GPU of compute "
       "capability 10\n"},
      {"override_linear_precision: 'true,false'",
       "'override_linear_precision: true,false' wants three of true and false, for fprop, dgrad "
       "and wgrad\n"},
      {"marging: 1", "unknown option 'marging'\n"}};
  for (const auto& [option, message] : cases) {
    const std::string reported = layer(kAlone + "fp8_config: {" + option + "}\n");
    EXPECT_NE(reported.find(std::string("error: ") + message), std::string::npos) << reported;
  }
  EXPECT_EQ(layer(kAlone + "fp8_config: 3\n"),
            "c.yaml:2:13: error: 'fp8_config' wants a section, not '3'\n    fp8_config: 3\n"
            "                ^\n");
}

TEST_F(ConfigFileTest, WhatIsNotSupportedIsRefusedWithTheReason) {
  const std::map<std::string, std::string> refused = {
      {"enable_cpu_affinity: true", "accel-run does not bind processes to the cores of a GPU"},
      {"downcast_bf16: 'yes'", "accel-run does not support TPUs"},
      {"tpu_use_cluster: true", "accel-run does not support TPUs"},
      {"tpu_name: v", "accel-run does not support TPUs"},
      {"dynamo_backend: INDUCTOR", "libtorch has no torch.compile"},
      {"ec2_instance_type: ml", "it is of a job on Amazon SageMaker"},
  };
  for (const auto& [line, reason] : refused) {
    const std::string reported = layer(kAlone + line + "\n");
    const std::string key = line.substr(0, line.find(':'));
    const size_t column = line.ends_with('}') ? 1 : key.size() + 3;
    EXPECT_EQ(reported.find("c.yaml:2:" + std::to_string(column) + ": error: '" + key), 0u)
        << reported;
    EXPECT_NE(reported.find("' is not supported: " + reason + "\n"), std::string::npos) << reported;
  }
  EXPECT_EQ(layer(kAlone + "dynamo_config: {backend: inductor}\n"),
            "c.yaml:2:26: error: 'backend: inductor' is not supported: libtorch has no "
            "torch.compile\n    dynamo_config: {backend: inductor}\n"
            "                             ^\n  hint: write 'NO'\n");
  EXPECT_EQ(layer(kAlone + "mpirun_config: {mpirun_hostfile: h}\n"),
            "c.yaml:2:34: error: 'mpirun_hostfile: h' is not supported: accel-run does not start "
            "mpirun\n    mpirun_config: {mpirun_hostfile: h}\n"
            "                                     ^\n"
            "  hint: start accel-run with it: mpirun -n 2 accel-run RECIPE\n");
  EXPECT_EQ(layer(kAlone + "ipex_config: {use_xpu: true}\n"),
            "c.yaml:2:24: error: 'use_xpu: true' is not supported: accel-run supports CPUs and "
            "NVIDIA GPUs\n    ipex_config: {use_xpu: true}\n"
            "                           ^\n"
            "  hint: write false\n");
}

TEST_F(ConfigFileTest, TheHintOfSageMakerNamesAConfig) {
  EXPECT_EQ(
      layer("base_job_name: a\ncompute_environment: AMAZON_SAGEMAKER\ndistributed_type: "
            "DATA_PARALLEL\nprofile: default\n"),
      "c.yaml:2:22: error: 'compute_environment: AMAZON_SAGEMAKER' is not supported: it is of a "
      "job on Amazon SageMaker\n    compute_environment: AMAZON_SAGEMAKER\n"
      "                         ^\n  hint: submit it with: accel-run submit RECIPE --config FILE; "
      "in the container of its job, leave the config out\n");
}

TEST_F(ConfigFileTest, SageMakersKeysBecomeASubmission) {
  const std::string path = testing::TempDir() + "sagemaker.yaml";
  std::ofstream(path) << "compute_environment: AMAZON_SAGEMAKER\nimage_uri: i\n"
                         "iam_role_name: role\nnum_machines: 2\nec2_instance_type: ml.p4d\n"
                         "region: eu-west-1\nbase_job_name: digits\npy_version: py310\n"
                         "distributed_type: DATA_PARALLEL\nmixed_precision: bf16\n"
                         "sagemaker_inputs_file: inputs.tsv\nsagemaker_metrics_file: metrics.tsv\n";
  std::ofstream(testing::TempDir() + "inputs.tsv")
      << "channel_name\tdata_location\ntrain\ts3://bucket/digits\n";
  std::ofstream(testing::TempDir() + "metrics.tsv")
      << "metric_name\tmetric_regex\nloss\tloss (.*)\n";
  Diagnostics problems;
  const ConfigLayer found = read_submit_config(path, problems);
  problems.check();
  EXPECT_EQ(to_yaml(found.tree),
            "submit:\n  to: sagemaker\n  image: i\n  account: role\n  nodes: 2\n  extra:\n"
            "    instance_type: ml.p4d\n    region: eu-west-1\n    base_job_name: digits\n"
            "    metrics:\n      loss: 'loss (.*)'\n"
            "  mounts: ['s3://bucket/digits:/opt/ml/input/data/train']\n"
            "accelerator:\n  mixed_precision: bf16\n");
  ASSERT_EQ(found.warnings.size(), 2u);
  EXPECT_EQ(found.warnings[0],
            path + ":8:1: 'py_version: py310' has no effect: the image has accel-run, not Python");
  EXPECT_EQ(found.warnings[1], path +
                                   ":9:1: 'distributed_type: DATA_PARALLEL' is by NCCL, not by "
                                   "Amazon's smdistributed");
}

TEST_F(ConfigFileTest, SageMakersTablesHaveTwoColumns) {
  const std::string path = testing::TempDir() + "sagemaker_table.yaml";
  std::ofstream(path) << "compute_environment: AMAZON_SAGEMAKER\nimage_uri: i\nnum_processes: 8\n"
                         "sagemaker_inputs_file: one.tsv\n";
  std::ofstream(testing::TempDir() + "one.tsv") << "channel_name\ntrain s3://bucket\n";
  Diagnostics problems;
  const ConfigLayer found = read_submit_config(path, problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems.list()[0].message, "'one.tsv' has a line without a tab: 'train s3://bucket'");
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_EQ(found.warnings[0],
            path + ":3:1: 'num_processes: 8' has no effect: 'submit.gpus' sets the ranks");
}

TEST_F(ConfigFileTest, SageMakersModelParallelismIsRefused) {
  const std::string path = testing::TempDir() + "sagemaker_model.yaml";
  std::ofstream(path)
      << "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: MODEL_PARALLEL\n";
  Diagnostics problems;
  read_submit_config(path, problems);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems.list()[0].message,
            "'distributed_type: MODEL_PARALLEL' is not supported: accel-run has no smdistributed");
  EXPECT_EQ(problems.list()[1].message, "'image_uri' is missing");
}

TEST_F(ConfigFileTest, TheAddressOfMachine0IsHarmlessOnOneMachine) {
  EXPECT_EQ(layer(kAlone + "num_machines: 1\nmain_process_ip: n1\n"),
            "{accelerator: {num_machines: 1}}\nc.yaml:3:18: 'main_process_ip' has no effect on one "
            "machine");
}

TEST_F(ConfigFileTest, EveryWayToShareTheWorkIsAnswered) {
  EXPECT_EQ(layer("distributed_type: MULTI_GPU\nnum_processes: 2\nuse_cpu: true\n"),
            "{accelerator: {device: cpu, distributed_type: multi_cpu, num_processes: 2}}");
  EXPECT_EQ(layer("distributed_type: MULTI_GPU\nnum_processes: 2\n", true),
            "{accelerator: {distributed_type: multi_cpu, device: cpu, num_processes: 2}}");
  const std::string caret = "                      ^\n";
  EXPECT_EQ(layer("distributed_type: MULTI_GPU\ngpu_ids: 0,1\n"),
            "{accelerator: {gpu_ids: 0,1, distributed_type: multi_gpu}}");
  EXPECT_EQ(
      layer("distributed_type: MULTI_XPU\n"),
      "c.yaml:1:19: error: 'distributed_type: MULTI_XPU' is not supported: accel-run supports "
      "CPUs and NVIDIA GPUs\n    distributed_type: MULTI_XPU\n" +
          caret + "  hint: write 'use_cpu: true' for the same number of ranks on the CPU\n");
  EXPECT_EQ(layer("distributed_type: XLA\n"),
            "c.yaml:1:19: error: 'distributed_type: XLA' is not supported: accel-run does not "
            "support TPUs\n    distributed_type: XLA\n" +
                caret + "  hint: write 'distributed_type: MULTI_GPU' or MULTI_CPU\n");
  EXPECT_EQ(layer("distributed_type: MULTI_CPUS\n"),
            "c.yaml:1:19: error: 'distributed_type' wants NO, MULTI_CPU, MULTI_GPU or another type "
            "of Accelerate, not 'MULTI_CPUS'\n    distributed_type: MULTI_CPUS\n" +
                caret + "  hint: did you mean 'MULTI_CPU'?\n");
  EXPECT_EQ(layer("compute_environment: LOCAL_MACHINE\n"),
            "c.yaml:1:1: error: 'distributed_type' is missing\n"
            "    compute_environment: LOCAL_MACHINE\n    ^\n"
            "  hint: write 'distributed_type: NO', or MULTI_CPU or MULTI_GPU\n");
  EXPECT_EQ(layer(kAlone + "num_processes: 2\n"),
            "c.yaml:2:16: error: 'distributed_type' is NO, but 'num_processes' is 2\n"
            "    num_processes: 2\n                   ^\n"
            "  hint: write 'distributed_type: MULTI_CPU', or 'num_processes: 1'\n");
}

TEST_F(ConfigFileTest, ACountLeftToOthersIsRemembered) {
  layer("distributed_type: MULTI_CPU\nnum_processes: -1\n");
  EXPECT_EQ(read_.processes_wanted.line, 2);
  layer("num_machines: 2\ndistributed_type: MULTI_CPU\n");
  EXPECT_EQ(read_.processes_wanted.line, 2);
  layer("distributed_type: MULTI_CPU\nnum_processes: 2\n");
  EXPECT_EQ(read_.processes_wanted.source, nullptr);
  layer(kAlone);
  EXPECT_EQ(read_.processes_wanted.source, nullptr);
  EXPECT_EQ(layer("distributed_type: MULTI_GPU\nuse_cpu: true\n"),
            "{accelerator: {device: cpu, distributed_type: multi_cpu}}");
  EXPECT_EQ(read_.processes_wanted.line, 1);
}

TEST_F(ConfigFileTest, UnknownKeysAreFoundAtAnyDepth) {
  EXPECT_EQ(layer(kAlone + "mixed_precison: bf16\ndynamo_config: {mod: default}\n"
                           "use_cpu: maybe\nmpirun_config: 3\n"),
            "c.yaml:2:1: error: unknown option 'mixed_precison'\n    mixed_precison: bf16\n    ^\n"
            "  hint: did you mean 'mixed_precision'?\n"
            "c.yaml:3:17: error: unknown option 'mod'\n    dynamo_config: {mod: default}\n"
            "                    ^\n"
            "c.yaml:4:10: error: 'use_cpu: maybe' is neither true nor false\n"
            "    use_cpu: maybe\n             ^\n"
            "c.yaml:5:16: error: 'mpirun_config' wants a section, not '3'\n"
            "    mpirun_config: 3\n                   ^\n");
  EXPECT_EQ(
      layer(kAlone + "fp16: true\nmixed_precision: bf16\n"),
      "c.yaml:2:7: error: 'fp16: true' and 'mixed_precision: bf16' contradict each other\n"
      "    fp16: true\n          ^\n  hint: remove 'fp16', the old name of 'mixed_precision'\n");
}

TEST_F(ConfigFileTest, NoKeyIsIgnored) {
  for (const CompatKey& word : config_keys()) {
    if (word.name == "compute_environment") continue;
    const std::string key(word.name);
    const std::string section = config_section_keys(key).empty() ? " strange\n" : " {strange: 1}\n";
    const bool type = key == "distributed_type";
    EXPECT_NE(layer((type ? "" : kAlone) + key + ":" + section), "{}") << key;
  }
}

TEST_F(ConfigFileTest, APieceOfARecipeIsTakenAsItIs) {
  EXPECT_EQ(layer("accelerator: {num_processes: 2, machine_rank: '${env:R}'}\nlog: {every: 5}\n"
                  "x-note: mine\nvars: {a: b}\n"),
            "{accelerator: {num_processes: 2, machine_rank: '${env:R}'}, log: {every: 5}, "
            "vars: {a: b}}");
  EXPECT_EQ(layer("[accelerator]\nnum_processes = 2\n", false, "c.toml"),
            "{accelerator: {num_processes: 2}}");
  EXPECT_EQ(layer("accelerator: {num_processes: 2}\nmodel: mlp\nchekpoint: {}\n"),
            "c.yaml:2:1: error: 'model' does not belong in a config\n"
            "    model: mlp\n    ^\n"
            "  hint: write it into the recipe; a config has 'accelerator', 'checkpoint', 'log', "
            "'submit' and 'vars'\n"
            "c.yaml:3:1: error: unknown option 'chekpoint'\n    chekpoint: {}\n    ^\n"
            "  hint: did you mean 'checkpoint'?\n");
}

TEST_F(ConfigFileTest, AFileOfAcceleratesHasNoSectionsOfARecipe) {
  EXPECT_EQ(layer(kAlone + "model: mlp\naccelerator: {num_processes: 2}\n"),
            "c.yaml:2:1: error: unknown option 'model'\n    model: mlp\n    ^\n"
            "c.yaml:3:1: error: unknown option 'accelerator'\n    accelerator: {num_processes: 2}\n"
            "    ^\n");
}

TEST_F(ConfigFileTest, WhatCannotBeReadIsTold) {
  EXPECT_EQ(layer(""), "c.yaml:1:1: error: the config is empty\n    \n    ^\n");
  EXPECT_EQ(layer("- a\n"),
            "c.yaml:1:1: error: a config is a section, not a list\n    - a\n    ^\n");
  EXPECT_EQ(short_paths(complaint(
                [&](Diagnostics& problems) { read_config(path("none"), false, problems); })),
            "error: cannot read the config 'none': No such file or directory\n");
  EXPECT_EQ(short_paths(complaint([&](Diagnostics& problems) {
              read_config(folder_.string() + "/", false, problems);
            })),
            "error: cannot read the config '': it is a folder\n");
}

TEST_F(ConfigFileTest, TheDefaultIsWhereAccelerateKeepsIt) {
  std::map<std::string, std::string> variables = {{"HOME", "/h"}};
  const EnvironmentLookup environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const std::string file = "/accelerate/default_config.yaml";
  EXPECT_EQ(default_config_path(environment), "/h/.cache/huggingface" + file);
  variables["XDG_CACHE_HOME"] = "/x";
  EXPECT_EQ(default_config_path(environment), "/x/huggingface" + file);
  variables["HF_HOME"] = "~/hf";
  EXPECT_EQ(default_config_path(environment), "/h/hf" + file);
  EXPECT_EQ(find_default_config(environment), "");
  variables["HF_HOME"] = folder_.string();
  write("accelerate/default_config.json", "{}");
  EXPECT_EQ(find_default_config(environment), path("accelerate/default_config.json"));
  write("accelerate/default_config.yaml", "{}");
  EXPECT_EQ(find_default_config(environment), path("accelerate/default_config.yaml"));
  variables = {};
  EXPECT_EQ(default_config_path(environment), "");
  EXPECT_EQ(find_default_config(environment), "");
}

}  // namespace
}  // namespace accel::config_file_test
