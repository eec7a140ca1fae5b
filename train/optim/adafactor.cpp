// Adafactor as torch.optim.Adafactor: second moments factored by row and column. Its sums have the
// same bits for any number of ranks and threads.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"
#include "train/optim/reproducible_sum.h"
#include "train/optim/update_scalars.h"

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

/// Elements of the parameters, over all ranks, whose statistics ranks exchange together.
constexpr int64_t kBatchElements = 1 << 24;

/// The update of one parameter.
struct AdafactorItem {
  const Parameter* origin;
  at::Tensor parameter;
  at::Tensor gradient;
  at::Tensor row;       ///< moments of matrices
  at::Tensor column;    ///< the same
  at::Tensor variance;  ///< moment of vectors and scalars
  at::Tensor step;
  UpdateScalar weight = UpdateScalar(0.0);  ///< of the gradient in the moments
  size_t slices = 0;  ///< indices of sums of squares: of slices along dimension 0, and of them
  size_t all = 0;
  size_t gradient_rows = 0;  ///< indices of sums of a matrix
  size_t gradient_columns = 0;
  size_t row_moments = 0;
  at::Tensor direction = {};

  int64_t dims() const { return static_cast<int64_t>(origin->shape().size()); }
  bool is_matrix() const { return dims() > 1; }
  /// Sizes of the whole tensor.
  int64_t rows() const { return *(origin->shape().end() - 2); }
  int64_t columns() const { return origin->shape().back(); }
  int64_t num_slices() const { return dims() == 0 ? 1 : origin->shape().front(); }

  /// The axes that divide the dimensions for which `picks(dim)` is true.
  template <class Picks>
  SumAxes axes_where(const Picks& picks) const {
    SumAxes out;
    for (const Placement& placement : origin->placements) {
      if (!placement.owner && picks(placement.dim)) out.push_back(placement.axis);
    }
    std::ranges::sort(out);
    return out;
  }
  SumAxes axes_of(int64_t dim) const {
    return axes_where([dim](int64_t other) { return other == dim; });
  }
  SumAxes axes_of_slices() const { return axes_of(0); }
  SumAxes axes_inside_slices() const {
    return axes_where([](int64_t dim) { return dim != 0; });
  }
  SumAxes axes_of_rows() const { return axes_of(dims() - 2); }
  SumAxes axes_of_columns() const { return axes_of(dims() - 1); }
};

/// This rank's part of a tensor of matrices: [matrices, rows, columns].
at::Tensor matrices_of(const at::Tensor& tensor) {
  int64_t count = 1;
  for (int64_t dim = 0; dim < tensor.dim() - 2; ++dim) count *= tensor.size(dim);
  return tensor.reshape({count, tensor.size(-2), tensor.size(-1)});
}

/// tensor += weight * (target - tensor), in operations that round each element alike everywhere.
void move_towards(const at::Tensor& tensor, const at::Tensor& target, const UpdateScalar& weight) {
  if (tensor.numel() == 0) return;
  tensor.add_(weight.scale_(target.to(tensor.scalar_type()).view(tensor.sizes()).sub(tensor)));
}

/// Adds the sum of squares of each row of [rows, columns], which has `columns` columns over all
/// ranks.
size_t add_rows(SharedSums& sums, const SumAxes& over, const at::Tensor& matrix, int64_t columns) {
  if (over.empty()) return sums.add_known(row_sums_of_squares(matrix));
  return sums.add(over, largest_row_squares(matrix), [matrix, columns](const at::Tensor& largest) {
    return row_sums_of_squares(matrix, largest, columns);
  });
}

/// Adds the sums of squares of the slices along dimension 0 of a tensor like the item's parameter:
/// [slices], [1] for a scalar.
size_t add_slices(SharedSums& sums, const AdafactorItem& item, const at::Tensor& tensor) {
  const int64_t slices = tensor.dim() == 0 ? 1 : tensor.size(0);
  const int64_t size = slices == 0 ? 1 : tensor.numel() / slices;
  return add_rows(sums, item.axes_inside_slices(), tensor.reshape({slices, size}),
                  item.origin->numel() / std::max<int64_t>(item.num_slices(), 1));
}

