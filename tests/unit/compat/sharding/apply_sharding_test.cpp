#include "compat/sharding/apply_sharding.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "core/recipe/parse.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::apply_sharding_test {
namespace {

/// Records what becomes of each option.
class RecordingSink final : public ShardingSink {
 public:
  void set(const ShardingOption&, const std::string& target, Node value) override {
    add("sets", target + "=" + outline(value));
  }
  void keep_same(const ShardingOption& option) override { add("same", option.name); }
  void have_no_effect(const ShardingOption& option, const std::string& reason) override {
    add("no_effect", option.name);
    reasons.push_back(reason);
  }
  void refuse(const ShardingOption& option, const std::string& reason,
              const std::string& hint) override {
    add("refused", option.name);
    reasons.push_back(reason + "; " + hint);
  }
  void reject(const ShardingOption& option, const std::string& message,
              const std::string& hint) override {
    add("rejected", option.name);
    reasons.push_back(message + "; " + hint);
  }
  void read_file(const ShardingOption& option) override { add("files", option.name); }
  void remark(const std::string& text) override { reasons.push_back(text); }
  void guess(const ShardingOption& option, const std::string& guess) override {
    add("guessed", option.name);
    reasons.push_back(guess);
  }

  void add(const std::string& what, const std::string& name) { outcome[what].insert(name); }

  std::string text() const {
    std::string out;
    for (const auto& [what, names] : outcome) {
      out += out.empty() ? "" : "; ";
      out += what + ":";
      for (const std::string& name : names) out += " " + name;
    }
    return out;
  }

