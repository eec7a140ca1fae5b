// Adapter folders beside PEFT's rules: tied weights, olora of transposed layers, names of experts.
#include "models/lora/lora_folder.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/api/model.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/models/lora/trained_parameters.h"

namespace accel::lora_folder_test {
namespace {

using nlohmann::json;

struct Weight {
  std::string name;
  Shape shape;
  float value = 1;
};

NamedArray array_of(const Weight& weight) {
  int64_t count = 1;
  for (const int64_t size : weight.shape) count *= size;
  const std::vector<float> values(static_cast<size_t>(count), weight.value);
  return {weight.name, Array::of<float>(DType::kF32, weight.shape, values)};
}

/// An adapter of rank 1 with these weights besides `layer`'s, [2, 2].
void write_adapter(const TempFolder& folder, const json& config, const std::string& layer,
                   Shape shape, const std::vector<Weight>& more) {
  json all = {{"peft_type", "LORA"}, {"r", 1}, {"lora_alpha", 1}};
  all.update(config);
  std::ofstream(folder.path(kAdapterConfig)) << all;
  std::vector<NamedArray> weights = {array_of({kAdapterPrefix + layer + kLoraA, {1, shape[1]}}),
                                     array_of({kAdapterPrefix + layer + kLoraB, {shape[0], 1}})};
  for (const Weight& weight : more) {
    weights.push_back(array_of({kAdapterPrefix + weight.name, weight.shape, weight.value}));
  }
  std::ofstream file(folder.path(kAdapterWeights), std::ios::binary);
  write_safetensors(weights, [&](ByteSpan bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  });
}

constexpr auto kTied =
    "type: llama, num_layers: 1, hidden_size: 8, num_heads: 2, tie_embeddings: true";
constexpr auto kQuery = "model.layers.0.self_attn.q_proj";

std::string with_adapter_of(const std::string& model, const TempFolder& folder) {
  return "{" + model + ", lora: {adapter: '" + folder.path() + "'}}";
}

struct TiedCase {
  bool ties;  ///< `ensure_weight_tying`
  std::vector<Weight> saved;
  std::string refused;  ///< part of the message; "": it is read
};

TEST(LoraFolderTest, ATiedEmbeddingIsTrainedWithItsHeadOrRefused) {
  const Weight table{"model.embed_tokens.weight", {7, 8}}, head{"lm_head.weight", {7, 8}};
  const TiedCase cases[] = {
      {true, {table, head}, ""},
      {true, {table}, ""},
      {false, {table, head}, ""},
      {false, {}, ""},
      {false,
       {table},
       "adapter_config.json' trains 'model.embed_tokens.weight' alone, and 'lm_head.weight', which "
       "is tied to it, keeps its weight"},
      {true,
       {head},
       "adapter_config.json' trains 'lm_head.weight' alone, and 'model.embed_tokens.weight', which "
       "is tied to it, keeps its weight"},
      {false,
       {table, {head.name, head.shape, 2.0F}},
       "adapter_config.json' has another 'lm_head.weight' than 'model.embed_tokens.weight', which "
       "are tied here"},
  };
  for (const TiedCase& each : cases) {
    const TempFolder folder;
    write_adapter(folder, {{"ensure_weight_tying", each.ties}}, kQuery, {8, 8}, each.saved);
    const std::string recipe = with_adapter_of(kTied, folder);
    const std::string found = complaint<Model>(recipe, five_tokens());
    EXPECT_EQ(found.empty(), each.refused.empty()) << found;
    EXPECT_NE(found.find(each.refused), found.npos) << found;
    if (!found.empty()) continue;
    testing::internal::CaptureStderr();
    const auto model = build<Model>(recipe, five_tokens());
    const std::string said = testing::internal::GetCapturedStderr();
    const bool trained = !each.saved.empty();
    EXPECT_EQ(trained_parameters(*model).starts_with(table.name), trained);
    EXPECT_EQ(said.find("'lm_head' is tied to 'model.embed_tokens', and both are trained, as by "
                        "PEFT with 'ensure_weight_tying'") != said.npos,
              trained);
    if (!trained) continue;
    EXPECT_TRUE(parameter_named(*model, table.name).equal(at::ones({7, 8})));
  }
}

TEST(LoraFolderTest, ATiedEmbeddingIsExportedForBothOfItsLayers) {
  HfNames names;
  names.tied_table = "model.embed_tokens.weight";
  const std::vector<NamedArray> adapter = {array_of({names.tied_table, {7, 8}}),
                                           array_of({std::string(kQuery) + kLoraA, {1, 8}}),
                                           array_of({std::string(kQuery) + kLoraB, {8, 1}})};
  const json config = adapter_config({}, adapter, names, "");
  EXPECT_EQ(config.at("ensure_weight_tying"), true);
  EXPECT_EQ(config.at("modules_to_save"), json({"model.embed_tokens"}));
  std::string stored;
  for (const NamedArray& weight : stored_adapter(adapter, names)) stored += weight.name + " ";
  EXPECT_EQ(stored,
            "base_model.model.model.embed_tokens.weight base_model.model.lm_head.weight "
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight "
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight ");
  EXPECT_FALSE(adapter_config({}, adapter, {}, "").contains("ensure_weight_tying"));
  // PEFT ties embeddings of this name alone: for others, the head is saved as a separate module.
  HfNames gpt;
  gpt.tied_table = "transformer.wte.weight";
  const json apart = adapter_config({}, {array_of({gpt.tied_table, {7, 8}})}, gpt, "");
  EXPECT_FALSE(apart.contains("ensure_weight_tying"));
  EXPECT_EQ(apart.at("modules_to_save"), json({"lm_head", "transformer.wte"}));
}

/// PEFT factors the stored weight, [in, out], of which the adapter is the transpose.
TEST(LoraFolderTest, OloraOfATransposedLayerIsRefused) {
  const TempFolder folder;
  write_adapter(folder, {{"init_lora_weights", "olora"}}, "transformer.h.0.attn.c_proj", {4, 4},
                {});
  const std::string found = complaint<Model>(
      with_adapter_of("type: gpt, num_layers: 1, hidden_size: 4, num_heads: 2", folder),
      five_tokens());
  EXPECT_NE(found.find("adapter_config.json' has 'init_lora_weights: olora' for "
                       "'transformer.h.0.attn.c_proj', whose stored weight is transposed: PEFT "
                       "factors the weight of another layer"),
            found.npos)
      << found;
  HfNames names;
  names.transposed = {"*.c_proj.weight"};
  LoraOptions lora;
  lora.init = LoraInit::kOlora;
  const std::vector<NamedArray> adapter = {
      array_of({std::string("h.0.attn.c_proj") + kLoraA, {1, 4}})};
  try {
    adapter_config(lora, adapter, names, "");
    ADD_FAILURE() << "exported";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "PEFT cannot load the adapter of 'h.0.attn.c_proj': its olora factors the stored "
                 "weight, which is transposed");
    EXPECT_EQ(error.hint(), "export the merged model with '--merge'");
  }
}

TEST(LoraFolderTest, ExpertsOfMixtralHaveItsNamesInFolders) {
  const std::string mixtral =
      "type: llama, num_layers: 1, hidden_size: 8, num_heads: 2, "
      "moe: {num_experts: 2, num_experts_per_tok: 1}";
  const std::string expert = "model.layers.0.block_sparse_moe.experts.1.w1";
  const TempFolder folder;
  write_adapter(folder, {{"alpha_pattern", {{"w1", 3}}}}, expert, {32, 8}, {});
  const std::string recipe = with_adapter_of(mixtral + ", intermediate_size: 32", folder);
  const auto model = build<Model>(recipe, five_tokens());
  const std::string ours = "model.layers.0.mlp.experts.1.gate_proj";
  EXPECT_EQ(trained_parameters(*model), ours + kLoraA + " " + ours + kLoraB);
  EXPECT_TRUE(parameter_named(*model, ours + kLoraA).equal(at::ones({1, 8})));

  HfNames names;
  names.stored = [](const std::string& name) { return "theirs." + name; };
  LoraOptions lora;
  lora.rank_pattern = {{"ours.w", 2}};
  const std::vector<NamedArray> adapter = {array_of({std::string("ours.w") + kLoraA, {2, 4}}),
                                           array_of({"ours.gate.weight", {2, 4}})};
  const json config = adapter_config(lora, adapter, names, "");
  EXPECT_EQ(config.at("target_modules"), json({"theirs.ours.w"}));
  EXPECT_EQ(config.at("rank_pattern"), json({{"theirs.ours.w", 2}}));
  EXPECT_EQ(config.at("modules_to_save"), json({"theirs.ours.gate"}));
  EXPECT_EQ(stored_adapter(adapter, names)[0].name, "base_model.model.theirs.ours.w.lora_A.weight");
}

TEST(LoraFolderTest, BiasesOfSavedModulesAreReadOnce) {
  const TempFolder folder;
  write_adapter(folder, json::object(), kQuery, {8, 8},
                {{"classifier.bias", {2}, 3},
                 {"classifier.modules_to_save.bias", {2}, 3},
                 {"classifier.original_module.bias", {2}, 5},
                 {"pooler.dense.bias", {2}, 3},
                 {"pooler.original_module.dense.bias", {2}, 5},
                 {"other.original_module.bias", {2}, 5}});
  std::string read;
  const HfWeights weights = read_adapter_weights(folder.path());
  for (const NamedArray& weight : weights.tensors()) {
    if (weight.name.starts_with(kQuery)) continue;
    read += weight.name + (weight.array.as<float>()[0] == 3 ? " trained; " : "; ");
  }
  EXPECT_EQ(read,
            "classifier.bias trained; other.original_module.bias; pooler.dense.bias trained; ");
}

TEST(LoraFolderTest, AnAdapterOfEvaIsRead) {
  const TempFolder folder;
  write_adapter(folder, {{"init_lora_weights", "eva"}, {"eva_config", {{"rho", 2.0}}}}, kQuery,
                {8, 8}, {});
  EXPECT_EQ(complaint<Model>(with_adapter_of(kTied, folder), five_tokens()), "");
  write_adapter(folder, {{"eva_config", {{"rho", 2.0}}}}, kQuery, {8, 8}, {});
  EXPECT_NE(complaint<Model>(with_adapter_of(kTied, folder), five_tokens()).find("'eva_config'"),
            std::string::npos);
}

}  // namespace
}  // namespace accel::lora_folder_test
