// A loop of acting and learning (REINFORCE, Williams, 1992): a policy walks on a grid, and learns
// from how long its walks took. The dataset gives where walks begin.
//
// A task may call the model as often as it likes within one pass. What it keeps from step to step
// goes through state() and load(), and is made of sums over all ranks, so that it is alike on each.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/api/model.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

constexpr int64_t kGridMoves = 4;  ///< right, left, up, down
constexpr auto kGridMean = "mean";

struct GridWalkStartsOptions {
  int64_t length = 1024;
  int64_t reach = 3;
};

class GridWalkStarts final : public Dataset {
 public:
  static constexpr auto kName = "example/grid_walk";
  static constexpr auto kSummary = "How far the goal is, to the right and up, where a walk begins.";

  static Schema<GridWalkStartsOptions> schema() {
    using Options = GridWalkStartsOptions;
    return Schema<Options>()
        .field("length", &Options::length, "Walks.", at_least<int64_t>(1))
        .field("reach", &Options::reach, "The goal is at most this far, each way.",
               between<int64_t>(1, 1000));
  }

  GridWalkStarts(const GridWalkStartsOptions& options, const DatasetContext& context)
      : options_(options), context_(context) {}

  int64_t size() const override { return options_.length; }

  /// The label is a move towards the goal; the task does without it.
  Sample sample(int64_t index) const override {
    SampleRng rng(context_.seed, context_.train ? 1 : 2, static_cast<uint64_t>(index));
    Array input(DType::kF32, {2});
    float* far = input.mutable_as<float>().data();
    do {
      for (int i = 0; i < 2; ++i) {
        const uint64_t cell = rng.below(static_cast<uint64_t>(2 * options_.reach + 1));
        far[i] = static_cast<float>(static_cast<int64_t>(cell) - options_.reach);
      }
    } while (far[0] == 0 && far[1] == 0);
    const int64_t move = far[0] > 0 ? 0 : far[0] < 0 ? 1 : far[1] > 0 ? 2 : 3;
    return {input, Array::label(move)};
  }

  DataShape shape() const override {
    return {.input = {2}, .target = {}, .target_type = DType::kI64, .classes = kGridMoves};
  }

  std::string fingerprint() const override {
    return std::string(kName) + " " + std::to_string(options_.length) + " " +
           std::to_string(options_.reach) + " " + std::to_string(context_.seed) +
           (context_.train ? " train" : " eval");
  }

 private:
  GridWalkStartsOptions options_;
  DatasetContext context_;
};

struct GridWalkOptions {
  int64_t max_episode_steps = 16;
  double baseline_decay = 0.9;
};

/// All walks of a batch. Both are [moves, batch].
struct GridWalks {
  at::Tensor likely;   ///< logarithm of how likely the move was
  at::Tensor walking;  ///< 1 until the goal is reached, then 0
};

class GridWalk final : public Task {
 public:
  static constexpr auto kName = "example/grid_walk";
  static constexpr auto kSummary = "A policy that learns to walk to a goal by walking.";

  static Schema<GridWalkOptions> schema() {
    return Schema<GridWalkOptions>()
        .field("max_episode_steps", &GridWalkOptions::max_episode_steps,
               "Moves after which a walk is given up.", at_least<int64_t>(1))
        .renamed_from("limit")
        .field("baseline_decay", &GridWalkOptions::baseline_decay,
               "How much of the mean of earlier walks, by which a walk is judged, a step keeps.",
               within(0.0, 1.0))
        .renamed_from("memory");
  }

  GridWalk(const GridWalkOptions& options, const TaskContext& context) : options_(options) {
    if (context.data.input == Shape{2} && context.data.input_type == DType::kF32) return;
    throw Error(ExitCode::kRecipe,
                "the task 'example/grid_walk' wants samples of 2 F32 numbers, not " +
                    to_string(context.data.input),
                "the dataset 'example/grid_walk' has them");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return loss_of(walk(model, batch, 0), batch);
  }

