// REINFORCE (Williams, 1992): policy gradients on the cart-pole environment.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rand.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/tasks/cart_pole.h"

namespace accel {
namespace {

constexpr int64_t kStateSize = 4;
constexpr double kSmallSpread = 1e-6;

struct ReinforceOptions {
  int64_t max_episode_steps = 200;
  double gamma = 0.99;
  double baseline_decay = 0.9;
};

/// The episodes of a batch, time step by time step over all of them.
struct Episodes {
  std::vector<float> states;       ///< kStateSize per time step
  std::vector<int64_t> actions;    ///< 1: right
  std::vector<size_t> episode_of;  ///< episode of each time step
  std::vector<double> returns;     ///< discounted return of each time step
  std::vector<int64_t> lengths;    ///< by episode
};

class Reinforce final : public Task {
 public:
  static constexpr auto kName = "reinforce";
  static constexpr auto kSummary = "REINFORCE policy gradients on the cart-pole environment.";

  static Schema<ReinforceOptions> schema() {
    using Options = ReinforceOptions;
    return Schema<Options>()
        .field("max_episode_steps", &Options::max_episode_steps,
               "Time steps after which an episode ends.", at_least<int64_t>(1))
        .renamed_from("limit")
        .field("gamma", &Options::gamma,
               "Discount factor of the next time step's reward. Lower values weight early rewards.",
               between(0.0, 1.0))
        .renamed_from("discount")
        .hint_for({"discount_factor"})
        .field("baseline_decay", &Options::baseline_decay,
               "Decay of the running mean and variance of returns, the baseline. Higher averages "
               "over more steps.",
               within(0.0, 1.0))
        .renamed_from("memory");
  }

  Reinforce(const ReinforceOptions& options, const TaskContext& context) : options_(options) {
    const DataShape& data = context.data;
    if (data.input == Shape{kStateSize} && data.input_type == DType::kF32) return;
    throw Error(ExitCode::kRecipe,
                "the task 'reinforce' needs samples of 4 F32 numbers, a cart-pole state, not " +
                    to_string(data.input),
                "the dataset 'synthetic/cart_pole' has them");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return loss_of(model, batch, sample_episodes(model, batch));
  }

  /// The loss is 1 - length / limit of episodes with the likeliest actions.
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const Episodes episodes = run_episodes(model, batch, false);
    std::vector<float> reached;
    for (const int64_t length : episodes.lengths) {
      reached.push_back(static_cast<float>(length) /
                        static_cast<float>(options_.max_episode_steps));
    }
    const at::Tensor output = tensor_of(reached.data(), {batch.size(), 1});
    return {output.mean().neg().add(1), output};
  }

  std::vector<std::string> metrics() const override { return {}; }
  std::vector<std::string> default_metrics() const override { return {}; }

  double step(StepContext& context) override {
    const std::vector<Batch>& batches = context.micro_batches();
    std::vector<at::Tensor> rows(batches.size());
    const double loss = context.update(kRecipeOptimizer, [&](const Batch& batch) {
      const Episodes episodes = sample_episodes(context.model(), batch);
      rows[static_cast<size_t>(&batch - batches.data())] = sums_by_episode(episodes);
      return loss_of(context.model(), batch, episodes);
    });
    // In the order of the global batch, so that sums are the same for any number of ranks.
    const at::Tensor all = context.gather_for_metrics(rows);
    double sums[3] = {0, 0, 0};
    const auto* number = all.const_data_ptr<double>();
    for (int64_t i = 0; i < all.numel(); ++i) sums[i % 3] += number[i];
    const double kept = known_ ? options_.baseline_decay : 0;
    mean_ = kept * mean_ + (1 - kept) * sums[1] / sums[0];
    square_ = kept * square_ + (1 - kept) * sums[2] / sums[0];
    known_ = true;
    context.log("length", sums[0] / static_cast<double>(all.size(0)));
    return loss;
  }

  StateDict state() const override {
    StateDict state;
    state.numbers = {{"known", known_ ? 1 : 0}, {"mean", mean_}, {"square", square_}};
    return state;
  }
  void load(const StateDict& state) override {
    for (const char* name : {"known", "mean", "square"}) {
      if (state.numbers.contains(name)) continue;
      throw CheckpointError(text("the checkpoint has no '{}' of the task 'reinforce'", name));
    }
    known_ = state.numbers.at("known") != 0;
    mean_ = state.numbers.at("mean");
    square_ = state.numbers.at("square");
  }

 private:
  static at::Tensor tensor_of(const float* values, at::IntArrayRef sizes) {
    const at::Tensor out = at::empty(sizes, at::kFloat);
    std::copy(values, values + out.numel(), out.mutable_data_ptr<float>());
    return out;
  }

  /// Episodes with sampled actions, for training.
  Episodes sample_episodes(Model& model, const Batch& batch) const {
    const at::NoGradGuard no_grad;
    return run_episodes(model, batch, true);
  }

