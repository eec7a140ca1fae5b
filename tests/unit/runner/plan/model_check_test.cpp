// Recipes that are checked with their model, without their data.
#include "runner/plan/model_check.h"

#include <gtest/gtest.h>

#include "tests/unit/runner/plan/loaded_recipe.h"

namespace accel::model_check_test {
namespace {

/// The recipe's data is missing: it is not opened.
std::string recipe(const std::string& model, const std::string& data, const std::string& more) {
  return "model: " + model + "\ndata: {train: " + data + "}\n" + more;
}

constexpr auto kMlp = "{type: mlp, hidden_sizes: [8]}";
constexpr auto kTable = "{type: csv, path: none.csv, target: y}";
constexpr auto kEven =
    "{type: preference, path: none.jsonl, tokenizer: none}, loader: {even_batches: true}";
constexpr auto kChat = "{type: chat, path: none.jsonl, tokenizer: none}";
constexpr auto kPairs = "{type: preference, path: none.jsonl, tokenizer: none}";

std::string complaint(const std::string& text) {
  const LoadedRecipe loaded = load_recipe(text);
  try {
    const auto options = model_options(loaded.resolved);
    return check_with_model(options, loaded.recipe, loaded.resolved, loaded.registry) ? ""
                                                                                      : "unchecked";
  } catch (const RecipeError& error) {
    return error.what();
  }
}

TEST(ModelCheckTest, OptionsWithPatternsAreFound) {
  const auto found = [](const std::string& more) {
    return model_options(load_recipe(recipe(kMlp, kTable, more)).resolved);
  };
  EXPECT_EQ(found(""), std::vector<std::string>());
  EXPECT_EQ(found("train: {freeze: []}\noptimizer: {type: sgd, groups: []}\n"),
            std::vector<std::string>());
  EXPECT_EQ(found("train: {freeze: ['*.bias']}\n"
                  "optimizer: {type: sgd, groups: [{match: '*', lr: 1}]}\n"),
            (std::vector<std::string>{"train.freeze", "optimizer.groups"}));
  EXPECT_EQ(found("accelerator: {parallelism: {tp: 1, dp_replicate: 2}}\n"),
            std::vector<std::string>());
  EXPECT_EQ(found("accelerator: {parallelism: {tp: 2}}\n"),
            std::vector<std::string>{"accelerator.parallelism"});
}

TEST(ModelCheckTest, ErrorsAreThoseOfARun) {
  EXPECT_EQ(complaint(recipe(kMlp, kTable, "train: {freeze: ['*.bias']}\n")), "");
  EXPECT_EQ(complaint(recipe(kMlp, kTable, "train: {freeze: ['*.bais']}\n")),
            "r.yaml:3:17: error: '*.bais' matches no parameter\n"
            "    train: {freeze: ['*.bais']}\n"
            "                    ^\n"
            "  hint: did you mean '*.bias'?\n");
  EXPECT_EQ(complaint(recipe(kMlp, kTable,
                             "optimizer: {type: sgd, groups: [{match: [x, '*.bias'], lr: 1}]}\n")),
            "r.yaml:3:42: error: 'x' matches no parameter\n"
            "    optimizer: {type: sgd, groups: [{match: [x, '*.bias'], lr: 1}]}\n"
            "                                             ^\n"
            "  hint: the parameters are 'layers.0.weight', 'layers.0.bias', 'layers.1.weight', "
            "'layers.1.bias'\n");
  EXPECT_NE(complaint(recipe(kMlp, kTable, "train: {freeze: ['*']}\n"))
                .find("'freeze' leaves no parameter to train"),
            std::string::npos);
}

TEST(ModelCheckTest, ModelsOfTextsAndPairsAreBuilt) {
  const std::string gpt =
      "{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 8, vocab_size: 9, "
      "max_seq_len: 16}";
  EXPECT_EQ(complaint(recipe(gpt, kPairs, "task: orpo\ntrain: {freeze: ['*.bias']}\n")), "");
  EXPECT_NE(complaint(recipe(gpt, kPairs, "task: orpo\ntrain: {freeze: [y]}\n"))
                .find("'y' matches no parameter"),
            std::string::npos);
}

TEST(ModelCheckTest, AMeshThatTheModelDoesNotSupportIsRefused) {
  const auto with_mesh = [](const std::string& heads, const std::string& mesh) {
    return complaint(
        recipe("{type: llama, num_layers: 2, hidden_size: 24, vocab_size: 9, "
               "max_seq_len: 16, " +
                   heads + "}",
               "{type: tokens, path: none.bin, vocab_size: 9, max_seq_len: 16}",
               "accelerator: {parallelism: {" + mesh + "}}\n"));
  };
  EXPECT_EQ(with_mesh("num_heads: 6, num_kv_heads: 3", "tp: 3"), "");
  EXPECT_EQ(with_mesh("num_heads: 6, num_kv_heads: 3", "tp: 2"),
            "r.yaml:3:33: error: 'tp' 2 does not divide the model's 'num_kv_heads' 3\n"
            "    accelerator: {parallelism: {tp: 2}}\n"
            "                                    ^\n"
            "  hint: use a divisor of it\n");
}

TEST(ModelCheckTest, EachRankOfTpHasAShareOfAVocabularyThatTheDataDecides) {
  const auto with_ranks = [](const std::string& ranks) {
    return complaint(recipe("{type: gpt, num_layers: 1, num_heads: 12, hidden_size: 24}", kChat,
                            "accelerator: {parallelism: {tp: " + ranks + "}}\n"));
  };
  for (const char* ranks : {"2", "3", "4", "12"}) EXPECT_EQ(with_ranks(ranks), "") << ranks;
  EXPECT_NE(with_ranks("5").find("'tp' 5 does not divide the model's 'num_heads' 12"),
            std::string::npos);
}

TEST(ModelCheckTest, TasksOfTextsAreCheckedWithoutTheirData) {
  const auto with_mesh = [](const std::string& model, const std::string& task) {
    return complaint(
        recipe("{type: " + model + ", num_layers: 2, num_heads: 2, hidden_size: 8}", kPairs,
               "task: " + task +
                   "\ntrain: {batch: 8, micro_batch: 1}\naccelerator: {parallelism: {pp: 4}}\n"));
  };
  const std::string grpo = "{type: grpo, rewards: exact_match, max_completion_length: 4}";
  EXPECT_NE(with_mesh("llama", grpo).find("'pp' does not support the task 'grpo'"),
            std::string::npos)
      << with_mesh("llama", grpo);
  for (const char* task :
       {"question_answering", "token_classification", "regression", "multi_label_classification"}) {
    EXPECT_NE(with_mesh("bert", task)
                  .find("4 pipeline stages need as many blocks, but the model "
                        "'bert' has 2"),
              std::string::npos)
        << task << with_mesh("bert", task);
  }
}

TEST(ModelCheckTest, ShardingThatTheTaskDoesNotSupportIsRefused) {
  const auto with_stage = [](const std::string& stage) {
    return complaint(recipe("{type: llama, num_layers: 1, num_heads: 2, hidden_size: 8}", kEven,
                            "task: {type: grpo, rewards: exact_match, max_completion_length: 4}\n"
                            "accelerator: {num_processes: 2, fsdp: {stage: " +
                                stage + "}}\n"));
  };
  EXPECT_EQ(with_stage("2"), "");
  EXPECT_NE(with_stage("3").find("the task 'grpo' samples completions of different lengths on each "
                                 "rank, but with 'fsdp.stage: 3' the ranks gather weights in every "
                                 "pass"),
            std::string::npos)
      << with_stage("3");
}

TEST(ModelCheckTest, AModelThatNeedsItsDataIsNotChecked) {
  EXPECT_EQ(complaint(recipe(kMlp, kTable, "task: question_answering\ntrain: {freeze: [y]}\n")),
            "unchecked");
}

}  // namespace
}  // namespace accel::model_check_test
