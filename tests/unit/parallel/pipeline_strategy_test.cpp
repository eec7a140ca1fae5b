#include "parallel/pipeline_strategy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include <deque>
#include <functional>
#include <latch>
#include <map>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "parallel/fsdp.h"
#include "parallel/gradients.h"
#include "parallel/share_region.h"
#include "parallel/tensor_ranks.h"
#include "parallel/tensor_strategy.h"
#include "tests/unit/parallel/ranks.h"

namespace accel {

// Of the models' library, which this test does not link.
at::Tensor checkpoint(std::function<at::Tensor()> compute, ActivationCheckpointing /*mode*/) {
  return compute();
}
at::Tensor checkpoint(BlockInputs* /*inputs*/, const at::Tensor& input,
                      std::function<at::Tensor(const at::Tensor&)> compute,
                      ActivationCheckpointing /*mode*/) {
  return compute(input);
}

namespace pipeline_test {
namespace {

using Tensors = std::map<std::string, at::Tensor>;
using Lines = std::vector<std::string>;

at::Tensor numbers(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().mul(0.3).view(shape);
}

class Layer final : public Block {
 public:
  static constexpr int64_t kWidth = 5;

  /// The ranks of `mesh.tensor` divide the inner features.
  Layer(int64_t seed, const Mesh& mesh)
      : norm(at::ones({kWidth})),
        up(share_of(numbers({7, kWidth}, seed), kRows, mesh).clone()),
        bias(share_of(numbers({7}, seed + 1), kRows, mesh).clone()),
        down(share_of(numbers({kWidth, 7}, seed + 2), kColumns, mesh)
                 .clone(at::MemoryFormat::Contiguous)) {
    if (mesh.tensor->world() > 1) ranks = make_tensor_ranks(mesh.tensor, /*sequence=*/false);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = at::layer_norm(x, {kWidth}, norm);
    const at::Tensor inner = at::linear(ranks ? ranks->enter(y) : y, up, bias).sin();
    const at::Tensor out = at::linear(inner, down);
    return x.add(ranks ? ranks->leave(out) : out);
  }
  std::vector<Parameter> parameters(const std::string& prefix) const {
    if (ranks) {
      return {{prefix + "norm", norm},
              {prefix + "up", up, {7, kWidth}, kRows},
              {prefix + "bias", bias, {7}, kRows},
              {prefix + "down", down, {kWidth, 7}, kColumns}};
    }
    return {{prefix + "norm", norm},
            {prefix + "up", up},
            {prefix + "bias", bias},
            {prefix + "down", down}};
  }

  at::Tensor norm, up, bias, down;
  std::shared_ptr<const TensorRanks> ranks;

 private:
  static inline const std::vector<Placement> kRows = {{Axis::kTensor, 0}};
  static inline const std::vector<Placement> kColumns = {{Axis::kTensor, 1}};
};

/// Eight layers between an embedding and a head, of which one layer is frozen.
struct Chain {
  explicit Chain(bool is_tied, const Mesh& mesh = {})
      : head(is_tied ? embedding : numbers({9, Layer::kWidth}, 11)) {
    for (int64_t i = 0; i < 8; ++i) layers.emplace_back(20 + i, mesh);
    for (const Parameter& item : all()) item.local.requires_grad_(true);
    for (const Parameter& item : layers[2].parameters("")) item.local.requires_grad_(false);
  }

  at::Tensor output(const Batch& batch) {
    at::Tensor x =
        chain_input(layers.front(), [&] { return batch.inputs.matmul(embedding).tanh(); });
    for (Layer& layer : layers) x = run_block(layer, x);
    return at::linear(x, head);
  }
  at::Tensor loss(const Batch& batch) { return output(batch).square().mean(); }

  bool is_tied() const { return head.is_same(embedding); }

  std::vector<Parameter> all() const {
    std::vector<Parameter> out = {{"embedding", embedding}};
    for (size_t i = 0; i < layers.size(); ++i) {
      for (Parameter& item : layers[i].parameters(std::to_string(i) + ".")) out.push_back(item);
    }
    if (!is_tied()) out.push_back({"head", head});
    return out;
  }

