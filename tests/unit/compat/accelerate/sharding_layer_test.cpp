#include "compat/accelerate/sharding_layer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "compat/accelerate/config_file.h"
#include "tests/unit/core/recipe_text.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::sharding_layer_test {
namespace {

/// Configs as files. Options that the recipe may lack are in apply_sharding_test.cpp.
class ShardingLayerTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { folder_.write(name, text); }

  /// The layer with warnings and remarks below it, or the errors. "@" is the folder.
  std::string layer(std::string text, const std::string& name = "c.yaml") {
    for (size_t at; (at = text.find('@')) != text.npos;) text.replace(at, 1, folder_.path());
    write(name, text);
    std::string out;
    const std::string problems = complaint([&](Diagnostics& diagnostics) {
      const ConfigLayer read = read_config(folder_.path(name), false, diagnostics);
      out = outline(read.tree);
      for (const std::string& warning : read.warnings) out += "\n" + warning;
      for (const std::string& remark : read.remarks) out += "\nremark: " + remark;
    });
    std::string shown = problems.empty() ? out : problems;
    const std::string prefix = folder_.path() + "/";
    for (size_t at; (at = shown.find(prefix)) != shown.npos;) shown.erase(at, prefix.size());
    return shown;
  }

  TempFolder folder_;
};

TEST_F(ShardingLayerTest, AConfigOfAccelerateSharesTheModel) {
  EXPECT_EQ(layer(R"(distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: false
  fsdp_activation_checkpointing: true
num_processes: 2
use_cpu: true
)"),
            "{accelerator: {device: cpu, distributed_type: multi_cpu, fsdp: {stage: 2}, "
            "num_processes: 2}, train: {activation_checkpointing: blocks}}\n"
            "remark: Accelerate trains FSDP on CPU ranks data parallel; here the ranks shard\n"
            "remark: a recomputed pass repeats the dropout of the first; Accelerate's draws "
            "another");
  EXPECT_EQ(layer(R"({"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config":
  {"zero_stage": 1, "gradient_accumulation_steps": 4, "gradient_clipping": 0.5}})",
                  "c.json"),
            "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 1}, num_processes: 2}, "
            "train: {gradient_accumulation_steps: 4, max_grad_norm: 0.5}}");
  EXPECT_EQ(layer("distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nparallelism_config: "
                  "{parallelism_config_dp_replicate_size: 2, parallelism_config_dp_shard_size: 2, "
                  "parallelism_config_tp_size: 1}\nnum_processes: 4\n"),
            "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 3}, parallelism: "
            "{dp_replicate: 2, dp_shard: 2}, num_processes: 4}}");
}

/// As Accelerate's plugins do; a DeepSpeed file decides for itself.
TEST_F(ShardingLayerTest, GradientsAreClippedWithoutANorm) {
  const std::string deepspeed = "distributed_type: DEEPSPEED\nnum_processes: 2\n";
  EXPECT_EQ(
      layer(deepspeed + "deepspeed_config: {zero_stage: 1}\n"),
      "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 1}, num_processes: 2}, "
      "train: {max_grad_norm: 1}}\n"
      "c.yaml:1:19: without 'gradient_clipping', Accelerate clips gradients to the norm 1: so "
      "does this run, unless the recipe has 'train.max_grad_norm'");
  const std::string norm_of_auto =
      layer(deepspeed + "deepspeed_config: {zero_stage: 1, gradient_clipping: auto}\n");
  EXPECT_NE(norm_of_auto.find("max_grad_norm: 1}"), std::string::npos) << norm_of_auto;
  EXPECT_EQ(layer(deepspeed + "deepspeed_config: {zero_stage: 1, gradient_clipping: 0}\n"),
            "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 1}, num_processes: 2}}");
  write("zero.json", R"({"zero_optimization": {"stage": 1}})");
  EXPECT_EQ(layer(deepspeed + "deepspeed_config: {deepspeed_config_file: @/zero.json}\n"),
            "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 1}, num_processes: 2}}");
  const std::string megatron = layer(
      "distributed_type: MEGATRON_LM\nnum_processes: 2\n"
      "megatron_lm_config: {megatron_lm_tp_degree: 2}\n");
  EXPECT_NE(megatron.find("max_grad_norm: 1}"), std::string::npos) << megatron;
  EXPECT_NE(megatron.find("c.yaml:1:19: without 'gradient_clipping'"), std::string::npos)
      << megatron;
  EXPECT_EQ(layer("distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 2}\n")
                .find("max_grad_norm"),
            std::string::npos);
}

TEST_F(ShardingLayerTest, TheMachinesOfHybridShardingAreGivenOrGuessedAloud) {
  const std::string config =
      "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}\n"
      "num_processes: 4\n";
  EXPECT_EQ(layer(config),
            "{accelerator: {distributed_type: multi_gpu, fsdp: {stage: 3}, num_processes: 4}}\n"
            "c.yaml:2:39: 'fsdp_sharding_strategy: HYBRID_SHARD' replicates over machines: without "
            "'num_machines' one is assumed, whose ranks share one copy of the model");
  EXPECT_EQ(layer(config + "num_machines: 2\n"),
            "{accelerator: {num_machines: 2, distributed_type: multi_gpu, fsdp: {stage: 3}, "
            "parallelism: {dp_replicate: 2}, num_processes: 4}}");
}