/// Whether this rank has none of the parameter, since another one owns it.
bool is_elsewhere(const Parameter& parameter, const ShardExchange* exchange) {
  Parameter owned = {parameter.name, {}, Shape(parameter.shape().size(), 1)};
  std::ranges::copy_if(parameter.placements, std::back_inserter(owned.placements),
                       [](const Placement& placement) { return placement.owner.has_value(); });
  if (owned.is_replicated() || parameter.local.numel() > 0) return false;
  return exchange->part_of(at::empty(owned.global, at::kMeta), owned).numel() == 0;
}

/// Of the sums of squares of all elements of each item.
UpdateScalars root_mean_squares(const std::vector<AdafactorItem>& items,
                                const std::vector<at::Tensor>& sums) {
  std::vector<double> counts;
  for (const AdafactorItem& item : items) {
    counts.push_back(static_cast<double>(item.origin->numel()));
  }
  return UpdateScalars(sums).divided_by(counts).sqrt();
}

UpdateScalars steps_of(const std::vector<AdafactorItem>& items) {
  std::vector<at::Tensor> steps;
  for (const AdafactorItem& item : items) steps.push_back(item.step);
  return UpdateScalars(steps);
}

class Adafactor final : public OptimizerOf<AdafactorOptions> {
 public:
  static constexpr auto kName = "adafactor";
  static constexpr auto kSummary =
      "Adam-like scaling with factored second moments: little memory for matrices.";

  static Schema<AdafactorOptions> schema() { return with_groups(AdafactorOptions::hyper_schema()); }

