// Steps of tasks on a device, which the host launches without asking for numbers of the batch.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/host_device/host_device.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/device/device_run.h"

namespace accel::task_waits_test {
namespace {

using namespace device_run;

struct TaskCase {
  const char* name;
  const char* text;      ///< FILES stands for the folder of recipes/tiny
  double tolerance = 0;  ///< of losses, where attention has its own kernel on the CPU
};

void PrintTo(const TaskCase& c, std::ostream* out) {
  *out << c.name;
}

class TaskWaitsTest : public testing::TestWithParam<TaskCase> {
 protected:
  /// With some micro-batches that have no target, under the tasks that mask some.
  static std::string text(const std::string& train) {
    std::string text = std::string(GetParam().text) +
                       "optimizer: {type: adamw, lr: 0.01}\n"
                       "train: {batch: 4, micro_batch: 1, max_grad_norm: 0.5, " +
                       train;
    const std::string files = std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data";
    for (size_t at = text.find("FILES"); at != text.npos; at = text.find("FILES", at)) {
      text.replace(at, 5, files);
    }
    return text;
  }
};

constexpr TaskCase kCases[] = {
    {"causal_lm",
     "model: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}\n"
     "data: {train: {type: synthetic/addition, length: 64}, eval: {type: synthetic/addition, "
     "length: 8}, loader: {workers: 0}}\n",
     1e-5},
    {"chunked",
     "model: {type: llama, num_layers: 1, num_heads: 2, hidden_size: 16}\n"
     "task: {type: causal_lm, chunk: 4}\n"
     "data: {train: {type: synthetic/addition, length: 64}, eval: {type: synthetic/addition, "
     "length: 8}, loader: {workers: 0}}\n",
     1e-5},
    {"masked_lm",
     "model: {type: roberta, num_layers: 1, num_heads: 2, hidden_size: 16, head: tokens, pad: 0, "
     "dropout: 0}\n"
     "task: masked_lm\n"
     "data: {train: {type: jsonl, path: FILES/reviews.jsonl, tokenizer: "
     "FILES/reviews_tokenizer.json, max_length: 24}, eval: {type: jsonl, path: "
     "FILES/reviews_eval.jsonl, tokenizer: FILES/reviews_tokenizer.json, max_length: 24}, "
     "transform: [{type: mask_tokens, share: 0.05}], loader: {workers: 0}}\n",
     1e-5},
    {"token_classification",
     "model: {type: bert, num_layers: 1, num_heads: 2, hidden_size: 16, dropout: 0}\n"
     "task: token_classification\n"
     "data: {train: {type: token_classification, path: FILES/names.jsonl, tokenizer: "
     "FILES/names_tokenizer.json, max_length: 48}, eval: {type: token_classification, path: "
     "FILES/names_eval.jsonl, tokenizer: FILES/names_tokenizer.json, max_length: 48}, loader: "
     "{workers: 0}}\n",
     1e-5},
    {"seq2seq",
     "model: {type: t5, num_layers: 1, num_heads: 2, hidden_size: 16, "
     "relative_attention_num_buckets: 8, dropout: 0}\n"
     "task: seq2seq\n"
     "data: {train: {type: text_to_text, path: FILES/numbers.jsonl, tokenizer: "
     "FILES/numbers_tokenizer.json, max_source_length: 8, max_target_length: 8}, eval: {type: "
     "text_to_text, path: FILES/numbers_eval.jsonl, tokenizer: FILES/numbers_tokenizer.json, "
     "max_source_length: 8, max_target_length: 8}, loader: {workers: 0}}\n"},
    {"question_answering",
     "model: {type: bert, num_layers: 1, num_heads: 2, hidden_size: 16, dropout: 0}\n"
     "task: question_answering\n"
     "data: {train: {type: question_answering, path: FILES/squad.jsonl, tokenizer: "
     "FILES/squad_tokenizer.json, max_length: 32, doc_stride: 8}, eval: {type: "
     "question_answering, path: FILES/squad_answered.jsonl, tokenizer: "
     "FILES/squad_tokenizer.json, max_length: 32, doc_stride: 8}, loader: {workers: 0}}\n",
     1e-5},
    {"class_weights",
     "model: {type: mlp, hidden_sizes: [8]}\n"
     "task: {type: classification, class_weights: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}\n"
     "data: {train: {type: synthetic/glyphs, length: 64}, eval: {type: synthetic/glyphs, length: "
     "8}, loader: {workers: 0}}\n"},
};

INSTANTIATE_TEST_SUITE_P(Tasks, TaskWaitsTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(TaskWaitsTest, ASteadyStepWaitsForNothing) {
  const TempFolder folder;
  const auto job = job_on(host_device(1), text("until: 40 steps}\n") + kNothingIsDue);
  EXPECT_EQ(waits_of_a_step(*job, folder.path("run")), 0);
}

TEST_P(TaskWaitsTest, ARunHasTheRecordAndTheWeightsOfTheCpu) {
  const std::string recipe = text("until: 12 steps}\n") +
                             "log: {every: 5 steps, system: false}\neval: {every: 6 steps}\n"
                             "checkpoint: {every: never}\n";
  const TempFolder folder;
  const Ran here = run(*job_on(at::kCPU, recipe), folder.path("here"));
  EXPECT_GT(here.lines.size(), 12U) << testing::PrintToString(here.lines);
  expect_near(run(*job_on(host_device(1), recipe), folder.path("there")), here,
              GetParam().tolerance);
}

}  // namespace
}  // namespace accel::task_waits_test
