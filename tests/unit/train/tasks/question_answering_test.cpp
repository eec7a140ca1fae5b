// The span of an answer: loss of both ends, and the likeliest span.
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>

#include "core/api/metric.h"
#include "core/api/model.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"

namespace accel::question_answering_test {
namespace {

/// Returns these logits.
class Fixed final : public BatchModel {
 public:
  explicit Fixed(at::Tensor logits) : logits_(std::move(logits)) {}
  at::Tensor forward_batch(const Batch&) override { return logits_; }
  torch::nn::Module& module() override { return net_; }
  const char* default_task() const override { return "question_answering"; }

 private:
  at::Tensor logits_;
  torch::nn::Module net_;
};

TaskContext spans(Shape target = {1, 2}) {
  TaskContext context;
  context.data = {.input = {5}, .input_type = DType::kI64, .target = std::move(target)};
  return context;
}

Batch batch_of(std::initializer_list<int64_t> spans) {
  Batch batch;
  batch.targets = at::tensor(spans, at::kLong).view({-1, 1, 2});
  batch.ids.resize(static_cast<size_t>(batch.targets.size(0)));
  batch.inputs = at::zeros({batch.targets.size(0), 5}, at::kLong);
  return batch;
}

/// [1, 5, 2] of the logits of first and last tokens.
at::Tensor logits(std::initializer_list<float> first, std::initializer_list<float> last) {
  return at::stack({at::tensor(first), at::tensor(last)}, 1).unsqueeze(0);
}

TEST(QuestionAnsweringTest, TheLossIsTheMeanOfBothEnds) {
  const auto task = build<Task>("question_answering", spans());
  Fixed model(logits({2, 0, 0, 0, 0}, {0, 0, 0, 1, 0}));
  const double first = std::log(std::exp(2.0) + 4) - 2, last = std::log(std::exp(1.0) + 4);
  EXPECT_NEAR(task->loss(model, batch_of({0, 2})).item<double>(), (first + last) / 2, 1e-6);
  // A place beyond the tokens does not count, as in transformers.
  EXPECT_NEAR(task->loss(model, batch_of({0, 5})).item<double>(), first / 2, 1e-6);
  EXPECT_EQ(task->loss(model, batch_of({-1, 5})).item<double>(), 0);
  EXPECT_EQ(task->weight(batch_of({0, 2, 1, 1})), 2);
}

TEST(QuestionAnsweringTest, PredictsTheLikeliestSpanOfAllowedLength) {
  const auto found = [](const std::string& options, const at::Tensor& scores, int64_t length) {
    Fixed model(scores);
    Batch batch = batch_of({0, 0});
    batch.lengths = at::full({1}, length, at::kLong);
    const auto task = build<Task>("{type: question_answering" + options + "}", spans());
    const at::Tensor out = task->evaluate(model, batch).output;
    EXPECT_EQ(out.sizes(), (std::vector<int64_t>{1, 1, 2}));
    return std::pair(out[0][0][0].item<int64_t>(), out[0][0][1].item<int64_t>());
  };
  const at::Tensor scores = logits({0, 1, 0, 4, 0}, {0, 3, 2, 0, 2.5});
  EXPECT_EQ(found("", scores, 5), std::pair(int64_t{3}, int64_t{4}));
  // The last token is padding.
  EXPECT_EQ(found("", scores, 4), std::pair(int64_t{1}, int64_t{1}));
  const at::Tensor far = logits({5, 0, 0, 0, 0}, {0, 1, 0, 0, 5});
  EXPECT_EQ(found("", far, 5), std::pair(int64_t{0}, int64_t{4}));
  EXPECT_EQ(found(", max_answer_length: 4", far, 5), std::pair(int64_t{0}, int64_t{1}));
}

TEST(QuestionAnsweringTest, WantsSpansAndTwoLogitsForEachToken) {
  EXPECT_EQ(complaint<Task>("question_answering", spans({5})),
            "the task 'question_answering' needs the first and the last token of an answer, int64 "
            "[1, 2], but the target is I64 [5]");
  const auto task = build<Task>("question_answering", spans());
  Fixed model(at::zeros({1, 5, 3}));
  try {
    task->loss(model, batch_of({0, 2}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'question_answering' needs two logits for every token, but the model's "
                 "output is [1, 5, 3]");
  }
}

TEST(SpanF1Test, CountsCommonTokens) {
  const auto f1 = [](std::initializer_list<int64_t> found, std::initializer_list<int64_t> there) {
    const auto metric = build<Metric>("span_f1", MetricContext{spans().data});
    const Batch batch = batch_of(there);
    const at::Tensor output = at::tensor(found, at::kLong).view({-1, 1, 2});
    metric->update({output, batch, 0, 1});
    return metric->values().front().second;
  };
  EXPECT_EQ(f1({1, 3}, {1, 3}), 1);
  EXPECT_EQ(f1({0, 0}, {1, 3}), 0);
  EXPECT_NEAR(f1({2, 5}, {1, 3}), 2.0 * 2 / (4 + 3), 1e-12);
  EXPECT_NEAR(f1({1, 3, 0, 0}, {1, 3, 1, 1}), 0.5, 1e-12);
}

}  // namespace
}  // namespace accel::question_answering_test
