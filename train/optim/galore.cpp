// GaLore (Zhao et al., 2024): AdamW whose moments of matrices are in a subspace of the gradients.
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/recipe/name_pattern.h"
#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"

namespace accel {
namespace {

enum class GaloreProjection { kStd, kReverseStd, kRight, kLeft };

}  // namespace

template <>
struct EnumNames<GaloreProjection> {
  static constexpr std::pair<GaloreProjection, const char*> kValues[] = {
      {GaloreProjection::kStd, "std"},
      {GaloreProjection::kReverseStd, "reverse_std"},
      {GaloreProjection::kRight, "right"},
      {GaloreProjection::kLeft, "left"}};
};

namespace {

struct GaloreOptions {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t rank = 128;
  int64_t update_proj_gap = 200;
  double scale = 0.25;
  GaloreProjection proj_type = GaloreProjection::kStd;
  std::vector<std::string> exclude = {"*embed*", "*wte.*", "*wpe.*", "*lm_head.*"};
  ParameterGroups<GaloreOptions> groups;
  double layer_decay = 1;

  static Schema<GaloreOptions> hyper_schema() {
    return Schema<GaloreOptions>()
        .field("lr", &GaloreOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("betas", &GaloreOptions::betas,
               "Decay rates of the running averages of the gradient and its square.",
               two_decay_rates())
        .hint_for({"adam_betas"})
        .field("eps", &GaloreOptions::eps, kEpsHelp, at_least(0.0))
        .hint_for(eps_names())
        .field("weight_decay", &GaloreOptions::weight_decay, kDecoupledDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("rank", &GaloreOptions::rank,
               "Dimension of the subspace. Lower saves memory and follows gradients less closely.",
               at_least<int64_t>(1))
        .hint_for({"galore_rank"})
        .field(
            "update_proj_gap", &GaloreOptions::update_proj_gap,
            "Updates between new subspaces, each a singular value decomposition of the gradient.",
            at_least<int64_t>(1))
        .hint_for({"galore_update_interval"})
        .field("scale", &GaloreOptions::scale,
               "Factor of projected updates relative to those of other parameters.", more_than(0.0))
        .hint_for({"galore_scale"})
        .field("proj_type", &GaloreOptions::proj_type,
               "The side that is projected: std the shorter one, reverse_std the longer one.")
        .hint_for({"galore_proj_type"})
        .field("exclude", &GaloreOptions::exclude,
               "Name patterns of matrices that are not projected: embeddings and the head.");
  }

  SlotNames slots() const { return {"step", "projection", "exp_avg", "exp_avg_sq"}; }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"betas", betas},
            {"eps", eps},
            {"weight_decay", weight_decay},
            {"rank", rank},
            {"update_proj_gap", update_proj_gap},
            {"scale", scale},
            {"proj_type", Codec<GaloreProjection>::write(proj_type).scalar()->text}};
  }

  bool is_projected(const Parameter& parameter) const {
    return parameter.shape().size() == 2 &&
           std::none_of(exclude.begin(), exclude.end(), [&](const std::string& pattern) {
             return name_matches(pattern, parameter.name);
           });
  }
  /// Whether the columns are projected, by right singular vectors.
  bool projects_columns(const Shape& matrix) const {
    const bool tall = matrix[0] >= matrix[1];
    return proj_type == GaloreProjection::kRight || (proj_type == GaloreProjection::kStd && tall) ||
           (proj_type == GaloreProjection::kReverseStd && !tall);
  }
  int64_t rank_of(const Shape& matrix) const { return std::min({rank, matrix[0], matrix[1]}); }
};

/// Projections are [rank, columns] of right singular vectors or [rows, rank] of left ones, and part
/// of the state: a resumed run keeps the subspace until it is due.
class GaloreAdamW final : public OptimizerOf<GaloreOptions> {
 public:
  static constexpr auto kName = "galore_adamw";
  static constexpr const char* kHintFor[] = {"galore", "galore_adamw_8bit",
                                             "galore_adamw_layerwise"};
  static constexpr auto kSummary =
      "AdamW whose state of matrices is in a low-rank subspace of their gradients.";

  static Schema<GaloreOptions> schema() { return with_groups(GaloreOptions::hyper_schema()); }

  GaloreAdamW(const GaloreOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

 private:
  at::Tensor fresh_slot(size_t group, const std::string& slot,
                        const Parameter& parameter) const override {
    const GaloreOptions& own = options(group);
    if (slot == "step") return OptimizerOf::fresh_slot(group, slot, parameter);
    if (!own.is_projected(parameter)) {
      if (slot == "projection") return {};
      return OptimizerOf::fresh_slot(group, slot, parameter);
    }
    const Shape matrix = parameter.shape();
    const int64_t rank = own.rank_of(matrix);
    const bool columns = own.projects_columns(matrix);
    const bool whole = slot == "projection" ? !columns : columns;  // has all rows
    const Shape shape = whole ? Shape{matrix[0], rank} : Shape{rank, matrix[1]};
    return at::zeros(shape, parameter.local.options().requires_grad(false));
  }

  void update(const GaloreOptions& options, GroupUpdate& work) override {
    for (size_t i = 0; i < work.parameters.size(); ++i) update_one(options, work, i);
  }

  static void project(const GaloreOptions& options, const GroupUpdate& work, size_t i) {
    const Shape matrix = work.origins[i]->shape();
    const at::Tensor whole = work.gradients[i].to(at::kFloat);
    const auto svd = at::linalg_svd(whole, /*full_matrices=*/false);
    const int64_t rank = options.rank_of(matrix);
    const bool columns = options.projects_columns(matrix);
    work.slots[1][i].copy_(columns ? std::get<2>(svd).narrow(0, 0, rank)
                                   : std::get<0>(svd).narrow(1, 0, rank));
  }

  static void update_one(const GaloreOptions& options, const GroupUpdate& work, size_t i) {
    const at::Tensor &parameter = work.parameters[i], &projection = work.slots[1][i];
    const at::Tensor &average = work.slots[2][i], &squares = work.slots[3][i];
    const double beta1 = options.betas[0], beta2 = options.betas[1];
    const double before = work.slots[0][i].item().toDouble();
    at::Tensor gradient = work.gradients[i];
    const bool columns = projection.defined() && options.projects_columns(work.origins[i]->shape());
    if (projection.defined()) {
      if (std::fmod(before, static_cast<double>(options.update_proj_gap)) == 0) {
        project(options, work, i);
      }
      gradient = columns ? gradient.matmul(projection.t()) : projection.t().matmul(gradient);
    }
    work.slots[0][i].add_(1);
    average.mul_(beta1).add_(gradient, 1 - beta1);
    squares.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    const at::Tensor divisor = squares.sqrt().add_(options.eps);
    at::Tensor update = average.div(divisor);
    if (projection.defined()) {
      update = columns ? update.matmul(projection) : projection.matmul(update);
      update.mul_(options.scale);
    }
    const double step = before + 1;
    const double size =
        work.lr * std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
    parameter.add_(update, -size);
    if (options.weight_decay > 0) parameter.mul_(1 - work.lr * options.weight_decay);
  }
};

const Register<GaloreAdamW> galore_adamw;

}  // namespace
}  // namespace accel