  PipelineContext context(const Mesh& mesh, int64_t stages) {
    PipelineContext out{.mesh = mesh};
    const auto each = static_cast<int64_t>(layers.size()) / stages;
    out.blocks_per_stage.assign(static_cast<size_t>(stages), each);
    out.parameters.push_back({{"embedding", embedding}, 0});
    if (is_tied()) out.parameters.back().also_read_by = stages - 1;
    for (size_t i = 0; i < layers.size(); ++i) {
      out.blocks.push_back(&layers[i]);
      for (const Parameter& item : layers[i].parameters(std::to_string(i) + ".")) {
        out.parameters.push_back({item, static_cast<int64_t>(i) / each});
      }
    }
    if (!is_tied()) out.parameters.push_back({{"head", head}, stages - 1});
    return out;
  }

  at::Tensor embedding = numbers({9, Layer::kWidth}, 3);
  at::Tensor head;
  std::deque<Layer> layers;
};

/// Micro-batches of two shapes.
std::vector<Batch> batches_of(int64_t first, int64_t count, int64_t stride = 1) {
  std::vector<Batch> out;
  for (int64_t i = first; i < count; i += stride) {
    Batch& batch = out.emplace_back();
    batch.inputs = numbers({2, 3 + i % 2, 9}, 100 * i);
    batch.ids = {i};
  }
  return out;
}

class ChainPasses final : public MicroBatchPasses {
 public:
  ChainPasses(Chain& chain, const std::vector<Batch>& batches) : chain_(chain), batches_(batches) {}

  size_t count() const override { return batches_.size(); }
  const Batch& batch(size_t i) const override { return batches_[i]; }
  void run(size_t i) override { forward(i).backward(); }
  at::Tensor forward(size_t i) override {
    if (before_forward) before_forward(i);
    return chain_.loss(batches_[i]);
  }
  void backward(const std::function<void()>& pass) override {
    if (before_backward) before_backward();
    pass();
  }

  std::function<void(size_t)> before_forward;
  std::function<void()> before_backward;

