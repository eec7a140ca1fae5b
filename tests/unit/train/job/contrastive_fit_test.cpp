// Jobs of the task `contrastive`: what fits, micro-batches, and refusals.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/unit/train/job/make_job.h"
#include "train/job/data_warnings.h"

namespace accel::contrastive_fit_test {
namespace {

std::string shapes(const std::string& file) {
  const std::string folder = std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/";
  return "{type: image_text, path: " + folder + file + ", tokenizer: " + folder +
         "shapes_tokenizer.json, max_length: 6}";
}

std::string recipe(const std::string& train, const std::string& task = "") {
  return "model: {type: clip, projection_dim: 8, text: {num_layers: 1, num_heads: 2, hidden_size: "
         "16, eos_token_id: 3}, vision: {num_layers: 1, num_heads: 2, hidden_size: 16}}\n" +
         task + "data:\n  train: " + shapes("shapes.jsonl") +
         "\n  eval: " + shapes("shapes_eval.jsonl") + "\ntrain: {until: 8 steps, " + train +
         "}\neval: {every: 4 steps}\n";
}

/// The first line of what building the job throws; "" when it can be built.
std::string complaint(const std::string& text) {
  try {
    make_job(text);
  } catch (const RecipeError& error) {
    const std::string all = error.what();
    const std::string line = all.substr(0, all.find('\n'));
    return line.substr(line.find("error: ") + 7);
  }
  return "";
}

TEST(ContrastiveFitTest, TheTaskOfAClipIsContrastive) {
  const auto job = make_job(recipe("batch: 8"));
  EXPECT_EQ(job->recipe.task.type, "contrastive");
  EXPECT_EQ(names_of(job->metric_names),
            (std::vector<std::string>{"eval/loss", "eval/image_to_text_recall_1",
                                      "eval/text_to_image_recall_1", "eval/image_to_text_recall_5",
                                      "eval/text_to_image_recall_5"}));
  EXPECT_EQ(job->length.tokens_per_step, 0);
  EXPECT_EQ(data_warnings(*job), std::vector<std::string>());
}

TEST(ContrastiveFitTest, AccumulationAddsNoNegatives) {
  EXPECT_EQ(data_warnings(*make_job(recipe("batch: 8, micro_batch: 2"))),
            std::vector<std::string>{
                "the contrastive loss compares the 2 pairs of a micro-batch, not the 8 of the "
                "global batch: ranks and accumulation add no negatives"});
  EXPECT_EQ(complaint(recipe("batch: 8, micro_batch: 1")),
            "the task 'contrastive' compares the samples of a micro-batch, which has only one");
}

}  // namespace
}  // namespace accel::contrastive_fit_test
