#include "parallel/fsdp.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "parallel/gradients.h"
#include "tests/unit/cpu_autocast.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/parallel/run_passes.h"

namespace accel::fsdp_test {
namespace {

at::Tensor numbers(std::vector<int64_t> shape, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(seed, seed + count, at::kFloat).mul(0.7).sin().mul(0.3).view(shape);
}

/// Two linear layers around a sine, of odd sizes, and a bias that no pass uses.
class Layer final : public Block {
 public:
  Layer(int64_t width, int64_t inner, int64_t seed)
      : up(numbers({inner, width}, seed)),
        bias(numbers({inner}, seed + 1)),
        down(numbers({width, inner}, seed + 2)),
        unused(numbers({3}, seed + 3)) {}

  /// As run_block(), which needs the models' library for activation checkpointing.
  at::Tensor run(const at::Tensor& x) {
    if (hooks()) hooks()->before_forward();
    const at::Tensor output = forward(x);
    if (hooks()) hooks()->after_forward(output);
    return output;
  }

  at::Tensor forward(const at::Tensor& x) {
    return x.add(at::linear(at::linear(x, up).add(bias).sin(), down));
  }
  std::vector<Parameter> parameters(const std::string& prefix) const {
    return {{prefix + "up", up},
            {prefix + "bias", bias},
            {prefix + "down", down},
            {prefix + "unused", unused}};
  }

  at::Tensor up, bias, down, unused;
};

/// Layers of inner sizes 35, 11, 5 and 1; the second one runs twice. The third one is frozen, and
/// of the last one what runs first: its gradients are complete before that of its input.
struct TestModel {
  static constexpr int64_t kWidth = 5;

  TestModel() {
    for (const int64_t inner : {35, 11, 5, 1}) layers.emplace_back(kWidth, inner, inner);
    for (const Parameter& item : all()) item.local.requires_grad_(true);
    for (const Parameter& item : layers[2].parameters("")) item.local.requires_grad_(false);
    layers[3].up.requires_grad_(false);
    layers[3].bias.requires_grad_(false);
  }

  at::Tensor loss(int64_t sample) {
    at::Tensor x = numbers({4, 7}, sample).matmul(embedding);
    for (Layer& layer : layers) x = layer.run(x);
    if (repeats) x = layers[1].run(x);
    return x.matmul(embedding.t()).mul(scale).square().mean();
  }

  std::vector<Parameter> all() const {
    std::vector<Parameter> out = {{"embedding", embedding}, {"scale", scale}};
    for (size_t i = 0; i < layers.size(); ++i) {
      for (Parameter& item : layers[i].parameters(std::to_string(i) + ".")) out.push_back(item);
    }
    return out;
  }

  FsdpContext context(const Mesh& mesh) {
    FsdpContext context{.mesh = mesh};
    for (size_t i = 0; i < layers.size(); ++i) {
      context.blocks.push_back({&layers[i], layers[i].parameters(std::to_string(i) + ".")});
    }
    context.root = {{"embedding", embedding}};
    context.replicated = {{"scale", scale}};
    for (size_t i = 0; i < layers.size(); ++i) {
      for (const char* name : {".up", ".down"})
        context.cast_weights.autocast.insert(std::to_string(i) + name);
    }
    return context;
  }