 private:
  Chain& chain_;
  const std::vector<Batch>& batches_;
};

struct Setting {
  PipelineKind kind = PipelineKind::k1F1B;
  int64_t ranks = 2;
  int64_t stages_per_rank = 1;
  int64_t replicas = 1;
  int64_t micro_batches = 8;
  int64_t steps = 1;
  bool is_tied = false;
  int64_t tensor = 1;
  std::optional<ShardStage> stage = {};  ///< shards the stages over the ranks with other samples
};

/// What all ranks have after some steps: norms, and by name weights and the last gradients.
struct Trained {
  std::vector<float> norms;
  Tensors weights, gradients;
};

/// Clips, subtracts the gradients and drops them.
void descend(Strategy& strategy, const std::vector<Parameter>& parameters, bool is_last,
             Trained& out) {
  out.norms.push_back(strategy.clip_grad_norm(parameters, 0.05).item<float>());
  const c10::NoGradGuard no_grad;
  for (const Parameter& item : parameters) {
    const at::Tensor& gradient = item.local.grad();
    if (!gradient.defined()) continue;
    if (is_last && gradient.numel() > 0) out.gradients[item.name] = gradient.clone();
    item.local.sub_(gradient.mul(0.5));
    item.local.mutable_grad() = at::Tensor();
  }
}

std::vector<Parameter> trained_of(std::vector<Parameter> parameters) {
  std::erase_if(parameters, [](const Parameter& item) { return !item.local.requires_grad(); });
  return parameters;
}

/// The strategy that shards the parameters of a rank's stages, a unit for each layer.
std::unique_ptr<Strategy> shard_stages(Chain& chain, const Mesh& mesh, ShardStage stage,
                                       const std::vector<Parameter>& own) {
  FsdpContext context{.mesh = mesh};
  for (Layer& layer : chain.layers) context.blocks.push_back({&layer, {}});
  for (const Parameter& item : own) {
    const bool in_layer = item.name[1] == '.';
    std::vector<Parameter>& unit =
        in_layer ? context.blocks[static_cast<size_t>(item.name[0] - '0')].parameters
                 : context.root;
    (stage != ShardStage::kParameters && !item.local.requires_grad() ? context.replicated : unit)
        .push_back(item);
  }
  std::erase_if(context.blocks, [](const FsdpUnit& unit) { return unit.parameters.empty(); });
  return make_fsdp(context, {.stage = stage, .in_pipeline = true, .sync_each_batch = false});
}

/// The strategy of a mesh of stages, ranks with other samples, and ranks that divide the layers.
std::unique_ptr<Strategy> make_composition(Chain& chain, const Mesh& mesh, const Setting& setting) {
  PipelineContext context = chain.context(mesh, setting.ranks * setting.stages_per_rank);
  if (setting.stage) {
    for (StageParameter& item : context.parameters) {
      item.is_sharded =
          *setting.stage == ShardStage::kParameters || item.parameter.local.requires_grad();
    }
    context.strategy_of_stages = [&chain, mesh, stage = *setting.stage](const auto& own) {
      return shard_stages(chain, mesh, stage, own);
    };
  }
  auto pipeline =
      make_pipeline(context, {.kind = setting.kind, .stages_per_rank = setting.stages_per_rank});
  if (setting.tensor == 1) return pipeline;
  return make_tensor_parallel(std::move(pipeline), {}, mesh.tensor);
}

Trained train_composed(const Setting& setting, Communicator& group) {
  const std::shared_ptr<Communicator> world(std::shared_ptr<void>(), &group);
  MeshSizes sizes{.pipeline = setting.ranks, .tensor = setting.tensor};
  (setting.stage ? sizes.shard : sizes.replicate) = setting.replicas;
  const Mesh mesh = make_mesh(world, sizes);
  Chain chain(setting.is_tied, mesh);
  const auto strategy = make_composition(chain, mesh, setting);
  const std::vector<Parameter> all = strategy->shards_of(chain.all());
  const std::vector<Batch> batches =
      batches_of(mesh.data->rank(), setting.micro_batches * setting.replicas, setting.replicas);
  Trained out;
  for (int64_t step = 1; step <= setting.steps; ++step) {
    ChainPasses passes(chain, batches);
    strategy->begin({.step = step, .num_micro_batches = setting.micro_batches, .own = {}});
    strategy->run_passes(passes);
    strategy->finish();
    descend(*strategy, trained_of(all), false, out);
    strategy->updated(step);
  }
  for (const Parameter& item : all) out.weights[item.name] = gather_whole(item, mesh).clone();
  return out;
}

Trained train_rank(const Setting& setting, Communicator& group) {
  const std::shared_ptr<Communicator> world(std::shared_ptr<void>(), &group);
  const Mesh mesh = make_mesh(world, {.pipeline = setting.ranks, .replicate = setting.replicas});
  Chain chain(setting.is_tied);
  const int64_t stages = setting.ranks * setting.stages_per_rank;
  const auto strategy =
      make_pipeline(chain.context(mesh, stages),
                    {.kind = setting.kind, .stages_per_rank = setting.stages_per_rank});
  const std::vector<Parameter> all = strategy->shards_of(chain.all());
  const std::vector<Batch> batches =
      batches_of(mesh.data->rank(), setting.micro_batches * setting.replicas, setting.replicas);
  Trained out;
  for (int64_t step = 1; step <= setting.steps; ++step) {
    StepLayout layout{.step = step, .num_micro_batches = setting.micro_batches, .own = {}};
    ChainPasses passes(chain, batches);
    strategy->begin(layout);
    strategy->run_passes(passes);
    strategy->finish();
    descend(*strategy, trained_of(all), step == setting.steps, out);
    strategy->updated(step);
  }
  for (const Parameter& item : all) {
    if (item.local.numel() > 0) out.weights[item.name] = item.local.detach().clone();
  }
  return out;
}

/// The ranks' results joined; a parameter that two ranks have is a failure.
Trained train(const Setting& setting) {
  Trained out;
  std::mutex mutex;
  on_ranks(setting.ranks * setting.replicas, [&](Communicator& group) {
    const Trained own = train_rank(setting, group);
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(out.norms.empty() || out.norms == own.norms);
    out.norms = own.norms;
    if (group.rank() % setting.replicas != 0) return;
    for (const auto& [name, tensor] : own.weights)
      EXPECT_TRUE(out.weights.emplace(name, tensor).second);
    for (const auto& [name, tensor] : own.gradients) out.gradients.emplace(name, tensor);
  });
  return out;
}

/// One process, or one of several that accumulate.
Trained train_alone(const Setting& setting) {
  Trained out;
  std::mutex mutex;
  const auto run = [&](Communicator& group) {
    Chain chain(setting.is_tied);
    const std::vector<Parameter> parameters = trained_of(chain.all());
    const auto strategy =
        group.world() > 1 ? make_ddp({parameters, {}, &group}, {}) : make_single();
    const std::vector<Batch> batches =
        batches_of(group.rank(), setting.micro_batches * setting.replicas, setting.replicas);
    Trained own;
    for (int64_t step = 1; step <= setting.steps; ++step) {
      ChainPasses passes(chain, batches);
      strategy->begin({.step = step, .own = {}});
      strategy->run_passes(passes);
      strategy->finish();
      descend(*strategy, parameters, step == setting.steps, own);
    }
    for (const Parameter& item : chain.all()) own.weights[item.name] = item.local.detach();
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) out = own;
  };
  SingleProcess single;
  setting.replicas > 1 ? on_ranks(setting.replicas, run) : run(single);
  return out;
}

void expect_same_bits(const Tensors& wanted, const Tensors& found) {
  ASSERT_EQ(wanted.size(), found.size());
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensor, found.at(name))) << name;
  }
}

