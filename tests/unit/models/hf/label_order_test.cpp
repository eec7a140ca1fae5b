// The order of classes of a folder of Hugging Face beside that of the data.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "models/hf/hf_family.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::label_order_test {
namespace {

TEST(LabelOrderTest, ClassesOfAHeadInAnotherOrderAreRefused) {
  const TempFolder folder;
  const auto with = [&](const std::string& names) {
    folder.write("config.json", R"({"model_type": "bert", "id2label": {)" + names + "}}");
  };
  with(R"("0": "pos", "1": "neg")");
  EXPECT_EQ(complaint([&] {
              check_label_order(folder.path(), {"neg", "pos"});
            }),
            "the head of '" + folder.path() +
                "' has the labels 'pos', 'neg', and the data has 'neg', 'pos'\n"
                "set 'labels: [pos, neg]' of the data, the order of the head");
  EXPECT_EQ(complaint([&] { check_label_order(folder.path(), {"pos", "neg"}); }), "");
  EXPECT_EQ(complaint([&] { check_label_order(folder.path(), {"a", "b", "c"}); }), "");
  EXPECT_EQ(complaint([&] { check_label_order(folder.path(), {}); }), "");
  testing::internal::CaptureStderr();
  check_label_order(folder.path(), {"no", "yes"});
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "the labels of '" + folder.path() +
                "' are 'pos', 'neg', and those of the data 'no', 'yes': a head of the folder was "
                "trained for the others"),
            std::string::npos);
  with(R"("0": "LABEL_0", "1": "LABEL_1")");
  testing::internal::CaptureStderr();
  check_label_order(folder.path(), {"no", "yes"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LabelOrderTest, NumLabelsWinsOverTheNamesOfLabels) {
  const auto count = [](const char* json) { return label_count(HfConfig(json, "config.json")); };
  EXPECT_EQ(count(R"({"num_labels": 5, "id2label": {"0": "a", "1": "b", "2": "c"}})"), 5);
  EXPECT_EQ(count(R"({"id2label": {"0": "a", "1": "b", "2": "c"}})"), 3);
  EXPECT_EQ(count(R"({"num_labels": null})"), 2);
  nlohmann::json config = {{"num_labels", 5}, {"id2label", {{"0", "a"}}}};
  write_labels(2, config);
  EXPECT_FALSE(config.contains("num_labels"));
  EXPECT_EQ(config["id2label"].size(), 2U);
}

}  // namespace
}  // namespace accel::label_order_test
