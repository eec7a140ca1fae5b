#include "kernels/feed_forward.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
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
#include "kernels/transpose.h"

namespace accel {
namespace {

constexpr int64_t kRowsOfBlock = RowBlocks::kRowsOfBlock;  // of inner activations
constexpr int64_t kSlice = 128;                            // columns of them, in the backward pass

struct Sizes {
  int64_t rows, width, inner;

  RowBlocks blocks() const { return RowBlocks(rows); }
  int64_t slices() const { return (inner + kSlice - 1) / kSlice; }
  Range slice(int64_t i) const { return {i * kSlice, std::min(kSlice, inner - i * kSlice)}; }
  /// Where GELU's inputs of a block's slice [rows, slice] begin, which are contiguous.
  int64_t inputs_of_gelu(Range block, Range slice) const {
    return block.first * inner + slice.first * block.count;
  }
};

enum class Cut { kColumns, kRows };

/// A weight between `width` and the inner activations, of which each slice is packed.
class PackedSlices {
 public:
  PackedSlices(const Sizes& sizes, const MatrixPart& weight, Cut cut)
      : step_(numbers(sizes, sizes.slice(0), cut)), panels_(step_ * sizes.slices()) {
    const bool is_cut_by_step = weight.turned == (cut == Cut::kColumns);
    for_each_part(sizes.slices(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Range slice = sizes.slice(i);
        const float* const from = weight.data + slice.first * (is_cut_by_step ? weight.step : 1);
        pack_panels({from, weight.step, weight.turned}, shape(sizes, slice, cut), of(slice));
      }
    });
  }

  float* of(Range slice) const { return panels_.get() + slice.first / kSlice * step_; }

 private:
  static ProductShape shape(const Sizes& sizes, Range slice, Cut cut) {
    return cut == Cut::kColumns ? ProductShape{0, slice.count, sizes.width}
                                : ProductShape{0, sizes.width, slice.count};
  }
  static int64_t numbers(const Sizes& sizes, Range slice, Cut cut) {
    const ProductShape of = shape(sizes, slice, cut);
    return panel_numbers(of.inner, of.columns);
  }

  int64_t step_;
  AlignedNumbers panels_;
};

Sizes sizes_of(const at::Tensor& x, const FeedForward& layers) {
  const int64_t width = layers.in.weight.size(1);
  return {x.numel() / width, width, layers.in.weight.size(0)};
}

class ForwardPass {
 public:
  ForwardPass(const Sizes& sizes, const FeedForward& layers)
      : of_(sizes),
        gelu_(layers.gelu),
        in_bias_(layers.in.bias.const_data_ptr<float>()),
        out_bias_(layers.out.bias.const_data_ptr<float>()),
        in_(of_, {layers.in.weight.const_data_ptr<float>(), of_.width, true}, Cut::kColumns),
        out_(panel_numbers(of_.inner, of_.width)) {
    pack_panels({layers.out.weight.const_data_ptr<float>(), of_.inner, true},
                {0, of_.width, of_.inner}, out_.get());
  }

  /// `kept`: the inputs of GELU, of all blocks; null: not kept.
  void run(const float* x, float* kept, float* y) const {
    for_each_part(of_.rows, kRowsOfBlock, [&](int64_t begin, int64_t end) {
      const AlignedNumbers inner(kRowsOfBlock * of_.inner), inputs(kRowsOfBlock * kSlice);
      for (int64_t first = begin; first < end; first += kRowsOfBlock) {
        const Range rows = of_.blocks().block(first);
        for (int64_t i = 0; i < of_.slices(); ++i) {
          const Range slice = of_.slice(i);
          float* const z = kept != nullptr ? kept + of_.inputs_of_gelu(rows, slice) : inputs.get();
          panel_product({x + first * of_.width, of_.width}, {in_.of(slice), in_bias_ + slice.first},
                        {rows.count, slice.count, of_.width}, {z, slice.count});
          gelu_cpu(gelu_, z, {inner.get() + slice.first, rows.count, slice.count, of_.inner});
        }
        panel_product({inner.get(), of_.inner}, {out_.get(), out_bias_},
                      {rows.count, of_.width, of_.inner}, {y + first * of_.width, of_.width});
      }
    });
  }

 private:
  Sizes of_;
  GeluForm gelu_;
  const float *in_bias_, *out_bias_;
  PackedSlices in_;
  AlignedNumbers out_;
};

/// Sums of gradients over the rows of a part; those of weights are [inner, width], or null for a
/// frozen weight.
struct PartSums {
  float *in, *turned_out, *in_bias, *out_bias;
};

/// `z`: the inputs of GELU.
struct Saved {
  const float *x, *z, *dy;
};

class BackwardPass {
 public:
  BackwardPass(const Sizes& sizes, const FeedForward& layers, const Saved& saved)
      : of_(sizes),
        gelu_(layers.gelu),
        in_(of_, {layers.in.weight.const_data_ptr<float>(), of_.width}, Cut::kRows),
        out_(of_, {layers.out.weight.const_data_ptr<float>(), of_.inner}, Cut::kColumns),
        saved_(saved) {}