void expect_same_bits(const Trained& wanted, const Trained& found) {
  EXPECT_EQ(wanted.norms, found.norms);
  expect_same_bits(wanted.gradients, found.gradients);
  expect_same_bits(wanted.weights, found.weights);
}

std::vector<Setting> schedules(int64_t ranks) {
  std::vector<Setting> out = {{PipelineKind::kGpipe, ranks},
                              {PipelineKind::k1F1B, ranks},
                              {PipelineKind::kInterleaved1F1B, ranks, 2},
                              {PipelineKind::kZbH1, ranks},
                              {PipelineKind::kZbV, ranks, 2}};
  if (ranks == 2) out.push_back({PipelineKind::kInterleaved1F1B, ranks, 4});
  return out;
}

class PipelineTest : public testing::TestWithParam<int64_t> {};

TEST_P(PipelineTest, EveryScheduleHasTheBitsOfOneProcess) {
  for (const int64_t micro_batches : {1, 3, 8}) {
    const Trained wanted = train_alone({.micro_batches = micro_batches});
    EXPECT_EQ(wanted.gradients.size(), 30u);
    for (Setting setting : schedules(GetParam())) {
      SCOPED_TRACE(static_cast<int>(setting.kind));
      setting.micro_batches = micro_batches;
      expect_same_bits(wanted, train(setting));
    }
  }
}

