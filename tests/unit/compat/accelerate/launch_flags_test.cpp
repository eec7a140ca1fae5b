#include "compat/accelerate/launch_flags.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/core/recipe_text.h"

namespace accel::launch_flags_test {
namespace {

LaunchLine line;

/// What the words say, as one line with warnings below, or what is wrong. The first is argument 2.
std::string read(const std::vector<std::string>& words) {
  std::string out;
  const std::string problems = complaint([&](Diagnostics& diagnostics) {
    line = read_launch_line(words, 2, diagnostics);
    out = outline(line.flags);
    for (const std::string& warning : line.warnings) out += "\n" + warning;
  });
  return problems.empty() ? out : problems;
}

TEST(LaunchFlagsTest, FlagsBecomeOptionsInEitherSpelling) {
  const char* expected =
      "{accelerator: {device: cpu, mixed_precision: bf16, num_processes: 4, num_machines: 2, "
      "machine_rank: 1, main_process_ip: 10.0.0.1, main_process_port: 29500, "
      "num_cpu_threads_per_process: 3, max_restarts: 5, debug: collectives}, "
      "train: {gradient_accumulation_steps: 2, max_grad_norm: 0.5}}";
  EXPECT_EQ(read({"--cpu",
                  "--mixed_precision",
                  "bf16",
                  "--num_processes=4",
                  "--num_machines",
                  "2",
                  "--machine_rank",
                  "1",
                  "--main_process_ip",
                  "10.0.0.1",
                  "--main_process_port",
                  "29500",
                  "--num_cpu_threads_per_process",
                  "3",
                  "--max_restarts=5",
                  "--debug",
                  "--gradient_accumulation_steps",
                  "2",
                  "--gradient_clipping",
                  "0.5",
                  "r.yaml"}),
            expected);
  EXPECT_TRUE(line.on_cpu);
  EXPECT_EQ(read({"--cpu", "--mixed-precision=bf16", "--num-processes", "4", "--num-machines=2",
                  "--machine-rank=1", "--main-process-ip=10.0.0.1", "--main-process-port=29500",
                  "--num-cpu-threads-per-process=3", "--max-restarts", "5", "--debug",
                  "--gradient-accumulation-steps=2", "--gradient-clipping=0.5", "r.yaml"}),
            expected);
}

TEST(LaunchFlagsTest, TheRecipeAndWhatFollowsItAreApart) {
  EXPECT_EQ(read({"--num_processes", "2", "r.yaml", "optimizer.lr=1", "~trackers"}),
            "{accelerator: {num_processes: 2}}");
  EXPECT_EQ(line.recipe, "r.yaml");
  EXPECT_EQ(line.overrides, (std::vector<std::string>{"optimizer.lr=1", "~trackers"}));
  EXPECT_EQ(line.first_override, 5);
  const Span where = line.flags.find("accelerator")->node.find("num_processes")->node.where;
  EXPECT_EQ(render({where, "no", ""}),
            "argument 2: error: no\n    --num_processes 2\n                    ^\n");
}

TEST(LaunchFlagsTest, TheLastOfTwoWins) {
  EXPECT_EQ(read({"--num_processes=2", "--num_processes=3", "r.yaml"}),
            "{accelerator: {num_processes: 3}}");
}

TEST(LaunchFlagsTest, WhatIsSoAnywayIsTakenSilently) {
  EXPECT_EQ(read({"-q",
                  "--quiet",
                  "--no_python",
                  "--same_network",
                  "--no_tpu_cluster",
                  "--role",
                  "default",
                  "--rdzv_backend",
                  "static",
                  "--tee",
                  "0",
                  "-t",
                  "0",
                  "--gpu_ids=all",
                  "--dynamo_backend",
                  "no",
                  "--dynamo_mode=default",
                  "--main_training_function",
                  "main",
                  "--main_process_port",
                  "0",
                  "r.yaml"}),
            "{}");
  EXPECT_FALSE(line.on_cpu);
}

TEST(LaunchFlagsTest, ElasticRunsAreSetAsForTorchrun) {
  EXPECT_EQ(read({"--nnodes=2:4", "--max_restarts=3", "--monitor_interval", "0.5", "r.yaml"}),
            "{accelerator: {min_machines: 2, num_machines: 4, max_restarts: 3, monitor_interval: "
            "0.5 s}}");
  EXPECT_EQ(read({"--nnodes", "4", "r.yaml"}), "{accelerator: {num_machines: 4}}");
}

TEST(LaunchFlagsTest, TheConfigIsNamed) {
  EXPECT_EQ(read({"--config-file", "c.yaml", "r.yaml"}), "{}");
  EXPECT_EQ(line.config_file, "c.yaml");
  EXPECT_EQ(read({"--config=d.yaml", "r.yaml"}), "{}");
  EXPECT_EQ(line.config_file, "d.yaml");
}

TEST(LaunchFlagsTest, WhatIsNotSupportedIsRefusedWithTheReason) {
  EXPECT_EQ(read({"--tpu", "--dynamo_backend", "inductor", "-m", "r.yaml"}),
            "argument 2: error: '--tpu' is not supported: accel-run does not support TPUs\n"
            "    --tpu\n    ^\n"
            "argument 3: error: '--dynamo_backend inductor' is not supported: libtorch has no "
            "torch.compile\n    --dynamo_backend inductor\n                     ^\n"
            "argument 5: error: '-m' is not supported: a recipe is a file, not a Python module\n"
            "    -m\n    ^\n");
}

TEST(LaunchFlagsTest, Fp8IsSetByFlags) {
  EXPECT_EQ(read({"--mixed_precision=fp8", "r.yaml"}), "{accelerator: {mixed_precision: fp8}}");
  EXPECT_EQ(read({"--fp8_backend=ao", "--fp8_pad_inner_dim", "false", "r.yaml"}),
            "{accelerator: {fp8: {recipe: tensorwise, pad_inner_dim: false}}}");
  EXPECT_EQ(
      read({"--fp8-backend", "te", "--fp8_use_autocast_during_eval", "--fp8_margin=1",
            "--fp8_format=E4M3", "--fp8_override_linear_precision=false,false,true", "r.yaml"}),
      "{accelerator: {fp8: {recipe: delayed, filter: [], use_autocast_during_eval: true, "
      "margin: 1, format: e4m3, override_linear_precision: [wgrad]}}}");
  EXPECT_EQ(read({"--fp8_backend=msamp", "r.yaml"}),
            "argument 2: error: '--fp8_backend=msamp' is not supported: MS-AMP keeps weights and "
            "optimizer state in fp8, which accel-run does not\n    --fp8_backend=msamp\n"
            "                  ^\n  hint: use AO or TE\n");
}

TEST(LaunchFlagsTest, ShardingIsSetByFlags) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--use_fsdp", "r.yaml"}, "{accelerator: {fsdp: {stage: 3}}}"},
      {{"--use-fsdp", "--fsdp-version=2", "--fsdp-reshard-after-forward=false", "r.yaml"},
       "{accelerator: {fsdp: {stage: 2}}}"},
      {{"--fsdp_sharding_strategy", "SHARD_GRAD_OP", "r.yaml"},
       "{accelerator: {fsdp: {stage: 2}}}"},
      {{"--use_deepspeed", "r.yaml"}, "{accelerator: {fsdp: {stage: 2}}}"},
      {{"--use_deepspeed", "--zero_stage=1", "--offload_param_device=none", "r.yaml"},
       "{accelerator: {fsdp: {stage: 1}}}"},
      {{"--use_fsdp", "--fsdp_offload_params", "true", "r.yaml"},
       "{accelerator: {fsdp: {offload: cpu, stage: 3}}}"},
      {{"--use_deepspeed", "--zero_stage=3", "--offload_optimizer_device=nvme",
        "--offload_param_device=nvme", "--offload_param_nvme_path=/s", "r.yaml"},
       "{accelerator: {fsdp: {stage: 3, offload: disk, offload_path: /s}}}"},
      {{"--num_machines=2", "--use_fsdp", "--fsdp_sharding_strategy=HYBRID_SHARD", "r.yaml"},
       "{accelerator: {num_machines: 2, fsdp: {stage: 3}, parallelism: {dp_replicate: 2}}}"},
      {{"--parallelism_config_dp_shard_size=2", "--parallelism_config_tp_size=1", "r.yaml"},
       "{accelerator: {parallelism: {dp_shard: 2}}}"},
      {{"--parallelism_config_tp_size=2", "r.yaml"}, "{accelerator: {parallelism: {tp: 2}}}"},
      {{"--use_megatron_lm", "--megatron_lm_tp_degree=4", "r.yaml"},
       "{accelerator: {parallelism: {tp: 4}}}"},
      {{"--use_megatron_lm", "--megatron_lm_pp_degree=2", "r.yaml"},
       "{accelerator: {parallelism: {pp: 2}}}"},
  };
  for (const auto& [words, expected] : cases) EXPECT_EQ(read(words), expected) << words[0];
  EXPECT_EQ(read({"--use_deepspeed", "--zero_stage=3", "--offload_optimizer_device", "cpu",
                  "--offload_param_device", "nvme", "r.yaml"}),
            "argument 6: error: '--offload_param_device nvme' and '--offload_optimizer_device cpu' "
            "contradict each other\n    --offload_param_device nvme\n                           ^\n"
            "  hint: keep one of the two\n");
}

