// Models with quantized layers: what is quantized, trained and refused, and folders of
// bitsandbytes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <map>

#include "core/api/model.h"
#include "kernels/cpu_operators.h"
#include "kernels/memory/deferred_init.h"
#include "kernels/memory/skip_init.h"
#include "kernels/quantized_weight.h"
#include "models/layers/module_state.h"
#include "models/quantized/quantize_model.h"
#include "models/quantized/quantized_folder.h"
#include "tests/unit/build_component.h"
#include "tests/unit/models/quantized/bits_and_bytes_folder.h"

namespace accel::quantized_model_test {
namespace {

constexpr auto kLlama =
    "type: llama, vocab_size: 11, num_layers: 1, hidden_size: 16, num_heads: 2, intermediate_size: "
    "24, max_seq_len: 8";

constexpr auto kBert =
    "type: bert, vocab_size: 11, num_layers: 2, hidden_size: 16, num_heads: 2, intermediate_size: "
    "24, max_seq_len: 8, head: classes, num_classes: 2, dropout: 0";

ModelContext tokens() {
  ModelContext context;
  context.data.input = {5};
  context.data.input_type = DType::kI64;
  context.data.target = {5};
  context.data.vocab = 11;
  return context;
}

/// Of two, instead of next tokens.
ModelContext classes() {
  ModelContext context = tokens();
  context.data.target = {};
  context.data.classes = 2;
  return context;
}

std::unique_ptr<Model> llama_with(const std::string& more) {
  at::manual_seed(1);
  return build<Model>("{" + std::string(kLlama) + more + "}", tokens());
}

std::string types_of(Model& model) {
  std::string out;
  for (const Parameter& item : parameters_of(model)) {
    if (at::isFloatingType(item.local.scalar_type())) continue;
    out += item.name + (item.local.requires_grad() ? " trained\n" : "\n");
  }
  return out;
}

at::Tensor probe() {
  return at::arange(5, at::kLong).unsqueeze(0);
}

void expect_in(const std::string& wanted, const std::string& message) {
  EXPECT_NE(message.find(wanted), std::string::npos) << message;
}

TEST(QuantizedModelTest, LinearLayersWithoutTheHeadHaveCodesAndScales) {
  const auto model = llama_with(", quantization: {type: nf4}, lora: {rank: 2}");
  const std::string attention = "model.layers.0.self_attn.", mlp = "model.layers.0.mlp.";
  std::string wanted;
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    wanted += attention + name + ".weight\n" + attention + name + ".weight.shape\n";
  }
  for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
    wanted += mlp + name + ".weight\n" + mlp + name + ".weight.shape\n";
  }
  EXPECT_EQ(types_of(*model), wanted);
}

TEST(QuantizedModelTest, SkippedModulesStayAsTheyAre) {
  const auto model = llama_with(
      ", quantization: {type: int8, skip_modules: ['*.self_attn.*', '*.up_proj']}, lora: {rank: "
      "2}");
  EXPECT_EQ(types_of(*model),
            "model.layers.0.mlp.gate_proj.weight\nmodel.layers.0.mlp.down_proj.weight\n");
}

TEST(QuantizedModelTest, OutputsAreCloseToThoseOfTheWeights) {
  const at::Tensor whole = llama_with("")->forward(probe());
  for (const auto& [type, limit] :
       {std::pair("int8", 0.005), std::pair("nf4", 0.05),
        std::pair("nf4, double_quant: true", 0.05), std::pair("fp4", 0.08)}) {
    const auto model =
        llama_with(std::string(", quantization: {type: ") + type + "}, lora: {rank: 2}");
    const double distance = model->forward(probe()).sub(whole).abs().max().item<double>() /
                            whole.abs().max().item<double>();
    EXPECT_GT(distance, 0) << type;
    EXPECT_LT(distance, limit) << type;
  }
}

constexpr auto kWideLlama =
    "type: llama, vocab_size: 11, num_layers: 2, hidden_size: 64, num_heads: 2, intermediate_size: "
    "80, max_seq_len: 8";

