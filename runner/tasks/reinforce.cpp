// REINFORCE (Williams, 1992): the model is a policy that learns from what its own actions bring.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rand.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/model.h"
#include "core/registry.h"
#include "core/task.h"
#include "runner/tasks/cart_pole.h"

namespace accel {
namespace {

constexpr int64_t kStateSize = 4;
constexpr double kSmallSpread = 1e-6;

struct ReinforceOptions {
  int64_t limit = 200;
  double discount = 0.99;
  double memory = 0.9;
};

/// All that a batch of policies' lives holds, moment by moment.
struct Lives {
  std::vector<float> states;     ///< kStateSize per moment
  std::vector<int64_t> actions;  ///< 1: right
  std::vector<size_t> whose;     ///< life each moment is of
  std::vector<double> returns;   ///< discounted, of all that follows
  std::vector<int64_t> lengths;  ///< by life
};

class Reinforce final : public Task {
 public:
  static constexpr auto kName = "reinforce";
  static constexpr auto kSummary = "Policy gradients on a pole that is to be balanced on a cart.";

  static Schema<ReinforceOptions> schema() {
    using Options = ReinforceOptions;
    return Schema<Options>()
        .field("limit", &Options::limit, "Moments after which a balanced pole is enough.",
               at_least<int64_t>(1))
        .field("discount", &Options::discount, "What a reward one moment later counts.",
               between(0.0, 1.0))
        .field("memory", &Options::memory,
               "How much of the mean and spread of earlier returns, by which returns are judged, "
               "a step keeps.",
               within(0.0, 1.0));
  }

  Reinforce(const ReinforceOptions& options, const TaskContext& context) : options_(options) {
    const DataShape& data = context.data;
    if (data.input == Shape{kStateSize} && data.input_type == DType::kF32) return;
    throw Error(ExitCode::kRecipe,
                "the task 'reinforce' wants samples of 4 F32 numbers, a cart and its pole, not " +
                    to_string(data.input),
                "the dataset 'synthetic/cart_pole' has them");
  }

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return loss_of(model, batch, live_by_chance(model, batch));
  }

