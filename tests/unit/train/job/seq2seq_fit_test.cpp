// Jobs of the task `seq2seq`: what fits, generated evaluations, and refusals.
#include <gtest/gtest.h>

#include <cstdlib>

#include "data/loader/loader.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/evaluate.h"

namespace accel::seq2seq_fit_test {
namespace {

std::string numbers(const std::string& file) {
  const std::string folder = std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/";
  return "{type: text_to_text, path: " + folder + file + ", tokenizer: " + folder +
         "numbers_tokenizer.json, max_source_length: 8, max_target_length: 8}";
}

/// The task that the data imply without a name.
std::string task_line(const std::string& task) {
  return task.empty() ? "" : "\ntask: " + task;
}

std::string recipe(
    const std::string& task, const std::string& more = "",
    const std::string& model = "{type: t5, num_layers: 1, num_heads: 2, hidden_size: 16}") {
  return "model: " + model + task_line(task) + "\ndata:\n  train: " + numbers("numbers.jsonl") +
         "\n  eval: " + numbers("numbers_eval.jsonl") +
         "\ntrain: {until: 8 steps, batch: 4}\neval:\n  every: 4 steps\n" + more;
}

constexpr auto kGenerating = "{type: seq2seq, predict_with_generate: true}";

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

TEST(Seq2SeqFitTest, TheTaskOfAT5IsSeq2Seq) {
  const auto job = make_job(recipe(""));
  EXPECT_EQ(job->recipe.task.type, "seq2seq");
  EXPECT_EQ(names_of(job->metric_names),
            (std::vector<std::string>{"eval/loss", "eval/perplexity"}));
}

TEST(Seq2SeqFitTest, GeneratedEvaluationsHaveMetricsOfTexts) {
  const auto job = make_job(recipe(kGenerating));
  EXPECT_EQ(names_of(job->metric_names),
            (std::vector<std::string>{"eval/loss", "eval/perplexity", "eval/rouge1", "eval/rouge2",
                                      "eval/rougeL", "eval/bleu"}));
}

TEST(Seq2SeqFitTest, PackedPairsAreTrainedOnAndNotGenerated) {
  const auto packed = [](std::string text, const std::string& section) {
    const size_t at = text.find("max_source_length", text.find(section + ":"));
    return text.insert(at, "pack: true, ");
  };
  const auto replaced = [](std::string text) {
    for (size_t at = 0; (at = text.find("length: 8", at)) != text.npos;) {
      text.replace(at, 9, "length: 32");
    }
    return text;
  };
  const std::string training = packed(replaced(recipe(kGenerating)), "train");
  EXPECT_EQ(complaint(training), "");
  EXPECT_LT(make_job(training)->train_samples, make_job(recipe(kGenerating))->train_samples);
  EXPECT_EQ(complaint(packed(training, "eval")),
            "'predict_with_generate' generates a target for each sample, but the eval data is "
            "packed");
  EXPECT_EQ(complaint(packed(packed(recipe("seq2seq"), "train"), "eval")), "");
}

TEST(Seq2SeqFitTest, OtherModelsDataAndMetricsAreRefused) {
  const std::string gpt = "{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}";
  EXPECT_EQ(complaint(recipe("seq2seq", "", gpt)),
            "the task 'seq2seq' needs a model that predicts a target text, but the model 'gpt' "
            "predicts the next token");
  EXPECT_EQ(complaint(recipe("causal_lm")),
            "the task 'causal_lm' needs the next token as target at each position, but the targets "
            "of the data are I64 [8, 0]");
  EXPECT_EQ(complaint(recipe("seq2seq", "  metrics: [rouge]\n")),
            "the metric 'rouge' does not fit the task 'seq2seq'");
}

}  // namespace
}  // namespace accel::seq2seq_fit_test
