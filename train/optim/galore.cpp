// GaLore (Zhao et al., 2024): AdamW whose moments of matrices are in a subspace of the gradients.
#include <ATen/ops/linalg_svd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "core/recipe/name_pattern.h"
#include "parallel/share_region.h"
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
      : OptimizerOf(options, context) {
    const OptimizerState fresh = GroupedOptimizer::state();
    for (size_t group = 0; group < fresh.groups.size(); ++group) {
      for (const auto& parameter : fresh.groups[group].parameters)
        group_of_[parameter.name] = group;
    }
  }

  bool supports_shards() const override { return true; }
  bool supports_swapping() const override { return false; }
  /// A singular value decomposition waits for the device, and the host counts when it is due.
  bool can_skip() const override { return false; }

 private:
  bool counts_on_device() const override { return false; }

  std::map<std::string, size_t> group_of_;  ///< by parameter

  Shape slot_shape(const std::string& slot, const Parameter& parameter) const override {
    const GaloreOptions& own = options(group_of_.at(parameter.name));
    if (slot == "step" || !own.is_projected(parameter)) {
      return OptimizerOf::slot_shape(slot, parameter);
    }
    const Shape matrix = parameter.shape();
    const int64_t rank = own.rank_of(matrix);
    const bool columns = own.projects_columns(matrix);
    const bool has_all_rows = slot == "projection" ? !columns : columns;
    return has_all_rows ? Shape{matrix[0], rank} : Shape{rank, matrix[1]};
  }

  at::Tensor fresh_slot(size_t group, const std::string& slot,
                        const Parameter& parameter) const override {
    if (slot == "projection" && !options(group).is_projected(parameter)) return {};
    return OptimizerOf::fresh_slot(group, slot, parameter);
  }

  /// Of one parameter; those of a matrix are whole on each rank.
  struct Tensors {
    at::Tensor gradient, projection, average, squares;
  };

  void update(const GaloreOptions& options, GroupUpdate& work) override {
    for (size_t i = 0; i < work.parameters.size(); ++i) {
      const Parameter& origin = *work.origins[i];
      const Tensors own = {work.gradients[i], work.slots[1][i], work.slots[2][i], work.slots[3][i]};
      const at::Tensor& step = work.slots[0][i];
      at::Tensor direction;
      if (origin.is_replicated() || !own.projection.defined()) {
        direction = direction_of(options, own, origin, step);
      } else {
        const Tensors whole = gathered(own, origin);
        direction = shards()->part_of(direction_of(options, whole, origin, step), origin);
        keep_part(whole.projection, own.projection, "projection", origin);
        keep_part(whole.average, own.average, "exp_avg", origin);
        keep_part(whole.squares, own.squares, "exp_avg_sq", origin);
      }
      apply(options, work, i, direction);
    }
  }

  /// A slot as the ranks divide it.
  Parameter placed_slot(const at::Tensor& local, const std::string& slot,
                        const Parameter& origin) const {
    Shape whole = slot_shape(slot, origin);
    std::vector<Placement> placements = state_placements(whole, origin);
    return {slot, local, std::move(whole), std::move(placements)};
  }

  at::Tensor whole_slot(const at::Tensor& local, const std::string& slot,
                        const Parameter& origin) const {
    const Parameter placed = placed_slot(local, slot, origin);
    return placed.is_replicated() ? local : shards()->gather(local, placed);
  }

  Tensors gathered(const Tensors& own, const Parameter& origin) const {
    return {
        shards()->gather(own.gradient, origin), whole_slot(own.projection, "projection", origin),
        whole_slot(own.average, "exp_avg", origin), whole_slot(own.squares, "exp_avg_sq", origin)};
  }

  void keep_part(const at::Tensor& whole, const at::Tensor& local, const std::string& slot,
                 const Parameter& origin) const {
    const Parameter placed = placed_slot(local, slot, origin);
    if (!placed.is_replicated()) local.copy_(shards()->part_of(whole, placed));
  }

  static void project(const GaloreOptions& options, const Tensors& tensors, const Shape& matrix) {
    const at::Tensor whole = tensors.gradient.to(at::kFloat);
    const auto svd = at::linalg_svd(whole, /*full_matrices=*/false);
    const int64_t rank = options.rank_of(matrix);
    const bool columns = options.projects_columns(matrix);
    tensors.projection.copy_(columns ? std::get<2>(svd).narrow(0, 0, rank)
                                     : std::get<0>(svd).narrow(1, 0, rank));
  }

  /// Updates the state, and returns what the learning rate scales.
  static at::Tensor direction_of(const GaloreOptions& options, const Tensors& tensors,
                                 const Parameter& origin, const at::Tensor& step) {
    const at::Tensor& projection = tensors.projection;
    const double beta1 = options.betas[0], beta2 = options.betas[1];
    at::Tensor gradient = tensors.gradient;
    const bool columns = projection.defined() && options.projects_columns(origin.shape());
    if (projection.defined()) {
      const double before = step.item().toDouble();
      if (std::fmod(before, static_cast<double>(options.update_proj_gap)) == 0) {
        project(options, tensors, origin.shape());
      }
      gradient = columns ? gradient.matmul(projection.t()) : projection.t().matmul(gradient);
    }
    step.add_(1);
    tensors.average.mul_(beta1).add_(gradient, 1 - beta1);
    tensors.squares.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    const at::Tensor divisor = tensors.squares.sqrt().add_(options.eps);
    const at::Tensor update = tensors.average.div(divisor);
    if (!projection.defined()) return update;
    return (columns ? update.matmul(projection) : projection.matmul(update)).mul_(options.scale);
  }

  static void apply(const GaloreOptions& options, const GroupUpdate& work, size_t i,
                    const at::Tensor& direction) {
    const double beta1 = options.betas[0], beta2 = options.betas[1];
    const at::Tensor& parameter = work.parameters[i];
    const double step = work.slots[0][i].item().toDouble();
    const double size =
        work.lr * std::sqrt(1 - std::pow(beta2, step)) / (1 - std::pow(beta1, step));
    parameter.add_(direction, -size);
    if (options.weight_decay > 0) parameter.mul_(1 - work.lr * options.weight_decay);
  }
};

const Register<GaloreAdamW> galore_adamw;

}  // namespace
}  // namespace accel