TEST_F(ShardingLayerTest, ADeepSpeedFileIsRead) {
  write("zero.json", R"({
	"bf16": {"enabled": true},
	"gradient_clipping": 1.0,
	"zero_optimization": {
		"stage": 2,
		"reduce_bucket_size": 5e8,
		"allgather_bucket_size": 2e8
	},
	"steps_per_print": 2000
})");
  const std::string config =
      "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n"
      "  deepspeed_config_file: @/zero.json\n";
  EXPECT_EQ(
      layer(config),
      "{accelerator: {distributed_type: multi_gpu, mixed_precision: bf16, fsdp: {stage: 2}, "
      "num_processes: 2}, train: {max_grad_norm: 1.0}}\n"
      "zero.json:6:25: 'zero_optimization.reduce_bucket_size: 5e8', "
      "'zero_optimization.allgather_bucket_size: 2e8' (line 7) have no effect: each block has "
      "one gather and one reduction\n"
      "zero.json:9:21: 'steps_per_print: 2000' has no effect: progress is logged by "
      "'log.every' of the recipe");
  EXPECT_EQ(layer(config + "  zero_stage: 3\n"),
            "c.yaml:5:15: error: 'zero_stage: 3' and 'zero_optimization.stage: 2' contradict each "
            "other\n      zero_stage: 3\n                  ^\n  hint: keep one of the two\n");
  EXPECT_EQ(layer(config + "mixed_precision: 'no'\n").find("contradict"), std::string::npos);
  const std::string missing = layer(
      "distributed_type: DEEPSPEED\nnum_processes: 2\n"
      "deepspeed_config: {deepspeed_config_file: '@/none.json'}\n");
  EXPECT_EQ(missing.find("c.yaml:3:43: error: cannot read the config 'none.json': No such file"),
            0u)
      << missing;
  ASSERT_EQ(mkfifo(folder_.path("pipe.json").c_str(), 0600), 0);
  const std::string pipe = layer(
      "distributed_type: DEEPSPEED\nnum_processes: 2\n"
      "deepspeed_config: {deepspeed_config_file: '@/pipe.json'}\n");
  EXPECT_EQ(pipe.find("c.yaml:3:43: error: cannot read the config 'pipe.json': it is a named pipe"),
            0U)
      << pipe;
}

TEST_F(ShardingLayerTest, ASectionOfAnotherTypeIsTold) {
  EXPECT_EQ(layer("distributed_type: 'NO'\nfsdp_config: {fsdp_version: 2}\n"),
            "{}\nc.yaml:2:15: 'fsdp_config' has no effect: 'distributed_type' is not FSDP");
  EXPECT_EQ(layer("distributed_type: FSDP\nnum_processes: 2\nfsdp_config: 2\n"),
            "c.yaml:3:14: error: 'fsdp_config' wants a section, not '2'\n    fsdp_config: 2\n"
            "                 ^\n");
  EXPECT_EQ(layer("distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_verson: 2\n"),
            "c.yaml:4:3: error: unknown option 'fsdp_verson'\n      fsdp_verson: 2\n      ^\n"
            "  hint: did you mean 'fsdp_version'?\n");
}

/// As `accelerate config` writes it.
TEST_F(ShardingLayerTest, MegatronsDegreesAreAxesOfTheMesh) {
  const std::string config =
      "distributed_type: MEGATRON_LM\nnum_processes: 4\nmegatron_lm_config:\n"
      "  megatron_lm_gradient_clipping: 1.0\n  megatron_lm_num_micro_batches: 2\n"
      "  megatron_lm_recompute_activations: false\n  megatron_lm_sequence_parallelism: true\n"
      "  megatron_lm_tp_degree: 2\n  megatron_lm_use_distributed_optimizer: true\n";
  EXPECT_EQ(layer(config + "  megatron_lm_context_parallel_size: 1\n"),
            "{accelerator: {distributed_type: multi_gpu, parallelism: {sequence_parallel: true, "
            "tp: 2}, fsdp: {stage: 1}, num_processes: 4}, train: {max_grad_norm: 1.0, "
            "gradient_accumulation_steps: 2}}");
  EXPECT_EQ(layer("distributed_type: MEGATRON_LM\nnum_processes: 4\n"),
            "{accelerator: {distributed_type: multi_gpu, num_processes: 4}}\nc.yaml:1:19: "
            "'distributed_type: MEGATRON_LM' has no effect: no sizes are given");
  EXPECT_EQ(
      layer("distributed_type: MEGATRON_LM\nnum_processes: 2\nmegatron_lm_config:\n"
            "  megatron_lm_pp_degree: 2\n  megatron_lm_num_layers_per_virtual_pipeline_stage: 1\n"),
      "{accelerator: {distributed_type: multi_gpu, parallelism: {pp: 2}, num_processes: 2}, "
      "train: {max_grad_norm: 1}}\n"
      "c.yaml:1:19: without 'gradient_clipping', Accelerate clips gradients to the norm 1: so does "
      "this run, unless the recipe has 'train.max_grad_norm'\n"
      "c.yaml:5:54: 'megatron_lm_num_layers_per_virtual_pipeline_stage: 1' has no effect: stages "
      "are those of 'accelerator.pipeline'\nremark: Accelerate takes a 'context_parallel_size' "
      "that is not set for 2");
}

}  // namespace
}  // namespace accel::sharding_layer_test
