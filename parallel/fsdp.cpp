#include "parallel/fsdp.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "kernels/norm.h"
#include "parallel/canonical_order.h"
#include "parallel/fp8/fp8_scales.h"
#include "parallel/gradient_hook.h"
#include "parallel/gradients.h"
#include "parallel/row_share.h"
#include "parallel/unit_group.h"

namespace accel {
namespace {

class Fsdp;

/// A unit and its position in the current pass.
class FsdpBlock final : public BlockHooks {
 public:
  FsdpBlock(Fsdp& owner, const FsdpUnit& from, const FsdpContext& context,
            const FsdpOptions& options)
      : unit(from.parameters, from.block ? context.cast_weights : CastWeights(), context.mesh,
             {options.reduce_dtype, options.canonical.has_value()}, context.home),
        block(from.block),
        owner_(owner) {
    unit.set_compute_dtype(options.param_dtype);
  }

  void before_forward() override;
  void after_forward(const at::Tensor& output) override;

  bool has_all_gradients() const { return ready == unit.trained().size(); }

  UnitGroup unit;
  Block* block;                              ///< null: the root unit, the parameters of no block
  std::array<FsdpBlock*, 2> successor = {};  ///< in the last pass without and with gradients
  size_t forwards = 0;                       ///< forward passes whose backward pass has not begun
  size_t ready = 0;                          ///< gradients accumulated in this pass
  bool open = false;     ///< backward has begun, and gradients are not yet reduced
  bool pending = false;  ///< gradients of this step are not yet reduced

 private:
  Fsdp& owner_;
};

class Fsdp final : public Strategy {
 public:
  Fsdp(const FsdpContext& context, const FsdpOptions& options)
      : options_(options),
        mesh_(context.mesh),
        home_(context.home),
        replicated_(strategy_of_replicated(context, options)) {
    if (options.canonical) {
      order_.emplace(options.canonical->seed, mesh_.data->rank(), mesh_.data->world());
    }
    for (const FsdpUnit& unit : context.blocks) {
      blocks_.emplace_back(*this, unit, context, options);
    }
    blocks_.emplace_back(*this, FsdpUnit{nullptr, context.root}, context, options);
    for (FsdpBlock& item : blocks_) {
      if (item.block) item.block->set_hooks(&item);
      scales_.add(item.unit);
      for (const Parameter& shard : item.unit.shards()) shards_.emplace(shard.name, shard);
      for (size_t i = 0; i < item.unit.trained().size(); ++i) {
        set_gradient_hook(item.unit.trained()[i], [this, &item, i] { on_gradient(item, i); });
      }
    }
    if (!reshards()) unshard_all();
  }

  ~Fsdp() override {
    for (FsdpBlock& item : blocks_) {
      if (item.block) item.block->set_hooks(nullptr);
      for (const at::Tensor& parameter : item.unit.trained()) clear_gradient_hook(parameter);
    }
  }
  Fsdp(const Fsdp&) = delete;
  Fsdp& operator=(const Fsdp&) = delete;

  void begin(const StepLayout& layout) override {
    if (home_.swapper) home_.swapper->drain();
    replicated_->begin(layout);
    if (order_) order_->begin(layout);
    if (!options_.in_pipeline) return;
    for (FsdpBlock& item : blocks_) item.forwards = 0;
    previous_ = nullptr;
    root().unit.unshard();
  }

  size_t micro_batch_at(size_t k) const override { return order_ ? order_->micro_batch_at(k) : k; }

  void before_pass(bool last) override {
    replicated_->before_pass(last);
    if (order_) order_->before_pass();
    const bool each = options_.sync_each_batch && options_.stage != ShardStage::kOptimizer;
    reduces_ = !order_ && (last || each);
    if (options_.in_pipeline) {
      for (FsdpBlock& item : blocks_) item.pending = item.pending || last;
      return;
    }
    if (reshards()) root().unit.unshard();
    forward_.clear();
    previous_ = nullptr;
  }

  void after_pass() override {
    replicated_->after_pass();
    if (options_.in_pipeline) return reduce_pending();
    close_open();
    root().pending = true;
    for (FsdpBlock& item : blocks_) {
      if (reduces_ && item.pending) start_reduce(item);
      item.ready = item.forwards = 0;
      if (reshards() && item.block) item.unit.reshard();
    }
    last_ = std::exchange(latest_, nullptr);
    forward_.clear();
    if (order_) order_->after_pass(take_gradients());
  }

  void finish() override {
    if (order_) reduce(order_->finish());
    while (!reducing_.empty()) finish_oldest();
    replicated_->finish();
  }

  at::Tensor gradient_norm(std::span<const Parameter> parameters) const override;
  void visit_gradients(std::span<const Parameter> parameters,
                       const GradientVisitor& visit) const override;
  void change_gradients(std::span<const Parameter> parameters,
                        const GradientVisitor& change) const override;
  void broadcast_buffers() override { replicated_->broadcast_buffers(); }