TEST_P(PipelineTest, TwentyStepsHaveTheBitsOfOneProcess) {
  const Trained wanted = train_alone({.micro_batches = 5, .steps = 20});
  for (Setting setting : schedules(GetParam())) {
    SCOPED_TRACE(static_cast<int>(setting.kind));
    setting.micro_batches = 5;
    setting.steps = 20;
    expect_same_bits(wanted, train(setting));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PipelineTest, testing::Values(2, 4));

TEST(PipelineStrategyTest, ReplicasHaveTheBitsOfDataParallelTraining) {
  for (const PipelineKind kind : {PipelineKind::k1F1B, PipelineKind::kZbH1}) {
    const Setting setting{.kind = kind, .replicas = 2, .micro_batches = 3, .steps = 4};
    expect_same_bits(train_alone(setting), train(setting));
  }
}

TEST(PipelineStrategyTest, ShardedStagesHaveTheBitsOfDataParallelTraining) {
  for (const ShardStage stage :
       {ShardStage::kOptimizer, ShardStage::kGradients, ShardStage::kParameters}) {
    for (Setting setting : schedules(2)) {
      SCOPED_TRACE(static_cast<int>(stage) * 10 + static_cast<int>(setting.kind));
      setting.replicas = 2;
      setting.micro_batches = 3;
      setting.steps = 3;
      setting.stage = stage;
      const Trained wanted = train_alone(setting);
      on_ranks(4, [&](Communicator& group) {
        const Trained found = train_composed(setting, group);
        EXPECT_EQ(wanted.norms, found.norms);
        expect_same_bits(wanted.weights, found.weights);
      });
    }
  }
}

void expect_nearly(const Trained& wanted, const Trained& found) {
  ASSERT_EQ(wanted.norms.size(), found.norms.size());
  for (size_t i = 0; i < wanted.norms.size(); ++i) {
    EXPECT_NEAR(found.norms[i], wanted.norms[i], 2e-6 * wanted.norms[i]);
  }
  ASSERT_EQ(wanted.weights.size(), found.weights.size());
  for (const auto& [name, tensor] : wanted.weights) {
    EXPECT_LT(tensor.sub(found.weights.at(name)).abs().max().item<float>(), 1e-6) << name;
  }
}

TEST(PipelineStrategyTest, StagesOfDividedLayersAreOneModel) {
  for (const bool is_tied : {false, true}) {
    for (Setting setting : schedules(2)) {
      SCOPED_TRACE(static_cast<int>(setting.kind));
      setting.steps = 4;
      setting.is_tied = is_tied;
      setting.tensor = 2;
      const Trained wanted = train_alone(setting);
      on_ranks(4,
               [&](Communicator& group) { expect_nearly(wanted, train_composed(setting, group)); });
    }
  }
}

TEST(PipelineStrategyTest, EightRanksOfThreeAxesAreOneModel) {
  Setting setting{.replicas = 2, .micro_batches = 3, .steps = 4, .is_tied = true, .tensor = 2};
  for (const std::optional<ShardStage> stage :
       {std::optional<ShardStage>(), std::optional(ShardStage::kOptimizer),
        std::optional(ShardStage::kParameters)}) {
    setting.stage = stage;
    const Trained wanted = train_alone(setting);
    on_ranks(8,
             [&](Communicator& group) { expect_nearly(wanted, train_composed(setting, group)); });
  }
}

TEST(PipelineStrategyTest, ATiedWeightIsOfItsFirstStageAndSummedOverBoth) {
  const Trained wanted = train_alone({.steps = 6, .is_tied = true});
  for (Setting setting : schedules(2)) {
    SCOPED_TRACE(static_cast<int>(setting.kind));
    setting.steps = 6;
    setting.is_tied = true;
    const Trained found = train(setting);
    ASSERT_EQ(found.weights.size(), wanted.weights.size());
    for (const auto& [name, tensor] : wanted.weights) {
      EXPECT_LT(tensor.sub(found.weights.at(name)).abs().max().item<float>(), 1e-6) << name;
    }
    for (size_t i = 0; i < wanted.norms.size(); ++i) {
      EXPECT_NEAR(found.norms[i], wanted.norms[i], 1e-6 * wanted.norms[i]);
    }
  }
}

TEST(PipelineStrategyTest, OtherStagesHaveEmptyShares) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<void>(), &group);
    const Mesh mesh = make_mesh(world, {.pipeline = 2});
    Chain chain(false);
    const auto strategy = make_pipeline(chain.context(mesh, 2), {});
    const std::vector<Parameter> shares = strategy->shards_of(chain.all());
    const bool first = group.rank() == 0;
    EXPECT_EQ(shares.front().local.sizes(), (std::vector<int64_t>{first ? 9 : 0, 5}));
    EXPECT_EQ(shares.back().local.sizes(), (std::vector<int64_t>{first ? 0 : 9, 5}));
    EXPECT_EQ(shares.front().shape(), (Shape{9, 5}));
    EXPECT_EQ(chain.embedding.sizes(), (std::vector<int64_t>{9, 5}));
    EXPECT_EQ(chain.embedding.storage().nbytes(), sizeof(float) * (first ? 45 : 1));
    EXPECT_EQ(strategy->has_head(), !first);
    const ShareRegion region = share_regions(shares.front(), mesh).front();
    EXPECT_EQ(region.sizes, (Shape{first ? 9 : 0, 5}));
    EXPECT_EQ(region.offsets, (Shape{0, 0}));
    EXPECT_EQ(repeats_empty_share(shares.front(), mesh), !first);
    const at::Tensor whole = gather_whole(shares.front(), mesh);
    EXPECT_TRUE(at::equal(whole, numbers({9, 5}, 3)));
    EXPECT_TRUE(at::equal(share_of(whole, shares.front().placements, mesh), shares.front().local));
  });
}

