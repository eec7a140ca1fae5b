// Low-rank adapters: what is trained, what they add, the folders of PEFT, and what is refused.
#include "models/lora/lora.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/api/model.h"
#include "kernels/cpu_operators.h"
#include "models/lora/lora_folder.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/models/lora/trained_parameters.h"

namespace accel::lora_test {
namespace {

constexpr auto kGpt = "type: gpt, num_layers: 1, hidden_size: 4, num_heads: 2";

ModelContext texts() {
  ModelContext context = five_tokens();
  context.data.target = {};
  context.data.classes = 3;
  return context;
}

std::unique_ptr<Model> gpt_with(const std::string& more) {
  return build<Model>("{" + std::string(kGpt) + more + "}", five_tokens());
}

/// With an activation the layer may be computed together, without one that is adapted.
TEST(LoraTest, AnAdapterCountsBehindWhichAnActivationFollows) {
  for (const Kernels kind : {Kernels::kReference, Kernels::kFused}) {
    use_kernels(kind);
    const auto model = build<Model>(
        "{type: bert, num_layers: 1, hidden_size: 4, num_heads: 2, dropout: 0, lora: {rank: 2, "
        "target_modules: "
        "['*intermediate.dense']}}",
        texts());
    const at::Tensor input = at::zeros({1, 5}, at::kLong);
    const at::Tensor before = model->forward(input).detach().clone();
    parameter_named(*model, "bert.encoder.layer.0.intermediate.dense.lora_B.weight").fill_(1);
    EXPECT_FALSE(model->forward(input).detach().equal(before));
  }
  use_kernels(Kernels::kReference);
}

TEST(LoraTest, OnlyTheAdaptersOfTheTargetsAreTrained) {
  const std::string a = ".lora_A.weight", b = ".lora_B.weight";
  const std::string attn = "transformer.h.0.attn.c_attn", fc = "transformer.h.0.mlp.c_fc";
  EXPECT_EQ(
      trained_parameters(*gpt_with(", lora: {rank: 2, target_modules: ['*c_attn', '*.mlp.c_fc']}")),
      attn + a + " " + attn + b + " " + fc + a + " " + fc + b);
  EXPECT_EQ(trained_parameters(*gpt_with(
                ", lora: {rank: 2, target_modules: '*c_attn', modules_to_save: '*.ln_f.*'}")),
            attn + a + " " + attn + b + " transformer.ln_f.weight transformer.ln_f.bias");
  // As in PEFT, a layer of both lists has no adapter.
  EXPECT_EQ(trained_parameters(*gpt_with(
                ", lora: {rank: 2, target_modules: ['*c_attn', '*.mlp.c_fc'], modules_to_save: "
                "'*.mlp.c_fc.*'}")),
            attn + a + " " + attn + b + " " + fc + ".weight " + fc + ".bias");
}

TEST(LoraTest, AnExportHasNoBaseWeightsOfAdaptedLayers) {
  std::vector<NamedArray> weights;
  for (const char* name :
       {"x.lora_A.weight", "x.lora_B.weight", "x.weight", "x.bias", "y.weight", "z.weight"}) {
    weights.push_back({name, {}});
  }
  LoraOptions lora;
  lora.modules_to_save.value = {"x.*", "y.*"};
  std::string exported;
  for (const NamedArray& weight : adapter_weights(weights, lora)) exported += weight.name + " ";
  EXPECT_EQ(exported, "x.lora_A.weight x.lora_B.weight y.weight ");
}

TEST(LoraTest, ByDefaultAllLayersOfBlocksHaveOneAndAClassifiersHeadIsTrained) {
  const auto bert = build<Model>(
      "{type: bert, num_layers: 1, hidden_size: 4, num_heads: 2, lora: {rank: 1}}", texts());
  int64_t adapters = 0;
  std::string others;
  for (const Parameter& item : parameters_of(*bert)) {
    const bool is_adapter = item.name.find(".lora_") != item.name.npos;
    adapters += is_adapter;
    if (item.local.requires_grad() && !is_adapter) others += item.name + " ";
  }
  EXPECT_EQ(adapters, 2 * 6);
  EXPECT_EQ(others,
            "bert.pooler.dense.weight bert.pooler.dense.bias classifier.weight classifier.bias ");
  const auto llama = build<Model>(
      "{type: llama, num_layers: 1, hidden_size: 8, num_heads: 2, lora: {rank: 1}}", five_tokens());
  EXPECT_EQ(trained_parameters(*llama).find("lm_head"), std::string::npos);
}

TEST(LoraTest, AFreshAdapterChangesNothingNotEvenTheWeightsThatAreDrawn) {
  const at::Tensor batch = at::arange(5).view({1, 5});
  at::manual_seed(1);
  const at::Tensor plain = gpt_with("")->forward(batch);
  at::manual_seed(1);
  EXPECT_TRUE(gpt_with(", lora: {rank: 2}")->forward(batch).equal(plain));
}

struct Scale {
  const char* options;
  double factor;
};

TEST(LoraTest, AnAdapterAddsItsScaledProduct) {
  const Scale cases[] = {{"rank: 4", 1},
                         {"rank: 4, alpha: 2", 0.5},
                         {"rank: 4, alpha: 2, rslora: true", 1},
                         {"rank: 4, alpha: 2, dropout: 0.9", 0.5}};
  const std::string layer = "transformer.h.0.attn.c_attn";
  const at::Tensor batch = at::arange(5).view({1, 5});
  for (const Scale& item : cases) {
    const auto model = gpt_with(", lora: {" + std::string(item.options) + "}");
    model->module().eval();
    const at::Tensor up = parameter_named(*model, layer + kLoraB),
                     down = parameter_named(*model, layer + kLoraA);
    up.normal_();
    const at::Tensor with = model->forward(batch);
    parameter_named(*model, layer + ".weight").add_(up.mm(down).mul(item.factor));
    up.zero_();
    const at::Tensor merged = model->forward(batch);
    EXPECT_LT(merged.sub(with).abs().max().item<double>(), 1e-5) << item.options;
  }
}

TEST(LoraTest, DropoutIsOfTrainingOnly) {
  const auto model = gpt_with(", lora: {rank: 2, dropout: 0.5}");
  parameter_named(*model, std::string("transformer.h.0.mlp.c_fc") + kLoraB).normal_();
  const at::Tensor batch = at::arange(5).view({1, 5});
  EXPECT_FALSE(model->forward(batch).equal(model->forward(batch)));
  model->module().eval();
  EXPECT_TRUE(model->forward(batch).equal(model->forward(batch)));
}

struct BadLora {
  const char* options;
  const char* error;
};

TEST(LoraTest, MistakesAreToldWhereTheyAre) {
  const BadLora cases[] = {
      {"alpha: 2",
       "recipe.yaml:1:64: error: 'lora' has no 'rank'\n"
       "    {type: gpt, num_layers: 1, hidden_size: 4, num_heads: 2, lora: {alpha: 2}}\n"
       "                                                                   ^\n"
       "  hint: add 'rank: 8', or leave the section out\n"},
      {"rank: 2, target_modules: [c_attn]",
       "recipe.yaml:1:90: error: 'c_attn' matches no linear layer\n"
       "    {type: gpt, num_layers: 1, hidden_size: 4, num_heads: 2, lora: {rank: 2, "
       "target_modules: [c_attn]}}\n"
       "                                                                                           "
       "  ^\n"
       "  hint: did you mean '*c_attn'?\n"},
      {"rank: 2, modules_to_save: '*.wpe.wieght'",
       "recipe.yaml:1:91: error: '*.wpe.wieght' matches no parameter\n"
       "    ... gpt, num_layers: 1, hidden_size: 4, num_heads: 2, lora: {rank: 2, "
       "modules_to_save: '*.wpe.wieght'}}\n"
       "                                                                                           "
       "^\n"
       "  hint: did you mean '*.wpe.weight'?\n"},
      {"rank: -1",
       "recipe.yaml:1:71: error: 'rank' must be at least 0, not -1\n"
       "    {type: gpt, num_layers: 1, hidden_size: 4, num_heads: 2, lora: {rank: -1}}\n"
       "                                                                          ^\n"},
  };
  for (const BadLora& bad : cases) {
    EXPECT_EQ(
        complaint<Model>("{" + std::string(kGpt) + ", lora: {" + bad.options + "}}", five_tokens()),
        bad.error);
  }
}

const nlohmann::json kNoChanges = nlohmann::json::object();

/// An adapter of one layer, as PEFT writes it, with keys of its config changed.
void write_adapter(const TempFolder& folder, const nlohmann::json& changes,
                   const std::string& layer = "transformer.h.0.attn.c_attn", int64_t rank = 2,
                   const std::string& copied = "") {
  nlohmann::json config = {{"peft_type", "LORA"},  {"r", rank},      {"lora_alpha", 3},
                           {"lora_dropout", 0.25}, {"bias", "none"}, {"rank_pattern", kNoChanges}};
  config.update(changes);
  std::ofstream(folder.path(kAdapterConfig)) << config;
  const std::vector<float> ones(static_cast<size_t>(12 * rank), 1.0F);
  const auto down = std::span(ones).first(static_cast<size_t>(4 * rank));
  const std::string name = kAdapterPrefix + layer;
  std::vector<NamedArray> weights = {
      {name + kLoraA, Array::of<float>(DType::kF32, {rank, 4}, down)},
      {name + kLoraB, Array::of<float>(DType::kF32, {12, rank}, ones)}};
  if (!copied.empty()) {
    weights.push_back({kAdapterPrefix + copied,
                       Array::of<float>(DType::kF32, {5, 4}, std::vector<float>(20, 1.0F))});
  }
  std::ofstream file(folder.path(kAdapterWeights), std::ios::binary);
  write_safetensors(weights, [&](ByteSpan bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  });
}

TEST(LoraTest, AnAdapterOfPeftGivesItsOptionsAndWeights) {
  for (const char* layer : {"transformer.h.0.attn.c_attn", "h.0.attn.c_attn"}) {
    const TempFolder folder;
    write_adapter(folder, kNoChanges, layer);
    const auto model = gpt_with(", lora: {adapter: '" + folder.path() + "'}");
    const std::string name = "transformer.h.0.attn.c_attn";
    EXPECT_EQ(trained_parameters(*model), name + kLoraA + " " + name + kLoraB);
    EXPECT_TRUE(parameter_named(*model, name + kLoraB).equal(at::ones({12, 2})));
    EXPECT_TRUE(parameter_named(*model, name + kLoraA).equal(at::ones({2, 4})));
  }
}

constexpr auto kInner = "bert.encoder.layer.0.intermediate.dense";

/// A model for masked tokens with the adapter in the folder.
std::string bert_with(const TempFolder& folder) {
  return "{type: bert, num_layers: 1, hidden_size: 4, num_heads: 2, intermediate_size: 12, lora: "
         "{adapter: '" +
         folder.path() + "'}}";
}

TEST(LoraTest, BesideAnAdapterOnlyWhatItsFolderHasIsTrained) {
  const TempFolder folder;
  write_adapter(folder, kNoChanges, kInner);
  const auto model = build<Model>(bert_with(folder), five_tokens());
  EXPECT_EQ(trained_parameters(*model), std::string(kInner) + kLoraA + " " + kInner + kLoraB);
}

TEST(LoraTest, ACopyOfATiedHeadIsRefused) {
  const TempFolder folder;
  write_adapter(folder, kNoChanges, kInner, 2, "cls.predictions.decoder.weight");
  const std::string found = complaint<Model>(bert_with(folder), five_tokens());
  EXPECT_NE(found.find("the adapter trains a copy of 'cls.predictions.decoder', which has no "
                       "parameters of its own here: it is tied to the embedding\n"),
            found.npos)
      << found;
}

TEST(LoraTest, AnAdaptersOptionsAreWrittenIntoTheResolvedRecipe) {
  const TempFolder folder;
  write_adapter(folder, {{"use_rslora", true}});
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node node = parse_recipe("r.yaml", "{" + std::string(kGpt) + ", lora: {adapter: '" +
                                               folder.path() + "', dropout: 0.5}}");
  const Ref<Model> ref = registry.of<Model>().prepare(node, reading);
  problems.check();
  const std::optional<LoraOptions> lora = lora_of(ref.resolved);
  ASSERT_TRUE(lora);
  EXPECT_EQ(lora->rank, 2);
  EXPECT_EQ(*lora->alpha, 3);
  EXPECT_TRUE(lora->rslora);
  EXPECT_EQ(lora->dropout, 0.5);
  EXPECT_EQ(lora->target_modules, std::vector<std::string>{"transformer.h.0.attn.c_attn"});
  EXPECT_FALSE(lora_of({Node::Map{}, {}}));
}

struct BadAdapter {
  nlohmann::json changes;
  const char* options;
  const char* error;  ///< DIR is the folder
};

void expect_refusal(const BadAdapter& bad) {
  const TempFolder folder;
  write_adapter(folder, bad.changes);
  std::string found = complaint<Model>(
      "{" + std::string(kGpt) + ", lora: {adapter: '" + folder.path() + "'" + bad.options + "}}",
      five_tokens());
  std::string wanted = bad.error;
  if (const size_t at = wanted.find("DIR"); at != wanted.npos) {
    wanted.replace(at, 3, folder.path());
  }
  EXPECT_NE(found.find(wanted), found.npos) << found;
  EXPECT_EQ(found.empty(), wanted.empty()) << found;
}

TEST(LoraTest, AnAdapterThatDoesNotFitIsRefused) {
  const BadAdapter cases[] = {
      {{{"peft_type", "IA3"}}, "", "'DIR/adapter_config.json' is of a 'IA3', not of a 'LORA'"},
      {{{"use_qalora", true}},
       "",
       "'DIR/adapter_config.json' has true for 'use_qalora', which this program does not do"},
      {{{"use_dora", true}}, "", "'transformer.h.0.attn.c_attn.lora_magnitude_vector'"},
      {{{"bias", "some"}}, "", "'DIR/adapter_config.json' has 'some' for 'bias', which PEFT lacks"},
      {{{"alpha_pattern", {{"c_attn", "1"}}}},
       "",
       "'DIR/adapter_config.json' has no number for 'c_attn' in 'alpha_pattern'"},
      {{{"alpha_pattern", {{"c_attn", 1}, {"attn.c_attn", 2}}}},
       "",
       "'DIR/adapter_config.json' has two numbers for 'transformer.h.0.attn.c_attn' in "
       "'alpha_pattern'"},
      {{{"r", 3}},
       "",
       "'DIR/adapter_config.json' gives 'transformer.h.0.attn.c_attn' the rank 3, and its weights "
       "have 2"},
      {{{"r", 3}, {"rank_pattern", {{"attn.c_attn", 2}}}}, "", ""},
      {{{"rank_pattern", {{"c_attn", 4}}}},
       "",
       "'DIR/adapter_config.json' gives 'transformer.h.0.attn.c_attn' the rank 4, and its weights "
       "have 2"},
      {{{"init_lora_weights", "pissa_niter_4"}},
       "",
       "'DIR/adapter_config.json' has \"pissa_niter_4\" for 'init_lora_weights', which changes the "
       "weights of the base model in a way that is random or depends on data"},
      {{{"trainable_token_indices", {1, 2}}},
       "",
       "'DIR/adapter_config.json' has [1,2] for 'trainable_token_indices', a key whose effect on "
       "the model is not known here"},
      {{{"init_lora_weights", "gaussian"}, {"loftq_config", nlohmann::json::object()}}, "", ""},
      {kNoChanges, ", rank: 4", "'rank' is 4 here and 2 in the adapter"},
      {kNoChanges, ", alpha: 4", "'alpha' is 4 here and 3 in the adapter"},
      {kNoChanges, ", targets: '*'", ""},
      {kNoChanges, ", targets: '*c_fc'",
       "'target_modules' is ['*c_fc'] here and ['transformer.h.0.attn.c_attn'] in the adapter"},
  };
  for (const BadAdapter& bad : cases) expect_refusal(bad);
}

TEST(LoraTest, PatternsOfLayersArePythonsRegularExpressions) {
  const BadAdapter cases[] = {
      {{{"alpha_pattern", {{"c_attn[", 1}}}},
       "",
       "'DIR/adapter_config.json' has 'c_attn[' in 'alpha_pattern': it is not a regular "
       "expression: missing terminating ] for character class"},
      {{{"alpha_pattern", {{"(?i)c_attn", 1}}}},
       "",
       "'DIR/adapter_config.json' has '(?i)c_attn' in 'alpha_pattern': it has '(?i)', which "
       "Python's re does not accept"},
      {{{"r", 3}, {"rank_pattern", {{R"(.*(?<=attn\.)c_attn)", 2}}}}, "", ""},
      {{{"r", 3}, {"rank_pattern", {{R"((?i:ATTN)\.c_\w++)", 2}}}}, "", ""},
      {{{"r", 3}, {"rank_pattern", {{R"(.*(?<!attn\.)c_attn)", 2}}}},
       "",
       "'DIR/adapter_config.json' gives 'transformer.h.0.attn.c_attn' the rank 3, and its weights "
       "have 2"},
  };
  for (const BadAdapter& each : cases) expect_refusal(each);
}

TEST(LoraTest, WeightsWithoutALayerAreRefused) {
  const TempFolder folder;
  write_adapter(folder, kNoChanges);
  std::string bytes;
  write_safetensors(std::vector<NamedArray>(), [&](ByteSpan some) { bytes += as_text(some); });
  folder.write(kAdapterWeights, bytes);
  const std::string found = complaint<Model>(
      "{" + std::string(kGpt) + ", lora: {adapter: '" + folder.path() + "'}}", five_tokens());
  EXPECT_NE(
      found.find("'" + folder.path() + "/adapter_model.safetensors' has no 'lora_A' of any layer"),
      found.npos)
      << found;
}

TEST(LoraTest, WeightsOfAnotherShapeAreRefused) {
  const TempFolder folder;
  write_adapter(folder, kNoChanges, "transformer.h.0.mlp.c_proj");
  const std::string found = complaint<Model>(
      "{" + std::string(kGpt) + ", lora: {adapter: '" + folder.path() + "'}}", five_tokens());
  EXPECT_NE(found.find("do not fit the model 'lora': "
                       "'transformer.h.0.mlp.c_proj.lora_A.weight' is [2, 4] of F32, not [2, 16] "
                       "of F32"),
            found.npos)
      << found;
}

}  // namespace
}  // namespace accel::lora_test