/// Of a size at which initialization is deferred.
std::unique_ptr<Model> wide_llama(const std::string& more) {
  at::manual_seed(1);
  return build<Model>("{" + std::string(kWideLlama) + more + "}", tokens());
}

std::map<std::string, at::Tensor> tensors_of(Model& model) {
  std::map<std::string, at::Tensor> out;
  for (const Parameter& item : parameters_of(model)) out[item.name] = item.local;
  return out;
}

TEST(QuantizedModelTest, WeightsQuantizedLayerByLayerHaveTheBitsOfTheWholeModels) {
  const auto plain = wide_llama("");
  const auto model = wide_llama(", quantization: {type: nf4, double_quant: true}, lora: {rank: 2}");
  const auto whole = tensors_of(*plain), found = tensors_of(*model);
  int quantized = 0;
  for (const auto& [name, weight] : whole) {
    ASSERT_TRUE(found.contains(name)) << name;
    const at::Tensor& own = found.at(name);
    if (own.scalar_type() != at::kByte) {
      EXPECT_TRUE(own.equal(weight)) << name;
      continue;
    }
    ++quantized;
    const QuantizedWeight wanted = quantize_weight(weight, WeightCode::kNf4, true);
    EXPECT_TRUE(own.equal(wanted.codes)) << name;
    EXPECT_TRUE(found.at(name + ".absmax").equal(wanted.abs_max)) << name;
    EXPECT_TRUE(found.at(name + ".nested_offset").equal(wanted.nested_offset)) << name;
  }
  EXPECT_EQ(quantized, 14);
}

/// The codes, too, are of a size at which initialization is deferred.
TEST(QuantizedModelTest, FusedKernelsQuantizeLargeWeightsWhileTheModelIsBuilt) {
  const std::string large = "hidden_size: 128, intermediate_size: 160, num_layers: 1";
  const std::string llama = "{type: llama, vocab_size: 11, num_heads: 2, max_seq_len: 8, " + large;
  const auto built = [&](const std::string& more) {
    at::manual_seed(1);
    return build<Model>(llama + more + "}", tokens());
  };
  use_kernels(Kernels::kFused);
  const auto plain = built("");
  for (const bool is_double : {false, true}) {
    const std::string section = is_double ? "{type: nf4, double_quant: true}" : "{type: nf4}";
    const auto found = tensors_of(*built(", quantization: " + section + ", lora: {rank: 2}"));
    const std::string name = "model.layers.0.mlp.up_proj.weight";
    const QuantizedWeight wanted =
        quantize_weight(tensors_of(*plain).at(name), WeightCode::kNf4, is_double);
    ASSERT_GE(wanted.codes.nbytes(), kLeastDeferredBytes);
    EXPECT_TRUE(found.at(name).equal(wanted.codes));
    EXPECT_TRUE(found.at(name + ".absmax").equal(wanted.abs_max));
  }
  use_kernels(Kernels::kReference);
}

