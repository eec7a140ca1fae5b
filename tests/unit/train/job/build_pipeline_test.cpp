#include "train/job/build_pipeline.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>

namespace accel {
namespace {

class NumberBlock final : public torch::nn::Module, public Block {
 public:
  explicit NumberBlock(int64_t width) { register_parameter("weight", at::zeros({width, width})); }
};

/// An embedding, blocks of different widths, and a norm and a head behind them.
class ChainModel final : public BatchModel, public BlockChain {
 public:
  explicit ChainModel(bool is_tied) : is_tied_(is_tied) {
    embedding_ = net_->register_parameter("embedding", at::zeros({40, 2}));
    for (const int64_t width : {10, 10, 10, 10}) {
      const std::string name = "block" + std::to_string(blocks_.size());
      blocks_.push_back(net_->register_module(name, std::make_shared<NumberBlock>(width)));
    }
    const auto tail = net_->register_module("tail", std::make_shared<torch::nn::Module>());
    tail->register_parameter("norm", at::zeros({2}));
    if (!is_tied) tail->register_parameter("head", at::zeros({50, 2}));
  }

  at::Tensor forward_batch(const Batch& batch) override { return batch.inputs; }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "regression"; }
  std::vector<Block*> chain() override { return block_chain(blocks_); }
  at::Tensor tied_weight() override { return is_tied_ ? embedding_ : at::Tensor(); }

 private:
  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
  at::Tensor embedding_;
  std::vector<std::shared_ptr<NumberBlock>> blocks_;
  bool is_tied_;
};

std::unique_ptr<Job> chain_job(bool is_tied = false) {
  auto job = std::make_unique<Job>();
  job->model = std::make_unique<ChainModel>(is_tied);
  job->recipe.model.type = "chain";
  job->recipe.task.type = "distill";
  job->recipe.accelerator.parallelism.pp = 2;
  for (const auto& item : job->model->module().named_parameters()) {
    job->parameters.push_back({item.key(), item.value()});
  }
  return job;
}

std::string complaint(const std::function<void(Job&)>& change) {
  const std::unique_ptr<Job> job = chain_job();
  change(*job);
  try {
    divide_into_stages(*job);
    return "nothing";
  } catch (const RecipeError& error) {
    const std::string text = error.what();
    return text;
  }
}

TEST(BuildPipelineTest, TheEmbeddingIsOfTheFirstStageAndTheHeadOfTheLast) {
  const ModelStages stages = divide_into_stages(*chain_job());
  EXPECT_EQ(stages.blocks_per_stage, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(stages.costs, (std::vector<double>{200, 300}));
  std::map<std::string, int64_t> stage;
  for (const StageParameter& item : stages.parameters) stage[item.parameter.name] = item.stage;
  EXPECT_EQ(stage.at("embedding"), 0);
  EXPECT_EQ(stage.at("block1.weight"), 0);
  EXPECT_EQ(stage.at("block2.weight"), 1);
  EXPECT_EQ(stage.at("tail.norm"), 1);
  EXPECT_EQ(stage.at("tail.head"), 1);
}

TEST(BuildPipelineTest, SizesOfTheRecipeReplaceTheBalancedOnes) {
  const std::unique_ptr<Job> job = chain_job();
  job->recipe.accelerator.pipeline.blocks = {3, 1};
  const ModelStages stages = divide_into_stages(*job);
  EXPECT_EQ(stages.blocks_per_stage, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(stages.costs.front(), 300);
}

TEST(BuildPipelineTest, ATiedWeightIsReadByTheLastStageToo) {
  const ModelStages stages = divide_into_stages(*chain_job(true));
  EXPECT_EQ(stages.parameters.front().parameter.name, "embedding");
  EXPECT_EQ(stages.parameters.front().stage, 0);
  EXPECT_EQ(stages.parameters.front().also_read_by, 1);
  EXPECT_EQ(stages.costs, (std::vector<double>{200, 280}));
}

TEST(BuildPipelineTest, RefusesWhatItDoesNotSupport) {
  EXPECT_NE(complaint([](Job& job) {
              job.task_models.push_back({"teacher", job.model.get()});
            }).find("'pp' does not support the further models of the task 'distill'"),
            std::string::npos);
  EXPECT_NE(complaint([](Job& job) {
              job.buffers.push_back({"running_mean", at::zeros({1})});
            }).find("'pp' does not support buffers, such as 'running_mean' of the model 'chain'"),
            std::string::npos);
  EXPECT_NE(complaint([](Job& job) {
              const at::Tensor scale =
                  job.model->module().register_parameter("scale", at::zeros({}));
              job.parameters.insert(job.parameters.begin(), {"scale", scale});
            }).find("'pp' does not support the parameter 'scale', which is a scalar"),
            std::string::npos);
}

}  // namespace
}  // namespace accel