  /// The share of the limit that the likeliest moves take to the goal.
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const GridWalks walks = walk(model, batch, kLikeliest);
    const at::Tensor taken = walks.walking.sum(0).unsqueeze(1);
    return {taken.mean().div(static_cast<double>(options_.max_episode_steps)), taken};
  }

  double step(StepContext& context) override {
    // Moves still to be made, summed over all moments, and how many moments and walks there were.
    const at::Tensor sums = at::full({3}, 0, at::TensorOptions(at::kDouble));
    const double loss = context.update(kRecipeOptimizer, [&](const Batch& batch) {
      const GridWalks walks = walk(context.model(), batch, context.step());
      sums[0].add_(to_go(walks).mul(walks.walking).sum().to(at::kCPU, at::kDouble));
      sums[1].add_(walks.walking.sum().to(at::kCPU, at::kDouble));
      sums[2].add_(static_cast<double>(batch.size()));
      return loss_of(walks, batch);
    });
    const at::Tensor all = context.ranks().reduce(sums, Reduce::kSum);
    const auto* sum = all.const_data_ptr<double>();
    const double kept = mean_ > 0 ? options_.baseline_decay : 0;
    mean_ = kept * mean_ + (1 - kept) * sum[0] / sum[1];
    context.log("moves", sum[1] / sum[2]);
    return loss;
  }

  StateDict state() const override {
    StateDict state;
    state.numbers[kGridMean] = mean_;
    return state;
  }
  void load(const StateDict& state) override {
    const auto found = state.numbers.find(kGridMean);
    if (found == state.numbers.end()) {
      throw CheckpointError("the checkpoint holds no 'mean' of the task 'example/grid_walk'");
    }
    mean_ = found->second;
  }

  std::vector<std::string> metrics() const override { return {}; }
  std::vector<std::string> default_metrics() const override { return {}; }

 private:
  static constexpr int64_t kLikeliest = -1;  ///< in place of a step: leaves nothing to chance

  static at::Tensor to_go(const GridWalks& walks) {
    return walks.walking.flip({0}).cumsum(0).flip({0});
  }

  at::Tensor loss_of(const GridWalks& walks, const Batch& batch) const {
    const at::Tensor gain = to_go(walks).neg().add(mean_).mul(walks.walking);
    return walks.likely.mul(gain).sum().div(-static_cast<double>(batch.size()));
  }

  /// [batch, moves] of how likely each move is.
  static at::Tensor scores(Model& model, const at::Tensor& far) {
    const at::Tensor out = model.forward(far).to(at::kFloat);
    if (out.dim() == 2 && out.size(1) == kGridMoves) return out.log_softmax(1);
    throw Error(ExitCode::kRecipe,
                "the task 'example/grid_walk' wants scores of 4 moves, but the model's output is " +
                    to_string(Shape(out.sizes().begin(), out.sizes().end())));
  }

  GridWalks walk(Model& model, const Batch& batch, int64_t step) const {
    at::Tensor far = batch.inputs.detach().to(at::kFloat);
    std::vector<at::Tensor> likely, walking;
    at::Tensor still = far.abs().sum(1).gt(0.5).to(at::kFloat);
    for (int64_t moment = 0; moment < options_.max_episode_steps; ++moment) {
      const at::Tensor log_chance = scores(model, far);
      const at::Tensor move = step == kLikeliest ? log_chance.argmax(1)
                                                 : drawn(log_chance.detach(), batch, step, moment);
      likely.push_back(log_chance.gather(1, move.unsqueeze(1)).squeeze(1));
      walking.push_back(still);
      const at::Tensor sign = move.remainder(2).mul(-2).add(1).mul(still);
      const at::Tensor up = sign.mul(move.ge(2).to(at::kFloat));
      far = far.sub(at::stack({sign.sub(up), up}, 1));
      still = still.mul(far.abs().sum(1).gt(0.5).to(at::kFloat));
    }
    return {at::stack(likely), at::stack(walking)};
  }

  /// A move for each sample, by chance that follows from the step, the moment and the sample.
  static at::Tensor drawn(const at::Tensor& log_chance, const Batch& batch, int64_t step,
                          int64_t moment) {
    const at::Tensor bar = at::empty({batch.size(), 1}, at::kFloat);
    auto* value = bar.mutable_data_ptr<float>();
    for (const int64_t id : batch.ids) {
      SampleRng rng(static_cast<uint64_t>(moment), static_cast<uint64_t>(step),
                    static_cast<uint64_t>(id));
      *value++ = static_cast<float>(rng.uniform());
    }
    const at::Tensor below = log_chance.exp().cumsum(1).le(bar.to(log_chance.device()));
    return below.sum(1).clamp_max(kGridMoves - 1);
  }

  GridWalkOptions options_;
  double mean_ = 0;  ///< of the moves that are left at a moment; 0 before the first step
};

const Register<GridWalkStarts> grid_walk_starts;
const Register<GridWalk> grid_walk;

}  // namespace
}  // namespace accel
