#include "runner/job/missing_inputs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/job/read_text.h"

namespace accel {
namespace {

/// A folder with a recipe in it, which is the working folder meanwhile, and the cache of downloads.
class MissingInputsTest : public testing::Test {
 protected:
  MissingInputsTest() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
    setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
  }
  ~MissingInputsTest() override {
    std::filesystem::current_path(before_);
    unsetenv("XDG_CACHE_HOME");
  }

  /// What is told of a recipe with this training data.
  static std::string told(const std::string& data) {
    const Registry registry = all_components();
    Diagnostics problems;
    Reading reading{problems, registry};
    report_missing_inputs(parse_recipe("r.yaml", "model: mlp\ndata: {train: " + data + "}\n"),
                          RecipeOptions::schema().info(), reading);
    std::string out;
    for (const Diagnostic& each : problems.list()) out += render(each);
    return out;
  }

  TempFolder folder_;

 private:
  std::filesystem::path before_;
};

TEST_F(MissingInputsTest, WhatIsThereIsNotTold) {
  folder_.write("train.csv", "");
  folder_.write("set/0.png", "");
  EXPECT_EQ(told("{type: csv, path: train.csv, target: x}"), "");
  EXPECT_EQ(told("{type: image_folder, path: set}"), "");
  EXPECT_EQ(told("synthetic/glyphs"), "");
}

TEST_F(MissingInputsTest, TheNearestNameIsAHint) {
  folder_.write("train.csv", "");
  EXPECT_EQ(told("[{type: csv, path: trian.csv, target: x}]"),
            "r.yaml:2:34: error: 'path' is 'trian.csv', which is not there\n"
            "    data: {train: [{type: csv, path: trian.csv, target: x}]}\n"
            "                                     ^\n"
            "  hint: did you mean 'train.csv'?\n");
}

TEST_F(MissingInputsTest, AFolderIsNoFile) {
  folder_.write("set/part/x.csv", "");
  EXPECT_EQ(told("{type: csv, path: set, target: x}"),
            "r.yaml:2:33: error: 'path' is 'set', which is a folder, not a file\n"
            "    data: {train: {type: csv, path: set, target: x}}\n"
            "                                    ^\n"
            "  hint: name a file in it\n");
  folder_.write("set/b.csv", "");
  folder_.write("set/a.csv", "");
  EXPECT_TRUE(told("{type: csv, path: set}").ends_with("it, such as 'a.csv'\n"));
  for (const char* type : {"tsv", "jsonl", "text", "chat", "tagged_words", "tokens"}) {
    EXPECT_TRUE(told("{type: " + std::string(type) + ", path: set}")
                    .ends_with("  hint: name a file in it\n"))
        << type;
  }
  EXPECT_EQ(told("{type: mds, path: set}"), "");
}

TEST_F(MissingInputsTest, ATeacherThatIsMissingIsTold) {
  const Registry registry = all_components();
  Diagnostics problems;
  Reading reading{problems, registry};
  const Node recipe = parse_recipe(
      "r.yaml",
      "task: {type: distill, teacher: {type: pretrained, model: mlp, weights: runs/t}}\n");
  report_missing_inputs(recipe, RecipeOptions::schema().info(), reading);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(render(problems.list().front()),
            "r.yaml:1:72: error: 'weights' is 'runs/t', which is not there\n"
            "    task: {type: distill, teacher: {type: pretrained, model: mlp, weights: runs/t}}\n"
            "                                                                           ^\n"
            "  hint: its folder 'runs' is not there either\n");
}

TEST_F(MissingInputsTest, AFolderThatIsMissingIsAHint) {
  EXPECT_EQ(told("{type: npy, inputs: /nowhere/x.npy, targets: ''}"),
            "r.yaml:2:35: error: 'inputs' is '/nowhere/x.npy', which is not there\n"
            "    data: {train: {type: npy, inputs: /nowhere/x.npy, targets: ''}}\n"
            "                                      ^\n"
            "  hint: its folder '/nowhere' is not there either\n");
}

TEST_F(MissingInputsTest, WhatStandsInTheWayIsAHint) {
  folder_.write("set.csv", "");
  EXPECT_TRUE(told("{type: csv, path: set.csv/x, target: x}")
                  .ends_with("  hint: 'set.csv' is a file, not a folder\n"));
  std::filesystem::create_symlink("nowhere", "link.csv");
  EXPECT_TRUE(told("{type: csv, path: link.csv, target: x}")
                  .ends_with("  hint: it is a link to what is not there\n"));
}

TEST_F(MissingInputsTest, WhereARelativePathBeginsIsAHint) {
  EXPECT_EQ(told("{type: text, path: corpus}"),
            "r.yaml:2:34: error: 'path' is 'corpus', which is not there\n"
            "    data: {train: {type: text, path: corpus}}\n"
            "                                     ^\n"
            "  hint: relative paths start at the folder of the recipe that names them\n");
}

TEST_F(MissingInputsTest, ADownloadIsLookedForWhereItIsPut) {
  const std::string set = folder_.path("accel-run/sets/mnist");
  EXPECT_EQ(told("mnist"),
            "r.yaml:2:15: error: the data set 'mnist' is not on this machine: "
            "there is no '" +
                set +
                "'\n"
                "    data: {train: mnist}\n"
                "                  ^\n"
                "  hint: fetch it first: 'accel-run download mnist', or name its "
                "folder as 'path'\n");
  EXPECT_NE(told("{type: mnist, path: auto}"), "");
  EXPECT_EQ(told("{type: mnist, path: .}"), "");
  folder_.write("accel-run/sets/mnist/x", "");
  EXPECT_EQ(told("mnist"), "");
}

TEST_F(MissingInputsTest, WhatIsWrongOtherwiseIsNotTold) {
  EXPECT_EQ(told("{type: cvs, path: none}"), "");
  EXPECT_EQ(told("{type: text, path: [none]}"), "");
  EXPECT_EQ(told("{type: text, path: ~/none}"), "");
  EXPECT_EQ(told("{type: text}"), "");
}

}  // namespace
}  // namespace accel
