// Sequence-to-sequence learning: the loss, generated targets, and data and models it does not fit.
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "core/api/encoder_decoder.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"
#include "train/tasks/generates_targets.h"

namespace accel::seq2seq_test {
namespace {

DataShape text_to_text() {
  DataShape data{.input = {9}, .input_type = DType::kI64, .target = {6, 0}};
  data.vocab = 23;
  data.padding = Padding();
  return data;
}

std::unique_ptr<Model> small_t5() {
  at::manual_seed(5);
  return build<Model>("{type: t5, num_layers: 1, hidden_size: 16, num_heads: 2}",
                      {.data = text_to_text()});
}

/// Two samples with three and six targets.
Batch some_batch() {
  Batch batch = numbered_batch(at::arange(18).mul(7).remainder(23).view({2, 9}),
                               at::arange(12).mul(5).add(1).remainder(23).view({2, 6}));
  batch.targets[0].narrow(0, 3, 3).fill_(kIgnoredTarget);
  return batch;
}

/// Answers with the first tokens of each source.
class EchoSampler final : public CompletionSampler {
 public:
  std::vector<SampledCompletion> sample(std::span<const SampledPrompt> prompts,
                                        const CompletionOptions& options) override {
    used = options;
    std::vector<SampledCompletion> out;
    for (const SampledPrompt& prompt : prompts) {
      const auto count = static_cast<ptrdiff_t>(1 + out.size());
      out.push_back({{prompt.tokens.begin(), prompt.tokens.begin() + count}, "", true});
    }
    return out;
  }
  std::string text_of(std::span<const int64_t>) const override { return ""; }
  int64_t max_context() const override { return 0; }
  bool is_cached() const override { return true; }
  bool has_end_token() const override { return true; }

  CompletionOptions used;
};

TEST(Seq2SeqTest, TheLossIsTheMeanOverTargetTokens) {
  const auto task = build<Task>("seq2seq", {text_to_text()});
  const auto model = small_t5();
  const Batch batch = some_batch();
  EXPECT_EQ(task->weight(batch), 9.0);
  const at::Tensor wanted =
      at::cross_entropy_loss(model->forward_batch(batch).flatten(0, 1), batch.targets.flatten());
  EXPECT_TRUE(task->loss(*model, batch).equal(wanted));
  const auto chunked = build<Task>("{type: seq2seq, chunk: 5}", {text_to_text()});
  EXPECT_NEAR(chunked->loss(*model, batch).item<double>(), wanted.item<double>(), 1e-5);
  const Evaluation evaluated = task->evaluate(*model, batch);
  EXPECT_NEAR(evaluated.loss.item<double>(), wanted.item<double>(), 1e-5);
  EXPECT_TRUE(evaluated.output.equal(model->forward_batch(batch).argmax(-1)));
}

TEST(Seq2SeqTest, ABatchWithoutTargetsHasNoLossAndNoGradient) {
  const auto task = build<Task>("seq2seq", {text_to_text()});
  const auto model = small_t5();
  Batch batch = some_batch();
  batch.targets.fill_(kIgnoredTarget);
  const at::Tensor loss = task->loss(*model, batch);
  EXPECT_EQ(loss.item<double>(), 0);
  loss.backward();
  for (const at::Tensor& parameter : model->module().parameters()) {
    if (!parameter.grad().defined()) continue;
    EXPECT_EQ(parameter.grad().abs().sum().item<double>(), 0);
  }
  EXPECT_EQ(task->evaluate(*model, batch).loss.item<double>(), 0);
}

TEST(Seq2SeqTest, GeneratedTargetsAreTheOutput) {
  const auto task = build<Task>(
      "{type: seq2seq, predict_with_generate: true, generation_num_beams: 3}", {text_to_text()});
  auto& generates = dynamic_cast<GeneratesTargets&>(*task);
  EXPECT_TRUE(generates.generates_targets());
  const auto sampler = std::make_shared<EchoSampler>();
  generates.set_sampler(sampler);
  const auto model = small_t5();
  Batch batch = some_batch();
  const at::Tensor output = task->evaluate(*model, batch).output;
  EXPECT_EQ(output.sizes(), (at::IntArrayRef{2, 2}));
  EXPECT_EQ(output[0][0].item<int64_t>(), batch.inputs[0][0].item<int64_t>());
  EXPECT_EQ(output[0][1].item<int64_t>(), kIgnoredTarget);
  EXPECT_EQ(output[1][1].item<int64_t>(), batch.inputs[1][1].item<int64_t>());
  EXPECT_EQ(sampler->used.max_new_tokens, 6);
  EXPECT_EQ(sampler->used.num_beams, 3);
  EXPECT_EQ(sampler->used.temperature, 0);
  EXPECT_EQ(task->default_metrics(), (std::vector<std::string>{"perplexity", "rouge", "bleu"}));
  EXPECT_EQ(build<Task>("seq2seq", {text_to_text()})->default_metrics(),
            std::vector<std::string>{"perplexity"});
}

TEST(Seq2SeqTest, PaddingIsNoPartOfASource) {
  const auto sampler = std::make_shared<EchoSampler>();
  Batch batch = some_batch();
  batch.lengths = at::arange(8, 10);
  EXPECT_EQ(sample_targets(*sampler, {}, batch).size(), 2U);
}

TEST(Seq2SeqTest, OtherDataAndModelsAreRefused) {
  DataShape tokens{.input = {9}, .input_type = DType::kI64, .target = {9}};
  tokens.vocab = 23;
  EXPECT_EQ(complaint<Task>("seq2seq", {tokens}),
            "the task 'seq2seq' needs a source and a target sequence per sample, but a sample of "
            "the data is I64 [9] with the target I64 [9]");
  EchoModel other;
  try {
    build<Task>("seq2seq", {text_to_text()})->loss(other, some_batch());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'seq2seq' needs an encoder-decoder, which this model is not");
  }
}

TEST(Seq2SeqTest, OptionsOfGenerationNeedIt) {
  for (const char* option : {"generation_max_length: 9", "generation_num_beams: 2"}) {
    const std::string name = std::string(option).substr(0, std::string(option).find(':'));
    const std::string found =
        complaint<Task>(std::string("{type: seq2seq, ") + option + "}", {text_to_text()});
    EXPECT_NE(found.find("'" + name + "' has no effect without 'predict_with_generate'"),
              std::string::npos)
        << found;
  }
}

}  // namespace
}  // namespace accel::seq2seq_test