  /// The share of the limit that the likeliest actions do not reach.
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const Lives lives = live(model, batch, false);
    std::vector<float> reached;
    for (const int64_t length : lives.lengths) {
      reached.push_back(static_cast<float>(length) / static_cast<float>(options_.limit));
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
      const Lives lives = live_by_chance(context.model(), batch);
      rows[static_cast<size_t>(&batch - batches.data())] = sums_by_life(lives);
      return loss_of(context.model(), batch, lives);
    });
    // In the window's order, so that the sums are the same for any number of ranks.
    const at::Tensor all = context.gather_for_metrics(rows);
    double sums[3] = {0, 0, 0};
    const auto* number = all.const_data_ptr<double>();
    for (int64_t i = 0; i < all.numel(); ++i) sums[i % 3] += number[i];
    const double kept = known_ ? options_.memory : 0;
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
      throw CheckpointError(std::string("the checkpoint holds no '") + name +
                            "' of the task 'reinforce'");
    }
    known_ = state.numbers.at("known") != 0;
    mean_ = state.numbers.at("mean");
    square_ = state.numbers.at("square");
  }

 private:
  static at::Tensor tensor_of(const float* values, std::vector<int64_t> sizes) {
    const at::Tensor out = at::empty(sizes, at::kFloat);
    std::copy(values, values + out.numel(), out.mutable_data_ptr<float>());
    return out;
  }

  /// To learn from.
  Lives live_by_chance(Model& model, const Batch& batch) const {
    const at::NoGradGuard no_grad;
    return live(model, batch, true);
  }

  at::Tensor loss_of(Model& model, const Batch& batch, const Lives& lives) const {
    const auto moments = static_cast<int64_t>(lives.actions.size());
    const at::Tensor states = tensor_of(lives.states.data(), {moments, kStateSize});
    const at::Tensor actions = at::empty({moments, 1}, at::kLong);
    std::copy(lives.actions.begin(), lives.actions.end(), actions.mutable_data_ptr<int64_t>());
    std::vector<float> gains;
    const double spread = std::sqrt(std::max(square_ - mean_ * mean_, 0.0)) + kSmallSpread;
    for (const double value : lives.returns) {
      gains.push_back(static_cast<float>((value - mean_) / (known_ ? spread : 1)));
    }
    const at::Tensor likely = scores(model, states.to(batch.inputs.device()));
    const at::Tensor chosen = likely.gather(1, actions).squeeze(1);
    const at::Tensor gain = tensor_of(gains.data(), {moments});
    return chosen.mul(gain).sum().div(-static_cast<double>(batch.size()));
  }

  /// [lives, 3]: moments, and the sums of their returns and of these squared.
  static at::Tensor sums_by_life(const Lives& lives) {
    const at::Tensor out = at::full({static_cast<int64_t>(lives.lengths.size()), 3}, 0,
                                    at::TensorOptions(at::kDouble));
    auto* sums = out.mutable_data_ptr<double>();
    for (size_t m = 0; m < lives.whose.size(); ++m) {
      double* life = sums + 3 * lives.whose[m];
      life[0] += 1;
      life[1] += lives.returns[m];
      life[2] += lives.returns[m] * lives.returns[m];
    }
    return out;
  }

  /// Logarithms of how likely each action is, on the CPU, where the carts are.
  static at::Tensor scores(Model& model, const at::Tensor& states) {
    const at::Tensor out = model.forward(states).to(at::kCPU, at::kFloat);
    if (out.dim() == 2 && out.size(1) == 2) return at::log_softmax(out, 1);
    throw Error(ExitCode::kRecipe,
                "the task 'reinforce' wants scores of two actions for each state, but the model's "
                "output is " +
                    to_string(Shape(out.sizes().begin(), out.sizes().end())));
  }

  /// Each sample of the batch is the state that a life begins with.
  Lives live(Model& model, const Batch& batch, bool by_chance) const {
    std::vector<CartPole> carts;
    const at::Tensor starts = batch.inputs.cpu().contiguous();
    const auto* start = starts.const_data_ptr<float>();
    for (int64_t i = 0; i < batch.size(); ++i, start += kStateSize) {
      carts.emplace_back(CartPole::State{start[0], start[1], start[2], start[3]});
    }
    Lives out;
    out.lengths.assign(carts.size(), 0);
    std::vector<size_t> alive;
    for (size_t i = 0; i < carts.size(); ++i) alive.push_back(i);
    std::vector<size_t>& whose = out.whose;
    for (int64_t moment = 0; moment < options_.limit && !alive.empty(); ++moment) {
      std::vector<float> states;
      for (const size_t i : alive) {
        for (const double value : carts[i].state()) states.push_back(static_cast<float>(value));
      }
      const at::Tensor seen =
          tensor_of(states.data(), {static_cast<int64_t>(states.size()) / kStateSize, kStateSize});
      const std::vector<bool> right = choose(model, seen.to(batch.inputs.device()), by_chance);
      out.states.insert(out.states.end(), states.begin(), states.end());
      std::vector<size_t> still;
      for (size_t a = 0; a < alive.size(); ++a) {
        whose.push_back(alive[a]);
        out.actions.push_back(right[a] ? 1 : 0);
        ++out.lengths[alive[a]];
        if (carts[alive[a]].push(right[a])) still.push_back(alive[a]);
      }
      alive = std::move(still);
    }
    // Each moment is worth 1.
    std::vector<double> follows(carts.size());
    out.returns.resize(whose.size());
    for (size_t m = whose.size(); m-- > 0;) {
      double& value = follows[whose[m]];
      value = 1 + options_.discount * value;
      out.returns[m] = value;
    }
    return out;
  }

  static std::vector<bool> choose(Model& model, const at::Tensor& states, bool by_chance) {
    const int64_t count = states.size(0);
    const at::Tensor likely = scores(model, states).exp().select(1, 1);
    const at::Tensor bar = by_chance ? at::rand({count}, at::kFloat) : at::full({count}, 0.5F);
    const at::Tensor right = likely.gt(bar).to(at::kByte).contiguous();
    const auto* chosen = right.const_data_ptr<uint8_t>();
    return std::vector<bool>(chosen, chosen + count);
  }

  ReinforceOptions options_;
  bool known_ = false;            ///< whether there are earlier returns
  double mean_ = 0, square_ = 0;  ///< of earlier returns, and of their squares
};

const Register<Reinforce> reinforce;

}  // namespace
}  // namespace accel
