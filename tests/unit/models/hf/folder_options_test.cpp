// What a folder of Hugging Face says beside the recipe: dropout, and the order of classes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/api/model.h"
#include "core/base/error.h"
#include "models/hf/hf_family.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::folder_options_test {
namespace {

std::string resolved(const TempFolder& folder, const std::string& options) {
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node node =
      parse_recipe("r.yaml", "{type: auto, weights: " + folder.path() + options + "}");
  const Ref<Model> ref = registry.of<Model>().prepare(node, reading);
  problems.check();
  std::string out;
  for (const char* key : {"dropout", "embedding_dropout", "attention_dropout"}) {
    out += detail::inline_text(ref.resolved.find(key)->node) + " ";
  }
  return out;
}

TEST(FolderOptionsTest, DropoutOfTheRecipeReplacesAllOfTheFolder) {
  const TempFolder folder;
  folder.write("config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 4,
    "vocab_size": 7, "n_positions": 8, "resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3})");
  EXPECT_EQ(resolved(folder, ""), "0.1 0.2 0.3 ");
  EXPECT_EQ(resolved(folder, ", dropout: 0"), "0 auto auto ");
  EXPECT_EQ(resolved(folder, ", dropout: 0, attention_dropout: 0.5"), "0 auto 0.5 ");
  EXPECT_EQ(resolved(folder, ", attention_dropout: 0.5"), "0.1 0.2 0.5 ");
}

TEST(FolderOptionsTest, ClassesOfAHeadInAnotherOrderAreRefused) {
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

}  // namespace
}  // namespace accel::folder_options_test