  bool repeats = true;
  at::Tensor embedding = numbers({7, kWidth}, 3);
  at::Tensor scale = at::full({}, 0.9);
  std::deque<Layer> layers;
};

struct Setting {
  int64_t ranks = 2;
  int64_t replicate = 1;
  int64_t accumulation = 1;
  std::optional<FsdpOptions> fsdp = {};  ///< null: DDP
  bool clip = true;
  bool canonical = false;    ///< without `fsdp`
  bool autocast = false;     ///< of passes with gradients, in bf16
  bool evaluate_in = false;  ///< and of the evaluation
};

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, at::Tensor> weights;
};

StepLayout layout_of(const Setting& setting, int64_t step, int64_t rank) {
  StepLayout layout{.step = step, .num_micro_batches = 0, .own = {}};
  layout.num_micro_batches = setting.ranks * setting.accumulation;
  for (int64_t i = 0; i < setting.accumulation; ++i) layout.own.push_back(i * setting.ranks + rank);
  return layout;
}

/// Steps of SGD with momentum on this rank.
Trained train(Communicator& group, const Setting& setting, int64_t steps) {
  const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
  const Mesh mesh =
      make_mesh(world, {.replicate = setting.fsdp ? setting.replicate : setting.ranks,
                        .shard = setting.fsdp ? setting.ranks / setting.replicate : 1});
  TestModel model;
  // The sum over both uses has the type of autocast's copy, which ranks in threads share.
  model.repeats = !setting.autocast;
  std::vector<Parameter> trained = model.all();
  std::erase_if(trained, [](const Parameter& item) { return !item.local.requires_grad(); });
  const StrategyContext whole{trained, {}, &group};
  const auto strategy = setting.fsdp        ? make_fsdp(model.context(mesh), *setting.fsdp)
                        : setting.canonical ? make_canonical(whole, {.bucket_bytes = 512})
                                            : make_ddp(whole, {.bucket_bytes = 512});
  trained = strategy->shards_of(trained);
  std::vector<at::Tensor> momenta(trained.size());
  Trained out;
  for (int64_t step = 1; step <= steps; ++step) {
    const StepLayout layout = layout_of(setting, step, group.rank());
    double loss = 0;
    strategy->unshard();
    run_passes(*strategy, layout, [&](size_t i) {
      const at::Tensor mean =
          [&] {
            const CpuAutocast casts(setting.autocast);
            return model.loss(step * 100 + layout.own[i]);
          }()
              .div(static_cast<double>(layout.num_micro_batches));
      loss += mean.item().toDouble();
      mean.backward();
    });
    const at::Tensor norm =
        setting.clip ? strategy->clip_grad_norm(trained, 0.05) : strategy->gradient_norm(trained);
    {
      const c10::NoGradGuard no_grad;
      for (size_t i = 0; i < trained.size(); ++i) {
        at::Tensor& gradient = trained[i].local.mutable_grad();
        if (!gradient.defined()) continue;
        momenta[i] = momenta[i].defined() ? momenta[i].mul(0.9).add(gradient) : gradient.clone();
        trained[i].local.sub_(momenta[i].mul(0.5));
        gradient.reset();
      }
    }
    strategy->updated(step);
    {
      const c10::NoGradGuard no_grad;
      strategy->reshard();
      strategy->unshard();
      const CpuAutocast casts(setting.evaluate_in);
      out.losses.push_back(model.loss(step).item().toDouble());
      strategy->reshard();
    }
    out.losses.push_back(loss);
    out.norms.push_back(norm.item().toDouble());
  }
  for (const Parameter& item : strategy->shards_of(model.all())) {
    out.weights[item.name] = gather_whole(item, mesh).detach().clone();
  }
  return out;
}

/// Trains on all ranks and returns rank 0's; losses of a step are summed over the ranks.
Trained train_on(const Setting& setting, int64_t steps = 4) {
  std::vector<Trained> of_rank(static_cast<size_t>(setting.ranks));
  on_ranks(setting.ranks, [&](Communicator& group) {
    of_rank[static_cast<size_t>(group.rank())] = train(group, setting, steps);
  });
  for (const Trained& other : of_rank) {
    EXPECT_EQ(other.norms, of_rank[0].norms);
    for (const auto& [name, weight] : of_rank[0].weights) {
      EXPECT_TRUE(at::equal(weight, other.weights.at(name))) << name;
    }
  }
  return of_rank[0];
}

void expect_same_bits(const Trained& found, const Trained& wanted) {
  EXPECT_EQ(found.losses, wanted.losses);
  EXPECT_EQ(found.norms, wanted.norms);
  ASSERT_EQ(found.weights.size(), wanted.weights.size());
  for (const auto& [name, weight] : wanted.weights) {
    EXPECT_TRUE(at::equal(found.weights.at(name), weight)) << name;
  }
}

void expect_close(const Trained& found, const Trained& wanted) {
  for (size_t i = 0; i < wanted.norms.size(); ++i) {
    EXPECT_NEAR(found.norms[i], wanted.norms[i], 1e-6 * wanted.norms[i]);
  }
  for (const auto& [name, weight] : wanted.weights) {
    EXPECT_LT(found.weights.at(name).sub(weight).abs().max().item().toDouble(), 2e-6) << name;
  }
}

constexpr std::array kStages = {ShardStage::kOptimizer, ShardStage::kGradients,
                                ShardStage::kParameters};

TEST(FsdpTest, EveryStageOfTwoRanksHasTheBitsOfDdp) {
  for (const bool clip : {true, false}) {
    const Trained wanted = train_on({.clip = clip});
    EXPECT_GT(wanted.norms[0], 0.1);
    for (const ShardStage stage : kStages) {
      SCOPED_TRACE(static_cast<int>(stage));
      expect_same_bits(train_on({.fsdp = FsdpOptions{.stage = stage}, .clip = clip}), wanted);
    }
  }
}

TEST(FsdpTest, OneReductionOfSeveralMicroBatchesHasTheBitsOfDdp) {
  const Trained wanted = train_on({.accumulation = 4});
  for (const ShardStage stage : kStages) {
    SCOPED_TRACE(static_cast<int>(stage));
    const FsdpOptions options{.stage = stage, .sync_each_batch = false};
    expect_same_bits(train_on({.accumulation = 4, .fsdp = options}), wanted);
  }
}

TEST(FsdpTest, AReductionPerMicroBatchDiffersByRoundingOnly) {
  const Trained wanted = train_on({.accumulation = 4});
  for (const ShardStage stage : {ShardStage::kGradients, ShardStage::kParameters}) {
    expect_close(train_on({.accumulation = 4, .fsdp = FsdpOptions{.stage = stage}}), wanted);
  }
}

TEST(FsdpTest, ReplicasOfShardsDifferByRoundingOnly) {
  const Trained wanted = train_on({.ranks = 4});
  expect_close(train_on({.ranks = 4, .fsdp = FsdpOptions{}}), wanted);
  expect_close(train_on({.ranks = 4, .replicate = 2, .fsdp = FsdpOptions{}}), wanted);
  expect_close(train_on({.ranks = 3, .accumulation = 1, .fsdp = FsdpOptions{}}),
               train_on({.ranks = 3}));
}

TEST(FsdpTest, GathersInTheTypeOfAutocastHaveTheBitsOfDdp) {
  const auto bf16 = [](ShardStage stage, bool sync_each_batch) {
    return FsdpOptions{
        .stage = stage, .sync_each_batch = sync_each_batch, .param_dtype = at::kBFloat16};
  };
  for (const bool evaluate_in : {true, false}) {
    const Trained wanted = train_on({.autocast = true, .evaluate_in = evaluate_in});
    const Trained of_four =
        train_on({.accumulation = 4, .autocast = true, .evaluate_in = evaluate_in});
    for (const ShardStage stage : kStages) {
      SCOPED_TRACE(static_cast<int>(stage));
      expect_same_bits(
          train_on({.fsdp = bf16(stage, true), .autocast = true, .evaluate_in = evaluate_in}),
          wanted);
      expect_same_bits(train_on({.accumulation = 4,
                                 .fsdp = bf16(stage, false),
                                 .autocast = true,
                                 .evaluate_in = evaluate_in}),
                       of_four);
    }
  }
}

TEST(FsdpTest, ABlockHasOneTypeInAStep) {
  on_ranks(2, [](Communicator& group) {
    const std::shared_ptr<Communicator> world(std::shared_ptr<Communicator>(), &group);
    TestModel model;
    const auto strategy =
        make_fsdp(model.context(make_mesh(world, {.shard = 2})), {.param_dtype = at::kBFloat16});
    strategy->begin({.num_micro_batches = 2, .own = {group.rank()}});
    strategy->before_pass(true);
    at::Tensor loss;
    {
      const CpuAutocast casts(true);
      loss = model.loss(1);
    }
    try {
      model.loss(1);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "'fsdp' does not support a block that runs with and without autocast in one "
                   "step");
      EXPECT_EQ(error.hint(), "set 'accelerator.fsdp.param_dtype: fp32'");
    }
  });
}