  std::vector<Parameter> shards_of(std::vector<Parameter> parameters) const override {
    for (Parameter& item : parameters) {
      const auto found = shards_.find(item.name);
      if (found != shards_.end()) item = found->second;
    }
    return parameters;
  }

  void unshard() override {
    ++users_;
    previous_ = nullptr;
    if (reshards()) root().unit.unshard();
  }

  void reshard() override {
    if (--users_ > 0 || !reshards()) return;
    for (FsdpBlock& item : blocks_) item.unit.reshard();
  }

  void refresh_weights() override {
    scales_.invalidate();
    if (!reshards()) return unshard_all();
    for (FsdpBlock& item : blocks_) {
      if (item.unit.is_unsharded()) item.unit.invalidate();
    }
    if (users_ > 0) root().unit.unshard();
  }

  void updated(int64_t /*step*/) override {
    scales_.invalidate();
    if (!reshards()) return unshard_all();
    // The next pass unshards them.
    root().unit.reshard();
    for (FsdpBlock& item : blocks_) {
      if (options_.in_pipeline) item.unit.reshard();
    }
  }

  void reduce_found_inf(const at::Tensor& found_inf) const override {
    // With the ranks of cp, which have rows too.
    mesh_.gradients->all_reduce(found_inf, ReduceOp::kMax, "overflow of gradients");
  }

  void before_forward(FsdpBlock& item) {
    const bool trains = c10::GradMode::is_enabled();
    scales_.update();
    choose_dtype(item);
    if (trains) {
      if (!options_.in_pipeline) forward_.push_back(&item);
      latest_ = &item;
      ++item.forwards;
    }
    if (!reshards()) return item.unit.unshard();
    item.unit.unshard();
    FsdpBlock* const next = item.successor[trains];
    if (next && next != &item) {
      choose_dtype(*next);
      next->unit.start_unshard();
      if (next->successor[trains]) next->successor[trains]->unit.prefetch();
    }
    if (previous_) previous_->successor[trains] = &item;
    previous_ = &item;
  }

  void after_forward(FsdpBlock& item, const at::Tensor& output) {
    const bool trains = c10::GradMode::is_enabled();
    if (trains && output.requires_grad()) {
      output.register_hook([this, &item](const at::Tensor&) { before_backward(item); });
    } else if (trains) {
      --item.forwards;
      if (!options_.in_pipeline) forward_.pop_back();
    }
    // Backward begins with the block that runs last.
    const bool kept =
        options_.in_pipeline || (trains && (!options_.reshard_after_forward || &item == last_));
    if (reshards() && !kept) item.unit.reshard();
  }

 private:
  static std::unique_ptr<Strategy> strategy_of_replicated(const FsdpContext& context,
                                                          const FsdpOptions& options) {
    const StrategyContext replicated{trained_of(context.replicated), context.buffers,
                                     context.mesh.gradients.get()};
    if (options.canonical) return make_canonical(replicated, *options.canonical);
    return make_ddp(replicated, {.bucket_bytes = options.bucket_bytes,
                                 .broadcast_buffers = options.broadcast_buffers});
  }

  /// Of all units, in their order.
  Gradients take_gradients() {
    Gradients all;
    for (FsdpBlock& item : blocks_) {
      for (at::Tensor& gradient : item.unit.take_gradients()) all.push_back(std::move(gradient));
    }
    return all;
  }

  /// Sums of this rank, in the order of take_gradients(), over all ranks.
  void reduce(const Gradients& all) {
    auto next = all.begin();
    for (FsdpBlock& item : blocks_) {
      if (!all.empty()) {
        const auto end = next + static_cast<ptrdiff_t>(item.unit.trained().size());
        item.unit.put_gradients({next, end});
        next = end;
      }
      start_reduce(item);
    }
  }

  static std::vector<Parameter> trained_of(std::vector<Parameter> parameters) {
    std::erase_if(parameters, [](const Parameter& item) { return !item.local.requires_grad(); });
    return parameters;
  }

  /// Calls `visit` for the parameters whose gradients are in one slab, or in none.
  void for_each_slab(
      std::span<const Parameter> parameters,
      const std::function<void(std::optional<size_t>, std::span<const Parameter>)>& visit) const;
  /// The ranks that divide these parameters, either of experts or not.
  Communicator& shard_group_of(std::span<const Parameter> parameters) const;
  /// The squared norm of this rank's rows of each gradient, float64.
  at::Tensor squares_of_rows(std::span<const Parameter> parameters) const;
  /// The norm of a canonical reduction, which does not depend on the ranks' rows.
  at::Tensor norm_of_whole_gradients(std::span<const Parameter> parameters) const;

