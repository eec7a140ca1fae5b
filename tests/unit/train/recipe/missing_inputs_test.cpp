#include "train/recipe/missing_inputs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "core/recipe/compose.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/read_text.h"

namespace accel::missing_inputs_test {
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

  /// The report on a recipe with this training data.
  static std::string reported(const std::string& data) {
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
  EXPECT_EQ(reported("{type: csv, path: train.csv, target: x}"), "");
  EXPECT_EQ(reported("{type: image_folder, path: set}"), "");
  EXPECT_EQ(reported("synthetic/glyphs"), "");
}

TEST_F(MissingInputsTest, TheNearestNameIsAHint) {
  folder_.write("train.csv", "");
  EXPECT_EQ(reported("[{type: csv, path: trian.csv, target: x}]"),
            "r.yaml:2:34: error: 'path' is 'trian.csv', which does not exist\n"
            "    data: {train: [{type: csv, path: trian.csv, target: x}]}\n"
            "                                     ^\n"
            "  hint: did you mean 'train.csv'?\n");
}

TEST_F(MissingInputsTest, AFolderIsNoFile) {
  folder_.write("set/part/x.csv", "");
  EXPECT_EQ(reported("{type: csv, path: set, target: x}"),
            "r.yaml:2:33: error: 'path' is 'set', which is a folder, not a file\n"
            "    data: {train: {type: csv, path: set, target: x}}\n"
            "                                    ^\n"
            "  hint: give a file in it\n");
  folder_.write("set/b.csv", "");
  folder_.write("set/a.csv", "");
  EXPECT_TRUE(reported("{type: csv, path: set}").ends_with("it, such as 'a.csv'\n"));
  for (const char* type : {"tsv", "jsonl", "text", "chat", "token_classification"}) {
    EXPECT_TRUE(reported("{type: " + std::string(type) + ", path: set}")
                    .ends_with("  hint: give a file in it\n"))
        << type;
  }
  EXPECT_EQ(reported("{type: tokens, path: set}"), "");  // of 'accel-run prepare'
  EXPECT_EQ(reported("{type: mds, path: set}"), "");
}

TEST_F(MissingInputsTest, TheHintForATokenizerHasTheFieldsOfTheDataset) {
  folder_.write("d.jsonl", "{}");
  folder_.write("n.txt", "a O");
  const std::pair<const char*, const char*> cases[] = {
      {"{type: jsonl, path: d.jsonl, text: [a, b], tokenizer: tok}", "d.jsonl --fields a,b"},
      {"{type: jsonl, path: d.jsonl, tokenizer: tok}", "d.jsonl --fields text"},
      {"{type: chat, path: d.jsonl, tokenizer: tok}", "d.jsonl --fields content --chatml"},
      {"{type: chat, path: d.jsonl, prompt: [q], completion: a, tokenizer: tok}",
       "d.jsonl --fields q,a --chatml"},
      {"{type: token_classification, path: d.jsonl, tokenizer: tok}",
       "d.jsonl --fields tokens --model wordpiece --cased"},
      {"{type: conll, path: n.txt, tokenizer: tok}", "n.txt --fields 0 --model wordpiece --cased"},
      {"{type: text, path: n.txt, level: tokens, tokenizer: tok}", "n.txt"}};
  for (const auto& [data, words] : cases) {
    EXPECT_TRUE(reported(data).ends_with("to make one: accel-run tokenizer train " +
                                         std::string(words) + " --out tok\n"))
        << reported(data);
  }
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
            "r.yaml:1:72: error: 'weights' is 'runs/t', which does not exist\n"
            "    task: {type: distill, teacher: {type: pretrained, model: mlp, weights: runs/t}}\n"
            "                                                                           ^\n"
            "  hint: its folder 'runs' does not exist either\n");
}

TEST_F(MissingInputsTest, AFolderThatIsMissingIsAHint) {
  EXPECT_EQ(reported("{type: npy, inputs: /nowhere/x.npy, targets: ''}"),
            "r.yaml:2:35: error: 'inputs' is '/nowhere/x.npy', which does not exist\n"
            "    data: {train: {type: npy, inputs: /nowhere/x.npy, targets: ''}}\n"
            "                                      ^\n"
            "  hint: its folder '/nowhere' does not exist either\n");
}

TEST_F(MissingInputsTest, WhatStandsInTheWayIsAHint) {
  folder_.write("set.csv", "");
  EXPECT_TRUE(reported("{type: csv, path: set.csv/x, target: x}")
                  .ends_with("  hint: 'set.csv' is a file, not a folder\n"));
  std::filesystem::create_symlink("nowhere", "link.csv");
  EXPECT_TRUE(reported("{type: csv, path: link.csv, target: x}")
                  .ends_with("  hint: it is a dangling symbolic link\n"));
}

TEST_F(MissingInputsTest, WhereARelativePathBeginsIsAHint) {
  EXPECT_EQ(reported("{type: text, path: corpus}"),
            "r.yaml:2:34: error: 'path' is 'corpus', which does not exist\n"
            "    data: {train: {type: text, path: corpus}}\n"
            "                                     ^\n"
            "  hint: relative paths are resolved from the folder of the recipe file\n");
}

TEST_F(MissingInputsTest, AValueFromTheCommandLineBeginsAtTheWorkingFolder) {
  const Registry registry = all_components();
  folder_.write("r/r.yaml",
                "vars: {t: x}\nmodel: mlp\n"
                "data: {train: {type: jsonl, path: x.jsonl, tokenizer: \"${vars.t}\"}}\n");
  folder_.write("r/x.jsonl", "");
  ComposeRequest request;
  request.recipe = "r/r.yaml";
  request.overrides = {{2, "vars.t=pieces"}};
  Diagnostics problems;
  const Node recipe = compose(request, problems).recipe;
  Reading reading{problems, registry};
  report_missing_inputs(recipe, RecipeOptions::schema().info(), reading);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems.list().front().message, "'tokenizer' is 'pieces', which does not exist");
  EXPECT_EQ(problems.list().front().hint,
            "relative paths on the command line are resolved from the working folder; "
            "to make one: accel-run tokenizer train r/x.jsonl --fields text --out pieces");
}

TEST_F(MissingInputsTest, ADownloadIsLookedForWhereItIsPut) {
  const std::string set = folder_.path("accel-run/sets/mnist");
  EXPECT_EQ(reported("mnist"),
            "r.yaml:2:15: error: the data set 'mnist' is not on this machine: "
            "there is no '" +
                set +
                "'\n"
                "    data: {train: mnist}\n"
                "                  ^\n"
                "  hint: fetch it first: 'accel-run download mnist', or name its "
                "folder as 'path'\n");
  EXPECT_NE(reported("{type: mnist, path: auto}"), "");
  EXPECT_EQ(reported("{type: mnist, path: .}"), "");
  folder_.write("accel-run/sets/mnist/x", "");
  EXPECT_EQ(reported("mnist"), "");
}

TEST_F(MissingInputsTest, WhatIsWrongOtherwiseIsNotTold) {
  EXPECT_EQ(reported("{type: cvs, path: none}"), "");
  EXPECT_EQ(reported("{type: text, path: [none]}"), "");
  EXPECT_EQ(reported("{type: text, path: ~/none}"), "");
  EXPECT_EQ(reported("{type: text}"), "");
}

}  // namespace
}  // namespace accel::missing_inputs_test
