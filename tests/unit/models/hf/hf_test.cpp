// Hugging Face folders as models, against what transformers makes of them. The folders and the
// numbers are written by tests/interop/make_hf_folders.py.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/api/auxiliary_loss.h"
#include "core/api/model.h"
#include "kernels/memory/skip_init.h"
#include "models/hf/hf_family.h"
#include "models/hf/map_hf_weights.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::hf_test {
namespace {

using Json = nlohmann::json;

std::string folder_of(const std::string& name) {
  const char* source = std::getenv("ACCEL_SOURCE_DIR");
  return std::string(source ? source : ".") + "/tests/unit/models/golden/hf/" + name;
}

const Json& golden_folders() {
  static const Json json = [] {
    std::ifstream file(folder_of("golden.json"));
    return Json::parse(file);
  }();
  return json;
}

at::Tensor tensor_in(const Json& json) {
  const auto shape = json["shape"].get<std::vector<int64_t>>();
  if (json["values"].front().is_number_integer()) {
    return at::tensor(json["values"].get<std::vector<int64_t>>()).view(shape);
  }
  return at::tensor(json["values"].get<std::vector<float>>()).view(shape);
}

Batch batch_in(const Json& inputs) {
  Batch batch;
  batch.inputs = tensor_in(inputs[inputs.contains("tokens") ? "tokens" : "pixels"]);
  if (inputs.contains("lengths")) batch.lengths = tensor_in(inputs["lengths"]);
  if (inputs.contains("segments")) batch.segments = tensor_in(inputs["segments"]);
  return batch;
}

/// What data that gives such a batch is like, for logits of that shape.
ModelContext context_of(const Json& wanted) {
  const Batch batch = batch_in(wanted["inputs"]);
  ModelContext context;
  context.data.input.assign(batch.inputs.sizes().begin() + 1, batch.inputs.sizes().end());
  const auto shape = wanted["shape"].get<std::vector<int64_t>>();
  if (batch.inputs.scalar_type() == at::kLong) context.data.input_type = DType::kI64;
  const bool tokens = shape.size() == 3;
  if (tokens) context.data.target = context.data.input;
  (tokens && !wanted.contains("labels") ? context.data.vocab : context.data.classes) = shape.back();
  return context;
}

std::unique_ptr<Model> from_folder(const std::string& name, const Json& wanted,
                                   const std::string& more = "") {
  return build<Model>("{type: auto, weights: '" + folder_of(name) + "'" + more + "}",
                      context_of(wanted));
}

at::Tensor logits_of(Model& model, const Json& wanted) {
  model.module().eval();
  return model.forward_batch(batch_in(wanted["inputs"]));
}

Ref<Model> prepared(const std::string& yaml, Diagnostics& problems) {
  Registry registry;
  Registration::enter_all(registry);
  Reading reading{problems, registry};
  return registry.of<Model>().prepare(parse_recipe("recipe.yaml", yaml), reading);
}

/// How folders name what the golden folder's model has.
HfNames names_in(const std::string& name) {
  Diagnostics problems;
  const Ref<Model> ref = prepared("{type: auto, weights: '" + folder_of(name) + "'}", problems);
  problems.check();
  return HfFamily::of_component(ref.type)->names(detail::without_type(ref.resolved));
}

/// The mean cross-entropy with class 0, and the model's own loss in training.
std::pair<at::Tensor, at::Tensor> losses_of(Model& model, const Json& wanted) {
  auto* const auxiliary = dynamic_cast<AuxiliaryLoss*>(&model);
  model.module().train(auxiliary != nullptr);
  const Batch batch = batch_in(wanted["inputs"]);
  if (auxiliary) auxiliary->begin_batch(batch);
  const at::Tensor flat = model.forward_batch(batch).flatten(0, -2);
  const at::Tensor classes = at::zeros({flat.size(0)}, at::TensorOptions().dtype(at::kLong));
  return {at::cross_entropy_loss(flat, classes),
          auxiliary ? auxiliary->auxiliary_loss() : at::Tensor()};
}

class HfFolderTest : public testing::TestWithParam<std::string> {};

TEST_P(HfFolderTest, GivesTheLogitsAndGradientsOfTransformers) {
  const Json& wanted = golden_folders()[GetParam()];
  const auto model = from_folder(GetParam(), wanted);
  const at::Tensor logits = logits_of(*model, wanted);
  const auto expected = at::tensor(wanted["logits"].get<std::vector<float>>());
  ASSERT_EQ(logits.sizes().vec(), wanted["shape"].get<std::vector<int64_t>>());
  EXPECT_LT(logits.flatten().sub(expected).abs().max().item<double>(), 1e-5);

  const auto [loss, balance] = losses_of(*model, wanted);
  EXPECT_NEAR(loss.item<double>(), wanted["loss"].get<double>(), 1e-5);
  ASSERT_EQ(balance.defined(), wanted.contains("balance"));
  if (balance.defined()) {
    EXPECT_NEAR(balance.item<double>(), wanted["balance"].get<double>(), 1e-6);
  }
  (balance.defined() ? loss + balance : loss).backward();
  const auto parameters = model->module().named_parameters();
  EXPECT_EQ(parameters.size(), wanted["gradients"].size());
  const HfNames names = names_in(GetParam());
  for (const auto& item : parameters) {
    const Json& gradient = wanted["gradients"][names.stored_name(item.key())];
    ASSERT_TRUE(gradient.is_array()) << item.key();
    const double norm = gradient[0].get<double>();
    EXPECT_NEAR(item->grad().norm().item<double>(), norm, 1e-4 * norm + 1e-7) << item.key();
    EXPECT_NEAR(item->grad().sum().item<double>(), gradient[1].get<double>(), 1e-4 * norm + 1e-6)
        << item.key();
  }
}

std::vector<std::string> folder_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : golden_folders().items()) names.push_back(name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, HfFolderTest, testing::ValuesIn(folder_names()),
                         [](const auto& test) { return test.param; });

