// Muon as torch.optim.Muon: orthogonalized momentum for hidden matrices, AdamW for other
// parameters.
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/base/text.h"
#include "core/recipe/name_pattern.h"
#include "train/optim/adam.h"

namespace accel {
namespace {

enum class MuonLr { kOriginal, kMatchRmsAdamw };

}  // namespace

template <>
struct EnumNames<MuonLr> {
  static constexpr std::pair<MuonLr, const char*> kValues[] = {
      {MuonLr::kOriginal, "original"}, {MuonLr::kMatchRmsAdamw, "match_rms_adamw"}};
};

namespace {

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::vector<double> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  MuonLr adjust_lr_fn = MuonLr::kOriginal;
  ParameterGroups<MuonOptions> groups;
  double layer_decay = 1;
  std::vector<std::string> exclude = {"*embed*", "*wte.*", "*wpe.*", "*lm_head.*"};
  AdamWOptions adamw;

  static Schema<MuonOptions> hyper_schema() {
    return Schema<MuonOptions>()
        .field("lr", &MuonOptions::lr, kLrHelp, at_least(0.0))
        .hint_for(lr_names())
        .field("weight_decay", &MuonOptions::weight_decay, kDecoupledDecayHelp, at_least(0.0))
        .hint_for(weight_decay_names())
        .field("momentum", &MuonOptions::momentum, "Decay rate of the momentum.", at_least(0.0))
        .field("nesterov", &MuonOptions::nesterov, "Nesterov momentum.")
        .field(
            "ns_coefficients", &MuonOptions::ns_coefficients,
            "Coefficients of the Newton-Schulz polynomial, which moves singular values towards 1.",
            Rule<std::vector<double>>{[](const std::vector<double>& v) { return v.size() == 3; },
                                      "three numbers", "\"minItems\": 3, \"maxItems\": 3"})
        .field("eps", &MuonOptions::eps, "Lower bound of the norm that divides the momentum.",
               at_least(0.0))
        .hint_for(eps_names())
        .field("ns_steps", &MuonOptions::ns_steps,
               "Newton-Schulz iterations per update. More orthogonalize better and take longer.",
               within<int64_t>(0, 100))
        .field("adjust_lr_fn", &MuonOptions::adjust_lr_fn,
               "Scaling of the learning rate by the matrix shape: sqrt(max(1, rows / columns)), or "
               "to match the RMS of AdamW's updates.");
  }

  SlotNames slots() const { return {"momentum_buffer"}; }

  Hyper hyper(double current_lr) const {
    return {{"lr", current_lr},
            {"weight_decay", weight_decay},
            {"momentum", momentum},
            {"nesterov", nesterov},
            {"ns_coefficients", ns_coefficients},
            {"eps", eps},
            {"ns_steps", ns_steps},
            {"adjust_lr_fn", Codec<MuonLr>::write(adjust_lr_fn).scalar()->text}};
  }

  double adjusted_lr(double current_lr, const Shape& matrix) const {
    const auto rows = static_cast<double>(matrix[0]);
    const auto columns = static_cast<double>(matrix[1]);
    if (adjust_lr_fn == MuonLr::kMatchRmsAdamw) {
      return current_lr * (0.2 * std::sqrt(std::max(rows, columns)));
    }
    return current_lr * std::sqrt(std::max(1.0, rows / columns));
  }
};

/// Approximates the nearest orthogonal matrix by a quintic Newton-Schulz iteration in bfloat16.
at::Tensor orthogonalize(const at::Tensor& matrix, const MuonOptions& options) {
  const bool tall = matrix.size(0) > matrix.size(1);
  const std::vector<double>& c = options.ns_coefficients;
  at::Tensor x = matrix.to(at::kBFloat16);
  if (tall) x = x.t();
  x.div_(x.norm().clamp_min(options.eps));
  for (int64_t i = 0; i < options.ns_steps; ++i) {
    const at::Tensor gram = at::mm(x, x.t());
    const at::Tensor update = at::addmm(gram, gram, gram, c[1], c[2]);
    x = at::addmm(x, update, x, c[0]);
  }
  return tall ? x.t() : x;
}

/// The optimizer of hidden matrices.
class MuonMatrices final : public OptimizerOf<MuonOptions> {
 public:
  MuonMatrices(const MuonOptions& options, const OptimizerContext& context)
      : OptimizerOf(options, context) {}

