#include "kernels/linear.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "kernels/choice.h"
#include "kernels/cpu/aligned_numbers.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/panel_product.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/row_blocks.h"
#include "kernels/memory/gradient_memory.h"
#include "kernels/memory/stored_outputs.h"
#include "kernels/narrow_product.h"

namespace accel {
namespace {

constexpr int64_t kLeastNumbers = 1 << 20;  // of the output: fewer stay in the cache
constexpr int64_t kMostWeights = 65536;     // which stay in the second cache with their gradient

struct Sizes {
  int64_t rows, inputs, outputs;

  RowBlocks blocks() const { return RowBlocks(rows); }
};

Sizes sizes_of(const at::Tensor& x, const at::Tensor& weight) {
  return {x.numel() / weight.size(1), weight.size(1), weight.size(0)};
}

/// Which gradients are wanted.
struct Wanted {
  bool x, weight, bias;
};

/// Those that are not wanted are undefined.
struct Gradients {
  at::Tensor x, weight, bias;
};

/// Sums of gradients over the rows of a part; null: not wanted.
struct PartSums {
  float *weight, *bias;
};

class BackwardPass {
 public:
  BackwardPass(const Sizes& sizes, const at::Tensor& x, const at::Tensor& dy)
      : of_(sizes), x_(x.const_data_ptr<float>()), dy_(dy.const_data_ptr<float>()) {}

  /// Calls of run() compute the gradient of x [rows, inputs], too.
  void find_dx(const at::Tensor& weight, float* dx) {
    weight_.emplace(panel_numbers(of_.outputs, of_.inputs));
    pack_panels({weight.const_data_ptr<float>(), of_.inputs}, {0, of_.inputs, of_.outputs},
                weight_->get());
    dx_ = dx;
  }

  /// sums_of(int64_t part): the PartSums.
  template <typename SumsOf>
  void run(const SumsOf& sums_of) const {
    for_each_part(of_.blocks().parts(), 1, [&](int64_t begin, int64_t end) {
      const AlignedNumbers packed_x(panel_numbers(RowBlocks::kRowsOfBlock, of_.inputs));
      for (int64_t part = begin; part < end; ++part) {
        const PartSums sums = sums_of(part);
        if (sums.bias != nullptr) std::fill_n(sums.bias, of_.outputs, 0.0F);
        of_.blocks().for_each_block(part, [&](Range rows, bool is_first) {
          run_block(rows, !is_first, packed_x.get(), sums);
        });
      }
    });
  }

 private:
  void run_block(Range rows, bool adds, float* packed_x, const PartSums& sums) const {
    const float* const dy = dy_ + rows.first * of_.outputs;
    if (dx_ != nullptr) {
      panel_product({dy, of_.outputs}, {weight_->get()}, {rows.count, of_.inputs, of_.outputs},
                    {dx_ + rows.first * of_.inputs, of_.inputs});
    }
    if (sums.bias != nullptr) {
      add_rows_cpu({dy, rows.count, of_.outputs, of_.outputs}, sums.bias);
    }
    if (sums.weight == nullptr) return;
    pack_panels({x_ + rows.first * of_.inputs, of_.inputs}, {0, of_.inputs, rows.count}, packed_x);
    panel_product({dy, of_.outputs, true}, {packed_x}, {of_.outputs, of_.inputs, rows.count},
                  {sums.weight, of_.inputs, adds});
  }