TEST(QuantizedModelTest, WeightsThatACheckpointReplacesAreNotQuantized) {
  const SkipInit skip;
  const auto model = wide_llama(", quantization: {type: nf4, double_quant: true}, lora: {rank: 2}");
  const at::Tensor codes = tensors_of(*model).at("model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(codes.sizes(), at::IntArrayRef({64 * 80 / 2}));
  EXPECT_TRUE(codes.eq(0).all().item<bool>());
}

/// Layerwise casting, by the definition: the weight rounded to the storage type and back.
TEST(QuantizedModelTest, CastWeightsAreRoundedToTheirType) {
  for (const auto& [name, type] :
       {std::pair("fp8_e4m3", at::kFloat8_e4m3fn), std::pair("bf16", at::kBFloat16)}) {
    const std::string section = std::string(", quantization: {type: ") + name + "}";
    const auto plain = wide_llama(""), model = wide_llama(section + ", lora: {rank: 2}");
    const auto whole = tensors_of(*plain), found = tensors_of(*model);
    int cast = 0;
    for (const auto& [key, weight] : whole) {
      const at::Tensor& own = found.at(key);
      if (own.scalar_type() == at::kFloat) continue;
      ++cast;
      EXPECT_FALSE(own.requires_grad());
      const at::Tensor wanted = weight.detach().to(type);
      EXPECT_TRUE(own.equal(type == at::kBFloat16 ? wanted : wanted.view(at::kByte))) << key;
      weight.set_data(wanted.to(at::kFloat));
    }
    EXPECT_EQ(cast, 14);
    EXPECT_TRUE(model->forward(probe()).equal(plain->forward(probe()))) << name;
  }
}

TEST(QuantizedModelTest, CastWeightsHaveTheGradientsOfTheirValues) {
  const std::string lora = ", lora: {rank: 2, target_modules: ['*q_proj']}";
  const auto model = wide_llama(", quantization: {type: fp8_e4m3}" + lora);
  const auto plain = wide_llama(lora);
  const auto whole = tensors_of(*plain), found = tensors_of(*model);
  for (const auto& [name, weight] : whole) {
    const at::NoGradGuard no_grad;
    const at::Tensor& own = found.at(name);
    weight.set_data(own.scalar_type() == at::kByte ? own.view(at::kFloat8_e4m3fn).to(at::kFloat)
                                                   : own.clone());
  }
  model->forward(probe()).sum().backward();
  plain->forward(probe()).sum().backward();
  int compared = 0;
  for (const auto& [name, weight] : found) {
    if (!weight.grad().defined()) continue;
    ++compared;
    EXPECT_TRUE(weight.grad().equal(whole.at(name).grad())) << name;
  }
  EXPECT_EQ(compared, 4);
}

TEST(QuantizedModelTest, ValuesBeyondFp8AreRefused) {
  const auto model = wide_llama("");
  tensors_of(*model).at("model.layers.1.mlp.up_proj.weight").data()[0][3].fill_(1000);
  QuantizationOptions options;
  options.type = QuantizationType::kFp8E4m3;
  try {
    quantize_layers(*model, options, HfNames(), Node());
    FAIL() << "1000 is beyond fp8";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the weight of 'model.layers.1.mlp.up_proj' has the value 1000, and fp8_e4m3 ends "
                 "at 448");
    EXPECT_EQ(error.hint(), "name the layer in 'skip_modules', or write 'type: bf16'");
  }
}

TEST(QuantizedModelTest, OnlyTheAdapterHasGradients) {
  const auto model =
      llama_with(", quantization: {type: nf4}, lora: {rank: 2, target_modules: ['*q_proj']}");
  model->forward(probe()).sum().backward();
  std::string with;
  for (const Parameter& item : parameters_of(*model)) {
    if (item.local.grad().defined()) with += item.name + "\n";
  }
  const std::string layer = "model.layers.0.self_attn.q_proj.";
  EXPECT_EQ(with, layer + "lora_A.weight\n" + layer + "lora_B.weight\n");
}

TEST(QuantizedModelTest, WhatCannotActIsRefusedAtItsLine) {
  const auto said = [](const std::string& more) {
    return complaint<Model>("{" + std::string(kLlama) + more + "}", tokens());
  };
  EXPECT_NE(said(", quantization: {type: nf4}")
                .find("quantized weights are frozen, and there is no adapter to train"),
            std::string::npos);
  EXPECT_NE(
      said(", quantization: {type: nf4}, lora: {rank: 2, init: pissa}")
          .find("'lora.init' pissa and olora change the base weights, which are quantized here"),
      std::string::npos);
  EXPECT_NE(said(", quantization: {type: int8, double_quant: true}, lora: {rank: 2}")
                .find("'double_quant' quantizes the scales of 4-bit blocks, and int8 has none"),
            std::string::npos);
  EXPECT_NE(said(", quantization: {type: fp8_e4m3, double_quant: true}, lora: {rank: 2}")
                .find("'double_quant' quantizes the scales of 4-bit blocks, and fp8_e4m3 has none"),
            std::string::npos);
  EXPECT_NE(said(", quantization: {double_quant: true}, lora: {rank: 2}")
                .find("'quantization' has no 'type'"),
            std::string::npos);
  EXPECT_NE(said(", quantization: {type: nf4, skip_modules: ['*.q_prj']}, lora: {rank: 2}")
                .find("'*.q_prj' matches no linear layer"),
            std::string::npos);
  EXPECT_NE(said(", quantization: {type: nf4, skip_modules: ['*']}, lora: {rank: 2}")
                .find("'quantization' leaves all linear layers as they are"),
            std::string::npos);
  EXPECT_NE(
      said(", quantization: {type: nf4}, lora: {rank: 2, target_modules: ['*q_proj'], "
           "modules_to_save: ['*o_proj.weight']}")
          .find("'model.layers.0.self_attn.o_proj.weight' is quantized and cannot be trained"),
      std::string::npos);
}

