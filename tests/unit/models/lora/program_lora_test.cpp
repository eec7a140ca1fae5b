// Adapters of exported programs. tests/interop/make_golden_exported.py writes the programs.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/api/model.h"
#include "models/layers/module_state.h"
#include "models/lora/lora_folder.h"
#include "models/lora/program_lora.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::program_lora_test {
namespace {

std::string program_with(const std::string& name, const std::string& more) {
  return "{type: exported, file: '" + std::string(std::getenv("ACCEL_SOURCE_DIR")) +
         "/tests/unit/models/golden/exported/" + name + ".pt2'" + more + "}";
}

ModelContext three_classes_of_words() {
  ModelContext context;
  context.data = {.input = {6}, .input_type = DType::kI64, .classes = 3, .vocab = 7};
  context.data.padding = Padding{};
  return context;
}

std::unique_ptr<Model> words_with(const std::string& lora) {
  return build<Model>(program_with("words", lora), three_classes_of_words());
}

Batch two_texts() {
  Batch batch;
  batch.inputs = at::arange(12).remainder(7).view({2, 6});
  batch.lengths = at::full({2}, 6, at::dtype(at::kLong));
  batch.ids = {0, 1};
  return batch;
}

std::vector<std::string> trained_names(Model& model) {
  std::vector<std::string> out;
  for (const Parameter& item : parameters_of(model)) {
    if (item.local.requires_grad()) out.push_back(item.name);
  }
  return out;
}

at::Tensor parameter(Model& model, const std::string& name) {
  for (const Parameter& item : parameters_of(model)) {
    if (item.name == name) return item.local;
  }
  throw std::logic_error("there is no parameter " + name);
}

TEST(ProgramLoraTest, OnlyAdaptersAreTrainedAndWhatIsNamedBesides) {
  EXPECT_EQ(trained_names(*words_with(", lora: {rank: 2}")),
            (std::vector<std::string>{"mix.lora_A.weight", "mix.lora_B.weight",
                                      "head.lora_A.weight", "head.lora_B.weight"}));
  EXPECT_EQ(trained_names(
                *words_with(", lora: {rank: 2, target_modules: mix, modules_to_save: 'head.*'}")),
            (std::vector<std::string>{"mix.lora_A.weight", "mix.lora_B.weight", "head.weight",
                                      "head.bias"}));
}

TEST(ProgramLoraTest, StartsAsTheProgramAndAddsTheProductOfItsMatrices) {
  const auto plain = words_with("");
  const auto model = words_with(", lora: {rank: 2, alpha: 6, target_modules: head}");
  const Batch batch = two_texts();
  for (const bool training : {false, true}) {
    set_training(*plain, training);
    set_training(*model, training);
    at::manual_seed(1);
    const at::Tensor wanted = plain->forward_batch(batch);
    at::manual_seed(1);
    EXPECT_TRUE(model->forward_batch(batch).equal(wanted)) << training;
  }
  const at::NoGradGuard no_grad;
  parameter(*model, "head.lora_B.weight").fill_(0.5);
  const at::Tensor product =
      parameter(*model, "head.lora_B.weight").matmul(parameter(*model, "head.lora_A.weight"));
  parameter(*plain, "head.weight").add_(product, 3);
  set_training(*plain, false);
  set_training(*model, false);
  EXPECT_TRUE(model->forward_batch(batch).allclose(plain->forward_batch(batch), 1e-5, 1e-6));
}

TEST(ProgramLoraTest, GradientsReachTheAdaptersAlone) {
  const auto model = words_with(", lora: {rank: 2, target_modules: mix}");
  set_training(*model, true);
  model->forward_batch(two_texts()).pow(2).sum().backward();
  for (const Parameter& item : parameters_of(*model)) {
    EXPECT_EQ(item.local.grad().defined(), item.name.starts_with("mix.lora_")) << item.name;
  }
  EXPECT_GT(parameter(*model, "mix.lora_B.weight").grad().abs().sum().item<double>(), 0);
}

TEST(ProgramLoraTest, DropsInTrainingOnly) {
  const auto model = words_with(", lora: {rank: 2, dropout: 0.5, target_modules: head}");
  {
    const at::NoGradGuard no_grad;
    parameter(*model, "head.lora_B.weight").fill_(1);
  }
  const auto twice_equal = [&](bool training) {
    set_training(*model, training);
    const at::Tensor first = model->forward_batch(two_texts());
    at::manual_seed(7);
    const at::Tensor second = model->forward_batch(two_texts());
    at::manual_seed(8);
    return second.equal(model->forward_batch(two_texts())) && first.equal(second);
  };
  EXPECT_TRUE(twice_equal(false));
  EXPECT_FALSE(twice_equal(true));
}

TEST(ProgramLoraTest, AProgramForTrainingAloneIsAdaptedInBothModes) {
  ModelContext context;
  context.data = {.input = {4}, .classes = 4};
  const auto model = build<Model>(
      program_with("mixed_train_only", ", output: logits, lora: {rank: 1, dropout: 0.5}"), context);
  // The weight is tied: each of the modules that call it has its own adapter.
  EXPECT_EQ(trained_names(*model),
            (std::vector<std::string>{"first.lora_A.weight", "first.lora_B.weight",
                                      "last.lora_A.weight", "last.lora_B.weight"}));
  Batch batch;
  batch.inputs = at::full({2, 4}, 0.5);
  batch.ids = {0, 1};
  set_training(*model, false);
  const at::Tensor before = model->forward_batch(batch);
  {
    const at::NoGradGuard no_grad;
    parameter(*model, "last.lora_B.weight").fill_(1);
  }
  const at::Tensor after = model->forward_batch(batch);
  EXPECT_FALSE(after.equal(before));
  EXPECT_TRUE(after.equal(model->forward_batch(batch)));
}

TEST(ProgramLoraTest, ProductsWithATransposedWeightAreLinearLayers) {
  Pt2Program program;
  program.graph.inputs = {{Pt2Slot{0}}, {Pt2Slot{1}}, {Pt2Slot{2}}};
  program.graph.slots = 4;
  program.graph.nodes = {{"addmm",
                          "torch.ops.aten.addmm.default",
                          "h.0.attn",
                          {{"self", {Pt2Slot{0}}}, {"mat1", {Pt2Slot{2}}}, {"mat2", {Pt2Slot{1}}}},
                          {{Pt2Slot{3}}}}};
  program.inputs = {{Pt2Input::Kind::kParameter, "h.0.attn.bias", true, {Pt2Slot{0}}},
                    {Pt2Input::Kind::kParameter, "h.0.attn.weight", true, {Pt2Slot{1}}},
                    {Pt2Input::Kind::kUser, "x", true, {Pt2Slot{2}}}};
  Pt2File file;
  file.tensors["h.0.attn.weight"] = {"", {}, DType::kF32, {3, 5}, {5, 1}, 0, true};
  const std::vector<ProgramLinear> linears = linears_of(program, file);
  ASSERT_EQ(linears.size(), 1U);
  EXPECT_EQ(linears[0].name, "h.0.attn");
  EXPECT_EQ(linears[0].inputs, 3);
  EXPECT_EQ(linears[0].outputs, 5);
}

TEST(ProgramLoraTest, PatternsThatFitNothingAreRefused) {
  const auto refused = [](const std::string& lora) {
    return complaint<Model>(program_with("words", ", lora: {" + lora + "}"),
                            three_classes_of_words());
  };
  EXPECT_EQ(refused("rank: 2, target_modules: [mixx]"), "'mixx' matches no linear layer");
  EXPECT_EQ(refused("rank: 2, also: ['head.wieght']"), "'head.wieght' matches no parameter");
}

struct PeftWeight {
  const char* name;
  Shape shape;
};

/// As PEFT writes them, each full of one number: its place in the list, from 1.
std::string adapter_folder(const TempFolder& folder, const std::vector<PeftWeight>& weights,
                           const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 6}, {"bias", "none"}};
  config.update(changes);
  std::ofstream(folder.path(kAdapterConfig)) << config;
  std::vector<NamedArray> arrays;
  for (const auto& [name, shape] : weights) {
    const std::vector<float> values(static_cast<size_t>(count_of(shape)),
                                    static_cast<float>(arrays.size() + 1));
    arrays.push_back({kAdapterPrefix + std::string(name),
                      Array::of<float>(DType::kF32, shape, std::span(values))});
  }
  std::ofstream file(folder.path(kAdapterWeights), std::ios::binary);
  write_safetensors(arrays, [&](ByteSpan bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  });
  return ", lora: {adapter: '" + folder.path() + "'";
}

