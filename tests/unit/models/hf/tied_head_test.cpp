// Heads of Hugging Face folders that differ from the embedding to which the config ties them.
#include "models/hf/tied_head.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "core/api/model.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::tied_head_test {
namespace {

NamedArray matrix(const std::string& name, float first, const Shape& shape = {3, 2}) {
  Array array(DType::kF32, shape);
  for (float& value : array.mutable_as<float>()) value = first++;
  return {name, array};
}

void write_weights(const TempFolder& folder, const std::vector<NamedArray>& weights) {
  std::string file;
  write_safetensors(weights, [&](ByteSpan bytes) { file += as_text(bytes); });
  folder.write("model.safetensors", file);
}

HfConfig config_in(const TempFolder& folder) {
  return {std::string_view("{}"), folder.path("config.json")};
}

TEST(TiedHeadTest, AHeadWithOtherValuesThanTheEmbeddingIsItsOwn) {
  const std::tuple<std::vector<NamedArray>, bool> cases[] = {
      {{matrix("base.table", 1), matrix("head", 1)}, false},
      {{matrix("base.table", 1), matrix("head", 2)}, true},
      {{matrix("table", 1), matrix("head", 2)}, true},
      {{matrix("base.table", 1), matrix("head", 1, {2, 3})}, true},
      {{matrix("head", 1)}, true},
      {{matrix("base.table", 1)}, false}};
  for (const auto& [weights, is_own] : cases) {
    const TempFolder folder;
    write_weights(folder, weights);
    EXPECT_EQ(has_own_head(HfWeights(folder.path()).tensors(), {"other", "head"},
                           {"base.table", "table"}),
              is_own)
        << weights.front().name;
  }
}

TEST(TiedHeadTest, NamesOfFoldersAndOfModulesAreFound) {
  HfNames names{"base."};
  names.tied_table = "base.table";
  names.stored = [](const std::string& name) {
    return name == "lm_head.weight" ? std::string("out.weight") : name;
  };
  for (const char* head : {"out.weight", "lm_head.weight"}) {
    for (const char* table : {"base.table", "table"}) {
      const TempFolder folder;
      write_weights(folder, {matrix(table, 1), matrix(head, 2)});
      names.module.name = [](const std::string& name) { return name; };
      EXPECT_TRUE(has_own_head(config_in(folder), names)) << head << table;
    }
  }
  const TempFolder folder;
  EXPECT_FALSE(has_own_head(config_in(folder), names)) << "no weights";
  write_weights(folder, {matrix("lm_head.weight", 2)});
  EXPECT_FALSE(has_own_head(config_in(folder), {})) << "no tied table";
}

/// A small GPT-2 with a tied head, whose folder also has the head.
std::string tied_gpt2(const TempFolder& folder, float head) {
  const nlohmann::json config = {{"model_type", "gpt2"},
                                 {"architectures", {"GPT2LMHeadModel"}},
                                 {"n_layer", 1},
                                 {"n_head", 1},
                                 {"n_embd", 2},
                                 {"n_positions", 4},
                                 {"tie_word_embeddings", true},
                                 {"vocab_size", 3}};
  folder.write("config.json", config.dump());
  write_weights(folder, {matrix("transformer.wte.weight", 1), matrix("lm_head.weight", head)});
  return "{type: auto, weights: '" + folder.path() + "'}";
}

TEST(TiedHeadTest, AModelIsUntiedWhereItsFolderIs) {
  for (const bool is_own : {false, true}) {
    const TempFolder folder;
    Registry registry;
    Registration::enter_all(registry);
    Diagnostics problems;
    Reading reading{problems, registry};
    const Ref<Model> model = registry.of<Model>().prepare(
        parse_recipe("recipe.yaml", tied_gpt2(folder, is_own ? 5 : 1)), reading);
    problems.check();
    const Node::Entry* const tied = model.resolved.find("tie_embeddings");
    ASSERT_TRUE(tied);
    EXPECT_EQ(tied->node.scalar()->text, is_own ? "false" : "true");
  }
}

/// A model with a head whose weight is always that of its embedding.
HfNames always_tied() {
  HfNames names{"base.", {}, {"head.*"}, {"head.*"}};
  names.tied_head = {"head.decoder", "base.table"};
  return names;
}

/// Loads into the table and, with a head, its bias.
void load(const std::vector<NamedArray>& stored, bool has_head) {
  const TempFolder folder;
  write_weights(folder, stored);
  std::vector<WantedWeight> wanted = {{"base.table", DType::kF32, {3, 2}}};
  if (has_head) wanted.push_back({"head.bias", DType::kF32, {3}});
  plan_weights(wanted, HfWeights(folder.path()), always_tied(), "bert");
}

TEST(TiedHeadTest, AnotherHeadThanTheOneThatAModelTiesIsAnError) {
  const NamedArray bias = matrix("head.bias", 0, {3});
  for (const char* table : {"base.table", "table"}) {
    EXPECT_NO_THROW(load({matrix(table, 1), matrix("head.decoder", 1), bias}, true)) << table;
    try {
      load({matrix(table, 1), matrix("head.decoder", 2), bias}, true);
      FAIL() << table;
    } catch (const DataError& error) {
      EXPECT_TRUE(std::string(error.what())
                      .ends_with("do not fit the model 'bert': 'head.decoder' differs from "
                                 "'base.table', to which the model ties it"))
          << error.what();
    }
  }
  const std::vector<NamedArray> other = {matrix("base.table", 1), matrix("head.decoder", 2), bias};
  EXPECT_NO_THROW(load(other, false)) << "a model without the head";
  EXPECT_NO_THROW(load({other[0], other[1]}, true)) << "a folder without the rest of the head";
  EXPECT_NO_THROW(load({other[0], bias}, true)) << "a folder without the tied weight";
}

}  // namespace
}  // namespace accel::tied_head_test