TEST(QuantizedModelTest, TheHeadIsQuantizedOnRequest) {
  const auto plain = wide_llama("");
  const auto model = wide_llama(", quantization: {type: nf4, head: true}, lora: {rank: 2}");
  const QuantizedWeight wanted =
      quantize_weight(tensors_of(*plain).at("lm_head.weight"), WeightCode::kNf4, false);
  const auto found = tensors_of(*model);
  EXPECT_TRUE(found.at("lm_head.weight").equal(wanted.codes));
  EXPECT_TRUE(found.at("lm_head.weight.absmax").equal(wanted.abs_max));
  auto& language = dynamic_cast<LanguageModel&>(*model);
  const at::Tensor weight = dequantize_weight(wanted, at::kFloat);
  EXPECT_TRUE(language.head_weight().equal(weight));
  EXPECT_TRUE(
      language.forward(probe()).equal(at::linear(language.hidden(probe()), weight).detach()));
}

TEST(QuantizedModelTest, AnAdapterActsBesideAQuantizedHead) {
  const std::string more = ", lora: {rank: 2, target_modules: [lm_head]}";
  const auto model = wide_llama(", quantization: {type: int8, head: true}" + more);
  const auto found = tensors_of(*model);
  {
    const at::NoGradGuard no_grad;
    tensors_of(*model).at("lm_head.lora_B.weight").fill_(0.5);
  }
  auto& language = dynamic_cast<LanguageModel&>(*model);
  const at::Tensor logits = model->forward(probe());
  EXPECT_TRUE(logits.equal(at::linear(language.hidden(probe()), language.head_weight())));
  EXPECT_FALSE(logits.equal(
      wide_llama(", quantization: {type: int8, head: true}, lora: {rank: 2}")->forward(probe())));
  logits.sum().backward();
  EXPECT_TRUE(found.at("lm_head.lora_A.weight").grad().abs().sum().item<double>() > 0);
}

TEST(QuantizedModelTest, AHeadThatCannotBeQuantizedIsRefused) {
  const std::string section = ", quantization: {type: nf4, head: true}, lora: {rank: 2}";
  expect_in(
      "'quantization.head' needs an untied head in training, and this one is tied to the embedding",
      complaint<Model>("{" + std::string(kLlama) + ", tie_embeddings: true" + section + "}",
                       tokens()));
  const std::string none =
      "'quantization.head' quantizes the head of a decoder for the next token, and this model has "
      "none";
  expect_in(none, complaint<Model>("{" + std::string(kLlama) + ", num_classes: 2" + section + "}",
                                   tokens()));
  expect_in(none, complaint<Model>("{" + std::string(kBert) + section + "}", classes()));
  expect_in(
      "'quantization' has no 'type'",
      complaint<Model>("{" + std::string(kLlama) + ", quantization: {head: true}, lora: {rank: 2}}",
                       tokens()));
}

TEST(QuantizedModelTest, AFolderOfBitsAndBytesIsRead) {
  for (const bool is_double : {false, true}) {
    // Of double quantization with a quantized head, as of an empty 'llm_int8_skip_modules'.
    const std::string section =
        is_double ? "{type: nf4, double_quant: true, head: true}" : "{type: nf4}";
    const auto model = llama_with(", quantization: " + section + ", lora: {rank: 2}");
    BitsAndBytesFolder folder(*model, is_double);
    const auto read =
        build<Model>("{type: auto, weights: '" + folder.write() + "', lora: {rank: 2}}", tokens());
    EXPECT_EQ(types_of(*read), types_of(*model));
    EXPECT_TRUE(read->forward(probe()).equal(model->forward(probe()))) << is_double;
  }
}