std::string scalar_in(const Ref<Model>& ref, const char* key) {
  const auto* field = ref.resolved.find(key);
  EXPECT_TRUE(field && field->node.scalar()) << key << " in\n" << to_yaml(ref.resolved);
  return field && field->node.scalar() ? field->node.scalar()->text : "";
}

TEST(HfModelTest, TheFolderGivesTheOptions) {
  Diagnostics problems;
  const Ref<Model> ref = prepared(
      "{type: auto, weights: '" + folder_of("gpt2") + "', dropout: 0.25, intermediate_size: auto}",
      problems);
  problems.check();
  EXPECT_EQ(ref.type, "gpt");
  EXPECT_EQ(scalar_in(ref, "type"), "gpt");
  EXPECT_EQ(scalar_in(ref, "vocab_size"), "29");
  EXPECT_EQ(scalar_in(ref, "intermediate_size"), "12");
  EXPECT_EQ(scalar_in(ref, "activation"), "relu");
  EXPECT_EQ(scalar_in(ref, "dropout"), "0.25") << "the recipe's";
  EXPECT_EQ(scalar_in(ref, "attention_dropout"), "0.1") << "the folder's";
  // What was resolved reads back to the same.
  const Ref<Model> again = prepared(to_yaml(ref.resolved), problems);
  problems.check();
  EXPECT_EQ(to_yaml(again.resolved), to_yaml(ref.resolved));
}

TEST(HfModelTest, AutoDeclaresWhatSomeFolderMayHave) {
  Registry registry;
  Registration::enter_all(registry);
  std::map<std::string, FieldInfo> fields;
  for (const FieldInfo& field : registry.of<Model>().items().at("auto").fields) {
    EXPECT_TRUE(fields.emplace(field.name, field).second) << field.name << " twice";
  }
  for (const std::string& family : HfFamily::components()) {
    for (const FieldInfo& field : registry.of<Model>().items().at(family).fields) {
      EXPECT_TRUE(fields.contains(field.name)) << family << ' ' << field.name;
    }
  }
  EXPECT_TRUE(fields["weights"].required);
  EXPECT_EQ(fields["num_kv_heads"].fallback, "");
  EXPECT_TRUE(fields["head_dropout"].help.ends_with(
      " Of bert, deberta, distilbert, electra, gpt, gpt_neox, llama, modernbert, opt, roberta; "
      "default: as in the folder."))
      << fields["head_dropout"].help;
  // That of a llama is a number, those of others may be auto.
  EXPECT_EQ(fields["attention_dropout"].type, "a number or 'auto'");
  EXPECT_TRUE(fields["attention_dropout"].json.starts_with("\"anyOf\": [{"))
      << fields["attention_dropout"].json;
}