TEST(LaunchFlagsTest, FamiliesHaveFlagsOfOneName) {
  for (const char* name : {"gradient_clipping", "megatron_lm_gradient_clipping", "fsdp_version",
                           "zero_stage", "deepspeed_config_file"}) {
    EXPECT_NE(find_launch_flag(name), nullptr) << name;
  }
}

TEST(LaunchFlagsTest, ASecretIsNotRepeated) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--aws_secret_access_key", "hush", "r.yaml"},
        std::vector<std::string>{"--aws-secret-access-key=hush", "r.yaml"}}) {
    const std::string reported = read(words);
    EXPECT_EQ(reported.find("hush"), std::string::npos) << reported;
    EXPECT_NE(reported.find("it is of a job on Amazon SageMaker"), std::string::npos) << reported;
  }
}

TEST(LaunchFlagsTest, WhatIsNoFlagIsTold) {
  EXPECT_EQ(read({"--num_proceses", "r.yaml"}),
            "argument 2: error: 'launch' has no flag '--num_proceses'\n    --num_proceses\n    ^\n"
            "  hint: did you mean '--num_processes'?\n");
  EXPECT_EQ(read({"-cpu", "r.yaml"}),
            "argument 2: error: 'launch' has no flag '-cpu'\n    -cpu\n    ^\n"
            "  hint: did you mean '--cpu'?\n");
  EXPECT_EQ(read({"--cpu=1", "r.yaml"}),
            "argument 2: error: '--cpu' takes no value\n    --cpu=1\n    ^\n");
  EXPECT_EQ(read({"--num_processes", "--cpu", "r.yaml"}),
            "argument 2: error: '--num_processes' wants a value\n    --num_processes\n    ^\n");
  EXPECT_EQ(read({"r.yaml", "--cpu"}),
            "argument 3: error: '--cpu' is after the recipe\n    --cpu\n    ^\n"
            "  hint: write flags of 'launch' before the recipe, 'key=value' after it\n");
  EXPECT_EQ(read({"--cpu"}),
            "error: 'launch' wants a recipe\n"
            "  hint: write: accel-run launch [flags] RECIPE [key=value ...]\n");
}