  Sizes of_;
  const float *x_, *dy_;
  std::optional<AlignedNumbers> weight_;  ///< packed
  float* dx_ = nullptr;
};

/// The tensors of a backward pass.
struct Passed {
  const at::Tensor &x, &weight, &dy;
};

Gradients gradients_of(const Passed& of, Wanted wanted) {
  const Sizes sizes = sizes_of(of.x, of.weight);
  Gradients to;
  BackwardPass pass(sizes, of.x, of.dy);
  if (wanted.x) {
    to.x = at::empty_like(of.x);
    pass.find_dx(of.weight, to.x.mutable_data_ptr<float>());
  }
  const int64_t weights = wanted.weight ? sizes.outputs * sizes.inputs : 0;
  const int64_t biases = wanted.bias ? sizes.outputs : 0;
  const at::Tensor sums = at::empty({sizes.blocks().parts(), weights + biases}, of.x.options());
  auto* const first = sums.mutable_data_ptr<float>();
  pass.run([&](int64_t part) {
    float* const at = first + part * sums.stride(0);
    return PartSums{wanted.weight ? at : nullptr, wanted.bias ? at + weights : nullptr};
  });
  if (wanted.weight) {
    to.weight = gradient_memory(of.weight);
    at::Tensor flat = to.weight.view(-1);
    at::sum_out(flat, sums.narrow(1, 0, weights), 0);
  }
  if (wanted.bias) to.bias = sums.narrow(1, weights, biases).sum(0);
  return to;
}

/// The memory and the FLOPs of gradients_of(), for fake tensors.
Gradients fake_gradients(const Passed& of, Wanted wanted) {
  const Sizes sizes = sizes_of(of.x, of.weight);
  const at::Tensor x = of.x.view({sizes.rows, sizes.inputs});
  const at::Tensor dy = of.dy.view({sizes.rows, sizes.outputs});
  const at::Tensor sums =
      at::empty({sizes.blocks().parts(), sizes.outputs * (sizes.inputs + 1)}, of.x.options());
  Gradients to;
  if (wanted.x) to.x = at::mm(dy, of.weight).view_as(of.x);
  if (wanted.weight) to.weight = at::mm(dy.t(), x);
  if (wanted.bias) to.bias = dy.sum(0);
  return to;
}

at::Tensor compute(const at::Tensor& x, const LinearParameters& layer) {
  const Sizes of = sizes_of(x, layer.weight);
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = of.outputs;
  if (fakes_fused()) return at::linear(x, layer.weight, layer.bias);
  return narrow_product(x.view({of.rows, of.inputs}), layer.weight.t(), layer.bias).view(shape);
}

/// Of the tensors x, weight and, where there is one, bias.
class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList tensors) {
    const at::Tensor &x = tensors[0], &weight = tensors[1];
    const at::Tensor bias = tensors.size() > 2 ? tensors[2] : at::Tensor();
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.defined();
    return store_output([&] { return compute(x, {weight, bias}); });
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const bool has_bias = context->saved_data["has_bias"].toBool();
    const Wanted wanted = {context->needs_input_grad(0), context->needs_input_grad(1),
                           has_bias && context->needs_input_grad(2)};
    const at::Tensor dy = gradients[0].contiguous();
    const Passed passed = {saved[0], saved[1], dy};
    const Gradients of =
        fakes_fused() ? fake_gradients(passed, wanted) : gradients_of(passed, wanted);
    return has_bias ? torch::autograd::variable_list{of.x, of.weight, of.bias}
                    : torch::autograd::variable_list{of.x, of.weight};
  }
};

}  // namespace

bool has_narrow_gradients(const at::Tensor& x, const LinearParameters& layer, MeasuredCpu cpu) {
  if (!allocates_as_fused() || at::autocast::is_autocast_enabled(at::kCPU)) return false;
  const auto& [weight, bias] = layer;
  const bool takes = is_plain_float(x) && x.numel() > 0 && is_plain_float(weight) &&
                     weight.dim() == 2 && x.size(-1) == weight.size(1) &&
                     (!bias.defined() || (is_plain_float(bias) && bias.numel() == weight.size(0)));
  if (!takes) return false;
  const Sizes of = sizes_of(x, weight);
  return of.outputs > of.inputs && of.rows * of.outputs >= kLeastNumbers &&
         weight.numel() <= kMostWeights && is_narrow_product(of.rows, of.inputs, of.outputs, cpu) &&
         is_narrow_product(of.rows, of.outputs, of.inputs, cpu);
}

at::Tensor linear(const at::Tensor& x, const LinearParameters& layer) {
  const auto& [weight, bias] = layer;
  const bool is_trained =
      at::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  if (!is_trained || !has_narrow_gradients(x, layer)) return at::linear(x, weight, bias);
  std::vector<at::Tensor> all = {x, weight};
  if (bias.defined()) all.push_back(bias);
  return LinearFunction::apply(at::TensorList(all));
}

}  // namespace accel