/// The problems of a recipe for the model, with `folder` named DIR.
std::string problems_of(const std::string& yaml, const std::string& folder) {
  Diagnostics problems;
  EXPECT_FALSE(prepared(yaml, problems));
  std::string out;
  for (const Diagnostic& problem : problems.list()) {
    out += problem.message + (problem.hint.empty() ? "" : " (" + problem.hint + ")") + "\n";
  }
  for (size_t at; (at = out.find(folder)) != out.npos;) out.replace(at, folder.size(), "DIR");
  return out;
}

TEST(HfModelTest, TellsWhatDoesNotAgree) {
  const std::string gpt2 = folder_of("gpt2");
  EXPECT_EQ(problems_of("{type: gpt, weights: '" + gpt2 +
                            "', num_layers: 3, num_heads: 2, hidden_size: 16}",
                        gpt2),
            "'num_layers' is 3 here and 2 in 'DIR' (leave it out to take it from the folder)\n"
            "'hidden_size' is 16 here and 8 in 'DIR' (leave it out to take it from the folder)\n");
  EXPECT_EQ(problems_of("{type: bert, weights: '" + gpt2 + "'}", gpt2),
            "'DIR/config.json' is of a 'gpt2', which the model 'bert' is not (set 'type: gpt')\n");
  EXPECT_EQ(problems_of("{type: auto, weights: /nowhere}", "/nowhere"),
            "no file 'DIR/config.json' (relative paths are resolved from the folder of the recipe "
            "file)\n");
  EXPECT_EQ(
      problems_of("auto", "x"),
      "'weights' is missing (add 'weights': A Hugging Face folder to start from: its sizes and its "
      "weights.)\n");
}

TEST(HfModelTest, TellsWhatAConfigHasThatNoModelDoes) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8,
                                  "n_positions": 4, "scale_attn_weights": false,
                                  "activation_function": "snake"})");
  EXPECT_EQ(problems_of("{type: auto, weights: '" + folder.path() + "'}", folder.path()),
            "'DIR/config.json' has false for 'scale_attn_weights', which this model does not do\n"
            "'DIR/config.json' lacks 'vocab_size', which must be a whole number\n"
            "'DIR/config.json' has the activation 'snake' for 'activation_function', which is not "
            "supported\n");
  std::ifstream file(folder_of("llama") + "/config.json");
  Json llama = Json::parse(file);
  llama["rope_parameters"]["rope_type"] = "xpos";
  folder.write("config.json", llama.dump());
  EXPECT_EQ(problems_of("{type: auto, weights: '" + folder.path() + "'}", folder.path()),
            "'DIR/config.json' has the rope type 'xpos', only default, linear, dynamic, yarn, "
            "longrope and llama3 are supported\n");
  folder.write("config.json", R"({"model_type": "mamba"})");
  EXPECT_TRUE(problems_of("{type: auto, weights: '" + folder.path() + "'}", folder.path())
                  .starts_with("'DIR/config.json' has the model type 'mamba', which is not "
                               "supported (supported models are 'bert', 'clip', 'deberta'"));
}

/// A golden folder's config with these keys set.
void write_config(const TempFolder& folder, const std::string& name, const Json& keys) {
  std::ifstream file(folder_of(name) + "/config.json");
  Json config = Json::parse(file);
  config.update(keys);
  folder.write("config.json", config.dump());
}

std::string problems_with(const std::string& name, const Json& keys) {
  const TempFolder folder;
  write_config(folder, name, keys);
  return problems_of("{type: auto, weights: '" + folder.path() + "'}", folder.path());
}

