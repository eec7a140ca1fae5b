// Conversion and quantization of a loaded model's weights: against the recipe's quantization, in
// bounds of the types' rounding, and what is refused.
#include "infer/weight_types.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "infer/generate.h"
#include "kernels/cpu_operators.h"
#include "kernels/few_rows.h"
#include "kernels/quantized_weight.h"
#include "models/layers/module_state.h"
#include "models/layers/token_logits.h"
#include "tests/unit/build_component.h"

namespace accel::weight_types_test {
namespace {

constexpr int64_t kVocab = 40, kLength = 12;

const std::string kLlama =
    "type: llama, num_layers: 2, num_heads: 2, num_kv_heads: 1, hidden_size: 64, "
    "intermediate_size: 80, vocab_size: 40, max_seq_len: 24";

struct Built {
  std::unique_ptr<Model> model;
  Node resolved;
};

Built built(const std::string& yaml) {
  at::set_num_threads(1);
  at::manual_seed(3);
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  const Ref<Model> ref =
      registry.of<Model>().prepare(parse_recipe("recipe.yaml", "{" + yaml + "}"), reading);
  problems.check();
  ModelContext context;
  context.data.input = {kLength};
  context.data.input_type = DType::kI64;
  context.data.vocab = kVocab;
  Built out{ref.make(context), ref.resolved};
  out.model->module().eval();
  return out;
}

QuantizationOptions section(const std::string& yaml) {
  Diagnostics problems;
  const Registry none;
  Reading reading{problems, none};
  QuantizationOptions out =
      QuantizationOptions::schema().read(parse_recipe("section.yaml", yaml), reading);
  problems.check();
  return out;
}

WeightTypes types_of(std::optional<ComputeDtype> dtype, const std::string& quantization = "{}") {
  WeightTypes out;
  out.dtype = dtype;
  out.quantization = section(quantization);
  out.section = parse_recipe("section.yaml", quantization);
  return out;
}

at::Tensor logits_of(Model& model) {
  const at::NoGradGuard no_grad;
  return model.forward(at::arange(kLength, at::kLong).unsqueeze(0)).to(at::kFloat);
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>() / b.abs().max().item<double>();
}

class DecoderTypesTest : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DecoderTypesTest, LogitsAndCachedStatesAreCloseToThoseOfFp32) {
  const at::Tensor whole = logits_of(*built(GetParam().second).model);
  for (const auto& [dtype, limit] :
       {std::pair(ComputeDtype::kBf16, 0.04), std::pair(ComputeDtype::kFp16, 0.005)}) {
    const Built found = built(GetParam().second);
    EXPECT_EQ(convert_weights(*found.model, types_of(dtype), found.resolved), 0);
    for (const Parameter& item : parameters_of(*found.model)) {
      EXPECT_EQ(item.local.scalar_type(), type_of(dtype)) << item.name;
    }
    const double apart = distance(logits_of(*found.model), whole);
    EXPECT_GT(apart, 0);
    EXPECT_LT(apart, limit);
    GenerationRequest request;
    request.config.max_new_tokens = 6;
    auto& language = dynamic_cast<LanguageModel&>(*found.model);
    const std::vector<std::vector<int64_t>> prompts = {{1, 2, 3, 4}, {7}, {9, 8}};
    size_t done = 0;
    generate_tokens(language, prompts, request,
                    [&](size_t, const GeneratedTokens& made) { done += made.tokens.size(); });
    EXPECT_EQ(done, 18U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, DecoderTypesTest,
    testing::Values(
        std::pair("gpt", "type: gpt, num_layers: 2, num_heads: 2, hidden_size: 32"),
        std::pair("gpt_neox", "type: gpt_neox, num_layers: 2, num_heads: 2, hidden_size: 32"),
        std::pair("opt", "type: opt, num_layers: 2, num_heads: 2, hidden_size: 32"),
        std::pair("llama", kLlama.c_str()),
        std::pair("mistral",
                  "type: llama, num_layers: 2, num_heads: 2, hidden_size: 32, "
                  "sliding_window: 5, qk_norm: true"),
        std::pair("gemma2",
                  "type: llama, num_layers: 2, num_heads: 2, num_kv_heads: 1, hidden_size: 32, "
                  "sliding_window: 4, layer_types: [sliding_attention, full_attention], "
                  "zero_centered_gamma: true, sandwich_norms: true, scale_embeddings: true, "
                  "attn_logit_softcapping: 0.5, final_logit_softcapping: 0.3"),
        std::pair("dynamic",
                  "type: llama, num_layers: 2, num_heads: 2, hidden_size: 32, rope: "
                  "{scaling: dynamic, factor: 4, original_max_position_embeddings: 6}")),
    [](const auto& info) { return std::string(info.param.first); });

TEST(WeightTypesTest, QuantizedWeightsAreThoseOfTheRecipe) {
  for (const char* quantization :
       {"{type: nf4}", "{type: nf4, double_quant: true}", "{type: fp4}", "{type: int8}",
        "{type: fp8_e4m3}", "{type: bf16}", "{type: nf4, skip_modules: ['*.down_proj']}"}) {
    const Built wanted = built(kLlama + ", quantization: " + quantization + ", lora: {rank: 2}");
    const Built found = built(kLlama);
    const int64_t layers =
        convert_weights(*found.model, types_of({}, quantization), found.resolved);
    EXPECT_EQ(layers, section(quantization).skip_modules ? 12 : 14);
    EXPECT_TRUE(logits_of(*found.model).equal(logits_of(*wanted.model))) << quantization;
  }
}

/// A tied head is quantized apart from the embedding, whose rows stay as they are.
class QuantizedHeadTest : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(QuantizedHeadTest, LogitsAreThoseOfTheDequantizedHead) {
  const std::string quantization = "{type: int8, head: true}";
  const Built plain = built(GetParam().second), found = built(GetParam().second);
  convert_weights(*plain.model, types_of({}, "{type: int8}"), plain.resolved);
  convert_weights(*found.model, types_of({}, quantization), found.resolved);
  const at::NoGradGuard no_grad;
  auto& before = dynamic_cast<LanguageModel&>(*plain.model);
  auto& after = dynamic_cast<LanguageModel&>(*found.model);
  const at::Tensor ids = at::arange(kLength, at::kLong).unsqueeze(0);
  const at::Tensor hidden = before.hidden(ids);
  EXPECT_TRUE(after.hidden(ids).equal(hidden));
  const at::Tensor weight = dequantize_weight(
      quantize_weight(before.head_weight(), WeightCode::kInt8, false), at::kFloat);
  EXPECT_TRUE(after.head_weight().equal(weight));
  EXPECT_EQ(head_rows(after), weight.size(0));
  EXPECT_TRUE(token_logits(after, hidden).equal(at::linear(hidden, weight)));
  EXPECT_TRUE(after.forward(ids).equal(at::linear(hidden, weight)));
  const FewRowsScope few_rows;
  use_kernels(Kernels::kFused);
  const at::Tensor by_codes = token_logits(after, hidden);
  use_kernels(Kernels::kReference);
  EXPECT_LT(distance(by_codes, at::linear(hidden, weight)), 1e-5);
}

TEST_P(QuantizedHeadTest, ItsCodesAndScalesKeepTheirTypes) {
  const Built found = built(GetParam().second);
  convert_weights(*found.model, types_of(ComputeDtype::kBf16, "{type: nf4, head: true}"),
                  found.resolved);
  std::map<std::string, at::ScalarType> types;
  for (const Parameter& item : parameters_of(*found.model)) {
    types[item.name] = item.local.scalar_type();
  }
  EXPECT_EQ(types.at("lm_head.weight"), at::kByte);
  EXPECT_EQ(types.at("lm_head.weight.absmax"), at::kFloat);
}

INSTANTIATE_TEST_SUITE_P(
    Models, QuantizedHeadTest,
    testing::Values(std::pair("llama", kLlama.c_str()),
                    std::pair("tied_llama",
                              "type: llama, num_layers: 1, num_heads: 2, hidden_size: 64, "
                              "vocab_size: 40, tie_embeddings: true"),
                    std::pair("gpt", "type: gpt, num_layers: 2, num_heads: 2, hidden_size: 64"),
                    std::pair("gpt_neox",
                              "type: gpt_neox, num_layers: 1, num_heads: 2, hidden_size: 64"),
                    std::pair("opt", "type: opt, num_layers: 1, num_heads: 2, hidden_size: 64")),
    [](const auto& info) { return std::string(info.param.first); });

TEST(WeightTypesTest, ScalesAndCodesKeepTheirTypesBesideBf16) {
  const Built found = built(kLlama);
  convert_weights(*found.model, types_of(ComputeDtype::kBf16, "{type: nf4}"), found.resolved);
  int64_t scales = 0, converted = 0;
  for (const Parameter& item : parameters_of(*found.model)) {
    const at::ScalarType type = item.local.scalar_type();
    scales += item.name.ends_with(".absmax") && type == at::kFloat;
    converted += type == at::kBFloat16;
  }
  EXPECT_EQ(scales, 14);
  EXPECT_EQ(converted, 7);  // embedding, head and five norms
  EXPECT_LT(distance(logits_of(*found.model), logits_of(*built(kLlama).model)), 0.3);
}

TEST(WeightTypesTest, RoutersOfExpertsStayInFp32) {
  const std::string moe =
      "type: llama, num_layers: 1, num_heads: 2, hidden_size: 32, moe: {num_experts: 4}";
  const at::Tensor whole = logits_of(*built(moe).model);
  const Built found = built(moe);
  convert_weights(*found.model, types_of(ComputeDtype::kBf16), found.resolved);
  std::string in_fp32;
  for (const Parameter& item : parameters_of(*found.model)) {
    if (item.local.scalar_type() == at::kFloat) in_fp32 += item.name;
  }
  EXPECT_EQ(in_fp32, "model.layers.0.mlp.gate.weight");
  EXPECT_LT(distance(logits_of(*found.model), whole), 0.05);
}

/// What convert_weights() throws, with its hint.
std::string said(const std::string& yaml, const WeightTypes& types) {
  const Built found = built(yaml);
  try {
    convert_weights(*found.model, types, found.resolved);
  } catch (const Error& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "";
}

TEST(WeightTypesTest, AContradictionOfTheModelsQuantizationIsRefused) {
  const std::string quantized = kLlama + ", quantization: {type: nf4}, lora: {rank: 2}";
  const std::string end = " | leave it out, or name a model with unquantized weights";
  EXPECT_EQ(said(quantized, types_of({}, "{type: nf4}")), "");
  EXPECT_EQ(said(quantized, types_of({}, "{type: int8}")),
            "'--quantization' is int8, and the model's weights are quantized as nf4 already" + end);
  EXPECT_EQ(said(quantized, types_of({}, "{type: nf4, double_quant: true}")),
            "'--quantization' is nf4 with 'double_quant', and the model's weights are quantized as "
            "nf4 already" +
                end);
  EXPECT_EQ(said(quantized, types_of({}, "{type: nf4, skip_modules: ['*.q_proj']}")),
            "'skip_modules' of '--quantization' cannot act: the model's weights are quantized "
            "already" +
                end);
  EXPECT_EQ(
      said(quantized, types_of({}, "{type: nf4, head: true}")),
      "'head' of '--quantization' cannot act: the model's weights are quantized already" + end);
}

TEST(WeightTypesTest, OnlyTheHeadOfADecoderIsQuantized) {
  EXPECT_NE(said("type: t5, num_layers: 1, num_heads: 2, hidden_size: 32, vocab_size: 40",
                 types_of({}, "{type: nf4, head: true}"))
                .find("'quantization.head' quantizes the head of a decoder for the next token, and "
                      "this model has none"),
            std::string::npos);
}

TEST(WeightTypesTest, PatternsWithoutAMatchAreRefused) {
  EXPECT_NE(said(kLlama, types_of({}, "{type: nf4, skip_modules: ['*.q_prj']}"))
                .find("'*.q_prj' matches no linear layer"),
            std::string::npos);
  EXPECT_NE(said(kLlama, types_of({}, "{type: nf4, skip_modules: ['*']}"))
                .find("'quantization' leaves all linear layers as they are"),
            std::string::npos);
}

TEST(WeightTypesTest, OtherModelsAreRefused) {
  const Built any = built(kLlama);
  const auto refused = [&](const std::string& type, const WeightTypes& types) {
    const Node resolved{Node::Map{{"type", {}, scalar_node(type)}}, {}};
    try {
      convert_weights(*any.model, types, resolved);
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string();
  };
  EXPECT_EQ(refused("mlp", types_of(ComputeDtype::kBf16)),
            "'--dtype' and '--quantization' support models of type 'bert', 'clip', 'deberta', "
            "'distilbert', 'electra', 'gpt', 'gpt_neox', 'llama', 'modernbert', 'opt', 'resnet', "
            "'roberta', 't5', 'vit', and this one is 'mlp' | leave them out");
  EXPECT_EQ(refused("resnet", types_of({}, "{type: int8}")),
            "'--quantization' supports models of type 'bert', 'deberta', 'distilbert', 'electra', "
            "'gpt', 'gpt_neox', 'llama', 'modernbert', 'opt', 'roberta', 't5', 'vit', and this one "
            "is 'resnet' | leave it out");
  EXPECT_EQ(
      refused("t5", types_of(ComputeDtype::kFp16)),
      "'--dtype fp16' does not support 't5', whose layers 'wo' overflow in it | give '--dtype "
      "bf16'");
}

}  // namespace
}  // namespace accel::weight_types_test