TEST(PipelineStrategyTest, EvaluationRunsThroughAllStages) {
  Chain alone(false);
  const std::vector<Batch> batches = batches_of(0, 5);
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> wanted;
  for (const Batch& batch : batches) wanted.push_back(alone.output(batch));
  for (const Setting& setting : schedules(2)) {
    on_ranks(2, [&](Communicator& group) {
      const std::shared_ptr<Communicator> world(std::shared_ptr<void>(), &group);
      Chain chain(false);
      const auto strategy = make_pipeline(
          chain.context(make_mesh(world, {.pipeline = 2}), 2 * setting.stages_per_rank),
          {.kind = setting.kind, .stages_per_rank = setting.stages_per_rank});
      const c10::NoGradGuard also_here;
      std::vector<at::Tensor> found(batches.size());
      strategy->run_forward(batches, [&](size_t i) { found[i] = chain.output(batches[i]); });
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].defined(), strategy->has_head());
        EXPECT_TRUE(!found[i].defined() || at::equal(found[i], wanted[i]));
      }
    });
  }
}

/// The errors of two ranks, the second of which ends before its forward pass of micro-batch 2, as
/// soon as the first has the gradients of the two micro-batches before.
Lines errors_of(const Setting& setting) {
  std::latch gradients(2);
  return join_each(requests_of(2), [&](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<void>(), &group);
    Chain chain(false);
    const auto strategy =
        make_pipeline(chain.context(make_mesh(world, {.pipeline = 2}), 2), {.kind = setting.kind});
    const std::vector<Batch> batches = batches_of(0, 4);
    ChainPasses passes(chain, batches);
    if (group.rank() == 0) passes.before_backward = [&] { gradients.count_down(); };
    if (group.rank() == 1)
      passes.before_forward = [&](size_t i) {
        if (i != 2) return;
        gradients.wait();
        throw Error(ExitCode::kOther, "it fails");
      };
    strategy->begin({.own = {}});
    strategy->run_passes(passes);
  });
}

TEST(PipelineStrategyTest, TheErrorOfALostRankNamesStageAndMicroBatch) {
  const Lines errors = errors_of({.kind = PipelineKind::k1F1B});
  EXPECT_EQ(errors[1], "it fails");
  EXPECT_TRUE(errors[0].starts_with("rank 0 lost rank 1")) << errors[0];
  EXPECT_NE(errors[0].find("'gradient of stage 0, micro-batch 2'"), std::string::npos) << errors[0];
}

TEST(PipelineStrategyTest, RefusesALossThatRunsTheModelTwice) {
  const Lines errors = join_each(requests_of(2), [&](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<void>(), &group);
    Chain chain(false);
    const auto strategy = make_pipeline(chain.context(make_mesh(world, {.pipeline = 2}), 2), {});
    const c10::NoGradGuard no_grad;
    const std::vector<Batch> batches = batches_of(0, 1);
    strategy->run_forward(batches, [&](size_t i) {
      chain.output(batches[i]);
      chain.output(batches[i]);
    });
  });
  EXPECT_EQ(errors[1], "a pipeline needs one forward pass of the model for each micro-batch");
}

TEST(PipelineStrategyTest, RefusesAPassWithoutTheModel) {
  const Lines errors = join_each(requests_of(2), [&](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<void>(), &group);
    Chain chain(false);
    const auto strategy = make_pipeline(chain.context(make_mesh(world, {.pipeline = 2}), 2), {});
    strategy->run_forward(batches_of(0, 1), [](size_t) {});
  });
  EXPECT_EQ(errors[0], "a micro-batch does not run the blocks of pipeline stage 0");
}

}  // namespace
}  // namespace pipeline_test
}  // namespace accel