TEST(HfModelTest, EveryKeyOfAConfigIsUsedOrRefused) {
  const std::string unknown =
      ", a key whose effect on the model is not known here (delete the key "
      "from the file if the model does not depend on it)\n";
  const std::string not_built = ", which this model does not do\n";
  const std::vector<std::tuple<std::string, Json, std::string>> refused = {
      {"gpt2", {{"attention_sink", 4}}, "has 4 for 'attention_sink'" + unknown},
      {"gpt2",
       {{"auto_map", {{"AutoModel", "x.Y"}}}},
       "has {\"AutoModel\":\"x.Y\"} for 'auto_map'" + unknown},
      {"bert_tokens",
       {{"pruned_heads", {{"0", {1}}}}},
       "has {\"0\":[1]} for 'pruned_heads'" + not_built},
      {"llama",
       {{"quantization_config", {{"bits", 4}}}},
       "has a 'quantization_config' with the method 'none', and only that of 'bitsandbytes' is "
       "read\n"},
      {"llama",
       {{"layer_types", {"full_attention", "sliding_attention"}}, {"sliding_window", 2}},
       "has 2 for 'sliding_window'" + not_built},
      {"llama",
       {{"layer_types", "all"}},
       "has \"all\" for 'layer_types', which must be a list of texts\n"},
      {"llama",
       {{"rope_parameters", {{"rope_type", "default"}, {"mrope_section", {1, 2}}}}},
       "has [1,2] for 'mrope_section', a key whose effect on the model is not known here\n"}};
  EXPECT_EQ(problems_with("llama", {{"layer_types", {"linear_attention"}}}),
            "'DIR/config.json' has 'linear_attention' in 'layer_types', which this model does not "
            "do\n");
  for (const auto& [name, keys, problem] : refused) {
    EXPECT_EQ(problems_with(name, keys), "'DIR/config.json' " + problem) << keys;
  }
  const std::vector<std::pair<std::string, Json>> taken = {
      {"gpt2", {{"attention_sink", 0}, {"sliding", false}, {"more", Json::object()}}},
      {"gpt2", {{"summary_type", "cls_index"}, {"_name_or_path", "gpt2"}, {"top_k", 50}}},
      {"gpt2",
       {{"n_special", 0}, {"predict_special_tokens", true}, {"custom_pipelines", {{"a", 1}}}}},
      {"bert_tokens", {{"sentence_transformers", {{"version", "5"}}}, {"name", "Bert"}}},
      {"bert_tokens", {{"pooler_type", "first_token_transform"}, {"problem_type", "regression"}}},
      {"llama", {{"layer_types", {"full_attention"}}, {"sliding_window", 2}}},
      {"qwen2_moe", {{"qkv_bias", false}, {"sliding_window", 2}}},
      {"llama", {{"rope_parameters", {{"rope_type", "default"}, {"factor", 8}}}}}};
  for (const auto& [name, keys] : taken) {
    const TempFolder folder;
    write_config(folder, name, keys);
    Diagnostics problems;
    EXPECT_TRUE(prepared("{type: auto, weights: '" + folder.path() + "'}", problems)) << keys;
  }
}