  std::map<std::string, std::set<std::string>> outcome;
  std::vector<std::string> reasons;
};

const ShardingFamily& family_named(const std::string& name) {
  for (const ShardingFamily* family : sharding_families()) {
    if (family->section == name) return *family;
  }
  return kDeepSpeedFile;
}

/// The options of a file in YAML, enabled, with all options of the recipe there.
ShardingOptions options_of(const ShardingFamily& family, const std::string& yaml) {
  ShardingOptions given{.family = family};
  given.options = deepspeed_file_options(parse_recipe("c.yaml", yaml));
  given.generated = &family == &kDeepSpeedFile;
  given.enabled_by = ShardingOption{"switch", {}, {}, "switch"};
  given.recipe_has = [](const std::string&) { return true; };
  return given;
}

RecordingSink applied(const ShardingFamily& family, const std::string& yaml) {
  RecordingSink sink;
  apply_sharding(options_of(family, yaml), sink);
  return sink;
}

std::string outcome(const ShardingFamily& family, const std::string& yaml) {
  return applied(family, yaml).text();
}

std::string reason(const ShardingFamily& family, const std::string& yaml) {
  const RecordingSink sink = applied(family, yaml);
  return sink.reasons.empty() ? "" : sink.reasons.front();
}

TEST(ApplyShardingTest, AnEmptySectionIsKnownOrReported) {
  EXPECT_EQ(outcome(kDeepSpeedFile, "zero_optimization: {}"), "same: zero_optimization");
  EXPECT_EQ(outcome(kDeepSpeedFile, "zero_optimisation: {}"), "rejected: zero_optimisation");
  EXPECT_EQ(reason(kDeepSpeedFile, "zero_optimisation: {}"),
            "unknown option 'zero_optimisation'; did you mean 'zero_optimization'?");
}

TEST(ApplyShardingTest, ConfigsOfProjectsBecomeWhatTheFactsSay) {
  const char* root = std::getenv("ACCEL_SOURCE_DIR");
  ASSERT_NE(root, nullptr);
  std::ifstream facts(std::string(root) + "/tests/unit/compat/sharding/project_configs.jsonl");
  int count = 0;
  for (std::string line; std::getline(facts, line); ++count) {
    const Node fact = parse_recipe("facts.json", line);
    const ShardingFamily& family = family_named(fact.find("section")->node.scalar()->text);
    ShardingOptions given = options_of(family, "{}");
    given.options = deepspeed_file_options(fact.find("keys")->node);
    RecordingSink sink;
    apply_sharding(given, sink);
    EXPECT_EQ(sink.text(), fact.find("becomes")->node.scalar()->text)
        << fact.find("name")->node.scalar()->text;
  }
  EXPECT_GE(count, 20);
}

TEST(ApplyShardingTest, ValuesHaveTheSpellingsOfAccelerate) {
  const std::pair<const char*, const char*> cases[] = {
      {"sharding_strategy: 1", "3"},
      {"sharding_strategy: full_shard", "3"},
      {"sharding_strategy: '2'", "2"},
      {"sharding_strategy: SHARD_GRAD_OP", "2"},
      {"sharding_strategy: NO_SHARD", "0"},
      {"sharding_strategy: 3", "0"},
      {"reshard_after_forward: SHARD_GRAD_OP", "2"},
      {"reshard_after_forward: 'False'", "2"},
      {"reshard_after_forward: no", "2"},
      {"reshard_after_forward: 'yes'", "3"},
      {"{version: 2, reshard_after_forward: 'true'}", "3"},
      {"{version: '2', reshard_after_forward: 0}", "2"},
      {"{version: 2, fsdp_sharding_strategy: FULL_SHARD, fsdp_reshard_after_forward: false}", "2"},
      {"{version: 1, sharding_strategy: FULL_SHARD, reshard_after_forward: NO_SHARD}", "3"},
      {"version: 2", "3"},
  };
  for (const auto& [yaml, stage] : cases) {
    const std::set<std::string> sets = applied(kFsdpFamily, yaml).outcome["sets"];
    EXPECT_TRUE(sets.contains(std::string("accelerator.fsdp.stage=") + stage)) << yaml;
  }
  ShardingOptions hybrid = options_of(kFsdpFamily, "sharding_strategy: HYBRID_SHARD_ZERO2");
  hybrid.facts["num_machines"] = "4";
  RecordingSink sink;
  apply_sharding(hybrid, sink);
  EXPECT_EQ(sink.text(), "sets: accelerator.fsdp.stage=2 accelerator.parallelism.dp_replicate=4");
  EXPECT_EQ(outcome(kFsdpFamily, "reshard_after_forward: HYBRID_SHARD_ZERO2"),
            "guessed: reshard_after_forward; sets: accelerator.fsdp.stage=2");
}

TEST(ApplyShardingTest, ValuesAreConverted) {
  EXPECT_EQ(outcome(kFsdpFamily, "ignored_modules: 'lm_head|.*\\.lora_.*|^a.b$'"),
            "sets: accelerator.fsdp.ignored=['lm_head.*', '*.lora_*.*', 'a?b.*'] "
            "accelerator.fsdp.stage=3");
  EXPECT_EQ(outcome(kFsdpFamily, "{min_num_params: 1e8, auto_wrap_policy: SIZE_BASED_WRAP}"),
            "same: auto_wrap_policy; sets: accelerator.fsdp.min_num_params=100000000 "
            "accelerator.fsdp.stage=3");
  EXPECT_EQ(outcome(kFsdpFamily, "mixed_precision_policy: {param_dtype: bf16, output_dtype: bf16}"),
            "no_effect: mixed_precision_policy.output_dtype; sets: "
            "accelerator.fsdp.param_dtype=bf16 accelerator.fsdp.stage=3");
  EXPECT_EQ(outcome(kDeepSpeedFile,
                    "fp16: {enabled: true, initial_scale_power: 12, loss_scale_window: 500}"),
            "sets: accelerator.grad_scaler.growth_interval=500 "
            "accelerator.grad_scaler.init_scale=4096 accelerator.mixed_precision=fp16");
  EXPECT_EQ(outcome(kDeepSpeedFile, "fp16: {enabled: auto, initial_scale_power: 12}"),
            "same: fp16.enabled fp16.initial_scale_power");
  EXPECT_EQ(outcome(kDeepSpeedFile,
                    "{optimizer: {type: SGD, params: {lr: 0.1, momentum: 0.9}}, scheduler: "
                    "{type: WarmupCosineLR, params: {warmup_num_steps: 10, warmup_type: linear}}}"),
            "same: scheduler.params.warmup_type; sets: optimizer.lr=0.1 optimizer.momentum=0.9 "
            "optimizer.type=sgd scheduler.type=cosine scheduler.warmup=10 steps");
  EXPECT_EQ(outcome(kDeepSpeedFile,
                    "zero_optimization: {stage: 0}\n"
                    "communication_data_type: bf16\n"),
            "no_effect: communication_data_type; sets: accelerator.fsdp.stage=0");
}

TEST(ApplyShardingTest, OffloadIsRead) {
  EXPECT_EQ(
      outcome(kDeepSpeedFile,
              "zero_optimization: {stage: 3, offload_optimizer: {device: nvme, nvme_path: /n, "
              "pin_memory: true, buffer_count: 4, ratio: 0.5}, "
              "offload_param: {device: none, nvme_path: /x}}\naio: {queue_depth: 8}\n"),
      "no_effect: aio.queue_depth zero_optimization.offload_optimizer.buffer_count "
      "zero_optimization.offload_optimizer.ratio; same: "
      "zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_param.device "
      "zero_optimization.offload_param.nvme_path; sets: accelerator.fsdp.offload=disk "
      "accelerator.fsdp.offload_path=/n accelerator.fsdp.stage=3");
  EXPECT_EQ(outcome(kDeepSpeedFile, "zero_optimization: {stage: 2, cpu_offload: true}"),
            "sets: accelerator.fsdp.offload=cpu accelerator.fsdp.stage=2");
}

TEST(ApplyShardingTest, OffloadedActivations) {
  EXPECT_EQ(outcome(kFsdpFamily,
                    "{activation_checkpointing: true, activation_checkpointing_offload: true}"),
            "sets: accelerator.fsdp.stage=3 train.activation_checkpointing=blocks "
            "train.activation_cpu_offload=true");
  EXPECT_EQ(outcome(kDeepSpeedFile, "activation_checkpointing: {cpu_checkpointing: true}"),
            "sets: train.activation_cpu_offload=true");
}

TEST(ApplyShardingTest, WhatCannotBeIsRefusedWithTheReason) {
  const std::pair<const char*, const char*> fsdp[] = {
      {"backward_prefetch: BACKWARD_POST",
       "it can gather the wrong block; the next block is gathered before a block's gradients; "
       "write BACKWARD_PRE"},
      {"backward_prefetch_policy: 2",
       "it can gather the wrong block; the next block is gathered before a block's gradients; "
       "write BACKWARD_PRE"},
      {"state_dict_type: LOCAL_STATE_DICT",
       "files of flat local shards fit one number of ranks only; write SHARDED_STATE_DICT, which "
       "any number of ranks reads"},
      {"ignored_modules: 'layers\\.[0-3]'",
       "only '.', '.*' and '|' of regular expressions are read; write name patterns as "
       "'accelerator.fsdp.ignored' of the recipe"},
      {"{auto_wrap_policy: TRANSFORMER_BASED_WRAP, transformer_layer_cls_to_wrap: "
       "'MixtralDecoderLayer,BartEncoderLayer'}",
       "no model has blocks 'BartEncoderLayer'; leave it out: blocks are those of the model; "
       "known are BertLayer, CamembertLayer, CLIPEncoderLayer, DebertaV2Layer, ElectraLayer, "
       "Gemma2DecoderLayer, Gemma3DecoderLayer, GemmaDecoderLayer, GPT2Block, GPTNeoXLayer, "
       "LlamaDecoderLayer, MistralDecoderLayer, MixtralDecoderLayer, ModernBertEncoderLayer, "
       "MT5Block, OPTDecoderLayer, Phi3DecoderLayer, Qwen2DecoderLayer, Qwen2MoeDecoderLayer, "
       "Qwen3DecoderLayer, Qwen3MoeDecoderLayer, ResNetBasicLayer, ResNetBottleNeckLayer, "
       "RobertaLayer, SmolLM3DecoderLayer, T5Block, TransformerBlock, ViTLayer, XLMRobertaLayer"},
      {"sharding_strategy: FULL",
       "'sharding_strategy' wants full_shard, 1, shard_grad_op, 2, no_shard, 3, hybrid_shard, 4, "
       "hybrid_shard_zero2, _hybrid_shard_zero2, 5, not 'FULL'; "},
      {"version: 3", "'version' wants 1, 2, not '3'; "},
      {"{auto_wrap_policy: SIZE_BASED_WRAP, min_num_params: 1.5}",
       "'min_num_params' wants a whole number, not '1.5'; "},
      {"shard_strategy: 1", "unknown option 'shard_strategy'; did you mean 'sharding_strategy'?"},
      {"frobnicate: 1", "unknown option 'frobnicate'; leave it out; others ignore it silently"},
  };
  for (const auto& [yaml, expected] : fsdp) EXPECT_EQ(reason(kFsdpFamily, yaml), expected) << yaml;
}

TEST(ApplyShardingTest, WhatCannotBeInADeepSpeedFileIsRefused) {
  const std::pair<const char*, const char*> file[] = {
      {"zero_optimization: {offload_optimizer: {device: tape}}",
       "'zero_optimization.offload_optimizer.device' wants cpu, nvme, not 'tape'; "},
      {"zero_optimization: {zero_quantized_gradients: true}",
       "quantized communication is not supported; write false, or leave it out"},
      {"optimizer: {type: OneBitAdam}",
       "accel-run has no such optimizer; write 'optimizer.type' into the recipe, and remove the "
       "section"},
      {"curriculum_learning: {enabled: true, min_difficulty: 8}",
       "samples are ordered by difficulty, not cut to a length that grows; set "
       "'data.loader.curriculum' in the recipe, and write false"},
      {"{fp16: {enabled: true, loss_scale_window: 1000, loss_scale: 128}}",
       "the loss scale is always dynamic; write 0, and set 'initial_scale_power'"},
      {"zero_optimisation: {stage: 2}",
       "unknown option 'zero_optimisation.stage'; did you mean 'zero_optimization.stage'?"},
  };
  for (const auto& [yaml, expected] : file) {
    EXPECT_EQ(reason(kDeepSpeedFile, yaml), expected) << yaml;
  }
  EXPECT_EQ(reason(kDeepSpeedFamily, "deepspeed_hostfile: /hosts"),
            "accel-run does not start processes on other machines; start accel-run once on each "
            "machine, with 'num_machines' and 'machine_rank'");
}

TEST(ApplyShardingTest, ContextParallelismIsAnAxisOfTheMesh) {
  EXPECT_EQ(outcome(kParallelismFamily, "cp_size: 2"), "sets: accelerator.parallelism.cp=2");
  EXPECT_EQ(outcome(kParallelismFamily, "cp_size: 1"), "same: cp_size");
  EXPECT_EQ(outcome(kParallelismFamily, "cp_comm_strategy: alltoall"),
            "sets: accelerator.parallelism.cp_comm_strategy=ring");
  EXPECT_EQ(outcome(kParallelismFamily, "cp_comm_strategy: allgather"), "same: cp_comm_strategy");
  EXPECT_EQ(outcome(kParallelismFamily, "sp_size: 4"), "sets: accelerator.parallelism.sp=4");
  EXPECT_EQ(outcome(kDeepSpeedFile, "sequence_parallel_size: 2"),
            "sets: accelerator.parallelism.sp=2");
  EXPECT_EQ(outcome(kMegatronFamily, "context_parallel_size: 2"),
            "sets: accelerator.parallelism.cp=2");
}

TEST(ApplyShardingTest, TensorParallelismIsAnAxisOfTheMesh) {
  EXPECT_EQ(outcome(kParallelismFamily, "tp_size: 2"), "sets: accelerator.parallelism.tp=2");
  EXPECT_EQ(outcome(kParallelismFamily, "tp_size: 1"), "same: tp_size");
  EXPECT_EQ(outcome(kDeepSpeedFile, "tensor_parallel: {autotp_size: 4}"),
            "sets: accelerator.parallelism.tp=4");
  EXPECT_EQ(outcome(kMegatronFamily, "{tp_degree: 2, sequence_parallelism: true}"),
            "sets: accelerator.parallelism.sequence_parallel=true accelerator.parallelism.tp=2");
  EXPECT_EQ(outcome(kMegatronFamily, "{recompute_granularity: full, num_micro_batches: 4}"),
            "sets: train.activation_checkpointing=blocks train.gradient_accumulation_steps=4");
  for (const char* keys : {"recompute_granularity: selective", "recompute_activations: true",
                           "{recompute_granularity: selective, recompute_activations: true}"}) {
    EXPECT_EQ(outcome(kMegatronFamily, keys), "sets: train.activation_checkpointing=selective");
  }
}

TEST(ApplyShardingTest, WhatDependsOnAnotherOptionOrIsMissingIsTold) {
  EXPECT_EQ(reason(kFsdpFamily, "min_num_params: 5"),
            "it is read with 'auto_wrap_policy: size_based_wrap' only");
  EXPECT_EQ(reason(kFsdpFamily, "{version: 2, sharding_strategy: 1, reshard_after_forward: yes}"),
            "FSDP2 reads 'reshard_after_forward' instead");
  EXPECT_EQ(reason(kFsdpFamily, "{sharding_strategy: 1, reshard_after_forward: yes}"),
            "FSDP1 reads 'sharding_strategy' instead");
  EXPECT_EQ(reason(kFsdpFamily, "{sharding_strategy: NO_SHARD, state_dict_type: FULL_STATE_DICT}"),
            "nothing is sharded at stage 0");
  ShardingOptions given = options_of(kFsdpFamily, "state_dict_type: FULL_STATE_DICT");
  given.recipe_has = [](const std::string& target) { return target.ends_with("stage"); };
  RecordingSink sink;
  apply_sharding(given, sink);
  EXPECT_EQ(sink.reasons.front(), "this version has no option 'accelerator.fsdp.state_dict'");
}

TEST(ApplyShardingTest, SilentDifferencesAreSaid) {
  ShardingOptions given = options_of(kFsdpFamily, "{version: 2, activation_checkpointing: true}");
  given.facts = {{"use_cpu", "true"}, {"mixed_precision", "bf16"}};
  RecordingSink sink;
  apply_sharding(given, sink);
  EXPECT_EQ(sink.reasons.size(), 4u);
  EXPECT_EQ(sink.reasons.front(),
            "Accelerate trains FSDP on CPU ranks data parallel; here the ranks shard");
  EXPECT_EQ(reason(kFsdpFamily, "reshard_after_forward: SHARD_GRAD_OP"),
            "'accelerate launch' drops a strategy in 'reshard_after_forward' and shards fully; the "
            "recipe keeps it");
  EXPECT_EQ(reason(kDeepSpeedFile, "optimizer: {type: Adam}"),
            "DeepSpeed's Adam decays weights as AdamW");
  EXPECT_EQ(reason(kMegatronFamily, "tp_degree: 1"),
            "Accelerate takes a 'context_parallel_size' that is not set for 2");
}

TEST(ApplyShardingTest, NoOptionIsIgnored) {
  for (const ShardingFamily* family :
       {&kFsdpFamily, &kDeepSpeedFamily, &kParallelismFamily, &kDeepSpeedFile}) {
    for (const std::string& name : option_names(*family)) {
      ShardingOptions given = options_of(*family, "{}");
      given.options = {{name, scalar_node("strange"), {}, name}};
      given.enabled_by.reset();
      RecordingSink sink;
      apply_sharding(given, sink);
      // A row for any value says that it is the same here; these are of no consequence.
      const bool any = match_option(*family, name, scalar_node("strange")).row != nullptr;
      EXPECT_TRUE(any || sink.outcome.contains("rejected")) << name << ": " << sink.text();
    }
  }
}

}  // namespace
}  // namespace accel::apply_sharding_test