  /// dx [rows, width] and the sums of each part.
  template <typename SumsOf>
  void run(float* dx, const SumsOf& sums_of) const {
    for_each_part(of_.blocks().parts(), 1, [&](int64_t begin, int64_t end) {
      const BlockMemory memory(of_);
      for (int64_t part = begin; part < end; ++part) {
        const PartSums sums = sums_of(part);
        std::fill_n(sums.in_bias, of_.inner, 0.0F);
        std::fill_n(sums.out_bias, of_.width, 0.0F);
        of_.blocks().for_each_block(
            part, [&](Range rows, bool is_first) { run_block(rows, !is_first, memory, dx, sums); });
      }
    });
  }

 private:
  /// Of the block and slice that a thread computes.
  struct BlockMemory {
    explicit BlockMemory(const Sizes& of)
        : dgelu(kRowsOfBlock * kSlice),
          inner(kRowsOfBlock * kSlice),
          dz(kRowsOfBlock * kSlice),
          x(panel_numbers(kRowsOfBlock, of.width)),
          dy(panel_numbers(kRowsOfBlock, of.width)) {}

    AlignedNumbers dgelu, inner, dz;
    AlignedNumbers x, dy;  ///< packed
  };

  void run_block(Range rows, bool adds, const BlockMemory& memory, float* dx,
                 const PartSums& sums) const {
    const int64_t width = of_.width, at = rows.first * width;
    pack_panels({saved_.x + at, width}, {0, width, rows.count}, memory.x.get());
    pack_panels({saved_.dy + at, width}, {0, width, rows.count}, memory.dy.get());
    add_rows_cpu({saved_.dy + at, rows.count, width, width}, sums.out_bias);
    for (int64_t i = 0; i < of_.slices(); ++i) {
      const Range slice = of_.slice(i);
      const int64_t count = slice.count, weights = slice.first * width;
      panel_product({saved_.dy + at, width}, {out_.of(slice)}, {rows.count, count, width},
                    {memory.dgelu.get(), count});
      gelu_again_cpu(gelu_,
                     {saved_.z + of_.inputs_of_gelu(rows, slice), memory.dgelu.get(),
                      memory.inner.get(), memory.dz.get(), sums.in_bias + slice.first},
                     rows.count, count);
      panel_product({memory.dz.get(), count}, {in_.of(slice)}, {rows.count, width, count},
                    {dx + at, width, i > 0});
      const ProductShape of_weights = {count, width, rows.count};
      if (sums.in != nullptr) {
        panel_product({memory.dz.get(), count, true}, {memory.x.get()}, of_weights,
                      {sums.in + weights, width, adds});
      }
      if (sums.turned_out != nullptr) {
        panel_product({memory.inner.get(), count, true}, {memory.dy.get()}, of_weights,
                      {sums.turned_out + weights, width, adds});
      }
    }
  }