  at::Tensor loss_of(Model& model, const Batch& batch, const Episodes& episodes) const {
    const auto steps = static_cast<int64_t>(episodes.actions.size());
    const at::Tensor states = tensor_of(episodes.states.data(), {steps, kStateSize});
    const at::Tensor actions = at::empty({steps, 1}, at::kLong);
    std::copy(episodes.actions.begin(), episodes.actions.end(),
              actions.mutable_data_ptr<int64_t>());
    std::vector<float> gains;
    const double spread = std::sqrt(std::max(square_ - mean_ * mean_, 0.0)) + kSmallSpread;
    for (const double value : episodes.returns) {
      gains.push_back(static_cast<float>((value - mean_) / (known_ ? spread : 1)));
    }
    const at::Tensor likely = scores(model, states.to(batch.inputs.device()));
    const at::Tensor chosen = likely.gather(1, actions).squeeze(1);
    const at::Tensor gain = tensor_of(gains.data(), {steps});
    return chosen.mul(gain).sum().div(-static_cast<double>(batch.size()));
  }

  /// [episodes, 3]: time steps, sum of returns, sum of squared returns.
  static at::Tensor sums_by_episode(const Episodes& episodes) {
    const at::Tensor out = at::full({static_cast<int64_t>(episodes.lengths.size()), 3}, 0,
                                    at::TensorOptions(at::kDouble));
    auto* sums = out.mutable_data_ptr<double>();
    for (size_t m = 0; m < episodes.episode_of.size(); ++m) {
      double* row = sums + 3 * episodes.episode_of[m];
      row[0] += 1;
      row[1] += episodes.returns[m];
      row[2] += episodes.returns[m] * episodes.returns[m];
    }
    return out;
  }

  /// Log-probabilities of the actions, on the CPU, where the environments are.
  static at::Tensor scores(Model& model, const at::Tensor& states) {
    const at::Tensor out = model.forward(states).to(at::kCPU, at::kFloat);
    if (out.dim() == 2 && out.size(1) == 2) return at::log_softmax(out, 1);
    throw Error(ExitCode::kRecipe,
                "the task 'reinforce' needs logits of two actions for each state, but the model's "
                "output is " +
                    to_string(Shape(out.sizes().begin(), out.sizes().end())));
  }

  /// Runs an episode from each sample, its initial state.
  Episodes run_episodes(Model& model, const Batch& batch, bool sample) const {
    std::vector<CartPole> carts;
    const at::Tensor starts = batch.inputs.cpu().contiguous();
    const auto* start = starts.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.size(); ++i, start += kStateSize) {
      carts.emplace_back(CartPole::State{start[0], start[1], start[2], start[3]});
    }
    Episodes out;
    out.lengths.assign(carts.size(), 0);
    std::vector<size_t> alive;
    for (size_t i = 0; i < carts.size(); ++i) alive.push_back(i);
    std::vector<size_t>& episode_of = out.episode_of;
    for (int64_t t = 0; t < options_.max_episode_steps && !alive.empty(); ++t) {
      std::vector<float> states;
      for (const size_t i : alive) {
        for (const double value : carts[i].state()) states.push_back(static_cast<float>(value));
      }
      const at::Tensor seen =
          tensor_of(states.data(), {static_cast<int64_t>(states.size()) / kStateSize, kStateSize});
      const std::vector<bool> right = choose(model, seen.to(batch.inputs.device()), sample);
      out.states.insert(out.states.end(), states.begin(), states.end());
      std::vector<size_t> still;
      for (size_t a = 0; a < alive.size(); ++a) {
        episode_of.push_back(alive[a]);
        out.actions.push_back(right[a] ? 1 : 0);
        ++out.lengths[alive[a]];
        if (carts[alive[a]].push(right[a])) still.push_back(alive[a]);
      }
      alive = std::move(still);
    }
    // The reward of each time step is 1.
    std::vector<double> follows(carts.size());
    out.returns.resize(episode_of.size());
    for (size_t m = episode_of.size(); m-- > 0;) {
      double& value = follows[episode_of[m]];
      value = 1 + options_.gamma * value;
      out.returns[m] = value;
    }
    return out;
  }

  static std::vector<bool> choose(Model& model, const at::Tensor& states, bool sample) {
    const int64_t count = states.size(0);
    const at::Tensor likely = scores(model, states).exp().select(1, 1);
    const at::Tensor bar = sample ? at::rand({count}, at::kFloat) : at::full({count}, 0.5F);
    const at::Tensor right = likely.gt(bar).to(at::kByte).contiguous();
    const auto* chosen = right.const_data_ptr<uint8_t>();
    return std::vector<bool>(chosen, chosen + count);
  }

  ReinforceOptions options_;
  bool known_ = false;            ///< whether mean_ and square_ are set
  double mean_ = 0, square_ = 0;  ///< running means of returns and of squared returns
};

const Register<Reinforce> reinforce;

}  // namespace
}  // namespace accel
