// Hugging Face folders: what config.json says, which weights are there, and which a model gets.
#include "models/hf/hf_weights.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "formats/tensors/torch_file.h"
#include "formats/tensors/weight_shards.h"
#include "models/hf/hf_config.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::hf_weights_test {
namespace {

NamedArray weight(const std::string& name, const Shape& shape, float first = 0.0F) {
  Array array(DType::kF32, shape);
  for (float& value : array.mutable_as<float>()) value = first++;
  return {name, array};
}

std::string safetensors_of(const std::vector<NamedArray>& tensors) {
  std::string out;
  write_safetensors(tensors, [&](ByteSpan bytes) { out += as_text(bytes); });
  return out;
}

std::string torch_file_of(const std::vector<NamedArray>& tensors) {
  Value::Dict dict;
  for (const auto& [name, array] : tensors) dict.items.emplace_back(name, array);
  std::string out;
  write_torch_file(dict, "pytorch_model", [&](ByteSpan bytes) { out += as_text(bytes); });
  return out;
}

template <class Action>
std::string complaint(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

/// What `wanted` gets of weights, or why not.
std::string plan(const std::vector<NamedArray>& stored, const std::vector<WantedWeight>& wanted,
                 const HfNames& names) {
  const TempFolder folder;
  folder.write("model.safetensors", safetensors_of(stored));
  std::string out;
  const std::string refused = complaint([&] {
    const WeightPlan plan = plan_weights(wanted, HfWeights(folder.path()), names, "gpt");
    for (const PlacedWeight& placed : plan.placed) {
      out += wanted[placed.wanted].name + (placed.transposed ? "^T " : " ");
    }
    for (const std::string& name : plan.fresh) out += "new:" + name + " ";
  });
  const size_t at = refused.find(folder.path());
  return at == refused.npos ? out : std::string(refused).replace(at, folder.path().size(), "DIR");
}

WantedWeight wanted(const std::string& name, const Shape& shape, DType type = DType::kF32) {
  return {name, type, shape};
}

TEST(HfWeightsTest, ReadsEveryKindOfFolder) {
  const std::vector<NamedArray> first = {weight("a", {2, 3}, 1)}, second = {weight("b", {4}, 9)};
  std::vector<NamedArray> both = first;
  both.push_back(second.front());
  const std::string index = R"({"weight_map": {"a": "one.EXT", "b": "two.EXT"}})";
  const auto with = [&](const std::string& extension) {
    std::string text = index;
    for (size_t at; (at = text.find("EXT")) != text.npos;) text.replace(at, 3, extension);
    return text;
  };
  const std::vector<std::map<std::string, std::string>> folders = {
      {{"model.safetensors", safetensors_of(both)}},
      {{"pytorch_model.bin", torch_file_of(both)}},
      {{"model.safetensors.index.json", with("safetensors")},
       {"one.safetensors", safetensors_of(first)},
       {"two.safetensors", safetensors_of(second)}},
      {{"pytorch_model.bin.index.json", with("bin")},
       {"one.bin", torch_file_of(first)},
       {"two.bin", torch_file_of(second)}}};
  for (const auto& files : folders) {
    const TempFolder folder;
    for (const auto& [name, content] : files) folder.write(name, content);
    const HfWeights weights(folder.path());
    ASSERT_EQ(weights.tensors().size(), 2U) << files.begin()->first;
    for (const auto& [name, array] : weights.tensors()) {
      EXPECT_EQ(array.as<float>().back(), name == "a" ? 6 : 12) << files.begin()->first;
      weights.forget({array.data(), array.bytes()});
      EXPECT_EQ(array.as<float>().front(), name == "a" ? 1 : 9) << "read again";
    }
  }
}

TEST(HfWeightsTest, TellsWhatIsWrongWithAFolder) {
  const std::vector<NamedArray> one = {weight("a", {2})};
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> cases = {
      {{{"config.json", "{}"}},
       "'DIR' has no weights: neither 'model.safetensors' nor 'pytorch_model.bin', nor an index of "
       "these"},
      {{{"model.safetensors", safetensors_of(one).substr(0, 40)}},
       "cannot read the weights 'DIR/model.safetensors': "},
      {{{"pytorch_model.bin", "no archive"}}, "cannot read the weights 'DIR/pytorch_model.bin': "},
      {{{"model.safetensors.index.json", R"({"weight_map": {"a": "../x"}})"}},
       "cannot read the weights 'DIR/model.safetensors.index.json': the index has \"../x\" for "
       "\"a\", which is not a file beside it"},
      {{{"model.safetensors.index.json", R"({"weight_map": {"a": "x.bin", "b": "x.bin"}})"},
        {"x.bin", torch_file_of(one)}},
       "cannot read the weights 'DIR/model.safetensors.index.json': it lists 2 weights, its files "
       "have 1 of them"},
      {{{"model.safetensors.index.json", R"({"weight_map": {"a": "gone.bin"}})"}},
       "no file 'DIR/gone.bin'"}};
  for (const auto& [files, expected] : cases) {
    const TempFolder folder;
    for (const auto& [name, content] : files) folder.write(name, content);
    std::string text = complaint([&] { HfWeights(folder.path()); });
    const size_t at = text.find(folder.path());
    if (at != text.npos) text.replace(at, folder.path().size(), "DIR");
    EXPECT_TRUE(text.starts_with(expected)) << text;
  }
}

TEST(HfWeightsTest, TheFingerprintFollowsEveryByte) {
  const auto fingerprint = [](const std::vector<NamedArray>& tensors) {
    const TempFolder folder;
    folder.write("model.safetensors", safetensors_of(tensors));
    return hf_weights_fingerprint(folder.path());
  };
  EXPECT_EQ(fingerprint({weight("a", {2})}), fingerprint({weight("a", {2})}));
  EXPECT_NE(fingerprint({weight("a", {2})}), fingerprint({weight("a", {2}, 1)}));
  EXPECT_NE(fingerprint({weight("a", {2})}), fingerprint({weight("b", {2})}));
}

TEST(HfWeightsTest, NamesThatTheHubHasFindTheirWeights) {
  HfNames names{"bert.", {"*.c_attn.weight"}, {"*.attn.bias", "cls.*"}, {"classifier.*"}};
  const std::vector<WantedWeight> all = {
      wanted("bert.x", {2}), wanted("bert.LayerNorm.weight", {2}),
      wanted("bert.LayerNorm.bias", {2}), wanted("bert.c_attn.weight", {3, 2}),
      wanted("classifier.weight", {1, 2})};
  EXPECT_EQ(plan({weight("bert.x", {2}), weight("bert.LayerNorm.gamma", {2}),
                  weight("bert.LayerNorm.beta", {2}), weight("bert.c_attn.weight", {2, 3}),
                  weight("bert.attn.bias", {9}), weight("cls.predictions.bias", {4})},
                 all, names),
            "bert.LayerNorm.bias bert.LayerNorm.weight bert.c_attn.weight^T bert.x "
            "new:classifier.weight ");
  EXPECT_EQ(plan({weight("x", {2}), weight("LayerNorm.weight", {2}), weight("LayerNorm.bias", {2}),
                  weight("c_attn.weight", {2, 3}), weight("classifier.weight", {1, 2})},
                 all, names),
            "bert.LayerNorm.bias bert.LayerNorm.weight bert.c_attn.weight^T classifier.weight "
            "bert.x ");
}

TEST(HfWeightsTest, EveryMisfitIsTold) {
  const HfNames names{"", {}, {}, {"head.*"}};
  EXPECT_EQ(
      plan({weight("a", {2}), weight("b", {3}), weight("q", {1}), weight("z", {1})},
           {wanted("a", {2}, DType::kI64), wanted("b", {2}), wanted("c", {2}), wanted("d", {1})},
           names),
      "the weights in 'DIR' do not fit the model 'gpt': missing are 'c', 'd'; not known are "
      "'q', 'z'; 'a' is [2] of F32, not [2] of I64; 'b' is [3] of F32, not [2] of F32");
  EXPECT_EQ(plan({weight("head.weight", {2})},
                 {wanted("head.weight", {2}), wanted("head.bias", {2})}, names),
            "the weights in 'DIR' do not fit the model 'gpt': missing are 'head.bias'")
      << "a head comes whole or not at all";
  EXPECT_EQ(plan({weight("n.LayerNorm.gamma", {2}), weight("n.LayerNorm.weight", {2})},
                 {wanted("n.LayerNorm.weight", {2})}, names),
            "the weights in 'DIR' do not fit the model 'gpt': there twice are "
            "'n.LayerNorm.weight'");
}

TEST(HfWeightsTest, OtherFloatsFit) {
  const TempFolder folder;
  Array half(DType::kBF16, {2});
  folder.write("model.safetensors", safetensors_of({{"a", half}}));
  const WeightPlan plan =
      plan_weights({wanted("a", {2})}, HfWeights(folder.path()), HfNames{""}, "gpt");
  EXPECT_EQ(plan.placed.size(), 1U);
}

TEST(HfWeightsTest, StoresLinearWeightsAsNamesSay) {
  const HfNames names{"", {"*.c_fc.weight"}};
  const NamedArray stored = stored_weight(weight("h.c_fc.weight", {2, 3}), names);
  EXPECT_EQ(stored.array.shape(), (Shape{3, 2}));
  const std::vector<float> values(stored.array.as<float>().begin(), stored.array.as<float>().end());
  EXPECT_EQ(values, (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(stored_weight(weight("h.c_fc.bias", {3}), names).array.shape(), (Shape{3}));
  EXPECT_EQ(stored_weight(weight("wte.weight", {2, 3}), names).array.shape(), (Shape{2, 3}));
}

TEST(HfWeightsTest, AFoldersOwnNamesAreReadAndWritten) {
  HfNames names{"net.", {"*.c_fc.weight"}, {}, {"top.*"}};
  names.stored = [](const std::string& name) {
    return name.starts_with("fc.") ? "top." + name.substr(3) : "net." + name;
  };
  const std::vector<WantedWeight> all = {wanted("a", {2}), wanted("c_fc.weight", {3, 2}),
                                         wanted("fc.bias", {1})};
  EXPECT_EQ(plan({weight("net.a", {2}), weight("c_fc.weight", {2, 3})}, all, names),
            "c_fc.weight^T a new:top.bias ");
  EXPECT_EQ(plan({weight("a", {3}), weight("fc.bias", {1})}, all, names),
            "the weights in 'DIR' do not fit the model 'gpt': missing are 'net.c_fc.weight'; not "
            "known are 'fc.bias'; 'net.a' is [3] of F32, not [2] of F32");
  names.module.name = [](const std::string& name) { return "module." + name; };
  EXPECT_EQ(
      plan({weight("a", {2}), weight("module.c_fc.weight", {2, 3}), weight("module.fc.bias", {1})},
           all, names),
      "a c_fc.weight^T fc.bias ");
  EXPECT_EQ(stored_weight(weight("fc.bias", {1}), names).name, "top.bias");
  const NamedArray stored = stored_weight(weight("c_fc.weight", {2, 3}), names);
  EXPECT_EQ(stored.name, "net.c_fc.weight");
  EXPECT_EQ(stored.array.shape(), (Shape{3, 2}));
}

TEST(HfConfigTest, TellsEverythingThatIsWrong) {
  HfConfig config(R"({"model_type": "gpt2", "architectures": ["A"], "a": 1, "b": "x", "c": null,
                      "scale": false, "rope": {"theta": 2}})",
                  "DIR/config.json");
  EXPECT_EQ(config.model_type(), "gpt2");
  EXPECT_EQ(config.architecture(), "A");
  EXPECT_EQ(config.integer("a"), 1);
  EXPECT_EQ(config.integer("c", 7), 7);
  EXPECT_EQ(config.section("rope").number("theta", 1), 2);
  EXPECT_EQ(config.section("gone").number("theta", 1), 1);
  EXPECT_TRUE(config.problems().empty());
  config.integer("b", 1);
  config.integer("gone");
  config.number("b", 1);
  config.flag("a", true);
  config.text("a", "");
  config.section("a");
  config.want("a", 1, "is fine");
  config.want("gone", 1, "is fine");
  config.want("scale", true, "this model does not do");
  const std::vector<std::string> expected = {
      "'DIR/config.json' has \"x\" for 'b', which must be a whole number",
      "'DIR/config.json' lacks 'gone', which must be a whole number",
      "'DIR/config.json' has \"x\" for 'b', which must be a number",
      "'DIR/config.json' has 1 for 'a', which must be true or false",
      "'DIR/config.json' has 1 for 'a', which must be a text",
      "'DIR/config.json' has 1 for 'a', which must be a section",
      "'DIR/config.json' has false for 'scale', which this model does not do"};
  EXPECT_EQ(config.problems(), expected);
}

TEST(HfConfigTest, ReadsStrictly) {
  EXPECT_EQ(complaint([] { HfConfig("[1]", "c"); }), "'c' is not a JSON object");
  EXPECT_EQ(complaint([] { HfConfig(R"({"a": 1, "a": 2})", "c"); }), "'c' has \"a\" twice");
  EXPECT_EQ(HfConfig(R"({"architectures": [], "model_type": 3})", "c").architecture(), "");
  EXPECT_EQ(HfConfig(R"({"architectures": [], "model_type": 3})", "c").model_type(), "");
  const TempFolder folder;
  EXPECT_EQ(complaint([&] { HfConfig{folder.path()}; }),
            "no file '" + folder.path() + "/config.json'");
}

}  // namespace
}  // namespace accel::hf_weights_test