TEST(FsdpTest, CanonicalSumsDependOnNoMesh) {
  constexpr int64_t kMicroBatches = 8;
  const Trained wanted = train_on({.ranks = 1, .accumulation = kMicroBatches, .canonical = true});
  const FsdpOptions options{.canonical = CanonicalOptions{.bucket_bytes = 512}};
  for (const auto& [ranks, replicate] : {std::pair(1, 1), {2, 1}, {4, 1}, {2, 2}, {4, 2}}) {
    for (const ShardStage stage : kStages) {
      SCOPED_TRACE(std::to_string(ranks) + " " + std::to_string(replicate) + " " +
                   std::to_string(static_cast<int>(stage)));
      FsdpOptions of_stage = options;
      of_stage.stage = stage;
      const Trained found = train_on({.ranks = ranks,
                                      .replicate = replicate,
                                      .accumulation = kMicroBatches / ranks,
                                      .fsdp = of_stage});
      EXPECT_EQ(found.norms, wanted.norms);
      for (const auto& [name, weight] : wanted.weights) {
        EXPECT_TRUE(at::equal(found.weights.at(name), weight)) << name;
      }
    }
  }
}

TEST(FsdpTest, RepeatedMicroBatchesDoNotCountInCanonicalSums) {
  const auto gradient = [](std::vector<int64_t> own) {
    const auto world = std::make_shared<FakeGroup>(1);
    TestModel model;
    const auto strategy = make_fsdp(model.context(make_mesh(world, {})),
                                    {.canonical = CanonicalOptions{.bucket_bytes = 512}});
    StepLayout layout{.num_micro_batches = 4, .own = {}};
    layout.own.append(own.begin(), own.end());
    run_passes(*strategy, layout,
               [&](size_t i) { model.loss(own[i] == kIdleMicroBatch ? 77 : own[i]).backward(); });
    return strategy->shards_of({{"embedding", model.embedding}})[0].local.grad();
  };
  EXPECT_TRUE(at::equal(gradient({0, 1}), gradient({0, kIdleMicroBatch, 1, kIdleMicroBatch})));
}

TEST(FsdpTest, KeptParametersHaveTheSameBits) {
  expect_same_bits(train_on({.fsdp = FsdpOptions{.reshard_after_forward = false}}), train_on({}));
}

}  // namespace
}  // namespace accel::fsdp_test
