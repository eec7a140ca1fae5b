// Each kernel of kernels/ beside its reference, forward alone and with the way back.
//
//   kernel_speed [--benchmark_filter=gelu] [--benchmark_format=json] ...
//
// A kernel is entered in kCases; threads are OMP_NUM_THREADS. References use MKL's fastest matrix
// products, too (kernels/cpu/mkl_processor.cpp), so that only kernels differ.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/array.h"
#include "kernels/adam.h"
#include "kernels/cpu_operators.h"
#include "kernels/cross_entropy.h"
#include "kernels/feed_forward.h"
#include "kernels/few_rows.h"
#include "kernels/gelu.h"
#include "kernels/linear.h"
#include "kernels/max_pool.h"
#include "kernels/norm.h"
#include "kernels/quantized_weight.h"
#include "kernels/residual_norm.h"

namespace accel {
namespace {

using Forward = std::function<at::Tensor()>;

at::Tensor drawn(at::IntArrayRef shape) {
  return at::randn(shape);
}
at::Tensor leaf(at::IntArrayRef shape) {
  return drawn(shape).set_requires_grad(true);
}

/// To float32.
Forward dequantize(WeightCode code, bool is_double) {
  return [weight = quantize_weight(drawn({2048, 2048}), code, is_double)] {
    return dequantize_weight(weight, at::kFloat);
  };
}

/// Rows of x by a weight of a Llama of 1.1B, as in generation; null code: unquantized.
Forward decoding_product(int64_t rows, std::optional<WeightCode> code, at::ScalarType type) {
  const at::Tensor values = drawn({5632, 2048}), x = drawn({rows, 2048}).to(type);
  const auto in_scope = [](const auto& product) {
    return [product] {
      const at::NoGradGuard no_grad;
      const FewRowsScope scope;
      return product();
    };
  };
  if (!code) {
    return in_scope([x, weight = values.to(type)] { return at::linear(x, weight); });
  }
  const bool is_double = *code != WeightCode::kInt8;
  return in_scope([x, weight = quantize_weight(values, *code, is_double)] {
    return quantized_linear(x, weight, {}, {});
  });
}

struct KernelCase {
  const char* name;
  /// Makes random inputs and returns a call of the kernel; inputs require gradients for kernels
  /// with a backward pass.
  std::function<Forward()> prepare;
};

/// Sizes [batch, length, heads, width], the memory layout of models.
Forward attention(at::IntArrayRef sizes, bool is_causal, at::ScalarType type = at::kFloat) {
  const auto part = [&] { return drawn(sizes).to(type).set_requires_grad(true).transpose(1, 2); };
  return [query = part(), key = part(), value = part(), is_causal] {
    return at::scaled_dot_product_attention(query, key, value, {}, 0, is_causal);
  };
}

/// A linear layer with a bias.
Forward linear_layer(int64_t rows, int64_t inputs, int64_t outputs) {
  const LinearParameters layer = {leaf({outputs, inputs}), leaf({outputs})};
  return [x = leaf({rows, inputs}), layer] { return linear(x, layer); };
}

/// The layers one by one with the reference kernels.
Forward feed_forward_layers(int64_t rows, int64_t width, int64_t inner) {
  const FeedForward layers = {{leaf({inner, width}), leaf({inner})},
                              {leaf({width, inner}), leaf({width})},
                              GeluForm::kTanh};
  return [x = leaf({rows, width}), layers] {
    if (is_narrow_feed_forward(x, layers)) return feed_forward(x, layers);
    const at::Tensor inner = gelu_tanh(at::linear(x, layers.in.weight, layers.in.bias));
    return at::linear(inner, layers.out.weight, layers.out.bias);
  };
}

/// As in a block of GPT-2: the sum is used again behind the norm.
Forward residual(int64_t rows, int64_t width) {
  const NormRule rule = {.weight = leaf({width}), .bias = leaf({width})};
  return [x = leaf({rows, width}), branch = leaf({rows, width}), rule] {
    const ResidualNorm of = residual_norm(x, branch, rule);
    return of.sum.add(of.normed);
  };
}

/// Steps of AdamW over `count` tensors of a million numbers.
Forward adam(size_t count) {
  const auto list = [count](auto make) {
    std::vector<at::Tensor> all;
    for (size_t i = 0; i < count; ++i) all.push_back(make());
    return all;
  };
  const auto million = [] { return drawn({1 << 20}); };
  const auto positive = [] { return drawn({1 << 20}).square(); };
  const AdamRule rule = {.lr = 1e-3,
                         .beta1 = 0.9,
                         .beta2 = 0.999,
                         .eps = 1e-8,
                         .weight_decay = 0.01,
                         .decoupled = true,
                         .amsgrad = false,
                         .maximize = false};
  return [=, parameters = list(million), gradients = list(million), averages = list(million),
          squares = list(positive), steps = list([] { return at::ones({}); })] {
    adam_step_(rule, {parameters, gradients, averages, squares, {}, steps});
    return parameters.front();
  };
}

/// With GPT-2's vocabulary.
Forward token_loss(int64_t tokens) {
  constexpr int64_t kVocab = 50257;
  return [x = leaf({tokens, kVocab}), targets = at::randint(kVocab, {tokens}, at::kLong)] {
    return cross_entropy(x, targets, /*ignored=*/-100);
  };
}

/// Without padding. Images of one or three channels are the model's inputs, without gradients.
Forward convolution(Shape images, Shape weight, int64_t stride = 1) {
  const at::Tensor x = drawn(images).set_requires_grad(images[1] > 3);
  return [x, by = leaf(weight), bias = leaf({weight[0]}), stride] {
    return at::conv2d(x, by, bias, stride);
  };
}

const std::vector<KernelCase> kCases = {
    {"adam_step/16x1M", [] { return adam(16); }},
    {"attention/8x12x128",
     [] {
       return attention({8, 128, 12, 64}, false);
     }},
    {"attention/32x4x128x32/causal",
     [] {
       return attention({32, 128, 4, 32}, true);
     }},
    {"attention/1x12x256/causal",
     [] {
       return attention({1, 256, 12, 64}, true);
     }},
    {"attention/1x12x256/causal/bf16",
     [] {
       return attention({1, 256, 12, 64}, true, at::kBFloat16);
     }},
    {"cross_entropy/256x50257", [] { return token_loss(256); }},
    {"linear/4096x128x384", [] { return linear_layer(4096, 128, 384); }},
    {"linear/4096x128x512", [] { return linear_layer(4096, 128, 512); }},
    {"linear/4096x512x128", [] { return linear_layer(4096, 512, 128); }},
    {"linear/4096x128x128", [] { return linear_layer(4096, 128, 128); }},
    {"linear/4096x128x65", [] { return linear_layer(4096, 128, 65); }},
    {"linear/1024x256x256", [] { return linear_layer(1024, 256, 256); }},
    {"linear/1024x256x1024", [] { return linear_layer(1024, 256, 1024); }},
    {"linear/4096x384x384", [] { return linear_layer(4096, 384, 384); }},
    {"linear/1024x64x256", [] { return linear_layer(1024, 64, 256); }},
    {"linear/256x128x512", [] { return linear_layer(256, 128, 512); }},
    {"linear_gelu/1024x768x3072",
     [] {
       return [x = leaf({1024, 768}), weight = leaf({3072, 768}), bias = leaf({3072})] {
         return linear_gelu(x, weight, bias);
       };
     }},
    {"feed_forward/4096x128x512", [] { return feed_forward_layers(4096, 128, 512); }},
    {"feed_forward/1024x256x1024", [] { return feed_forward_layers(1024, 256, 1024); }},
    {"feed_forward/1024x64x256", [] { return feed_forward_layers(1024, 64, 256); }},
    {"residual_norm/4096x128", [] { return residual(4096, 128); }},
    {"residual_norm/256x768", [] { return residual(256, 768); }},
    {"residual_norm/1024x768", [] { return residual(1024, 768); }},
    {"gelu_tanh/1M", [] { return [x = leaf({1 << 20})] { return gelu_tanh(x); }; }},
    {"gelu_tanh/1M/bf16",
     [] {
       return [x = drawn({1 << 20}).to(at::kBFloat16).set_requires_grad(true)] {
         return gelu_tanh(x);
       };
     }},
    {"max_pool/128x20x24x24/2",
     [] {
       return [x = leaf({128, 20, 24, 24})] { return max_pool(x, {2, 2}); };
     }},
    {"max_pool/16x64x32x32/3",
     [] {
       return [x = leaf({16, 64, 32, 32})] { return max_pool(x, {3, 2, 1}); };
     }},
    {"convolution/128x1x28x28/20x5x5",
     [] {
       return convolution({128, 1, 28, 28}, {20, 1, 5, 5});
     }},
    {"convolution/128x20x12x12/50x5x5",
     [] {
       return convolution({128, 20, 12, 12}, {50, 20, 5, 5});
     }},
    {"convolution/32x3x32x32/64x3x3",
     [] {
       return convolution({32, 3, 32, 32}, {64, 3, 3, 3});
     }},
    {"convolution/16x50x16x16/100x3x3",
     [] {
       return convolution({16, 50, 16, 16}, {100, 50, 3, 3});
     }},
    {"convolution/16x64x16x16/64x3x3",
     [] {
       return convolution({16, 64, 16, 16}, {64, 64, 3, 3});
     }},
    {"convolution/16x256x6x6/256x3x3",
     [] {
       return convolution({16, 256, 6, 6}, {256, 256, 3, 3});
     }},
    {"convolution/16x64x16x16/128x3x3/2",
     [] {
       return convolution({16, 64, 16, 16}, {128, 64, 3, 3}, 2);
     }},
    {"convolution/16x64x16x16/128x1x1/2",
     [] {
       return convolution({16, 64, 16, 16}, {128, 64, 1, 1}, 2);
     }},
    {"convolution/4x256x56x56/64x1x1",
     [] {
       return convolution({4, 256, 56, 56}, {64, 256, 1, 1});
     }},
    {"dequantize_nf4/2048x2048", [] { return dequantize(WeightCode::kNf4, false); }},
    {"dequantize_nf4/2048x2048/double", [] { return dequantize(WeightCode::kNf4, true); }},
    {"dequantize_int8/2048x2048", [] { return dequantize(WeightCode::kInt8, false); }},
    {"decode/fp32/1", [] { return decoding_product(1, {}, at::kFloat); }},
    {"decode/bf16/1", [] { return decoding_product(1, {}, at::kBFloat16); }},
    {"decode/int8/1", [] { return decoding_product(1, WeightCode::kInt8, at::kFloat); }},
    {"decode/nf4/1", [] { return decoding_product(1, WeightCode::kNf4, at::kFloat); }},
    {"decode/fp32/4", [] { return decoding_product(4, {}, at::kFloat); }},
    {"decode/bf16/4", [] { return decoding_product(4, {}, at::kBFloat16); }},
    {"decode/int8/4", [] { return decoding_product(4, WeightCode::kInt8, at::kFloat); }},
    {"decode/nf4/4", [] { return decoding_product(4, WeightCode::kNf4, at::kFloat); }},
    {"decode/fp32/8", [] { return decoding_product(8, {}, at::kFloat); }},
    {"decode/bf16/8", [] { return decoding_product(8, {}, at::kBFloat16); }},
    {"decode/int8/8", [] { return decoding_product(8, WeightCode::kInt8, at::kFloat); }},
    {"decode/nf4/8", [] { return decoding_product(8, WeightCode::kNf4, at::kFloat); }},
    {"decode/fp32/16", [] { return decoding_product(16, {}, at::kFloat); }},
    {"decode/bf16/16", [] { return decoding_product(16, {}, at::kBFloat16); }},
    {"decode/int8/16", [] { return decoding_product(16, WeightCode::kInt8, at::kFloat); }},
    {"decode/nf4/16", [] { return decoding_product(16, WeightCode::kNf4, at::kFloat); }},
    {"decode/fp32/32", [] { return decoding_product(32, {}, at::kFloat); }},
    {"decode/bf16/32", [] { return decoding_product(32, {}, at::kBFloat16); }},
    {"decode/int8/32", [] { return decoding_product(32, WeightCode::kInt8, at::kFloat); }},
    {"decode/nf4/32", [] { return decoding_product(32, WeightCode::kNf4, at::kFloat); }},
    {"norm_of_all/16x1M",
     [] {
       std::vector<at::Tensor> all;
       for (int i = 0; i < 16; ++i) all.push_back(drawn({1 << 20}));
       return [all] { return norm_of_all(all); };
     }},
};

void run_forward(benchmark::State& state, Kernels which, const KernelCase& of) {
  use_kernels(which);
  const Forward forward = of.prepare();
  for (auto _ : state) benchmark::DoNotOptimize(forward());
}

void run_both_ways(benchmark::State& state, Kernels which, const KernelCase& of) {
  use_kernels(which);
  const Forward forward = of.prepare();
  const at::Tensor gradient = at::ones_like(forward().detach());
  for (auto _ : state) forward().backward(gradient);
}

void enter(const KernelCase& of) {
  for (const auto& [which, name] : EnumNames<Kernels>::kValues) {
    const std::string label = std::string(of.name) + "/" + name;
    benchmark::RegisterBenchmark((label + "/forward").c_str(), [&of, which = which](auto& state) {
      run_forward(state, which, of);
    })->UseRealTime();
    if (!of.prepare()().requires_grad()) continue;
    benchmark::RegisterBenchmark((label + "/both").c_str(), [&of, which = which](auto& state) {
      run_both_ways(state, which, of);
    })->UseRealTime();
  }
}

}  // namespace
}  // namespace accel

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  accel::use_kernels(accel::Kernels::kFused);
  at::mm(at::ones({2, 2}), at::ones({2, 2}));
  for (const accel::KernelCase& of : accel::kCases) accel::enter(of);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