 private:
  void update(const MuonOptions& options, GroupUpdate& work) override {
    for (size_t i = 0; i < work.parameters.size(); ++i) {
      const at::Tensor& gradient = work.gradients[i];
      const at::Tensor& buffer = work.slots[0][i];
      buffer.lerp_(gradient, 1 - options.momentum);
      const at::Tensor moved = options.nesterov ? gradient.lerp(buffer, options.momentum) : buffer;
      const Parameter& origin = *work.origins[i];
      const at::Tensor& parameter = work.parameters[i];
      parameter.mul_(1 - work.lr * options.weight_decay);
      parameter.add_(direction_of(moved, origin, options),
                     -options.adjusted_lr(work.lr, origin.shape()));
    }
  }

  /// The orthogonalized momentum, or this rank's rows of it: every rank orthogonalizes the whole
  /// matrix.
  at::Tensor direction_of(const at::Tensor& moved, const Parameter& origin,
                          const MuonOptions& options) const {
    if (origin.is_replicated()) return orthogonalize(moved, options);
    const at::Tensor whole = shards()->gather(moved, origin);
    return shards()->part_of(orthogonalize(whole, options), origin);
  }
};

/// Two optimizers as one: the matrices' groups, then AdamW's.
class Muon final : public Optimizer, public SkipsUpdates {
 public:
  static constexpr auto kName = "muon";
  static constexpr auto kSummary =
      "Orthogonalized updates for hidden matrices, AdamW for other parameters.";

  static Schema<MuonOptions> schema() {
    return with_groups(MuonOptions::hyper_schema())
        .field("exclude", &MuonOptions::exclude,
               "Name patterns of matrices for AdamW: embeddings and the head.")
        .field("adamw", &MuonOptions::adamw,
               "AdamW options of parameters other than hidden matrices; its `groups` match those "
               "only.");
  }

  Muon(const MuonOptions& options, const OptimizerContext& context)
      : matrices_(options, part(options, context, true)),
        rest_(options.adamw, part(options, context, false)) {}

  void step() override {
    matrices_.step();
    rest_.step();
  }

  bool can_skip() const override { return matrices_.can_skip() && rest_.can_skip(); }
  void set_found_inf(at::Tensor found_inf) override {
    matrices_.set_found_inf(found_inf);
    rest_.set_found_inf(std::move(found_inf));
  }

  void zero_grad() override {
    matrices_.zero_grad();
    rest_.zero_grad();
  }

  std::vector<double> base_lrs() const override {
    return joined(matrices_.base_lrs(), rest_.base_lrs());
  }

  void set_lrs(std::span<const double> lrs) override {
    const size_t split = matrices_.base_lrs().size();
    matrices_.set_lrs(lrs.first(split));
    rest_.set_lrs(lrs.subspan(split));
  }

  std::vector<Parameter> parameters() const override {
    return joined(matrices_.parameters(), rest_.parameters());
  }

  OptimizerState state() const override {
    return {joined(matrices_.state().groups, rest_.state().groups)};
  }

  int64_t pending_state_bytes() const override {
    return matrices_.pending_state_bytes() + rest_.pending_state_bytes();
  }

  void load(const OptimizerState& state) override {
    const size_t split = matrices_.base_lrs().size();
    check_group_count(state, base_lrs().size());
    const auto middle = state.groups.begin() + static_cast<std::ptrdiff_t>(split);
    matrices_.load({{state.groups.begin(), middle}});
    rest_.load({{middle, state.groups.end()}});
  }

  bool supports_shards() const override { return true; }

  void preallocate_state() override {
    matrices_.preallocate_state();
    rest_.preallocate_state();
  }

 private:
  static OptimizerContext part(const MuonOptions& options, const OptimizerContext& context,
                               bool hidden) {
    const auto excluded = [&](const Parameter& p) {
      return std::any_of(options.exclude.begin(), options.exclude.end(),
                         [&](const std::string& pattern) { return name_matches(pattern, p.name); });
    };
    OptimizerContext out{.parameters = {}, .shards = context.shards};
    for (const Parameter& p : context.parameters) {
      if ((p.local.dim() == 2 && !excluded(p)) == hidden) out.parameters.push_back(p);
    }
    return out;
  }

  template <class T>
  static std::vector<T> joined(std::vector<T> first, const std::vector<T>& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  MuonMatrices matrices_;
  AdamFamily<true> rest_;
};

const Register<Muon> muon;

}  // namespace
}  // namespace accel