const std::vector<PeftWeight> kHeadAdapter = {{"head.lora_A.weight", {2, 4}},
                                              {"head.lora_B.weight", {3, 2}}};

TEST(ProgramLoraTest, AnAdapterOfPeftGivesItsLayersOptionsAndWeights) {
  const TempFolder folder;
  const auto plain = words_with("");
  const auto model = words_with(adapter_folder(folder, kHeadAdapter) + "}");
  EXPECT_EQ(trained_names(*model),
            (std::vector<std::string>{"head.lora_A.weight", "head.lora_B.weight"}));
  const at::NoGradGuard no_grad;
  // 2 * 1 of the product of the matrices, times alpha / r.
  parameter(*plain, "head.weight").add_(at::full({3, 4}, 2.0 * 2.0 * 3.0));
  set_training(*plain, false);
  set_training(*model, false);
  EXPECT_TRUE(
      model->forward_batch(two_texts()).allclose(plain->forward_batch(two_texts()), 1e-5, 1e-5));
}

TEST(ProgramLoraTest, WhatPeftTrainedBesidesIsTrainedOnFromItsNumbers) {
  const TempFolder folder;
  const auto model = words_with(adapter_folder(folder, {{"mix.lora_A.weight", {2, 4}},
                                                        {"mix.lora_B.weight", {12, 2}},
                                                        {"head.bias", {3}}}) +
                                "}");
  EXPECT_EQ(trained_names(*model),
            (std::vector<std::string>{"mix.lora_A.weight", "mix.lora_B.weight", "head.bias"}));
  EXPECT_TRUE(parameter(*model, "head.bias").equal(at::full({3}, 3.0)));
}

