// Configs of TRL's GRPOTrainer as recipes of the task `grpo`.
#include <gtest/gtest.h>

#include "tests/unit/compat/trainers/import_texts.h"

namespace accel::grpo_import_test {
namespace {

TEST(GrpoImportTest, ConfigsOfTrlBecomeTheTaskGrpo) {
  const std::string trl =
      "model_name_or_path: ./x\ndataset_name: ./p.jsonl\nreward_funcs: [accuracy]\n"
      "per_device_train_batch_size: 16\n";
  expect_lines(
      trl +
          "num_generations: 4\nmax_prompt_length: 100\nmax_completion_length: 50\nbeta: 0.01\n"
          "scale_rewards: false\nloss_type: dr_grpo\nepsilon: 0.3\nuse_vllm: true\n"
          "gradient_accumulation_steps: 2\ndataset_prompt_column: problem\n",
      {"  type: grpo", "  num_generations: 4", "  max_completion_length: 50", "  beta: 0.01",
       "  scale_rewards: none", "  loss_type: dr_grpo", "    weights: '${vars.model}'",
       "    type: prompts", "    prompt: 'problem'", "    max_length: 150",
       "    texts_as_messages: true", "  batch: 8", "  micro_batch: 4", "  lr: 1e-06",
       "  c.yaml:3: reward_funcs: they are Python: write 'task.rewards'",
       "  'task.rewards': reward functions, such as exact_match of a column",
       "  per_device_train_batch_size: TRL counts completions, the recipe prompts with 4 "
       "completions each"});
  expect_lines(trl +
                   "num_generations: 16\ngradient_accumulation_steps: 3\nuse_peft: true\n"
                   "lora_target_modules: [q_proj]\ndisable_dropout: true\n",
               {"  batch: 3", "  micro_batch: 1", "  dropout: false"});
  EXPECT_EQ(refusal(trl + "num_generations: 12\n"),
            "4: per_device_train_batch_size: 16 completions of a step on each device are no whole "
            "number of groups of 12 | raise 'gradient_accumulation_steps', or lower "
            "'num_generations'");
  EXPECT_EQ(refusal(trl + "num_iterations: 2\n"),
            "5: num_iterations: a step of TRL is one of these updates, a step of accel-run all of "
            "them | set 'task.num_iterations' in a recipe, and divide 'train.until' by it");
  EXPECT_EQ(refusal(trl + "steps_per_generation: 4\n"),
            "5: steps_per_generation: completions of a step are sampled by the weights of an "
            "earlier one | leave it out: each step samples its own");
  EXPECT_EQ(refusal(trl + "generation_batch_size: 64\n"),
            "5: generation_batch_size: completions of a step are sampled by the weights of an "
            "earlier one | leave it out: each step samples its own");
  EXPECT_EQ(refusal(trl + "loss_type: cispo\n"),
            "5: loss_type: this kind of reinforcement learning is not available");
}

}  // namespace
}  // namespace accel::grpo_import_test
