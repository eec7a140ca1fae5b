// Adafactor as torch.optim.Adafactor: second moments factored by row and column. Its sums have the
// same bits for any number of ranks and threads.
#include <algorithm>
#include <cmath>
#include <memory>

#include "train/optim/grouped_optimizer.h"
#include "train/optim/hyper_rules.h"
#include "train/optim/reproducible_sum.h"

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
  double step;
  size_t weights_sum = 0;    ///< indices of sums of squares
  size_t direction_sum = 0;  ///< the same
  size_t column_sum = 0;
  size_t row_sum = 0;
  at::Tensor direction = {};

  bool is_matrix() const { return origin->shape().size() > 1; }
  /// Whether ranks hold rows of one matrix. Of tensors with more dimensions they hold matrices.
  bool has_shared_columns() const { return origin->shape().size() == 2; }
  int64_t rows() const { return *(origin->shape().end() - 2); }
  int64_t columns() const { return origin->shape().back(); }
  /// [matrices, rows, columns] of this rank.
  at::Tensor matrices(const at::Tensor& tensor) const {
    const int64_t own = tensor.size(-2);
    const int64_t count = own * columns() == 0 ? 1 : tensor.numel() / (own * columns());
    return tensor.reshape({count, own, columns()});
  }
};

/// tensor += weight * (target - tensor), in operations that round each element alike everywhere.
void move_towards(const at::Tensor& tensor, const at::Tensor& target, double weight) {
  if (tensor.numel() == 0) return;
  tensor.add_(target.to(tensor.scalar_type()).view(tensor.sizes()).sub(tensor).mul_(weight));
}

/// The sums of squares of the slices along dimension 0: float64 [size(0)], [1] for a scalar.
at::Tensor sums_of_slices(const at::Tensor& tensor) {
  const int64_t slices = tensor.dim() == 0 ? 1 : tensor.size(0);
  const int64_t size = slices == 0 ? 1 : tensor.numel() / slices;
  return row_sums_of_squares(tensor.reshape({slices, size}));
}

int64_t slices_of(const Parameter& parameter) {
  const Shape shape = parameter.shape();
  return shape.empty() ? 1 : shape.front();
}

double root_mean_square(const at::Tensor& sum_of_squares, const Parameter& parameter) {
  return std::sqrt(sum_of_squares.item<double>() / static_cast<double>(parameter.numel()));
}

class Adafactor final : public OptimizerOf<AdafactorOptions> {
 public:
  static constexpr auto kName = "adafactor";
  static constexpr auto kSummary =
      "Adam-like scaling with factored second moments: little memory for matrices.";

  static Schema<AdafactorOptions> schema() { return with_groups(AdafactorOptions::hyper_schema()); }

  Adafactor(const AdafactorOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context), shards_(context.shards) {}

  bool supports_shards() const override { return true; }
  bool supports_column_shards() const override { return false; }

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
    for (size_t begin = 0; begin < work.parameters.size();) {
      const size_t end = end_of_batch(work, begin);
      update_batch(options, work, begin, end);
      begin = end;
    }
  }

  /// The end of the parameters from `begin` on that are divided alike and exchanged together.
  static size_t end_of_batch(const GroupUpdate& work, size_t begin) {
    int64_t elements = work.origins[begin]->numel();
    size_t end = begin + 1;
    for (; end < work.origins.size(); ++end) {
      const Parameter& next = *work.origins[end];
      elements += next.numel();
      if (elements > kBatchElements) break;
      if (next.placements != work.origins[begin]->placements) break;
    }
    return end;
  }

  void update_batch(const AdafactorOptions& options, GroupUpdate& work, size_t begin, size_t end) {
    const Parameter& divided_as = *work.origins[begin];
    const ShardExchange* exchange = divided_as.is_replicated() ? nullptr : shards_.get();
    std::vector<AdafactorItem> items;
    SharedSums sums, directions;
    for (size_t i = begin; i < end; ++i) items.push_back(item_of(options, work, i));
    for (AdafactorItem& item : items) add_sums(options, item, sums);
    sums.run(exchange, divided_as);
    for (AdafactorItem& item : items) {
      item.direction = direction_of(options, item, sums);
      item.direction_sum =
          directions.add_vector(sums_of_slices(item.direction), slices_of(*item.origin));
    }
    directions.run(exchange, divided_as);
    for (AdafactorItem& item : items) {
      const double rate =
          std::min(work.lr, 1 / std::sqrt(item.step)) *
          std::max(options.eps[1], root_mean_square(sums[item.weights_sum], *item.origin));
      const double rms = root_mean_square(directions[item.direction_sum], *item.origin);
      if (options.weight_decay != 0) item.parameter.mul_(1 - work.lr * options.weight_decay);
      item.parameter.add_(item.direction.mul_(-rate / std::max(1.0, rms / options.d)));
    }
  }

  static AdafactorItem item_of(const AdafactorOptions& options, const GroupUpdate& work, size_t i) {
    return {.origin = work.origins[i],
            .parameter = work.parameters[i],
            .gradient = options.maximize ? work.gradients[i].neg() : work.gradients[i],
            .row = work.slots[1][i],
            .column = work.slots[2][i],
            .variance = work.slots[3][i],
            .step = work.slots[0][i].add_(1).item<double>()};
  }

  static double weight_of(const AdafactorOptions& options, const AdafactorItem& item) {
    return std::pow(item.step, options.beta2_decay);
  }

  /// Updates the moments that this rank has all gradients of, and adds the sums of the others.
  static void add_sums(const AdafactorOptions& options, AdafactorItem& item, SharedSums& sums) {
    item.weights_sum = sums.add_vector(sums_of_slices(item.parameter), slices_of(*item.origin));
    const double weight = weight_of(options, item);
    if (!item.is_matrix()) {
      move_towards(item.variance, item.gradient.mul(item.gradient), weight);
      return;
    }
    const at::Tensor matrices = item.matrices(item.gradient);
    const auto columns = static_cast<double>(item.columns());
    move_towards(item.row, row_sums_of_squares(matrices.flatten(0, 1)).div_(columns), weight);
    if (!item.has_shared_columns()) return;
    item.row_sum = sums.add_vector(item.row.to(at::kDouble).view({-1}), item.rows());
    item.column_sum = sums.add(largest_column_squares(matrices),
                               [matrices, rows = item.rows()](const at::Tensor& largest) {
                                 return column_sums_of_squares(matrices, largest, rows);
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
    at::Tensor column_sums, row_sums;
    if (item.has_shared_columns()) {
      column_sums = sums[item.column_sum];
      row_sums = sums[item.row_sum].view({1, 1});
    } else {
      const at::Tensor matrices = item.matrices(item.gradient);
      column_sums = column_sums_of_squares(matrices, largest_column_squares(matrices), item.rows());
      const at::Tensor row = item.row.to(at::kDouble);
      row_sums = row.numel() == 0 ? row.sum(-2, true)
                                  : reproducible_sum(row, -2, row.amax(-2, true), item.rows());
    }
    move_towards(item.column, column_sums.div(rows), weight_of(options, item));
    const at::Tensor scale = row_sums.div(rows).to(item.row.scalar_type());
    return item.row.mul(item.column).div_(scale.clamp_min_(options.eps[0]));
  }

  std::shared_ptr<const ShardExchange> shards_;
};

const Register<Adafactor> adafactor;

}  // namespace
}  // namespace accel
