// Placement of quantized weights: the bytes of modules, and which tensors stay in the folder's
// file.
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <span>

#include "kernels/memory/deferred_init.h"
#include "models/hf/map_hf_weights.h"
#include "models/layers/module_state.h"
#include "models/placement/mapped_range.h"
#include "models/placement/model_tree.h"
#include "models/placement/module_sizes.h"
#include "models/placement/streamed_unit.h"
#include "models/quantized/frozen_weight.h"
#include "tests/unit/build_component.h"
#include "tests/unit/models/quantized/bits_and_bytes_folder.h"

namespace accel::quantized_placement_test {
namespace {

constexpr auto kProjection = "model.layers.0.mlp.up_proj";

std::unique_ptr<Model> quantized_llama(bool is_double) {
  return build<Model>(
      std::string("{type: llama, vocab_size: 11, num_layers: 1, hidden_size: 16, num_heads: 2, "
                  "intermediate_size: 24, max_seq_len: 8, lora: {rank: 2}, quantization: {type: "
                  "nf4, double_quant: ") +
          (is_double ? "true}}" : "false}}"),
      {});
}

std::unique_ptr<Model> model_of(const std::string& folder) {
  return build<Model>("{type: auto, weights: '" + folder + "'}", {});
}

/// Whether a file has the bytes of each parameter.
std::map<std::string, bool> places_of(Model& model) {
  const std::vector<Parameter> parameters = parameters_of(model);
  std::vector<std::span<const std::byte>> bytes;
  for (const Parameter& item : parameters) {
    bytes.push_back(
        {static_cast<const std::byte*>(item.local.const_data_ptr()), item.local.nbytes()});
  }
  const std::vector<bool> mapped = are_mapped(bytes);
  std::map<std::string, bool> out;
  for (size_t i = 0; i < parameters.size(); ++i) out[parameters[i].name] = mapped[i];
  return out;
}

TEST(QuantizedPlacementTest, AWeightHasTheBytesOfItsCodesAndScales) {
  const auto model = quantized_llama(/*is_double=*/true);
  const ModuleSizes sizes(placed_model(*model).root);
  const std::string weight = std::string(kProjection) + ".weight";
  // 24 x 16 codes of half a byte, 6 scales of a byte, one of these and the mean, and the shape.
  EXPECT_EQ(sizes.of(weight), 192 + 6 + 4 + 4 + 16);
  EXPECT_EQ(sizes.of(weight + ".absmax"), 0);
  int64_t sum = 0;
  for (const Parameter& item : parameters_of(*model)) {
    sum += static_cast<int64_t>(item.local.nbytes());
  }
  EXPECT_EQ(sizes.total(), sum);
}

TEST(QuantizedPlacementTest, CodesAndScalesStayInTheFileWhateverTheTypeOfOtherWeights) {
  for (const bool is_double : {false, true}) {
    BitsAndBytesFolder folder(*quantized_llama(is_double), is_double);
    const MapHfWeights mapped(at::kBFloat16);
    const auto model = model_of(folder.write());
    for (const auto& [name, is_mapped] : places_of(*model)) {
      const bool is_quantized = is_scale_name(name) || name.find("proj.weight") != name.npos;
      EXPECT_EQ(is_mapped, is_quantized && !is_state_name(name)) << name;
    }
  }
}

TEST(QuantizedPlacementTest, TablesAreBetweenQuantizedWeights) {
  const auto model = quantized_llama(/*is_double=*/true);
  EXPECT_EQ(table_bytes_between(parameters_of(*model)), 7 * 2048);
  EXPECT_EQ(table_bytes_between({}), 0);
}

TEST(QuantizedPlacementTest, BytesOfNoFileAreNotMapped) {
  const int here = 0;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&here, 1));
  EXPECT_EQ(are_mapped({bytes, {}}), (std::vector<bool>{false, true}));
}

TEST(QuantizedPlacementTest, NamesOfScalesAreThoseOfBitsAndBytes) {
  for (const char* name : {"x.weight.absmax", "x.weight.nested_absmax"}) {
    EXPECT_TRUE(is_scale_name(name) && !is_state_name(name)) << name;
  }
  for (const char* name : {"x.weight.shape", "x.weight.nested_offset"}) {
    EXPECT_TRUE(is_scale_name(name) && is_state_name(name)) << name;
  }
  for (const char* name : {"x.weight", "absmax.weight", "x.absmax"}) {
    EXPECT_FALSE(is_scale_name(name) || is_state_name(name)) << name;
  }
}

/// Weights of a folder that a training streams, which converts them while it reads.
TEST(QuantizedPlacementTest, AFolderIsBuiltUnderDeferredInit) {
  const auto written = quantized_llama(/*is_double=*/false);
  BitsAndBytesFolder folder(*written, /*is_double=*/false);
  const DeferredInit deferred;
  EXPECT_TRUE(DeferredInit::is_active());
  const auto model = model_of(folder.write());
  deferred.materialize_except({});
  const auto found = parameters_of(*model);
  for (const Parameter& item : parameters_of(*written)) {
    const auto same = std::find_if(found.begin(), found.end(),
                                   [&](const Parameter& other) { return other.name == item.name; });
    if (item.name.find("lora_") != item.name.npos) continue;
    ASSERT_NE(same, found.end()) << item.name;
    EXPECT_TRUE(same->local.equal(item.local)) << item.name;
  }
}

}  // namespace
}  // namespace accel::quantized_placement_test