TEST(ProgramLoraTest, BuffersOfAModuleThatPeftKeepsAreItsOwn) {
  const TempFolder folder;
  ModelContext context;
  context.data = {.input = {4}, .classes = 4};
  const auto model =
      build<Model>(program_with("mixed", adapter_folder(folder, {{"last.lora_A.weight", {2, 4}},
                                                                 {"last.lora_B.weight", {4, 2}},
                                                                 {"norm.weight", {4}},
                                                                 {"norm.running_mean", {4}}}) +
                                             "}"),
                   context);
  EXPECT_EQ(trained_names(*model),
            (std::vector<std::string>{"norm.weight", "last.lora_A.weight", "last.lora_B.weight"}));
  bool is_there = false;
  for (const Parameter& item : buffers_of(*model)) {
    if (item.name != "norm.running_mean") continue;
    is_there = true;
    EXPECT_TRUE(item.local.equal(at::full({4}, 4.0)));
    EXPECT_FALSE(item.local.requires_grad());
  }
  EXPECT_TRUE(is_there);
}

TEST(ProgramLoraTest, AnAdaptersOptionsAreResolvedAndReadBack) {
  const TempFolder folder;
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  const std::string text =
      program_with("words", adapter_folder(folder, kHeadAdapter) + ", dropout: 0.5}");
  const Ref<Model> ref = registry.of<Model>().prepare(parse_recipe("r.yaml", text), reading);
  problems.check();
  const std::optional<LoraOptions> lora = lora_of(ref.resolved);
  ASSERT_TRUE(lora);
  EXPECT_EQ(lora->rank, 2);
  EXPECT_EQ(lora->scale(), 3);
  EXPECT_EQ(lora->dropout, 0.5);
  EXPECT_EQ(lora->target_modules, std::vector<std::string>{"head"});
  const Ref<Model> again = registry.of<Model>().prepare(ref.resolved, reading);
  problems.check();
  EXPECT_EQ(lora_of(again.resolved)->target_modules, lora->target_modules);
}

TEST(ProgramLoraTest, AnAdapterThatIsNotTheProgramsIsRefused) {
  const auto refused = [](const std::vector<PeftWeight>& weights, const nlohmann::json& changes,
                          const std::string& more = "") {
    const TempFolder folder;
    std::string text = complaint<Model>(
        program_with("words", adapter_folder(folder, weights, changes) + more + "}"),
        three_classes_of_words());
    for (size_t at; (at = text.find(folder.path())) != text.npos;) {
      text.replace(at, folder.path().size(), "FOLDER");
    }
    return text;
  };
  const nlohmann::json none = nlohmann::json::object();
  EXPECT_EQ(refused({{"embed.lora_A.weight", {2, 7}}, {"embed.lora_B.weight", {4, 2}}}, none),
            "'embed' matches no linear layer");
  EXPECT_EQ(refused({{"head.lora_A.weight", {2, 5}}, {"head.lora_B.weight", {3, 2}}}, none),
            "the weights in 'FOLDER' do not fit the model 'exported': 'head.lora_A.weight' is "
            "[2, 5] of F32, not [2, 4] of F32");
  EXPECT_EQ(refused({{"head.lora_A.weight", {2, 4}}}, none),
            "the weights in 'FOLDER' do not fit the model 'exported': missing are "
            "'head.lora_B.weight'");
  EXPECT_EQ(refused({kHeadAdapter[0], kHeadAdapter[1], {"heads.weight", {3, 4}}}, none),
            "'heads.weight' matches no parameter");
  EXPECT_NE(refused(kHeadAdapter, {{"use_dora", true}}).find("has adapters without 'rank_pattern'"),
            std::string::npos);
  EXPECT_NE(refused(kHeadAdapter, none, ", rank: 4").find("'rank' is 4 here and 2 in the adapter"),
            std::string::npos);
}

TEST(ExportedFreezeTest, PatternsFitTheNamesOfThePythonModule) {
  const auto model = words_with("");
  freeze_parameters(*model, {"mix.*", "embed.weight"}, {});
  EXPECT_EQ(trained_names(*model), std::vector<std::string>{"head.weight"});
}

}  // namespace
}  // namespace accel::program_lora_test
