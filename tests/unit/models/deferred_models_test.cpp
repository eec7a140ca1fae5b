// Models whose weights get memory later have the same weights.
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/api/model.h"
#include "kernels/memory/deferred_init.h"
#include "models/hf/hf_weights.h"
#include "models/layers/module_state.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::deferred_models_test {
namespace {

constexpr const char* kTokenModels[] = {
    "{type: gpt, num_layers: 2, hidden_size: 64, num_heads: 2}",
    "{type: gpt, num_layers: 1, hidden_size: 64, num_heads: 2, tie_embeddings: false}",
    "{type: gpt, num_layers: 1, hidden_size: 64, num_heads: 2, lora: {rank: 4}}",
    "{type: llama, num_layers: 1, hidden_size: 64, num_heads: 2}",
    "{type: bert, num_layers: 1, hidden_size: 64, num_heads: 2, head: classes, num_classes: 4}",
    "{type: distilbert, num_layers: 1, hidden_size: 64, num_heads: 2, head: tokens}",
    "{type: roberta, num_layers: 1, hidden_size: 64, num_heads: 2, head: tokens, pad: 3}",
    "{type: electra, num_layers: 1, hidden_size: 64, num_heads: 2, embedding_size: 32, head: "
    "tokens}",
    "{type: deberta, num_layers: 1, hidden_size: 64, num_heads: 2, head: tokens}",
    "{type: gpt_neox, num_layers: 1, hidden_size: 64, num_heads: 2}",
    "{type: opt, num_layers: 1, hidden_size: 64, num_heads: 2, embedding_size: 32, pad: 3}"};
constexpr const char* kImageModels[] = {
    "{type: mlp, hidden_sizes: [33]}", "{type: lenet}", "{type: resnet, embedding_size: 16}",
    "{type: vit, num_layers: 1, hidden_size: 64, num_heads: 2, num_classes: 10}",
    "{type: dcgan_discriminator, features: 16}"};

ModelContext tokens() {
  ModelContext context;
  context.data = {.input = {64}, .input_type = DType::kI64, .vocab = 99, .padding = Padding{7}};
  return context;
}

ModelContext images() {
  ModelContext context;
  context.data.input = {3, 32, 32};
  context.data.classes = 10;
  return context;
}

void expect_same_weights(const std::string& recipe, const ModelContext& context) {
  at::manual_seed(11);
  const auto wanted = build<Model>(recipe, context);
  const at::Tensor next = at::rand({3});
  at::manual_seed(11);
  std::unique_ptr<Model> found;
  std::vector<Parameter> parameters;
  {
    const DeferredInit deferred;
    found = build<Model>(recipe, context);
    parameters = parameters_of(*found);
    std::vector<at::Tensor> kept;
    for (const Parameter& item : parameters) kept.push_back(item.local);
    deferred.materialize_except(kept);
  }
  EXPECT_TRUE(at::equal(at::rand({3}), next)) << recipe;
  const std::vector<Parameter> all = parameters_of(*wanted);
  ASSERT_EQ(parameters.size(), all.size()) << recipe;
  for (size_t i = 0; i < all.size(); ++i) {
    const at::Tensor& tensor = parameters[i].local;
    EXPECT_EQ(is_deferred(tensor), tensor.nbytes() >= kLeastDeferredBytes) << parameters[i].name;
    EXPECT_EQ(tensor.requires_grad(), all[i].local.requires_grad()) << parameters[i].name;
    materialize(tensor);
    EXPECT_TRUE(at::equal(tensor, all[i].local)) << recipe << " " << parameters[i].name;
  }
  for (const Parameter& item : buffers_of(*found)) EXPECT_FALSE(is_deferred(item.local));
}

TEST(DeferredModelsTest, HaveTheSameWeights) {
  for (const char* recipe : kTokenModels) expect_same_weights(recipe, tokens());
  for (const char* recipe : kImageModels) expect_same_weights(recipe, images());
}

NamedArray stored_numbers(const std::string& name, const Shape& shape) {
  Array array(DType::kF32, shape);
  float next = 0;
  for (float& value : array.mutable_as<float>()) value = next++;
  return {name, array};
}

TEST(DeferredModelsTest, ReadTheirRowsFromAFolder) {
  const TempFolder folder;
  std::string file;
  write_safetensors({stored_numbers("plain", {40, 50}), stored_numbers("turned", {50, 40})},
                    [&](ByteSpan bytes) { file += as_text(bytes); });
  folder.write("model.safetensors", file);
  std::optional<DeferredInit> deferred(std::in_place);
  const std::vector<Parameter> into = {{"plain", at::empty({40, 50})},
                                       {"turned", at::empty({40, 50}, at::kDouble)}};
  load_weights(into, HfWeights(folder.path()), {"", {"turned"}}, "gpt");
  deferred.reset();
  const at::Tensor plain = at::empty({3, 50}), turned = at::empty({3, 50}, at::kDouble);
  copy_rows(into[0].local, 7, plain);
  copy_rows(into[1].local, 7, turned);
  EXPECT_TRUE(is_deferred(into[0].local) && is_deferred(into[1].local));
  EXPECT_EQ(plain[2][4].item<float>(), 9 * 50 + 4);
  EXPECT_EQ(turned[2][4].item<double>(), 4 * 40 + 9);
  for (const Parameter& item : into) materialize(item.local);
  EXPECT_TRUE(at::equal(into[0].local.narrow(0, 7, 3), plain));
  EXPECT_TRUE(at::equal(into[1].local.narrow(0, 7, 3), turned));
}

}  // namespace
}  // namespace accel::deferred_models_test