  /// Where collectives have their tensors.
  at::Device device() const {
    const auto found = std::find_if(blocks_.begin(), blocks_.end(), [](const FsdpBlock& item) {
      return !item.unit.shards().empty();
    });
    return found == blocks_.end() ? at::Device(at::kCPU) : found->unit.device();
  }
  bool reshards() const { return options_.stage == ShardStage::kParameters; }
  FsdpBlock& root() { return blocks_.back(); }

  /// The type of autocast, if it is that of param_dtype.
  std::optional<at::ScalarType> computing_dtype() const {
    const at::DeviceType type = device().type();
    const bool casts = options_.param_dtype && at::autocast::is_autocast_enabled(type) &&
                       at::autocast::get_autocast_dtype(type) == *options_.param_dtype;
    return casts ? options_.param_dtype : std::nullopt;
  }

  void choose_dtype(FsdpBlock& item) const {
    const std::optional<at::ScalarType> dtype = computing_dtype();
    if (!item.unit.changes_compute_dtype(dtype)) return;
    if (item.forwards > 0) {
      throw Error(ExitCode::kRecipe,
                  "'fsdp' does not support a block that runs with and without autocast in one step",
                  "set 'accelerator.fsdp.param_dtype: fp32'");
    }
    item.unit.set_compute_dtype(dtype);
  }

  void unshard_all() {
    for (FsdpBlock& item : blocks_) item.unit.invalidate();
    scales_.update();
    blocks_.front().unit.start_unshard();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i].unit.unshard();
      if (i + 1 < blocks_.size()) blocks_[i + 1].unit.start_unshard();
      if (i + 2 < blocks_.size()) blocks_[i + 2].unit.prefetch();
    }
  }

  /// The gradient of the block's output is complete. By then autograd has run the backward passes
  /// of all blocks that ran later: it takes nodes in the reverse order of their creation.
  void before_backward(FsdpBlock& item) {
    if (options_.in_pipeline) {
      if (item.forwards > 0) --item.forwards;
      item.open = true;
      return;
    }
    close_open();
    while (!forward_.empty() && forward_.back() != &item) forward_.pop_back();
    if (!forward_.empty()) forward_.pop_back();
    --item.forwards;
    item.open = item.pending = true;
    if (!reshards()) return;
    item.unit.unshard();
    if (forward_.empty()) return;
    forward_.back()->unit.start_unshard();
    if (forward_.size() > 1) forward_[forward_.size() - 2]->unit.prefetch();
  }

  void on_gradient(FsdpBlock& item, size_t i) {
    item.unit.on_gradient(i);
    item.pending = true;
    ++item.ready;
    if (reduces_ && item.open && item.forwards == 0 && item.has_all_gradients()) start_reduce(item);
  }

  /// Ends the backward pass of blocks. Their gradients may be complete earlier, but the gradient of
  /// the block's input may still need the parameters.
  void close_open() {
    for (size_t i = blocks_.size(); i-- > 0;) {
      if (blocks_[i].open && blocks_[i].forwards == 0) close(blocks_[i]);
    }
  }

  /// After a backward pass of a pipeline.
  void reduce_pending() {
    for (FsdpBlock& item : blocks_) {
      if (reduces_ && item.pending) start_reduce(item);
      item.ready = 0;
      item.open = false;
    }
  }

  void close(FsdpBlock& item) {
    item.open = false;
    item.ready = 0;
    if (reduces_ && item.pending) start_reduce(item);  // some parameters got no gradient
    if (reshards()) item.unit.reshard();
  }

  /// At most two reductions hold buffers at a time.
  void start_reduce(FsdpBlock& item) {
    item.pending = false;
    if (item.unit.trained().empty()) return;
    while (item.unit.is_reducing() || reducing_.size() > 1) finish_oldest();
    item.unit.start_reduce();
    reducing_.push_back(&item.unit);
  }

  void finish_oldest() {
    reducing_.front()->finish_reduce();
    reducing_.pop_front();
  }

  FsdpOptions options_;
  Mesh mesh_;
  ShardHome home_;
  std::unique_ptr<Strategy> replicated_;
  std::optional<CanonicalOrder> order_;
  Fp8Scales scales_;
  std::deque<FsdpBlock> blocks_;  ///< those of the model, then the root unit
  std::map<std::string, Parameter> shards_;
  std::vector<FsdpBlock*> forward_;  ///< of this pass, those whose backward has not begun
  FsdpBlock* previous_ = nullptr;    ///< the last one that ran
  FsdpBlock* latest_ = nullptr;      ///< the last one that ran in this pass, with gradients
  FsdpBlock* last_ = nullptr;        ///< that of the pass before
  std::deque<UnitGroup*> reducing_;
  bool reduces_ = true;  ///< whether the gradients of this pass are reduced
  int64_t users_ = 0;    ///< unshard() without reshard()
};

