// Weight shards: plan and index of Accelerate, and refused indexes.
#include "formats/tensors/weight_shards.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/formats/golden_file.h"
#include "tests/unit/formats/written.h"

namespace accel::weight_shards_test {
namespace {

using namespace std::string_literals;

/// "file: a b, file: c"
std::string plan_of(const std::vector<uint64_t>& sizes, uint64_t max_bytes) {
  std::vector<WeightSize> weights;
  for (const uint64_t bytes : sizes) weights.push_back({std::to_string(weights.size()), bytes});
  std::string out;
  for (const WeightShard& shard :
       plan_weight_shards(weights, max_bytes, WeightFormat::kSafetensors)) {
    out += (out.empty() ? "" : ", ") + shard.file + ":";
    for (const size_t i : shard.weights) out += " " + std::to_string(i);
  }
  return out;
}

std::string fault_of(const std::string& index) {
  return format_fault([&] { read_weight_index(index); });
}

TEST(WeightShardsTest, OneFileIsEnoughWhenAllFit) {
  EXPECT_EQ(plan_of({4, 4, 2}, 10), "model.safetensors: 0 1 2");
  EXPECT_EQ(plan_of({40}, 10), "model.safetensors: 0");
  EXPECT_EQ(plan_of({0, 0}, 0), "model.safetensors: 0 1");
  EXPECT_EQ(plan_of({}, 10), "");
}

TEST(WeightShardsTest, FilesAreFilledInOrderAndLargeWeightsStandAlone) {
  EXPECT_EQ(plan_of({4, 4, 4}, 8),
            "model-00001-of-00002.safetensors: 0 1, model-00002-of-00002.safetensors: 2");
  EXPECT_EQ(plan_of({4, 9, 4, 9, 1}, 8),
            "model-00001-of-00004.safetensors: 1, model-00002-of-00004.safetensors: 3, "
            "model-00003-of-00004.safetensors: 0 2, model-00004-of-00004.safetensors: 4");
  constexpr uint64_t kHuge = ~uint64_t{0};
  EXPECT_EQ(plan_of({kHuge, 1}, kHuge),
            "model-00001-of-00002.safetensors: 0, model-00002-of-00002.safetensors: 1");
}

/// Accelerate's output: a line per weight, then a line per shard with the indices of its weights.
struct GoldenPlan {
  uint64_t max_bytes = 0;
  std::vector<WeightSize> weights;
  std::string shards;  ///< lines of file and names, tab-separated
};

std::map<std::string, GoldenPlan> golden_plans() {
  std::map<std::string, GoldenPlan> plans;
  std::istringstream lines(golden_file("save_model.tsv"));
  for (std::string plan, kind, name, rest; std::getline(lines, plan, '\t');) {
    std::getline(lines, kind, '\t');
    std::getline(lines, name, '\t');
    std::getline(lines, rest);
    if (kind == "max") plans[plan].max_bytes = std::stoull(rest);
    if (kind == "weight") plans[plan].weights.push_back({name, std::stoull(rest)});
    if (kind == "file") plans[plan].shards += name + "\t" + rest + "\n";
  }
  return plans;
}

TEST(WeightShardsTest, PlansAndIndexesAreAccelerates) {
  const auto plans = golden_plans();
  ASSERT_EQ(plans.size(), 6U);
  for (const auto& [name, plan] : plans) {
    const auto format =
        name.starts_with("torch") ? WeightFormat::kTorch : WeightFormat::kSafetensors;
    const auto shards = plan_weight_shards(plan.weights, plan.max_bytes, format);
    std::string shown;
    for (const WeightShard& shard : shards) {
      shown += shard.file;
      for (const size_t i : shard.weights) shown += "\t" + plan.weights[i].name;
      shown += "\n";
    }
    EXPECT_EQ(shown, plan.shards) << name;
    if (shards.size() > 1) {
      EXPECT_EQ(weight_index_text(plan.weights, shards), golden_file(name + ".index.json"));
    }
  }
}

TEST(WeightShardsTest, TheIndexIsNamedAfterItsFormat) {
  EXPECT_EQ(weight_index_name(WeightFormat::kSafetensors), "model.safetensors.index.json");
  EXPECT_EQ(weight_index_name(WeightFormat::kTorch), "pytorch_model.bin.index.json");
}

TEST(WeightShardsTest, IndexesReadBack) {
  const std::vector<WeightSize> weights = {{"b", 6}, {"a \"é\"\x7f", 6}};
  const auto shards = plan_weight_shards(weights, 8, WeightFormat::kTorch);
  const WeightIndex index = read_weight_index(weight_index_text(weights, shards));
  EXPECT_EQ(index.total_bytes, 12U);
  EXPECT_EQ(index.files,
            (std::map<std::string, std::string>{{"a \"é\"\x7f", "pytorch_model-00002-of-00002.bin"},
                                                {"b", "pytorch_model-00001-of-00002.bin"}}));
}

TEST(WeightShardsTest, AnIndexNeedsNoSizeAndMayHoldMore) {
  EXPECT_EQ(read_weight_index(R"({"weight_map": {}})").total_bytes, std::nullopt);
  EXPECT_EQ(read_weight_index(R"({"weight_map": {}, "metadata": {}})").total_bytes, std::nullopt);
  const WeightIndex index = read_weight_index(
      R"({"metadata": {"total_parameters": 1, "total_size": 4}, "weight_map": {"a": "b.bin"}})");
  EXPECT_EQ(index.total_bytes, 4U);
  EXPECT_EQ(index.files.at("a"), "b.bin");
}

TEST(WeightShardsTest, ANameThatIsNotUtf8IsNotWritten) {
  const std::vector<WeightSize> weights = {{"a\xff", 6}, {"b", 6}};
  const auto shards = plan_weight_shards(weights, 8, WeightFormat::kTorch);
  EXPECT_THROW(weight_index_text(weights, shards), std::invalid_argument);
}

TEST(WeightShardsTest, FilesElsewhereAreRefused) {
  const auto names = [](const std::string& file) {
    return R"({"weight_map": {"w": )" + file + "}}";
  };
  for (const std::string file :
       {R"("")", R"(".")", R"("..")", R"("../a.bin")", R"("/a.bin")", R"("a/b.bin")", R"("a..bin")",
        R"(".hidden")", R"("a\\b.bin")", R"("c:a.bin")", R"("a\n.bin")"}) {
    EXPECT_EQ(fault_of(names(file)),
              "the index has " + file + R"( for "w", which is not a file beside it)");
  }
  EXPECT_EQ(fault_of(names("\"" + std::string(255, 'a') + "\"")), "");
  EXPECT_NE(fault_of(names("\"" + std::string(256, 'a') + "\"")), "");
}

TEST(WeightShardsTest, IndexesOfAnotherFormAreRefused) {
  const std::string no_map = "the index has no 'weight_map'";
  const std::string no_count = "the index's 'total_size' is not a count of bytes";
  const std::pair<std::string, std::string> refused[] = {
      {"", "the index is not JSON"},
      {"[]", "the index is not a JSON object"},
      {"{\"weight_map\": {}}\0"s, "the index has a NUL byte"},
      {"{}", no_map},
      {R"({"weight_map": []})", no_map},
      {R"({"weight_map": {"w": 1}})", "the index has no file name for \"w\""},
      {R"({"weight_map": {"w": "a", "w": "b"}})", "the index has \"w\" twice"},
      {R"({"weight_map": {}, "metadata": 1})", "the index's 'metadata' is not an object"},
      {R"({"weight_map": {}, "metadata": {"total_size": "1"}})", no_count},
      {R"({"weight_map": {}, "metadata": {"total_size": -1}})", no_count},
      {R"({"weight_map": {}, "metadata": {"total_size": 1.5}})", no_count},
      {R"({"a": [[[[[[[[[[]]]]]]]]]]})", "the index is nested too deeply"},
  };
  for (const auto& [index, message] : refused) EXPECT_EQ(fault_of(index), message);
}

TEST(WeightShardsTest, ALargeIndexTakesTimeByItsSizeAlone) {
  // A parser that is quadratic in siblings takes minutes here.
  std::string index = "{\"weight_map\": {\"w\": \"a\"}, \"more\": [{}";
  for (int i = 0; i < 200'000; ++i) index += ",{}";
  EXPECT_EQ(fault_of(index + "]}"), "");
}

TEST(WeightShardsTest, AnIndexThatGrowsManifoldInMemoryIsRefused) {
  std::string numbers = "0";
  while (numbers.size() < size_t{3} << 19) numbers += ",0";
  EXPECT_EQ(fault_of("{\"a\": [" + numbers + "]}"),
            "the index expands to far more memory than the file's size");
}

}  // namespace
}  // namespace accel::weight_shards_test