/// What a model of the folder throws.
std::string said_of(const std::string& folder, const std::string& more = "") {
  return complaint<Model>("{type: auto, weights: '" + folder + "', lora: {rank: 2}" + more + "}",
                          tokens());
}

TEST(QuantizedModelTest, OtherBlocksAndTypesOfAFolderAreRefused) {
  const auto model = llama_with(", quantization: {type: nf4}, lora: {rank: 2}");
  BitsAndBytesFolder folder(*model, false);
  const std::string weight =
      "the quantized weight 'model.layers.0.mlp.down_proj.weight' in '" + folder.write() + "' ";
  expect_in(weight + "has 'blocksize' 128, and only 64 is read",
            said_of(folder.write("\"blocksize\":64", "\"blocksize\":128")));
  expect_in(weight + "has a state that is not JSON with a 'shape'",
            said_of(folder.write("\"shape\"", "\"sizes\"")));
  folder.set("bnb_4bit_quant_type", "fp4");
  expect_in(weight + "is not of the type 'fp4'", said_of(folder.write()));
}

TEST(QuantizedModelTest, ASectionThatContradictsTheFolderIsRefused) {
  const auto model = llama_with(", quantization: {type: nf4}, lora: {rank: 2}");
  BitsAndBytesFolder folder(*model, false);
  const std::string path = folder.write();
  expect_in("'quantization' is int8 here and nf4 in '" + path + "'",
            said_of(path, ", quantization: {type: int8}"));
  expect_in("'quantization' is nf4 with 'double_quant' here and nf4 in '" + path + "'",
            said_of(path, ", quantization: {type: nf4, double_quant: true}"));
  expect_in("'skip_modules' cannot act: the weights in '" + path + "' are quantized already",
            said_of(path, ", quantization: {type: nf4, skip_modules: ['*.q_proj']}"));
  expect_in("'head' cannot act: the weights in '" + path + "' are quantized already",
            said_of(path, ", quantization: {type: nf4, head: true}"));
  EXPECT_EQ(said_of(path, ", quantization: {type: nf4, compute_dtype: bf16}"), "");
}

TEST(QuantizedModelTest, OtherMethodsAndStorageOfAFolderAreRefused) {
  const auto model = llama_with(", quantization: {type: nf4}, lora: {rank: 2}");
  BitsAndBytesFolder folder(*model, false);
  const std::string start = "config.json' has a 'quantization_config' with ";
  folder.set("bnb_4bit_quant_storage", "bfloat16");
  expect_in(start + "the storage 'bfloat16', and only 'uint8' is read", said_of(folder.write()));
  folder.set("bnb_4bit_quant_storage", 8);
  expect_in(start + "a value of another type", said_of(folder.write()));
  folder.set("quant_method", "gptq");
  expect_in(start + "the method 'gptq', and only that of 'bitsandbytes' is read",
            said_of(folder.write()));
}

/// The last layer of a classifier computes its keys and values for one position alone.
TEST(QuantizedModelTest, AClassifierAttendsFromItsFirstTokenToQuantizedKeys) {
  use_kernels(Kernels::kFused);
  const auto outputs = [&](const std::string& more) {
    at::manual_seed(1);
    const auto model = build<Model>("{" + std::string(kBert) + more + "}", classes());
    set_training(*model, false);
    return model->forward(probe());
  };
  const at::Tensor whole = outputs("");
  const at::Tensor found =
      outputs(", quantization: {type: int8}, lora: {rank: 2, target_modules: ['*query']}");
  use_kernels(Kernels::kReference);
  ASSERT_EQ(found.sizes(), whole.sizes());
  EXPECT_LT(found.sub(whole).abs().max().item<double>(), 0.01);
  EXPECT_FALSE(found.equal(whole));
}

}  // namespace
}  // namespace accel::quantized_model_test