void FsdpBlock::before_forward() {
  owner_.before_forward(*this);
}

void FsdpBlock::after_forward(const at::Tensor& output) {
  owner_.after_forward(*this, output);
}

at::Tensor Fsdp::norm_of_whole_gradients(std::span<const Parameter> parameters) const {
  std::vector<at::Tensor> gradients;
  for (const Parameter& item : parameters) {
    const at::Tensor& gradient = item.local.grad();
    if (!gradient.defined()) continue;
    gradients.push_back(gather_whole({item.name, gradient, item.global, item.placements}, mesh_));
  }
  return gradients.empty() ? accel::gradient_norm(parameters) : norm_of_all(gradients);
}

Communicator& Fsdp::shard_group_of(std::span<const Parameter> parameters) const {
  const bool of_experts = std::ranges::any_of(parameters, [](const Parameter& item) {
    return std::ranges::any_of(item.placements, [](const Placement& placement) {
      return placement.axis == Axis::kExpert;
    });
  });
  return of_experts ? *mesh_.expert_shard : *mesh_.shard;
}

at::Tensor Fsdp::squares_of_rows(std::span<const Parameter> parameters) const {
  const Communicator& group = shard_group_of(parameters);
  std::map<std::string, at::Tensor> swapped;  // those that their unit has
  for (const FsdpBlock& item : blocks_) {
    const std::vector<at::Tensor> squares = item.unit.gradient_squares();
    for (size_t i = 0; i < squares.size(); ++i) {
      swapped.emplace(item.unit.shards()[i].name, squares[i]);
    }
  }
  // This rank's rows of every gradient, those of replicated parameters too, which all ranks have.
  std::vector<at::Tensor> rows;
  std::vector<at::Tensor> squares;  // undefined: the next of `rows`
  for (const Parameter& item : parameters) {
    const at::Tensor& gradient = item.local.grad();
    if (!gradient.defined()) continue;
    const auto known = swapped.find(item.name);
    squares.push_back(known == swapped.end() ? at::Tensor() : known->second);
    if (squares.back().defined()) continue;
    rows.push_back(item.is_replicated()
                       ? rows_by_rank(gradient, group.world())[static_cast<size_t>(group.rank())]
                       : gradient);
  }
  if (squares.empty()) return {};
  if (rows.size() == squares.size() && !home_.on_host) return squared_norms(rows);
  auto row = rows.begin();
  for (at::Tensor& square : squares) {
    if (!square.defined()) square = squared_norms({*row++}).select(0, 0);
    square = square.cpu();
  }
  return at::stack(squares).to(device());
}

at::Tensor Fsdp::gradient_norm(std::span<const Parameter> parameters) const {
  const c10::NoGradGuard no_grad;
  if (order_) return norm_of_whole_gradients(parameters);
  const at::Tensor squares = squares_of_rows(parameters);
  Communicator& group = shard_group_of(parameters);
  if (!squares.defined()) return gradient_norm_by_rows(parameters, group.world());
  const at::Tensor norm =
      norm_of_squares(group.all_gather(squares, "gradient norm").t().contiguous());
  return home_.on_host ? norm.cpu() : norm;
}

void Fsdp::for_each_slab(
    std::span<const Parameter> parameters,
    const std::function<void(std::optional<size_t>, std::span<const Parameter>)>& visit) const {
  const auto slab_of = [this](const Parameter& item) {
    return home_.swapper ? home_.swapper->find(item.local.grad()) : std::nullopt;
  };
  for (size_t begin = 0, end = 0; begin < parameters.size(); begin = end) {
    const std::optional<size_t> slab = slab_of(parameters[begin]);
    while (end < parameters.size() && slab_of(parameters[end]) == slab) ++end;
    visit(slab, parameters.subspan(begin, end - begin));
  }
}

void Fsdp::visit_gradients(std::span<const Parameter> parameters,
                           const GradientVisitor& visit) const {
  for_each_slab(parameters, [&](std::optional<size_t> slab, std::span<const Parameter> some) {
    const SwapScope scope(home_.swapper.get(), slab, SwapAccess::kRead);
    visit(some);
  });
}

void Fsdp::change_gradients(std::span<const Parameter> parameters,
                            const GradientVisitor& change) const {
  for_each_slab(parameters, [&](std::optional<size_t> slab, std::span<const Parameter> some) {
    if (!slab) return change(some);
    home_.swapper->after_next_swap_in(
        *slab, [change, kept = std::vector<Parameter>(some.begin(), some.end())] { change(kept); });
  });
}

}  // namespace

std::unique_ptr<Strategy> make_fsdp(const FsdpContext& context, const FsdpOptions& options) {
  return std::make_unique<Fsdp>(context, options);
}

}  // namespace accel