  Adafactor(const AdafactorOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

  bool supports_shards() const override { return true; }

 private:
  Shape slot_shape(const std::string& slot, const Parameter& parameter) const override {
    Shape shape = OptimizerOf::slot_shape(slot, parameter);
    if (slot == "row_var" && shape.size() > 1) shape.back() = 1;
    if (slot == "col_var" && shape.size() > 1) *(shape.end() - 2) = 1;
    return shape;
  }

  at::Tensor fresh_slot(size_t group, const std::string& slot,
                        const Parameter& parameter) const override {
    const bool is_of_matrices = slot != "variance";
    if (slot != "step" && (parameter.shape().size() > 1) != is_of_matrices) return {};
    return OptimizerOf::fresh_slot(group, slot, parameter);
  }

  void update(const AdafactorOptions& options, GroupUpdate& work) override {
    count_update(work.slots[0]);
    for (size_t begin = 0; begin < work.parameters.size();) {
      const size_t end = end_of_batch(work, begin);
      update_batch(options, work, begin, end);
      begin = end;
    }
  }

  /// The end of the parameters from `begin` on that are exchanged together.
  static size_t end_of_batch(const GroupUpdate& work, size_t begin) {
    int64_t elements = work.origins[begin]->numel();
    size_t end = begin + 1;
    for (; end < work.origins.size(); ++end) {
      elements += work.origins[end]->numel();
      if (elements > kBatchElements) break;
    }
    return end;
  }

  void update_batch(const AdafactorOptions& options, GroupUpdate& work, size_t begin, size_t end) {
    std::vector<AdafactorItem> items;
    for (size_t i = begin; i < end; ++i) {
      AdafactorItem item = item_of(options, work, i);
      if (!is_elsewhere(*item.origin, shards())) items.push_back(std::move(item));
    }
    const UpdateScalars steps = steps_of(items);
    const std::vector<UpdateScalar> weights = steps.to_power(options.beta2_decay).list();
    for (size_t i = 0; i < items.size(); ++i) items[i].weight = weights[i];
    SharedSums of_slices, sums, of_directions, direction_sums;
    for (AdafactorItem& item : items) add_first_sums(item, of_slices);
    of_slices.run(shards());
    for (AdafactorItem& item : items) add_sums(item, of_slices, sums);
    sums.run(shards());
    std::vector<at::Tensor> squares, of_direction;
    for (AdafactorItem& item : items) {
      squares.push_back(sums[item.all]);
      item.direction = direction_of(options, item, sums);
      item.slices = add_slices(of_directions, item, item.direction);
    }
    of_directions.run(shards());
    for (AdafactorItem& item : items) add_all(item, of_directions, direction_sums);
    direction_sums.run(shards());
    for (const AdafactorItem& item : items) of_direction.push_back(direction_sums[item.all]);
    const UpdateScalars clipping =
        root_mean_squares(items, of_direction).divided_by(options.d).at_least(1);
    const std::vector<UpdateScalar> factors =
        rates_of(options, work.lr, steps, root_mean_squares(items, squares))
            .negated()
            .divided_by(clipping)
            .list();
    for (size_t i = 0; i < items.size(); ++i) {
      AdafactorItem& item = items[i];
      if (options.weight_decay != 0) item.parameter.mul_(1 - work.lr * options.weight_decay);
      item.parameter.add_(factors[i].scale_(item.direction));
    }
  }

  /// Adds the sum of squares of all elements, given those of slices.
  static void add_all(AdafactorItem& item, const SharedSums& of_slices, SharedSums& sums) {
    item.all = sums.add_vector(item.axes_of_slices(), of_slices[item.slices], item.num_slices());
  }

  /// `roots`: of the mean squares of the parameters.
  static UpdateScalars rates_of(const AdafactorOptions& options, double lr,
                                const UpdateScalars& steps, const UpdateScalars& roots) {
    return steps.sqrt().dividing(1).at_most(lr).times(roots.at_least(options.eps[1]));
  }

  static AdafactorItem item_of(const AdafactorOptions& options, const GroupUpdate& work, size_t i) {
    return {.origin = work.origins[i],
            .parameter = work.parameters[i],
            .gradient = options.maximize ? work.gradients[i].neg() : work.gradients[i],
            .row = work.slots[1][i],
            .column = work.slots[2][i],
            .variance = work.slots[3][i],
            .step = work.slots[0][i]};
  }

  /// Sums along columns, and of slices of the parameter.
  static void add_first_sums(AdafactorItem& item, SharedSums& sums) {
    item.slices = add_slices(sums, item, item.parameter);
    if (!item.is_matrix()) return;
    item.gradient_rows = add_rows(sums, item.axes_of_columns(),
                                  matrices_of(item.gradient).flatten(0, 1), item.columns());
  }

  /// Updates the moments of vectors and of rows, and adds the sums along rows.
  static void add_sums(AdafactorItem& item, const SharedSums& of_slices, SharedSums& sums) {
    add_all(item, of_slices, sums);
    if (!item.is_matrix()) {
      move_towards(item.variance, item.gradient.mul(item.gradient), item.weight);
      return;
    }
    const auto columns = static_cast<double>(item.columns());
    move_towards(item.row, of_slices[item.gradient_rows].div(columns), item.weight);
    const SumAxes over = item.axes_of_rows();
    const int64_t rows = item.rows();
    const at::Tensor moments = matrices_of(item.row).to(at::kDouble);
    const at::Tensor largest = moments.size(1) == 0 ? moments.sum(1, true) : moments.amax(1, true);
    item.row_moments = sums.add(over, largest, [moments, rows](const at::Tensor& most) {
      return reproducible_sum(moments, 1, most, rows);
    });
    const at::Tensor gradients = matrices_of(item.gradient);
    item.gradient_columns = sums.add(over, largest_column_squares(gradients),
                                     [gradients, rows](const at::Tensor& most) {
                                       return column_sums_of_squares(gradients, most, rows);
                                     });
  }

  /// The gradient over the root of its second moment, before clipping.
  static at::Tensor direction_of(const AdafactorOptions& options, const AdafactorItem& item,
                                 const SharedSums& sums) {
    const double floor = options.eps[0];
    const at::Tensor moment =
        item.is_matrix() ? moment_of_matrices(options, item, sums) : item.variance.clone();
    return moment.clamp_min_(floor * floor).rsqrt_().mul_(item.gradient);
  }

  static at::Tensor moment_of_matrices(const AdafactorOptions& options, const AdafactorItem& item,
                                       const SharedSums& sums) {
    const auto rows = static_cast<double>(item.rows());
    move_towards(item.column, sums[item.gradient_columns].div(rows), item.weight);
    std::vector<int64_t> of_matrices = item.row.sizes().vec();
    of_matrices.at(of_matrices.size() - 2) = 1;
    const at::Tensor scale = sums[item.row_moments].div(rows).to(item.row.scalar_type());
    return item.row.mul(item.column).div_(scale.view(of_matrices).clamp_min_(options.eps[0]));
  }
};

const Register<Adafactor> adafactor;

}  // namespace
}  // namespace accel
