// Training with tensor, sequence and expert parallelism against one process.
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/unit/parallel/ranks.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/evaluate.h"
#include "train/step/train_step.h"

namespace accel::tensor_parallel_test {
namespace {

constexpr int64_t kSteps = 10;

constexpr auto kAddition =
    "\ndata: {train: {type: synthetic/addition, length: 48}, eval: {type: synthetic/addition, "
    "length: "
    "10}";

struct Case {
  std::string model;
  std::string more = {};      ///< further lines of the recipe
  std::string parallel = {};  ///< further options of `parallelism`
  MeshSizes sizes = {.tensor = 2};
  std::string data = kAddition;
};

std::string recipe_of(const Case& of, bool divided) {
  std::string text = "model: " + of.model + of.data +
                     ", loader: {workers: 0}}\n"
                     "optimizer: {type: adamw, lr: 0.003}\n"
                     "eval: {batch: 4}\n"
                     "train: {until: 20 steps, batch: 8, micro_batch: 2, max_grad_norm: 0.5" +
                     of.more + "}\n";
  text += "accelerator: {num_cpu_threads_per_process: 1";
  if (divided) {
    text += ", parallelism: {tp: " + std::to_string(of.sizes.tensor) + of.parallel;
    if (of.sizes.expert > 1) text += ", ep: " + std::to_string(of.sizes.expert);
    text += of.sizes.shard > 1 ? "}, fsdp: {stage: 3}" : "}";
  }
  return text + "}\n";
}

struct Trained {
  std::vector<double> losses, norms;
  double evaluation = 0;
  std::map<std::string, at::Tensor> start, weights;
};

std::map<std::string, at::Tensor> whole_weights(const Job& job) {
  std::map<std::string, at::Tensor> out;
  for (const Parameter& item : job.parameters) {
    out[item.name] = gather_whole(item, job.mesh).detach().clone();
  }
  return out;
}

Trained train(Job& job) {
  Trained out;
  out.start = whole_weights(job);
  Stopwatch watch;
  for (int64_t step = 1; step <= kSteps; ++step) {
    job.optimizer->set_lrs(job.optimizer->base_lrs());
    const StepResult result = train_step(job, job.train_loader->next(), {.step = step}, watch);
    out.losses.push_back(result.loss);
    out.norms.push_back(result.grad_norm);
  }
  out.evaluation = evaluate(job)->at("eval/loss");
  out.weights = whole_weights(job);
  return out;
}

/// What each rank finds; threads share the generator that weights are drawn from.
std::vector<Trained> train_divided(const Case& of) {
  std::vector<Trained> found(static_cast<size_t>(of.sizes.ranks()));
  std::mutex building;
  on_ranks(of.sizes.ranks(), [&](Communicator& group) {
    World world;
    world.mesh = make_mesh({std::shared_ptr<Communicator>(), &group}, of.sizes);
    world.inputs_are_same = true;
    std::unique_ptr<Job> job;
    {
      const std::lock_guard lock(building);
      job = make_job(recipe_of(of, true), world);
    }
    group.barrier("all are built");
    found[static_cast<size_t>(group.rank())] = train(*job);
  });
  return found;
}

double apart(double one, double other) {
  return std::abs(one - other) / std::max(1.0, std::abs(one));
}

void expect_as_one_process(const Case& of) {
  SCOPED_TRACE(of.model + of.more + of.parallel);
  const Trained wanted = train(*make_job(recipe_of(of, false)));
  EXPECT_LT(wanted.losses.back(), wanted.losses.front());
  for (const Trained& found : train_divided(of)) {
    ASSERT_EQ(found.losses.size(), wanted.losses.size());
    for (size_t i = 0; i < wanted.losses.size(); ++i) {
      EXPECT_LT(apart(found.losses[i], wanted.losses[i]), 2e-6) << "loss of step " << i + 1;
      EXPECT_LT(apart(found.norms[i], wanted.norms[i]), 5e-6) << "norm of step " << i + 1;
    }
    EXPECT_LT(apart(found.evaluation, wanted.evaluation), 2e-6);
    ASSERT_EQ(found.weights.size(), wanted.weights.size());
    for (const auto& [name, weight] : wanted.weights) {
      EXPECT_TRUE(at::equal(found.start.at(name), wanted.start.at(name))) << name;
      // AdamW turns the rounding of a gradient near zero into a part of the learning rate.
      EXPECT_LT(found.weights.at(name).sub(weight).abs().max().item().toDouble(), 2e-4) << name;
    }
  }
}

constexpr auto kSequence = ", sequence_parallel: true";
constexpr auto kGpt = "{type: gpt, num_layers: 2, num_heads: 4, hidden_size: 32";
constexpr auto kLlama = "{type: llama, num_layers: 2, num_heads: 4, hidden_size: 32";

TEST(TensorParallelTest, Gpt) {
  for (const char* sequence : {"", kSequence}) {
    expect_as_one_process({.model = std::string(kGpt) + "}", .parallel = sequence});
    expect_as_one_process({.model = std::string(kGpt) + ", tie_embeddings: false, "
                                                        "intermediate_size: 35}",
                           .parallel = sequence});
  }
}

TEST(TensorParallelTest, LlamaWithFewerKeyHeadsThanQueries) {
  for (const char* sequence : {"", kSequence}) {
    expect_as_one_process(
        {.model = std::string(kLlama) + ", num_kv_heads: 2}", .parallel = sequence});
  }
}

TEST(TensorParallelTest, LlamaWithFewerKeyHeadsThanRanks) {
  for (const char* sequence : {"", kSequence}) {
    expect_as_one_process(
        {.model = std::string(kLlama) + ", num_kv_heads: 1, qk_norm: true}", .parallel = sequence});
  }
  expect_as_one_process({.model = std::string(kLlama) + ", num_kv_heads: 2, attention_bias: qkv}",
                         .parallel = kSequence,
                         .sizes = {.tensor = 4}});
}

TEST(TensorParallelTest, LlamaWithBiasesNormsOfHeadsAndATiedEmbedding) {
  for (const char* sequence : {"", kSequence}) {
    expect_as_one_process({.model = std::string(kLlama) + ", attention_bias: all, mlp_bias: true, "
                                                          "qk_norm: true, tie_embeddings: true}",
                           .parallel = sequence});
  }
}

TEST(TensorParallelTest, LlamaWithFusedProjections) {
  const std::string model = std::string(kLlama) + ", fused_projections: true";
  const std::string lora = ", lora: {rank: 3, target_modules: ['*_proj']}";
  for (const std::string& options :
       {std::string(", intermediate_size: 35"), std::string(", num_kv_heads: 2"),
        ", num_kv_heads: 1" + lora, lora}) {
    expect_as_one_process({.model = model + options + "}", .parallel = kSequence});
  }
  expect_as_one_process({.model = model + ", num_kv_heads: 2}", .sizes = {.tensor = 4}});
}

TEST(TensorParallelTest, AdaptersOfDividedLayers) {
  const std::string lora = ", lora: {rank: 3, target_modules: ['*.c_attn', '*.c_proj', '*.c_fc']}}";
  const std::string llama_lora =
      ", num_kv_heads: 1, mlp_bias: true, lora: {rank: 3, target_modules: ['*_proj']}}";
  for (const char* sequence : {"", kSequence}) {
    expect_as_one_process({.model = kGpt + lora, .parallel = sequence});
    expect_as_one_process({.model = kLlama + llama_lora, .parallel = sequence});
  }
}

TEST(TensorParallelTest, Encoders) {
  const std::string sizes = ", num_layers: 2, num_heads: 4, hidden_size: 32, head: tokens";
  for (const std::string& options :
       {"modernbert" + sizes + ", local_attention: 4, pad: 0, decoder_bias: false",
        "modernbert" + sizes + ", layer_types: [sliding_attention], local_attention: 2, " +
            "intermediate_size: 35, attention_bias: true, mlp_bias: true, lora: {rank: 3, " +
            "target_modules: ['*.Wqkv', '*.Wi', '*.Wo']}",
        "electra" + sizes + ", dropout: 0, embedding_size: 12",
        "deberta" + sizes + ", dropout: 0, relative: {share_projections: false}"}) {
    expect_as_one_process({.model = "{type: " + options + "}"});
  }
}

std::string numbers(const std::string& file) {
  const std::string folder = std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/";
  return "{type: text_to_text, path: " + folder + file + ", tokenizer: " + folder +
         "numbers_tokenizer.json, max_source_length: 8, max_target_length: 8}";
}

TEST(TensorParallelTest, AdaptersOfTheVocabulary) {
  const std::string lora = ", lora: {rank: 3, target_modules: ['*.wte', '*.wpe', lm_head]}}";
  const std::string llama_lora = "lora: {rank: 3, target_modules: ['*.embed_tokens', lm_head]}}";
  expect_as_one_process({.model = kGpt + lora, .parallel = kSequence});
  expect_as_one_process({.model = kLlama + (", " + llama_lora)});
  expect_as_one_process({.model = kLlama + (", tie_embeddings: true, " + llama_lora),
                         .parallel = kSequence,
                         .sizes = {.shard = 2, .tensor = 2}});
}

TEST(TensorParallelTest, EncoderDecoders) {
  const std::string data =
      "\ndata: {train: " + numbers("numbers.jsonl") + ", eval: " + numbers("numbers_eval.jsonl");
  const std::string sizes =
      "{type: t5, num_layers: 2, num_heads: 4, hidden_size: 32, relative_attention_num_buckets: 8";
  const std::string lora =
      ", tie_embeddings: false, lora: {rank: 3, target_modules: ['*.q', "
      "'*.v', '*.wo']}";
  const std::string gated =
      ", is_gated_act: true, activation: gelu_new, head_dim: 6, tie_embeddings: false, "
      "intermediate_size: 35, initializer_factor: 0.3";
  for (const std::string& more : {gated, lora}) {
    expect_as_one_process({.model = sizes + more + "}", .data = data});
  }
  expect_as_one_process({.model = sizes + ", num_decoder_layers: 1}",
                         .more = ", activation_checkpointing: blocks",
                         .sizes = {.shard = 2, .tensor = 2},
                         .data = data});
}

TEST(TensorParallelTest, RecomputedBlocks) {
  for (const char* mode : {"blocks", "selective"}) {
    expect_as_one_process({.model = std::string(kGpt) + "}",
                           .more = std::string(", activation_checkpointing: ") + mode,
                           .parallel = kSequence});
  }
}

TEST(TensorParallelTest, RanksWithOtherSamplesShareGradients) {
  for (const char* sequence : {"", kSequence}) {
    expect_as_one_process({.model = std::string(kGpt) + "}",
                           .parallel = sequence,
                           .sizes = {.replicate = 2, .tensor = 2}});
  }
}

// 6 experts, of which few have tokens in each pass.
constexpr auto kMoe =
    "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, intermediate_size: 12, moe: "
    "{num_experts: 6, num_experts_per_tok: 2}, router_aux_loss_coef: 0.05";

TEST(ExpertParallelTest, ExpertsAreDividedOverRanksWithOtherSamples) {
  for (const MeshSizes& sizes :
       {MeshSizes{.replicate = 2, .expert = 2}, MeshSizes{.replicate = 4, .expert = 2},
        MeshSizes{.shard = 2, .expert = 2}, MeshSizes{.shard = 4, .expert = 2}}) {
    SCOPED_TRACE(mesh_text(sizes));
    expect_as_one_process({.model = std::string(kMoe) + "}", .sizes = sizes});
  }
  for (const char* mode : {"blocks", "selective"}) {
    expect_as_one_process({.model = std::string(kMoe) + ", mlp_bias: true, tie_embeddings: true}",
                           .more = std::string(", activation_checkpointing: ") + mode,
                           .sizes = {.replicate = 2, .expert = 2}});
  }
}

TEST(ExpertParallelTest, AdaptersOfExpertsAreOnTheirRank) {
  expect_as_one_process(
      {.model = std::string(kMoe) + ", lora: {rank: 3, target_modules: ['*_proj']}}",
       .sizes = {.replicate = 2, .expert = 2}});
}

TEST(ExpertParallelTest, LayersOfExpertsAreDividedByTensorParallelism) {
  for (const char* sequence : {"", kSequence}) {
    expect_as_one_process(
        {.model = std::string(kMoe) + ", num_kv_heads: 1}", .parallel = sequence});
  }
  // The first layer has one MLP; inner features are divided unevenly, and adapters too.
  expect_as_one_process(
      {.model = "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, intermediate_size: 7, "
                "moe: {num_experts: 4, mlp_only_layers: [0], intermediate_size: 5}, lora: {rank: "
                "3, target_modules: ['*_proj', '*.gate']}}",
       .parallel = kSequence});
  expect_as_one_process({.model = std::string(kMoe) + "}",
                         .parallel = kSequence,
                         .sizes = {.replicate = 2, .tensor = 2, .expert = 2}});
}

TEST(ExpertParallelTest, SharedExpertsAreOnAllRanksOfExperts) {
  for (const std::string gate : {"", ", shared_expert_gate: false"}) {
    const std::string model =
        "{type: llama, num_layers: 2, num_heads: 2, hidden_size: 16, moe: {num_experts: 4, "
        "shared_expert_intermediate_size: 7" +
        gate + "}}";
    expect_as_one_process({.model = model, .sizes = {.replicate = 2, .expert = 2}});
    expect_as_one_process({.model = model,
                           .parallel = kSequence,
                           .sizes = {.replicate = 2, .tensor = 2, .expert = 2}});
  }
}

TEST(ContextParallelTest, SlidingWindows) {
  const std::string windows[] = {", num_kv_heads: 2, sliding_window: 3}",
                                 ", sliding_window: 4, layer_types: [sliding_attention, "
                                 "full_attention], local_rope_theta: 100.0}"};
  for (const char* method : {", cp: 2", ", cp: 2, cp_comm_strategy: ring", ", sp: 2"}) {
    for (const std::string& window : windows) {
      expect_as_one_process(
          {.model = kLlama + window, .parallel = method, .sizes = {.context = 2}});
    }
  }
}

std::string refusal_of(const std::string& model, int64_t ranks, const std::string& parallel = "") {
  std::string refusal;
  on_ranks(ranks, [&](Communicator& group) {
    static std::mutex building;
    const std::lock_guard lock(building);
    World world;
    world.mesh.world = {std::shared_ptr<Communicator>(), &group};
    world.mesh.tensor = world.mesh.world;
    world.inputs_are_same = true;
    try {
      make_job(recipe_of({.model = model, .parallel = parallel, .sizes = {.tensor = ranks}}, true),
               world);
    } catch (const RecipeError& error) {
      refusal = error.what();
    }
  });
  return refusal.substr(refusal.find("error: "));
}

TEST(TensorParallelTest, ModelsThatCannotBeDividedAreRefusedAtTheOption) {
  EXPECT_EQ(refusal_of("{type: gpt, num_layers: 1, num_heads: 3, hidden_size: 12}", 2),
            "error: 'tp' 2 does not divide the model's 'num_heads' 3\n"
            "    accelerator: {num_cpu_threads_per_process: 1, parallelism: {tp: 2}}\n"
            "                                                                    ^\n"
            "  hint: use a divisor of it\n");
  EXPECT_EQ(refusal_of("{type: llama, num_layers: 1, num_heads: 12, num_kv_heads: 3, "
                       "hidden_size: 24}",
                       4)
                .substr(0, 70),
            "error: 'tp' 4 is not a multiple of the model's 'num_kv_heads' 3\n    ac");
  EXPECT_EQ(
      refusal_of("{type: bert, num_layers: 1, num_heads: 3, hidden_size: 12, head: tokens}", 2)
          .substr(0, 55),
      "error: 'tp' 2 does not divide the model's 'num_heads' 3");
  EXPECT_EQ(
      refusal_of("{type: bert, num_layers: 1, num_heads: 2, hidden_size: 8, head: tokens}", 2,
                 kSequence)
          .substr(0, 123),
      "error: 'sequence_parallel' does not support the model 'bert', whose plan has no layers "
      "between which it divides activations");
  EXPECT_EQ(refusal_of("{type: gpt, num_layers: 1, num_heads: 4, hidden_size: 4, "
                       "intermediate_size: 5}",
                       4)
                .substr(0, 80),
            "error: 'tp' 4 leaves a rank without a share of 'transformer.h.0.mlp.c_fc.weight'");
}

}  // namespace
}  // namespace accel::tensor_parallel_test