TEST(HfModelTest, KeysOfOtherFamiliesAreUsedOrRefused) {
  const std::string not_built = ", which this model does not do\n";
  const std::vector<std::tuple<std::string, Json, std::string>> refused = {
      {"deberta_classes", {{"conv_kernel_size", 3}}, "has 3 for 'conv_kernel_size'" + not_built},
      {"deberta_classes",
       {{"pooler_hidden_act", "tanh"}},
       "has \"tanh\" for 'pooler_hidden_act'" + not_built},
      {"deberta_classes", {{"embedding_size", 4}}, "has 4 for 'embedding_size'" + not_built},
      {"deberta_classes",
       {{"relative_attention", false}},
       "has false for 'relative_attention'" + not_built},
      {"opt", {{"layerdrop", 0.5}}, "has 0.5 for 'layerdrop'" + not_built},
      {"electra_tokens",
       {{"tie_word_embeddings", false}},
       "has false for 'tie_word_embeddings'" + not_built}};
  for (const auto& [name, keys, problem] : refused) {
    EXPECT_EQ(problems_with(name, keys), "'DIR/config.json' " + problem) << keys;
  }
  EXPECT_EQ(problems_with("deberta_classes", {{"relative_attention", nullptr}}),
            "'DIR/config.json' lacks 'relative_attention', and attention without relative "
            "positions is not supported\n");
  EXPECT_EQ(problems_with("deberta_classes", {{"pos_att_type", "p2c|p2p"}}),
            "'DIR/config.json' has 'p2p' in 'pos_att_type', which this model does not do\n");
  EXPECT_EQ(
      problems_with("deberta_classes", {{"norm_rel_ebd", "batch_norm"}}),
      "'DIR/config.json' has 'batch_norm' for 'norm_rel_ebd', which this model does not do\n");
  EXPECT_EQ(
      problems_with("gpt_neox", {{"rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2}}}}),
      "'DIR/config.json' has the rope type dynamic or longrope, which this model does not "
      "do\n");
  const std::vector<std::pair<std::string, Json>> taken = {
      {"electra_classes", {{"summary_type", "first"}, {"summary_use_proj", true}}},
      {"deberta_classes", {{"conv_kernel_size", 0}, {"pooler_hidden_size", 8}}},
      {"deberta_classes", {{"pos_att_type", ""}}},
      {"deberta_classes", {{"pos_att_type", Json::array()}, {"share_att_key", false}}},
      {"deberta_classes", {{"pos_att_type", nullptr}}},
      {"deberta_classes", {{"pos_att_type", {""}}}},
      {"deberta_classes", {{"pos_att_type", " C2P | p2c"}}},
      {"gpt_neox", {{"rotary_pct", 0.5}, {"rotary_emb_base", 500}}}};
  for (const auto& [name, keys] : taken) {
    const TempFolder folder;
    write_config(folder, name, keys);
    Diagnostics problems;
    EXPECT_TRUE(prepared("{type: auto, weights: '" + folder.path() + "'}", problems)) << keys;
  }
}

/// The weights of a golden folder, each changed, in a folder of their own.
void write_changed(const TempFolder& to, const std::string& name,
                   const std::function<NamedArray(NamedArray)>& change) {
  std::vector<NamedArray> tensors;
  const HfWeights weights(folder_of(name));
  for (const NamedArray& tensor : weights.tensors()) tensors.push_back(change(tensor));
  std::string bytes;
  write_safetensors(tensors, [&](ByteSpan some) { bytes += as_text(some); });
  to.write("model.safetensors", bytes);
  std::ifstream config(folder_of(name) + "/config.json");
  to.write("config.json", {std::istreambuf_iterator<char>(config), {}});
}

TEST(HfModelTest, ABaseModelWithoutPrefixIsTheSame) {
  const Json& wanted = golden_folders()["gpt2"];
  const TempFolder folder;
  write_changed(folder, "gpt2", [](NamedArray tensor) {
    tensor.name.erase(0, std::string("transformer.").size());
    return tensor;
  });
  const auto model =
      build<Model>("{type: gpt, weights: '" + folder.path() + "'}", context_of(wanted));
  EXPECT_TRUE(logits_of(*model, wanted).equal(logits_of(*from_folder("gpt2", wanted), wanted)));
}

TEST(HfModelTest, AnotherHeadStartsAnew) {
  const Json& classes = golden_folders()["bert_classes"];
  ModelContext context = context_of(classes);
  context.data.classes = 5;
  const auto model =
      build<Model>("{type: auto, weights: '" + folder_of("bert_tokens") + "'}", context);
  EXPECT_EQ(logits_of(*model, classes).size(1), 5);
  EXPECT_STREQ(model->default_task(), "classification");
}

TEST(HfModelTest, OnlyModelsOfCheckpointsMayLackTheHeadOfTheFolder) {
  const Json& classes = golden_folders()["bert_classes"];
  const at::Tensor wanted = logits_of(*from_folder("bert_classes", classes), classes);
  const SkipInit skip;
  EXPECT_TRUE(logits_of(*from_folder("bert_classes", classes), classes).equal(wanted));
  ModelContext context = context_of(classes);
  context.data.classes = 5;
  const std::string headless = "{type: auto, weights: '" + folder_of("bert_tokens") + "'}";
  testing::internal::CaptureStderr();
  build<Model>(headless, context);  // a checkpoint has the head
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const MapHfWeights mapped;
  try {
    build<Model>(headless, context);
    FAIL() << "expected an error";
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'" + folder_of("bert_tokens") +
                  "' is a model without a head: it has no 'bert.pooler.dense.weight', "
                  "'bert.pooler.dense.bias', 'classifier.weight', 'classifier.bias'");
  }
}

TEST(HfModelTest, WeightsThatDoNotFitAreRefused) {
  const Json& wanted = golden_folders()["gpt2"];
  const TempFolder folder;
  write_changed(folder, "gpt2", [](NamedArray tensor) {
    if (tensor.name == "transformer.ln_f.bias") tensor.name = "transformer.ln_g.bias";
    return tensor;
  });
  EXPECT_EQ(complaint<Model>("{type: gpt, weights: '" + folder.path() + "'}", context_of(wanted)),
            "the weights in '" + folder.path() +
                "' do not fit the model 'gpt': missing are 'transformer.ln_f.bias'; not known are "
                "'transformer.ln_g.bias'");
}

class BertKindTest : public testing::TestWithParam<const char*> {};

TEST_P(BertKindTest, FillChangesNothing) {
  const std::string folder = std::string(GetParam()) + "_classes";
  const Json& wanted = golden_folders()[folder];
  const auto model = from_folder(folder, wanted);
  model->module().eval();
  Batch batch = batch_in(wanted["inputs"]);
  const at::Tensor before = model->forward_batch(batch).select(0, 1);
  batch.inputs.select(0, 1).narrow(0, 5, 3).fill_(7);
  EXPECT_TRUE(model->forward_batch(batch).select(0, 1).equal(before));
  batch.lengths = at::Tensor();
  EXPECT_FALSE(model->forward_batch(batch).select(0, 1).allclose(before));
}

/// What data of texts is like, with the targets still unknown.
ModelContext texts() {
  ModelContext context;
  context.data.input = {8};
  context.data.input_type = DType::kI64;
  context.data.vocab = 29;
  context.data.classes = 2;
  return context;
}

TEST_P(BertKindTest, TheHeadFollowsTheTargets) {
  ModelContext context = texts();
  const std::string small =
      "{type: " + std::string(GetParam()) + ", num_layers: 1, num_heads: 2, hidden_size: 8";
  EXPECT_STREQ(build<Model>(small + "}", context)->default_task(), "classification");
  context.data.target = {8};
  EXPECT_STREQ(build<Model>(small + "}", context)->default_task(), "token_classification");
  EXPECT_STREQ(build<Model>(small + ", head: tokens}", context)->default_task(), "masked_lm");
  context.data.classes = 0;
  EXPECT_STREQ(build<Model>(small + "}", context)->default_task(), "masked_lm");
  EXPECT_EQ(complaint<Model>(small + ", head: labels}", context),
            "'num_classes' of the model '" + std::string(GetParam()) +
                "' is auto, but the data does not determine it");
  context.data.target = {};
  context.data.target_type = DType::kF32;
  EXPECT_STREQ(build<Model>(small + "}", context)->default_task(), "regression");
  context.data.target = {1, 2};
  context.data.target_type = DType::kI64;
  const auto answers = build<Model>(small + "}", context);
  EXPECT_STREQ(answers->default_task(), "question_answering");
  const at::Tensor tokens = at::ones({3, 8}, at::kLong);
  EXPECT_EQ(answers->forward(tokens).sizes(), (std::vector<int64_t>{3, 8, 2}));
}

TEST_P(BertKindTest, DropsBeforeTheLabelsAsTransformersDoes) {
  const std::string folder = std::string(GetParam()) + "_labels";
  const Json& wanted = golden_folders()[folder];
  const Batch batch = batch_in(wanted["inputs"]);
  const auto draws = [&](const std::string& dropped) {
    const auto model = from_folder(folder, wanted, ", attention_dropout: 0, " + dropped);
    model->module().train();
    return !model->forward_batch(batch).equal(model->forward_batch(batch));
  };
  const bool own = GetParam() == std::string("distilbert") || GetParam() == std::string("deberta");
  EXPECT_EQ(draws("dropout: 0, head_dropout: 0.5"), !own) << "which is for classes alone";
  EXPECT_FALSE(draws("dropout: 0, head_dropout: 0"));
}

TEST_P(BertKindTest, DropsOnlyInTraining) {
  const std::string folder = std::string(GetParam()) + "_classes";
  const Json& wanted = golden_folders()[folder];
  const auto model = from_folder(folder, wanted,
                                 ", dropout: 0.5, attention_dropout: 0, "
                                 "head_dropout: 0");
  const Batch batch = batch_in(wanted["inputs"]);
  model->module().train();
  EXPECT_FALSE(model->forward_batch(batch).equal(model->forward_batch(batch)));
  model->module().eval();
  EXPECT_TRUE(model->forward_batch(batch).equal(model->forward_batch(batch)));
}

INSTANTIATE_TEST_SUITE_P(All, BertKindTest,
                         testing::Values("bert", "roberta", "distilbert", "electra", "deberta"),
                         [](const auto& test) { return std::string(test.param); });

TEST(BertTest, HeadsMustFit) {
  EXPECT_TRUE(
      complaint<Model>("{type: bert, hidden_size: 9}", texts())
          .starts_with(
              "recipe.yaml:1:1: error: 'hidden_size' must be a multiple of 'num_heads', but "
              "9 is not one of 4\n"));
}

TEST(RobertaTest, OneSegmentMeansThatTextsAreNotToldApart) {
  const Json& wanted = golden_folders()["roberta_classes"];
  const auto model = from_folder("roberta_classes", wanted);
  model->module().eval();
  Batch batch = batch_in(wanted["inputs"]);
  const at::Tensor before = model->forward_batch(batch);
  batch.segments = at::ones_like(batch.inputs);
  EXPECT_TRUE(model->forward_batch(batch).equal(before));
}

TEST(RobertaTest, TheContextLeavesOutThePositionsOfFill) {
  Diagnostics problems;
  const Ref<Model> ref =
      prepared("{type: auto, weights: '" + folder_of("roberta_tokens") + "'}", problems);
  problems.check();
  EXPECT_EQ(ref.type, "roberta");
  EXPECT_EQ(scalar_in(ref, "pad"), "3");
  EXPECT_EQ(scalar_in(ref, "max_seq_len"), "8") << "of 12 positions";
  const TempFolder folder;
  folder.write("config.json", R"({"model_type": "roberta", "vocab_size": 9, "hidden_size": 8,
                                  "num_hidden_layers": 1, "num_attention_heads": 2,
                                  "intermediate_size": 8, "max_position_embeddings": 4,
                                  "pad_token_id": 3})");
  EXPECT_EQ(problems_of("{type: roberta, weights: '" + folder.path() + "'}", folder.path()),
            "'DIR/config.json' has 4 for 'max_position_embeddings', and 'pad_token_id' 3 leaves no "
            "positions\n");
}

TEST(RobertaTest, WhatFillsIsATokenAndIsNotTrained) {
  const std::string small = "{type: roberta, num_layers: 1, num_heads: 2, hidden_size: 8, pad: ";
  EXPECT_EQ(complaint<Model>(small + "29}", texts()),
            "'pad' of the model 'roberta' is 29, but token ids are below 29");
  const auto model = build<Model>(small + "28}", texts());
  Batch batch;
  batch.inputs = at::full({2, 8}, 28, at::kLong);
  model->forward_batch(batch).sum().backward();
  const auto parameters = model->module().named_parameters();
  for (const char* table : {"word", "position"}) {
    const at::Tensor& weight =
        parameters["roberta.embeddings." + std::string(table) + "_embeddings.weight"];
    EXPECT_EQ(weight.select(0, 28).abs().sum().item<double>(), 0) << table;
    EXPECT_EQ(weight.grad().abs().sum().item<double>(), 0) << table;
    EXPECT_GT(weight.abs().sum().item<double>(), 0) << table;
  }
}

/// What a model's options and weights become in a folder, over what another folder had.
Json exported_config(const std::string& yaml, const ModelContext& context, Json config) {
  Diagnostics problems;
  const Ref<Model> ref = prepared(yaml, problems);
  problems.check();
  WeightShapes shapes;
  for (const auto& item : ref.make(context)->module().named_parameters()) {
    shapes[item.key()] = item.value().sizes().vec();
  }
  HfFamily::of_component(ref.type)->write_config(detail::without_type(ref.resolved), shapes,
                                                 config);
  return config;
}

TEST(RobertaTest, KinKeepTheirNames) {
  const std::string small = "{type: roberta, num_layers: 1, num_heads: 2, hidden_size: 8, pad: 2}";
  ModelContext context = texts();
  const Json classes = exported_config(small, context, {{"model_type", "xlm-roberta"}});
  EXPECT_EQ(classes["model_type"], "xlm-roberta");
  EXPECT_EQ(classes["architectures"], Json({"XLMRobertaForSequenceClassification"}));
  EXPECT_EQ(classes["pad_token_id"], 2);
  EXPECT_EQ(classes["max_position_embeddings"], 11) << "8 tokens behind 3 positions of fill";
  EXPECT_EQ(classes["id2label"].size(), 2);
  context.data.target = {8};
  EXPECT_EQ(exported_config(small, context, Json::object())["architectures"],
            Json({"RobertaForTokenClassification"}));
  context.data.classes = 0;
  EXPECT_EQ(exported_config(small, context, {{"model_type", "camembert"}})["architectures"],
            Json({"CamembertForMaskedLM"}));
  EXPECT_EQ(exported_config(small, context, Json::object())["architectures"],
            Json({"RobertaForMaskedLM"}));
}

}  // namespace
}  // namespace accel::hf_test
