// Adafactor as torch.optim.Adafactor: second moments factored by row and column.
#include <ATen/ops/matmul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  std::vector<double> eps = {0x1p-23, 1e-3};
  double d = 1;
  double weight_decay = 0;
  bool maximize = false;
  ParameterGroups<AdafactorOptions> groups;
  double layer_decay = 1;

  static Schema<AdafactorOptions> hyper_schema() {
    return Schema<AdafactorOptions>()
        .field(
            "lr", &AdafactorOptions::lr,
            "Upper bound of the learning rate, which also decays with the square root of the step.",
            at_least(0.0))
        .hint_for(lr_names())
        .field("beta2_decay", &AdafactorOptions::beta2_decay,
               "Exponent of the step in the decay of the second moment. Lower forgets old "
               "gradients more slowly.",
               Rule<double>{[](const double& v) { return v <= 0; }, "at most 0", "\"maximum\": 0"})
        .field("eps", &AdafactorOptions::eps,
               "Lower bounds of the root of the second moment (default: float32's precision) and "
               "of a parameter's RMS.",
               two_not_negative())
        .hint_for(eps_names())
        .field("d", &AdafactorOptions::d, "Clipping threshold of an update's RMS.", at_least(1.0))
        .field("weight_decay", &AdafactorOptions::weight_decay, kDecoupledDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("maximize", &AdafactorOptions::maximize, kMaximizeHelp);
  }

  static Rule<std::vector<double>> two_not_negative() {
    return {[](const std::vector<double>& v) { return v.size() == 2 && v[0] >= 0 && v[1] >= 0; },
            "two numbers of at least 0", "\"minItems\": 2, \"maxItems\": 2"};
  }

  SlotNames slots() const { return {"step", "row_var", "col_var", "variance"}; }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"beta2_decay", beta2_decay},
            {"eps", eps},
            {"d", d},
            {"weight_decay", weight_decay},
            {"foreach", std::monostate{}},
            {"maximize", maximize}};
  }
};

/// State of one parameter: `variance` for vectors and scalars, row and column variances for
/// matrices.
struct Moments {
  const at::Tensor& row;
  const at::Tensor& column;
  const at::Tensor& variance;
};

double root_mean_square(const at::Tensor& tensor) {
  return tensor.norm(2).item<double>() / std::sqrt(static_cast<double>(tensor.numel()));
}

at::Tensor mean_square(const at::Tensor& tensor, int64_t dim) {
  const auto count = static_cast<double>(tensor.size(dim));
  return at::norm(tensor, 2, dim, /*keepdim=*/true).square_().div_(count);
}

/// Updates the moments with the gradient and returns the second moment of every element.
at::Tensor second_moment(const Moments& moments, const at::Tensor& gradient, double keep_out,
                         double floor) {
  if (gradient.dim() <= 1) {
    moments.variance.lerp_(gradient.mul(gradient), keep_out);
    return moments.variance.clone();
  }
  moments.row.lerp_(mean_square(gradient, -1), keep_out);
  moments.column.lerp_(mean_square(gradient, -2), keep_out);
  const at::Tensor scale = moments.row.mean(-2, /*keepdim=*/true).clamp_min_(floor);
  return at::matmul(moments.row, moments.column).div_(scale);
}

class Adafactor final : public OptimizerOf<AdafactorOptions> {
 public:
  static constexpr auto kName = "adafactor";
  static constexpr auto kSummary =
      "Adam-like scaling with factored second moments: little memory for matrices.";

  static Schema<AdafactorOptions> schema() { return with_groups(AdafactorOptions::hyper_schema()); }

  Adafactor(const AdafactorOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

 private:
  at::Tensor fresh_slot(size_t group, const std::string& slot,
                        const at::Tensor& parameter) const override {
    const bool matrix = parameter.dim() > 1;
    if (slot == "step" || (slot == "variance" && !matrix)) {
      return OptimizerOf::fresh_slot(group, slot, parameter);
    }
    if (slot == "variance" || !matrix) return {};
    std::vector<int64_t> shape = parameter.sizes().vec();
    shape[shape.size() - (slot == "row_var" ? 1 : 2)] = 1;
    return at::zeros(shape, parameter.options().requires_grad(false));
  }

  void update(const AdafactorOptions& options, GroupUpdate& work) override {
    for (size_t i = 0; i < work.parameters.size(); ++i) {
      const at::Tensor& parameter = work.parameters[i];
      const at::Tensor gradient = options.maximize ? work.gradients[i].neg() : work.gradients[i];
      const double step = work.slots[0][i].add_(1).item<double>();
      const double rate = std::min(work.lr, 1 / std::sqrt(step)) *
                          std::max(options.eps[1], root_mean_square(parameter));
      if (options.weight_decay != 0) parameter.mul_(1 - work.lr * options.weight_decay);
      const Moments moments{work.slots[1][i], work.slots[2][i], work.slots[3][i]};
      const double floor = options.eps[0];
      const at::Tensor direction =
          second_moment(moments, gradient, std::pow(step, options.beta2_decay), floor)
              .clamp_min_(floor * floor)
              .rsqrt_()
              .mul_(gradient);
      const double too_large = std::max(1.0, root_mean_square(direction) / options.d);
      parameter.add_(direction, -rate / too_large);
    }
  }
};

const Register<Adafactor> adafactor;

}  // namespace
}  // namespace accel