  Sizes of_;
  GeluForm gelu_;
  PackedSlices in_, out_;
  Saved saved_;
};

/// Weights that are not frozen.
struct Trained {
  bool in, out;
};

/// Those of frozen weights are undefined.
struct Gradients {
  at::Tensor x, in, in_bias, out, out_bias;
};

/// The tensors of a backward pass.
struct Passed {
  const at::Tensor &x, &z, &dy;
};

Gradients gradients_of(const FeedForward& layers, Trained trained, const Passed& of) {
  const Sizes sizes = sizes_of(of.x, layers);
  const int64_t weights = sizes.inner * sizes.width;
  Gradients to;
  to.x = at::empty_like(of.x);
  const int64_t biases = 2 * weights, out_bias = biases + sizes.inner;  // columns of sums
  const at::Tensor sums =
      at::empty({sizes.blocks().parts(), out_bias + sizes.width}, of.x.options());
  auto* const first = sums.mutable_data_ptr<float>();
  BackwardPass(
      sizes, layers,
      {of.x.const_data_ptr<float>(), of.z.const_data_ptr<float>(), of.dy.const_data_ptr<float>()})
      .run(to.x.mutable_data_ptr<float>(), [&](int64_t part) {
        float* const at = first + part * sums.stride(0);
        return PartSums{trained.in ? at : nullptr, trained.out ? at + weights : nullptr,
                        at + biases, at + out_bias};
      });
  to.in_bias = sums.narrow(1, biases, sizes.inner).sum(0);
  to.out_bias = sums.narrow(1, out_bias, sizes.width).sum(0);
  if (trained.in) {
    to.in = gradient_memory(layers.in.weight);
    at::Tensor flat = to.in.view(-1);
    at::sum_out(flat, sums.narrow(1, 0, weights), 0);
  }
  if (!trained.out) return to;
  const at::Tensor turned = sums.narrow(1, weights, weights).sum(0);
  to.out = gradient_memory(layers.out.weight);
  copy_transposed({turned.const_data_ptr<float>(), sizes.inner, sizes.width, sizes.width},
                  to.out.mutable_data_ptr<float>(), sizes.inner);
  return to;
}

/// The memory and the FLOPs of gradients_of(), for fake tensors.
Gradients fake_gradients(const FeedForward& layers, Trained trained, const Passed& of) {
  const Sizes sizes = sizes_of(of.x, layers);
  const at::Tensor sums =
      at::empty({sizes.blocks().parts(), 2 * sizes.inner * sizes.width + sizes.inner + sizes.width},
                of.x.options());
  const at::Tensor x = of.x.view({sizes.rows, sizes.width}), dy = of.dy.view_as(x);
  const at::Tensor work_of_dgelu = at::mm(of.z.t(), dy);
  Gradients to;
  to.x = at::mm(of.z, layers.in.weight).view_as(of.x);
  to.in_bias = of.z.sum(0);
  to.out_bias = dy.sum(0);
  if (trained.in) to.in = at::mm(of.z.t(), x);
  if (trained.out) to.out = at::mm(dy.t(), of.z);
  return to;
}

/// Of the tensors x and the weight and bias of each layer.
class FeedForwardFunction : public torch::autograd::Function<FeedForwardFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList tensors,
                            GeluForm gelu) {
    const at::Tensor& x = tensors[0];
    const FeedForward layers = {{tensors[1], tensors[2]}, {tensors[3], tensors[4]}, gelu};
    const std::vector<at::Tensor> outputs = store_outputs([&] { return compute(x, layers); });
    context->save_for_backward({x, outputs[0], tensors[1], tensors[2], tensors[3], tensors[4]});
    context->saved_data["gelu"] = static_cast<int64_t>(gelu);
    return outputs[1];
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const FeedForward layers = {{saved[2], saved[3]},
                                {saved[4], saved[5]},
                                static_cast<GeluForm>(context->saved_data["gelu"].toInt())};
    const Trained trained = {context->needs_input_grad(1), context->needs_input_grad(3)};
    const at::Tensor dy = gradients[0].contiguous();
    const Passed passed = {saved[0], saved[1], dy};
    const Gradients of = fakes_fused() ? fake_gradients(layers, trained, passed)
                                       : gradients_of(layers, trained, passed);
    return {of.x, of.in, of.in_bias, of.out, of.out_bias, {}};
  }

 private:
  /// The inputs of GELU, and the output.
  static std::vector<at::Tensor> compute(const at::Tensor& x, const FeedForward& layers) {
    const Sizes sizes = sizes_of(x, layers);
    if (fakes_fused()) {
      const at::Tensor z = at::linear(x, layers.in.weight, layers.in.bias);
      return {z.view({sizes.rows, sizes.inner}), at::linear(z, layers.out.weight, layers.out.bias)};
    }
    const at::Tensor z = at::empty({sizes.rows, sizes.inner}, x.options());
    const at::Tensor y = at::empty_like(x);
    ForwardPass(sizes, layers)
        .run(x.const_data_ptr<float>(), z.mutable_data_ptr<float>(), y.mutable_data_ptr<float>());
    return {z, y};
  }
};

bool are_plain(const LinearParameters& of) {
  return is_plain_float(of.weight) && is_plain_float(of.bias) && of.weight.dim() == 2 &&
         of.bias.numel() == of.weight.size(0);
}

bool fit(const at::Tensor& x, const FeedForward& layers) {
  const at::Tensor &in = layers.in.weight, &out = layers.out.weight;
  return x.size(-1) == in.size(1) && out.size(0) == in.size(1) && out.size(1) == in.size(0);
}

}  // namespace

bool is_narrow_feed_forward(const at::Tensor& x, const FeedForward& layers, MeasuredCpu cpu) {
  if (!allocates_as_fused() || at::autocast::is_autocast_enabled(at::kCPU)) return false;
  const bool takes = is_plain_float(x) && x.numel() > 0 && are_plain(layers.in) &&
                     are_plain(layers.out) && fit(x, layers);
  if (!takes) return false;
  const Sizes of = sizes_of(x, layers);
  return is_narrow_product(of.rows, of.width, of.inner, cpu) &&
         is_narrow_product(of.rows, of.inner, of.width, cpu);
}

at::Tensor feed_forward(const at::Tensor& x, const FeedForward& layers) {
  const std::vector<at::Tensor> all = {x, layers.in.weight, layers.in.bias, layers.out.weight,
                                       layers.out.bias};
  const bool is_trained =
      at::GradMode::is_enabled() && std::ranges::any_of(all, &at::Tensor::requires_grad);
  if (is_trained || fakes_fused()) {
    return FeedForwardFunction::apply(at::TensorList(all), layers.gelu);
  }
  const at::Tensor y = at::empty_like(x);
  ForwardPass(sizes_of(x, layers), layers)
      .run(x.const_data_ptr<float>(), nullptr, y.mutable_data_ptr<float>());
  return y;
}

}  // namespace accel
