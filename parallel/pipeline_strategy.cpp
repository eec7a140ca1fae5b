#include "parallel/pipeline_strategy.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/api/sample_rng.h"
#include "kernels/memory/deferred_init.h"
#include "kernels/norm.h"
#include "parallel/gradients.h"
#include "parallel/pipeline/check.h"
#include "parallel/stage_blocks.h"
#include "parallel/stage_messages.h"
#include "parallel/stage_run.h"

namespace accel {
namespace {

/// Names the shapes of a micro-batch, and whether it is trained: the form of activations follows.
std::string shapes_of(const Batch& batch) {
  const bool trains = c10::GradMode::is_enabled();
  return (trains ? "train " : "evaluate ") + shape_text(batch.inputs);
}

/// An empty share of a parameter that another rank has.
at::Tensor empty_share(const at::Tensor& of) {
  std::vector<int64_t> shape = of.sizes().vec();
  shape.front() = 0;
  return at::empty(shape, of.options().requires_grad(false));
}

/// A tensor of this shape in the memory of one element. Layers may ask for its sizes; what a wrong
/// BlockChain reads of it is not a number, which ends the run.
at::Tensor absent_like(const at::Tensor& tensor) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return at::full({1}, nan, tensor.options().requires_grad(false)).expand(tensor.sizes());
}

/// Seeds the device's default generator for passes, and leaves its state as it was.
class PassSeeds {
 public:
  explicit PassSeeds(at::Device device)
      : generator_(at::globalContext().defaultGenerator(device)), state_(generator_.get_state()) {}
  ~PassSeeds() {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  PassSeeds(const PassSeeds&) = delete;
  PassSeeds& operator=(const PassSeeds&) = delete;

  void seed(uint64_t seed) {
    const std::lock_guard lock(generator_.mutex());
    generator_.set_current_seed(seed);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

/// A parameter of two stages on different ranks.
struct TiedWeight {
  at::Tensor tensor;  ///< the model's, or its rows on this rank
  int64_t owner, reader;
  bool trains;
};

class Pipeline final : public Strategy {
 public:
  Pipeline(const PipelineContext& context, const PipelineOptions& options);

  void begin(const StepLayout& layout) override {
    step_ = layout.step;
    replicas_->begin(layout);
  }
  void run_passes(MicroBatchPasses& passes) override;
  void run_forward(const std::vector<Batch>& batches,
                   const std::function<void(size_t i)>& pass) override;
  void finish() override;

  at::Tensor gradient_norm(std::span<const Parameter> parameters) const override;
  std::vector<Parameter> shards_of(std::vector<Parameter> parameters) const override;
  void unshard() override { replicas_->unshard(); }
  void reshard() override { replicas_->reshard(); }
  void refresh_weights() override {
    copy_tied_weights();
    replicas_->refresh_weights();
  }
  void updated(int64_t step) override {
    copy_tied_weights();
    replicas_->updated(step);
  }
  void reduce_found_inf(const at::Tensor& found_inf) const override {
    replicas_->reduce_found_inf(found_inf);
    pipeline().all_reduce(found_inf, ReduceOp::kMax, "overflow of gradients");
  }
  bool has_head() const override {
    return layout_.rank_of(layout_.stages() - 1) == pipeline().rank();
  }

 private:
  Communicator& pipeline() const { return *mesh_.pipeline; }
  /// Gives memory to the parameters of this rank's stages, which it returns, and takes that of the
  /// others.
  std::vector<Parameter> divide(const PipelineContext& context);
  void place_shares(const StageParameter& item);
  std::unique_ptr<Strategy> strategy_of(const std::vector<Parameter>& own,
                                        const PipelineContext& context,
                                        const PipelineOptions& options) const;
  at::Tensor squares_by_rank(std::span<const Parameter> gradients) const;
  uint64_t seed_of(const PipelineAction& forward) const;
  void sum_tied_gradients();
  void share_gradient_flags();
  void copy_tied_weights();
  /// Whether this rank counts the parameter's gradient.
  bool owns(const Parameter& parameter) const {
    return *parameter.placements.front().owner == pipeline().rank();
  }

  Mesh mesh_;
  PipelineKind kind_;
  PipelineLayout layout_;
  uint64_t seed_;
  at::Device device_;
  AuxiliaryLoss* loss_;  ///< null: none
  bool is_sharded_;      ///< rows of some parameters over Mesh::shard
  StageBlocks blocks_;
  StageMessages messages_;
  std::map<std::string, Parameter> shares_;  ///< of all parameters
  std::vector<Parameter> order_;             ///< the same, in the order of the model
  std::vector<TiedWeight> tied_;
  std::unique_ptr<Strategy> replicas_;            ///< of this rank's stages, over Mesh::gradients
  std::map<size_t, PipelineSchedule> schedules_;  ///< by number of micro-batches
  int64_t step_ = 0;
};

bool has_placement(const Parameter& parameter, Axis axis) {
  return std::ranges::any_of(parameter.placements,
                             [&](const Placement& placement) { return placement.axis == axis; });
}

/// The axis over which a strategy shards the rows of the parameter.
Axis shard_axis(const Parameter& parameter) {
  return has_placement(parameter, Axis::kExpert) ? Axis::kExpertShard : Axis::kShard;
}

/// The group of the messages to lower ranks.
std::shared_ptr<Communicator> second_group(const Mesh& mesh) {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < mesh.pipeline->world(); ++rank) all.push_back(rank);
  return mesh.pipeline->split({all});
}

Pipeline::Pipeline(const PipelineContext& context, const PipelineOptions& options)
    : mesh_(context.mesh),
      kind_(options.kind),
      layout_(
          pipeline_layout(options.kind, context.mesh.pipeline->world(), options.stages_per_rank)),
      seed_(options.seed),
      device_(context.device),
      loss_(context.loss),
      is_sharded_(std::ranges::any_of(context.parameters, &StageParameter::is_sharded)),
      blocks_(context.blocks, context.blocks_per_stage),
      messages_(context.mesh.pipeline, second_group(context.mesh), context.device) {
  if (blocks_.stages() != layout_.stages()) {
    throw std::logic_error("a pipeline's stages do not match its ranks");
  }
  const c10::NoGradGuard no_grad;
  replicas_ = strategy_of(divide(context), context, options);
  for (const StageParameter& item : context.parameters) place_shares(item);
  if (!tied_.empty()) refresh_weights();
}

std::unique_ptr<Strategy> Pipeline::strategy_of(const std::vector<Parameter>& own,
                                                const PipelineContext& context,
                                                const PipelineOptions& options) const {
  if (context.strategy_of_stages) return context.strategy_of_stages(own);
  if (mesh_.gradients->world() == 1) return make_single();
  std::vector<Parameter> trained = own;
  std::erase_if(trained, [](const Parameter& item) { return !item.local.requires_grad(); });
  return make_ddp({trained, {}, mesh_.gradients.get()}, options.ddp);
}

std::vector<Parameter> Pipeline::divide(const PipelineContext& context) {
  std::vector<Parameter> own;
  for (const StageParameter& item : context.parameters) {
    const at::Tensor& tensor = item.parameter.local;
    const int64_t rank = pipeline().rank(), owner = layout_.rank_of(item.stage);
    const int64_t reader = item.also_read_by ? layout_.rank_of(*item.also_read_by) : owner;
    Parameter share = {item.parameter.name,
                       tensor,
                       item.parameter.shape(),
                       {{.axis = Axis::kPipeline, .dim = 0, .owner = owner}}};
    const std::vector<Placement>& inner = item.parameter.placements;
    share.placements.insert(share.placements.end(), inner.begin(), inner.end());
    if (rank == owner || rank == reader) {
      if (!item.is_sharded) materialize(tensor);
      own.push_back(share);
    } else {
      const bool trains = tensor.requires_grad();
      share.local = empty_share(tensor).set_requires_grad(trains);
      tensor.set_data(absent_like(tensor));
    }
    order_.push_back(std::move(share));
  }
  return own;
}

/// Replaces the model's tensor by what the strategy of the stage has of it, and by an empty share
/// on a rank that reads it alone.
void Pipeline::place_shares(const StageParameter& item) {
  Parameter& share = order_[shares_.size()];
  const int64_t rank = pipeline().rank(), owner = layout_.rank_of(item.stage);
  const int64_t reader = item.also_read_by ? layout_.rank_of(*item.also_read_by) : owner;
  if (rank == owner || rank == reader) share = replicas_->shards_of({share}).front();
  if (reader != owner) {
    tied_.push_back({share.local, owner, reader, item.parameter.local.requires_grad()});
  }
  if (rank != owner && rank == reader) {
    share.local = empty_share(share.local).set_requires_grad(share.local.requires_grad());
  } else if (rank != owner && item.is_sharded) {
    share.placements.push_back({shard_axis(item.parameter), 0});
  }
  shares_.emplace(share.name, share);
}

uint64_t Pipeline::seed_of(const PipelineAction& forward) const {
  const auto number = [](int64_t value) { return static_cast<uint64_t>(value); };
  SampleRng of_micro_batch(seed_, number(step_), number(forward.micro_batch));
  return SampleRng(of_micro_batch.next(), number(mesh_.data->rank()), number(forward.stage)).next();
}

void Pipeline::run_passes(MicroBatchPasses& passes) {
  const auto [place, is_new] = schedules_.try_emplace(passes.count());
  if (is_new) {
    place->second = make_pipeline_schedule(kind_, layout_, static_cast<int64_t>(passes.count()));
    check_pipeline_schedule(kind_, place->second);
  }
  PassSeeds seeds(device_);
  StageRun run(blocks_, messages_, place->second, pipeline().rank(), loss_);
  const std::vector<PipelineAction>& actions = run.actions();
  const auto shapes = [&](int64_t i) { return shapes_of(passes.batch(static_cast<size_t>(i))); };
  const auto adds_gradients = [](const PipelineAction& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight;
  };
  const auto last = std::find_if(actions.rbegin(), actions.rend(), adds_gradients).base();
  for (size_t k = 0; k < actions.size(); ++k) {
    const PipelineAction& action = actions[k];
    if (is_message(action.kind)) {
      run.transfer(action, shapes(action.micro_batch));
      continue;
    }
    run.look_ahead(k + 1, shapes);
    if (action.kind == ActionKind::kForward) {
      seeds.seed(seed_of(action));
      run.forward(action, [&] { return passes.forward(static_cast<size_t>(action.micro_batch)); });
    } else if (action.kind == ActionKind::kBackwardInput) {
      passes.backward([&] { run.backward_input(action); });
    } else {
      const bool whole = action.kind == ActionKind::kBackward;
      replicas_->before_pass(actions.begin() + static_cast<ptrdiff_t>(k) + 1 == last);
      passes.backward([&] { whole ? run.backward(action) : run.backward_weight(action); });
      replicas_->after_pass();
    }
  }
  messages_.finish();
}

void Pipeline::run_forward(const std::vector<Batch>& batches,
                           const std::function<void(size_t i)>& pass) {
  const PipelineSchedule schedule = forward_schedule(layout_, static_cast<int64_t>(batches.size()));
  StageRun run(blocks_, messages_, schedule, pipeline().rank());
  const auto shapes = [&](int64_t i) { return shapes_of(batches[static_cast<size_t>(i)]); };
  for (size_t k = 0; k < run.actions().size(); ++k) {
    const PipelineAction& action = run.actions()[k];
    if (is_message(action.kind)) {
      run.transfer(action, shapes(action.micro_batch));
      continue;
    }
    run.look_ahead(k + 1, shapes);
    run.forward(action, [&] {
      pass(static_cast<size_t>(action.micro_batch));
      return at::Tensor();
    });
  }
  messages_.finish();
}

void Pipeline::finish() {
  const c10::NoGradGuard no_grad;
  replicas_->finish();
  sum_tied_gradients();
  share_gradient_flags();
}

void Pipeline::sum_tied_gradients() {
  for (const TiedWeight& tied : tied_) {
    if (!tied.trains || tied.tensor.numel() == 0) continue;
    const int64_t rank = pipeline().rank();
    if (rank == tied.reader) {
      const at::Tensor own = tied.tensor.grad();
      pipeline().send(own.defined() ? own.contiguous() : at::zeros_like(tied.tensor), tied.owner,
                      "gradient of a tied weight");
      tied.tensor.mutable_grad() = at::Tensor();
    } else if (rank == tied.owner) {
      at::Tensor other = at::empty_like(tied.tensor, tied.tensor.options().requires_grad(false));
      pipeline().receive(other, tied.reader, "gradient of a tied weight");
      const at::Tensor own = tied.tensor.grad();
      tied.tensor.mutable_grad() = own.defined() ? other.add_(own) : other;
    }
  }
}

/// Gives an empty gradient to the shares of parameters whose owner has one, so that all ranks'
/// optimizers count the same updates.
void Pipeline::share_gradient_flags() {
  std::vector<int32_t> flag(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) {
    flag[i] = owns(order_[i]) && order_[i].local.grad().defined();
  }
  pipeline().all_reduce(at::from_blob(flag.data(), {static_cast<int64_t>(flag.size())}, at::kInt),
                        ReduceOp::kMax, "which gradients there are");
  for (size_t i = 0; i < order_.size(); ++i) {
    if (owns(order_[i]) || flag[i] == 0) continue;
    order_[i].local.mutable_grad() = empty_share(order_[i].local);
  }
}

void Pipeline::copy_tied_weights() {
  const c10::NoGradGuard no_grad;
  for (const TiedWeight& tied : tied_) {
    if (tied.tensor.numel() == 0) continue;
    const int64_t rank = pipeline().rank();
    if (rank == tied.owner) {
      pipeline().send(tied.tensor.detach().contiguous(), tied.reader, "tied weight");
    } else if (rank == tied.reader) {
      pipeline().receive(tied.tensor.detach(), tied.owner, "tied weight");
    }
  }
}

/// The squared norms of the rows of each gradient that each rank of the replicas has, or would have
/// of a whole one, [parameters, ranks]: zeros where another stage has them.
at::Tensor Pipeline::squares_by_rank(std::span<const Parameter> gradients) const {
  // Of experts, or of none: see make_expert_parallel().
  const Axis axis = shard_axis(gradients.front());
  Communicator& group = is_sharded_ ? mesh_.along(axis) : *mesh_.gradients;
  const int64_t ranks = group.world();
  std::vector<at::Tensor> squares;
  for (const Parameter& item : gradients) {
    if (!owns(item)) {
      squares.push_back(at::zeros({is_sharded_ ? 1 : ranks}, at::kDouble));
      continue;
    }
    std::vector<at::Tensor> rows = {item.local.grad()};
    const bool has_rows = has_placement(item, axis);
    if (!has_rows) rows = rows_by_rank(rows.front(), ranks);
    if (is_sharded_ && !has_rows) rows = {rows[static_cast<size_t>(group.rank())]};
    squares.push_back(squared_norms(rows).to(device_));
  }
  const at::Tensor own = at::cat(squares);
  if (!is_sharded_) return own.view({-1, ranks});
  return group.all_gather(own, "gradient norm").t().contiguous();
}

at::Tensor Pipeline::gradient_norm(std::span<const Parameter> parameters) const {
  const c10::NoGradGuard no_grad;
  std::vector<Parameter> with_gradient(parameters.begin(), parameters.end());
  std::erase_if(with_gradient, [](const Parameter& item) { return !item.local.grad().defined(); });
  if (with_gradient.empty()) return at::zeros({}, at::kFloat);
  if (is_sharded_ || mesh_.gradients->world() > 1) {
    const at::Tensor squares = squares_by_rank(with_gradient);
    pipeline().all_reduce(squares, ReduceOp::kSum, "gradient norm");
    return norm_of_squares(squares);
  }
  std::vector<at::Tensor> terms;  // of this rank's gradients, else zeros
  for (const Parameter& item : with_gradient) {
    const at::Tensor& gradient = item.local.grad();
    terms.push_back(owns(item) ? norm_terms(gradient)
                               : at::zeros({norm_term_count(item.numel())},
                                           norm_term_type(gradient.scalar_type())));
  }
  const at::Tensor all = at::cat(terms);
  pipeline().all_reduce(all, ReduceOp::kSum, "gradient norm");
  return norm_of_terms(all);
}

std::vector<Parameter> Pipeline::shards_of(std::vector<Parameter> parameters) const {
  for (Parameter& item : parameters) {
    const auto found = shares_.find(item.name);
    if (found != shares_.end()) item = found->second;
  }
  return parameters;
}

}  // namespace

std::unique_ptr<Strategy> make_pipeline(const PipelineContext& context,
                                        const PipelineOptions& options) {
  return std::make_unique<Pipeline>(context, options);
}

}  // namespace accel