TEST(LaunchFlagsTest, NoFlagIsIgnored) {
  const std::set<std::string> plain = {"help",          "h", "config_file", "config",
                                       "quiet",         "q", "no_python",   "same_network",
                                       "no_tpu_cluster"};
  size_t seen = 0;
  for (const LaunchFlag& flag : launch_flags()) {
    const std::string name(flag.word.name);
    if (plain.contains(name)) continue;
    ++seen;
    const std::string word = (name.size() > 1 ? "--" : "-") + name;
    EXPECT_NE(read(flag.takes_value ? std::vector<std::string>{word, "strange", "r.yaml"}
                                    : std::vector<std::string>{word, "r.yaml"}),
              "{}")
        << word;
  }
  EXPECT_EQ(launch_flags().size(), seen + plain.size());
}

TEST(LaunchFlagsTest, HelpNamesWhatIsSupported) {
  EXPECT_EQ(read({"--help"}), "{}");
  EXPECT_TRUE(line.help);
  const std::string help = launch_help();
  EXPECT_NE(help.find("  --num_processes VALUE                  accelerator.num_processes\n"),
            std::string::npos)
      << help;
  EXPECT_NE(help.find("  --use_fsdp                             accelerator.fsdp.stage\n"),
            std::string::npos)
      << help;
  EXPECT_NE(
      help.find("  --parallelism_config_dp_shard_size VALUE accelerator.parallelism.dp_shard\n"),
      std::string::npos);
  EXPECT_NE(help.find("  --megatron_lm_tp_degree VALUE          accelerator.parallelism.tp\n"),
            std::string::npos)
      << help;
}

}  // namespace
}  // namespace accel::launch_flags_test
