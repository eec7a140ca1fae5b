// Placement against Accelerate's, whose answers tests/interop/make_golden_device_maps.py records.
#include "models/placement/device_map.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace accel {
namespace {

using Json = nlohmann::json;

const Json& golden_maps() {
  static const Json json = [] {
    const char* source = std::getenv("ACCEL_SOURCE_DIR");
    std::ifstream file(std::string(source ? source : ".") +
                       "/tests/interop/golden/device_maps.json");
    return Json::parse(file);
  }();
  return json;
}

std::vector<ModuleTree::Tensor> tensors_in(const Json& list) {
  std::vector<ModuleTree::Tensor> out;
  for (const Json& item : list) {
    const bool is_alias = item[1].is_null();
    out.push_back({item[0], is_alias ? 0 : item[1].get<int64_t>(), is_alias});
  }
  return out;
}

ModuleTree tree_in(const Json& json) {
  ModuleTree tree{json[0], tensors_in(json[1]), tensors_in(json[2]), {}};
  for (const Json& child : json[3]) tree.children.push_back({child[0], tree_in(child[1])});
  return tree;
}

MaxMemory limits_in(const Json& json) {
  MaxMemory limits;
  for (const auto& [device, bytes] : json.items()) limits.push_back({device, bytes});
  return in_device_order(std::move(limits));
}

/// A model of two layers of 100 bytes and a head tied to the table.
PlacedModel tied_model() {
  const auto layer = [](const char* type) { return ModuleTree{type, {{"weight", 100}}, {}, {}}; };
  ModuleTree layers{"List", {}, {}, {{"0", layer("Block")}, {"1", layer("Block")}}};
  ModuleTree head{"Linear", {{"weight", 0, true}}, {}, {}};
  return {{"Model",
           {},
           {},
           {{"table", {"Embedding", {{"weight", 80}}, {}, {}}},
            {"layers", std::move(layers)},
            {"head", std::move(head)}}},
          {{"head.weight", "table.weight"}},
          {"Block"}};
}

TEST(DeviceMap, DecidesAsAccelerateInRecordedCases) {
  ASSERT_GE(golden_maps().size(), 30U);
  for (const Json& item : golden_maps()) {
    const PlacedModel model{tree_in(item["tree"]), item["tied"], item["no_split"]};
    MaxMemory limits = limits_in(item["limits"]);
    if (item["kind"] != "sequential") {
      limits = balanced_memory(model, limits, item["kind"] == "balanced_low_0");
    }
    EXPECT_EQ(limits, limits_in(item["memory"])) << item["name"];
    const Json& options = item["options"];
    const DeviceMap map =
        infer_device_map(model, limits,
                         {.offload_buffers = options.value("offload_buffers", false),
                          .fallback_allocation = options.value("fallback_allocation", false),
                          .clean_result = options["clean_result"]});
    EXPECT_EQ(Json(map.devices), item["map"]) << item["name"];
    EXPECT_EQ(map.misplaced_buffers, item["misplaced_buffers"]) << item["name"];
  }
}

TEST(DeviceMap, KeepsTiedParametersTogetherAndRoomForTheLargestLayer) {
  const DeviceMap map = infer_device_map(tied_model(), {{"cpu", 250}});
  auto whole = infer_device_map(tied_model(), {{"cpu", 250}}, {.clean_result = false}).devices;
  EXPECT_EQ(whole.at("layers.0"), "disk");
  EXPECT_EQ(map.devices.at("head"), "cpu");
  EXPECT_EQ(map.device_of("table.weight"), "cpu");
  EXPECT_EQ(map.device_of("layers.1.weight"), "disk");
  EXPECT_EQ(map.used.at("cpu"), 180);
}

TEST(DeviceMap, OneDeviceIsTheWholeModel) {
  const DeviceMap map = infer_device_map(tied_model(), {{"cpu", 1000}});
  EXPECT_EQ(map.devices, (std::map<std::string, std::string>{{"", "cpu"}}));
  EXPECT_EQ(map.device_of("layers.0.weight"), "cpu");
}

TEST(DeviceMap, ReportsTheBytesThatAnEmptyDeviceNeeds) {
  const DeviceMap map = infer_device_map(tied_model(), {{"0", 20}, {"cpu", 1000}});
  EXPECT_EQ(map.needed.at("0"), 180);
  EXPECT_EQ(map.device_of("table.weight"), "cpu");
}

TEST(BalancedMemory, NeedsConsecutiveNumbersForLowZero) {
  EXPECT_THROW(balanced_memory(tied_model(), {{"0", 100}, {"2", 100}}, true),
               std::invalid_argument);
}

}  // namespace
}  // namespace accel
