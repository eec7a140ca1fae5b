#include "train/job/build_fp8.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"
#include "kernels/choice.h"
#include "models/layers/fp8_layers.h"
#include "train/precision/fp8_precision.h"

namespace accel {
namespace {

std::shared_ptr<Fp8Layer> layer_of(const Fp8Section& fp8) {
  auto layer = std::make_shared<Fp8Layer>();
  const auto is_in_fp8 = [&](LinearProduct product) {
    const auto& others = fp8.override_linear_precision;
    return std::find(others.begin(), others.end(), product) == others.end();
  };
  layer->recipe = fp8.recipe;
  layer->fprop = is_in_fp8(LinearProduct::kFprop);
  layer->dgrad = is_in_fp8(LinearProduct::kDgrad);
  layer->wgrad = is_in_fp8(LinearProduct::kWgrad);
  layer->pad_inner_dim = fp8.pad_inner_dim;
  layer->in_evaluation = fp8.use_autocast_during_eval.value_or(fp8.recipe != Fp8Recipe::kDelayed);
  layer->format = fp8.format;
  return layer;
}

std::string name_of(const Job& job, const Model& model) {
  for (const TaskModel& item : job.task_models) {
    if (item.model == &model) return item.name + "/";
  }
  return "";
}

}  // namespace

void build_fp8(Job& job) {
  const AcceleratorSection& section = job.recipe.accelerator;
  const Fp8Section& fp8 = section.fp8;
  if (section.mixed_precision != MixedPrecision::kFp8) return;
  const Span where = recipe_place(
      job.resolved, fp8.filter ? "accelerator.fp8.filter" : "accelerator.mixed_precision");
  std::optional<std::vector<std::string>> filter;
  if (fp8.filter) filter = *fp8.filter;
  std::vector<Fp8Candidate> all, used;
  for (Model* const model : job.trainable_models) {
    for (Fp8Candidate& layer : fp8_candidates(*model, filter, where)) {
      layer.name.insert(0, name_of(job, *model));
      if (layer.reason.empty()) used.push_back(layer);
      all.push_back(std::move(layer));
    }
  }
  std::optional<DelayedScales> scales;
  if (fp8.recipe == Fp8Recipe::kDelayed) {
    const DelayedOptions options = {.format = fp8.format,
                                    .margin = fp8.margin,
                                    .interval = fp8.interval,
                                    .amax_history_len = fp8.amax_history_len,
                                    .amax_compute_algo = fp8.amax_compute_algo};
    std::vector<std::string> names;
    for (const Fp8Candidate& layer : used) names.push_back(layer.name);
    scales.emplace(options, std::move(names), job.device);
  }
  for (size_t i = 0; i < used.size(); ++i) {
    const auto layer = layer_of(fp8);
    if (scales) layer->delayed = scales->of_layer(i);
    if (fp8.all_gather && reads_fp8_alone(used[i])) {
      layer->gathered = std::make_shared<GatheredWeight>();
    }
    set_fp8(used[i], layer);
  }
  job.fp8_layers = fp8_summary(all);
  if (job.is_main && job.device.is_cpu() && !has_shapes_only()) {
    warn("the CPU emulates fp8 with float32 products, slower than bf16: to check numerics only");
  }
  if (!scales) return;
  const auto reduce = [world = job.mesh.world](const at::Tensor& amax) {
    if (world->world() > 1) world->all_reduce(amax, ReduceOp::kMax, "the magnitudes of fp8");
  };
  job.precision = make_delayed_precision(job.device, std::move(*scales), reduce);
}

}  // namespace accel
