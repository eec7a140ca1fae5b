#include "runner/draft/new_recipe.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/compose.h"
#include "runner/draft/recipe_draft.h"
#include "runner/draft/training_moments.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/tar_writer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::new_recipe_test {
namespace {

/// For a recipe that lies elsewhere, so that its paths are absolute.
NewRecipe draft_for(const std::string& path) {
  return new_recipe({.data = path, .recipe = "/elsewhere/recipes/new.yaml"});
}

/// The recipe for what lies at `path`, with its references filled in.
Node recipe_for(const TempFolder& work, const std::string& path) {
  const std::string file = work.write("recipes/new.yaml", draft_for(path).text);
  ComposeRequest request;
  request.recipe = file;
  Diagnostics problems;
  Node recipe = compose(request, problems).recipe;
  problems.check();
  return recipe;
}

/// Whether the recipe for what lies at `path` has a comment.
bool has_comment(const std::string& path, const std::string& comment) {
  return draft_for(path).text.find("# " + comment + '\n') != std::string::npos;
}

const Node& at(const Node& tree, const std::string& key) {
  const Node* node = &tree;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    const Node::Entry* entry = node->find(key.substr(begin, end - begin));
    if (!entry) throw std::out_of_range(key);
    node = &entry->node;
    begin = end + 1;
  }
  return *node;
}

std::string text_at(const Node& tree, const std::string& key) {
  return at(tree, key).scalar()->text;
}

/// Builds the dataset that a recipe declares.
std::unique_ptr<Dataset> dataset_at(const Node& tree, const std::string& key) {
  return build<Dataset>(to_yaml(at(tree, key)));
}

/// What the first sample of a recipe's training data is after its transforms.
Sample first_sample(const Node& tree) {
  const auto data = dataset_at(tree, "data.train");
  Sample sample = data->sample(0);
  TransformContext context{data->shape(), true};
  SampleRng rng(1, 2, 3);
  for (const Node& item : *at(tree, "data.transform").list()) {
    const auto transform = build<Transform>(to_yaml(item), context);
    sample = transform->apply(std::move(sample), rng);
    context.shape = transform->shape();
  }
  return sample;
}

std::string complaint_about(const std::string& path) {
  try {
    new_recipe({.data = path, .recipe = "new.yaml"});
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(NewRecipeTest, NoDataMeansDrawnDigits) {
  const TempFolder work;
  const Node recipe = recipe_for(work, "");
  EXPECT_EQ(text_at(recipe, "model.type"), "lenet");
  EXPECT_EQ(dataset_at(recipe, "data.train")->size(), 12000);
  EXPECT_EQ(dataset_at(recipe, "data.eval")->size(), 2000);
}

TEST(NewRecipeTest, TableOfCategoriesAndNumbersIsClassified) {
  const TempFolder work;
  const std::string table = work.write("my $data/train-1.csv",
                                       "id,width,color,remark,species\n"
                                       "1,2.0,red,\"a, b\",setosa\n"
                                       "2,4.0,blue,,virginica\n");
  work.write("my $data/test-1.csv", "id,width,color,remark,species\n9,1,blue,x,setosa\n");
  const Node recipe = recipe_for(work, table);
  EXPECT_EQ(text_at(recipe, "task"), "classification");
  EXPECT_EQ(text_at(recipe, "data.train.target"), "species");
  EXPECT_TRUE(has_comment(table, "Predicts 'species' from the 2 rows of train-1.csv."));
  EXPECT_EQ(at(recipe, "data.train.features").list()->size(), 2u);
  EXPECT_EQ(dataset_at(recipe, "data.eval")->size(), 1);
  const Sample sample = first_sample(recipe);
  const auto values = sample.input.as<float>();
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{-1, 0, 1}));
}

TEST(NewRecipeTest, AYIsTheTargetUnlessAnotherNameOrAnXSaysOtherwise) {
  const TempFolder work;
  const std::pair<const char*, const char*> cases[] = {
      {"x,y,label", "label"}, {"x,y,price", "price"}, {"a,y,b", "y"}, {"y,a,label", "label"}};
  for (const auto& [names, target] : cases) {
    std::string table = std::string(names) + '\n';
    for (int i = 0; i < 50; ++i) {
      table += text("{}.5,{}.25,{}.75\n", i, i * 3 % 50, i * 7 % 50);
    }
    const Node recipe = recipe_for(work, work.write(text("{}.csv", names), table));
    EXPECT_EQ(text_at(recipe, "data.train.target"), target) << names;
  }
}

TEST(NewRecipeTest, TableOfNumbersIsARegression) {
  const TempFolder work;
  std::string table;
  for (int i = 0; i < 50; ++i) {
    table += std::to_string(i) + "," + (i < 40 ? std::to_string(i % 5) : "") + "," +
             std::to_string(i * 0.5) + '\n';
  }
  const Node recipe = recipe_for(work, work.write("house.csv", table));
  EXPECT_EQ(text_at(recipe, "task.type"), "regression");
  EXPECT_EQ(text_at(recipe, "task.target_mean"), "12.2");
  EXPECT_EQ(text_at(recipe, "task.target_std"), "7.36765");
  EXPECT_EQ(text_at(recipe, "data.train.target"), "2");
  EXPECT_EQ(text_at(recipe, "data.train.header"), "false");
  EXPECT_EQ(text_at(recipe, "data.train.fill.1"), "mean");
  EXPECT_FALSE(at(recipe, "data").find("eval"));
  EXPECT_EQ(text_at(recipe, "data.split.eval"), "10%");
  EXPECT_EQ(dataset_at(recipe, "data.train")->shape().input, (Shape{2}));
  // Mean of the values that are present in training rows.
  EXPECT_EQ(
      at(recipe, "data.transform").list()->front().find("mean")->node.list()->at(1).scalar()->text,
      "2.08571");
}

/// Rows of "number,target", in which the held-out rows have the values `other`.
std::string rows_with(const std::string& target, const std::string& other, bool classes) {
  RecipeDraft draft;
  hold_out(draft, 60);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 60 && classes; ++i) labels.push_back(i % 2);
  const std::vector<bool> training = training_samples(draft, 60, labels);
  std::string rows;
  for (size_t i = 0; i < training.size(); ++i) {
    const std::string number = training[i] ? std::to_string(i) + ".5" : other;
    rows += number + "," + (classes ? (i % 2 ? "x" : "y") : training[i] ? number : other) + "\n";
  }
  return "a," + target + "\n" + rows;
}

TEST(NewRecipeTest, MomentsAreThoseOfTheTrainingRows) {
  const TempFolder work;
  for (const bool classes : {false, true}) {
    const std::string near =
        draft_for(work.write("near.csv", rows_with("label", "3", classes))).text;
    const std::string far =
        draft_for(work.write("far.csv", rows_with("label", "1000000", classes))).text;
    const auto moments = [](const std::string& recipe) {
      return recipe.substr(recipe.find("- type: normalize"), 150);
    };
    EXPECT_EQ(moments(near), moments(far));
    const auto task = [](const std::string& recipe) {
      return recipe.substr(recipe.find("\ntask:"), recipe.find("\ndata:") - recipe.find("\ntask:"));
    };
    EXPECT_EQ(task(near), task(far));
  }
}

TEST(NewRecipeTest, NumericTargetsOfTextsAreStandardizedByTheTrainingRows) {
  const TempFolder work;
  RecipeDraft draft;
  hold_out(draft, 60);
  const std::vector<bool> training = training_samples(draft, 60, {});
  const auto task_with = [&](double other) {
    std::string rows = "{\"text\": \"no price\"}\n";  // is skipped
    for (size_t i = 0; i < training.size(); ++i) {
      rows += text("{\"text\": \"a house with {} rooms\", \"label\": {}}\n", i,
                   std::to_string(training[i] ? 1000.5 * static_cast<double>(i) : other));
    }
    const Node recipe = recipe_for(work, work.write("homes.jsonl", rows));
    return text_at(recipe, "task.target_mean") + " " + text_at(recipe, "task.target_std");
  };
  const std::string near = task_with(3.5);
  EXPECT_EQ(near, task_with(1e6));
  EXPECT_GT(std::stod(near), 10000) << near;
}

TEST(NewRecipeTest, AWordAndATagPerLineAreTagged) {
  const TempFolder work;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Ada B-PER\nlives O\nin O\nLima B-LOC\n\n";
  const Node recipe = recipe_for(work, work.write("ner.txt", text));
  EXPECT_EQ(text_at(recipe, "task"), "token_classification");
  EXPECT_EQ(text_at(recipe, "data.train.type"), "conll");
  EXPECT_EQ(text_at(recipe, "data.split.eval"), "10%");
  EXPECT_EQ(at(recipe, "data.train.labels").list()->size(), 3u);
  EXPECT_EQ(complaint_about(work.write("bad.txt", text + "Ada\n")),
            work.path("bad.txt") + ":201 has 1 of 2 columns");
}

TEST(NewRecipeTest, StrongImbalanceIsReportedAndMeasured) {
  const TempFolder work;
  const auto recipe_with = [&](int rare) {
    std::string table = "a,label\n";
    for (int i = 0; i < 100; ++i) table += std::to_string(i) + (i < rare ? ",rare\n" : ",usual\n");
    return draft_for(work.write("t.csv", table)).text;
  };
  EXPECT_NE(recipe_with(5).find("metrics: [accuracy, f1]"), std::string::npos);
  EXPECT_NE(recipe_with(5).find("imbalanced classes: 95 samples of 'usual', 5 of 'rare'"),
            std::string::npos);
  EXPECT_NE(recipe_with(5).find("class_weights: [10, 0.526]"), std::string::npos);
  EXPECT_NE(recipe_with(30).find("metrics: [accuracy]"), std::string::npos);
  EXPECT_EQ(recipe_with(30).find("imbalanced"), std::string::npos);
}

TEST(NewRecipeTest, TableWithoutFeaturesIsRefused) {
  const TempFolder work;
  const std::string path = work.write("t.csv", "id,label\n1,x\n2,y\n");
  EXPECT_EQ(complaint_about(path),
            "'" + path + "' has no column of numbers or categories as features");
}

TEST(NewRecipeTest, TextsAndLabelsOfATableAreClassified) {
  const TempFolder work;
  std::string table = "text\tlabel\n";
  for (int i = 0; i < 40; ++i) {
    table += "a sentence with number " + std::to_string(i) + (i % 2 ? "\t1\n" : "\t0\n");
  }
  const std::string path = work.write("train.tsv", table);
  const NewRecipe draft = draft_for(path);
  EXPECT_EQ(draft.first_command, "accel-run tokenizer train " + path +
                                     " --fields text --model wordpiece --out " +
                                     "/elsewhere/recipes/new-tokenizer");
  const Node recipe = recipe_for(work, path);
  EXPECT_EQ(text_at(recipe, "data.train.type"), "tsv");
  EXPECT_EQ(text_at(recipe, "data.train.text"), "text");
  EXPECT_EQ(text_at(recipe, "model.type"), "bert");
}

TEST(NewRecipeTest, RowsWithoutATargetAreDropped) {
  const TempFolder work;
  const Node recipe = recipe_for(work, work.write("t.csv", "a,label\n1,x\n2,\n3,y\n4,x\n"));
  EXPECT_EQ(text_at(recipe, "data.train.fill.label"), "drop");
  EXPECT_EQ(dataset_at(recipe, "data.train")->size(), 3);
}

TEST(NewRecipeTest, PathsAreRelativeBelowAndBesideTheRecipe) {
  EXPECT_EQ(path_in_recipe("/a/b/data", "/a/b/new.yaml"), "data");
  EXPECT_EQ(path_in_recipe("/a/b", "/a/b/new.yaml"), ".");
  EXPECT_EQ(path_in_recipe("/a/data/x", "/a/b/new.yaml"), "../data/x");
  EXPECT_EQ(path_in_recipe("/c/data", "/a/b/new.yaml"), "/c/data");
  EXPECT_EQ(path_in_recipe("/c", "/a/new.yaml"), "/c");
}

TEST(NewRecipeTest, IdxFilesAreFoundInTheirFolder) {
  const TempFolder work;
  const auto write_pair = [&](const std::string& start, uint32_t count) {
    work.write(start + "-images-idx3-ubyte", std::string("\0\0\x08\x03", 4) + big_endian_32(count) +
                                                 big_endian_32(2) + big_endian_32(2) +
                                                 std::string(count * 4, 'x'));
    work.write(start + "-labels-idx1-ubyte",
               std::string("\0\0\x08\x01", 4) + big_endian_32(count) + std::string(count, '\1'));
  };
  write_pair("mnist/t10k", 2);
  write_pair("mnist/train", 3);
  const Node recipe = recipe_for(work, work.path("mnist/"));
  EXPECT_TRUE(
      has_comment(work.path("mnist/"), "Classifies the images in train-images-idx3-ubyte."));
  EXPECT_TRUE(has_comment(work.path("mnist/"), "  eval: the images of t10k-images-idx3-ubyte"));
  EXPECT_EQ(dataset_at(recipe, "data.train")->size(), 3);
  EXPECT_EQ(dataset_at(recipe, "data.eval")->size(), 2);
  EXPECT_EQ(first_sample(recipe).input.shape(), (Shape{1, 2, 2}));
}

/// A PNG of one grey pixel.
std::string tiny_png() {
  const unsigned char bytes[] = {0x89, 'P', 'N',  'G',  0x0d, 0x0a, 0x1a, 0x0a, 0,    0, 0, 13,
                                 'I',  'H', 'D',  'R',  0,    0,    0,    1,    0,    0, 0, 1,
                                 8,    0,   0,    0,    0,    0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0,
                                 10,   'I', 'D',  'A',  'T',  0x78, 0x9c, 0x63, 0x68, 0, 0, 0,
                                 0x82, 0,   0x81, 0x77, 0xcd, 0x72, 0xb6, 0,    0,    0, 0, 'I',
                                 'E',  'N', 'D',  0xae, 0x42, 0x60, 0x82};
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

TEST(NewRecipeTest, ClassFoldersOfImagesAreClassifiedInFolderAndTar) {
  const TempFolder work;
  std::string archive;
  for (const char* name :
       {"train/cat/1.png", "train/dog/1.png", "val/cat/1.png", "val/dog/1.png"}) {
    work.write(std::string("pets/") + name, tiny_png());
    archive += tar_member(std::string("pets/") + name, tiny_png());
  }
  work.write("pets.tar", archive + tar_end());
  for (const char* name : {"pets", "pets.tar"}) {
    const Node recipe = recipe_for(work, work.path(name));
    EXPECT_TRUE(has_comment(work.path(name), "Classifies images into 2 classes, from 2 examples."));
    EXPECT_EQ(text_at(recipe, "data.train.split"), "train");
    EXPECT_EQ(text_at(recipe, "data.eval.split"), "val");
    EXPECT_EQ(dataset_at(recipe, "data.train")->shape().classes, 2);
    EXPECT_EQ(first_sample(recipe).input.shape(), (Shape{3, 1, 1}));
  }
}

TEST(NewRecipeTest, ImagesWithoutClassFoldersAreRefused) {
  const TempFolder work;
  work.write("pets/1.png", tiny_png());
  EXPECT_EQ(complaint_about(work.path("pets")),
            "the images in '" + work.path("pets") + "' are not in class folders");
}

TEST(NewRecipeTest, PlainTextIsWrittenOn) {
  const TempFolder work;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "to be or not to be\n";
  const Node recipe = recipe_for(work, work.write("hamlet", text));
  EXPECT_EQ(text_at(recipe, "model.type"), "gpt");
  EXPECT_EQ(text_at(recipe, "data.train.level"), "chars");
  EXPECT_TRUE(has_comment(work.path("hamlet"), "Character-level language model of hamlet."));
  EXPECT_GT(dataset_at(recipe, "data.train")->size(), 4000);
  EXPECT_GT(dataset_at(recipe, "data.eval")->size(), 1);
  EXPECT_EQ(text_at(recipe_for(work, work.write("latin.txt", text + "\xe9")), "data.train.level"),
            "bytes");
}

TEST(NewRecipeTest, WhatIsNotKnownIsRefused) {
  const TempFolder work;
  EXPECT_EQ(complaint_about(work.path("nowhere")), "'" + work.path("nowhere") + "' does not exist");
  EXPECT_EQ(complaint_about(work.write("core", std::string(5000, '\0'))),
            "unknown format of '" + work.path("core") + "'");
  EXPECT_EQ(complaint_about(work.write("short.txt", "hello")),
            "'" + work.path("short.txt") + "' has 5 bytes, at least 1000 are needed to train");
  std::filesystem::create_directory(work.path("empty"));
  EXPECT_EQ(complaint_about(work.path("empty")), "unknown format of '" + work.path("empty") + "'");
}

TEST(NewRecipeTest, ImagesForAPretrainedModelAreThoseOfItsProcessor) {
  const TempFolder work;
  const std::string golden =
      std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/formats/golden/";
  for (const char* name : {"a/1.png", "a/2.png", "b/1.png", "b/2.png"}) {
    work.write("pics/" + std::string(name), file_content(golden + "grey16.png"));
  }
  work.write("vit/config.json", R"({"model_type": "vit"})");
  work.write("vit/preprocessor_config.json",
             R"({"do_center_crop": true, "size": {"shortest_edge": 36}, "resample": 3,
                 "crop_size": 32, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2]})");
  const auto draft = [&](const char* model) {
    return new_recipe({.data = work.path("pics"),
                       .recipe = "/elsewhere/recipes/new.yaml",
                       .model = work.path(model)})
        .text;
  };
  const std::string recipe = draft("vit");
  for (const char* line :
       {"  weights: \"${vars.weights}\"", "    size: [36]  # the shorter side",
        "    interpolation: bicubic", "    - {type: center_crop, size: [32, 32]}",
        "    - {type: normalize, mean: [0.5, 0.4, 0.3], std: [0.2]}"}) {
    EXPECT_NE(recipe.find(std::string(line) + '\n'), std::string::npos) << line << recipe;
  }
  work.write("bert/config.json", R"({"model_type": "bert"})");
  EXPECT_EQ(complaint([&] { draft("bert"); }),
            "'--model " + work.path("bert") +
                "' is a 'bert' model, which classifies no images\n"
                "name the folder of a ViT or ResNet");
}

TEST(NewRecipeTest, ImagesAndTextsAreForADualEncoder) {
  const TempFolder work;
  const std::string golden =
      std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/formats/golden/";
  work.write("set/pics/1.png", file_content(golden + "rgb.png"));
  work.write("set/train.csv", "caption,file_name\na cat,pics/1.png\na dog,pics/1.png\n");
  work.write("set/test.csv", "caption,file_name\na cat,pics/1.png\n");
  work.write("set/other.csv", "caption,file_name\na cat,pics/none.png\n");
  work.write("clip/config.json", R"({"model_type": "clip",
    "text_config": {"max_position_embeddings": 64}, "vision_config": {"image_size": 32}})");
  const auto draft = [&](const char* file) {
    return new_recipe({.data = work.path(file),
                       .recipe = "/elsewhere/recipes/new.yaml",
                       .model = work.path("clip")})
        .text;
  };
  const std::string recipe = draft("set/train.csv");
  for (const char* line :
       {"  weights: \"${vars.weights}\"", "    type: image_text", "    image: \"file_name\"",
        "    text: \"caption\"", "    path: \"${vars.data}/test.csv\"",
        "    tokenizer: \"${vars.tokenizer}\"", "    size: [32, 32]", "task: contrastive",
        "    - {type: normalize, mean: [0.5], std: [0.5]}"}) {
    EXPECT_NE(recipe.find(std::string(line) + '\n'), std::string::npos) << line << recipe;
  }
  EXPECT_NE(recipe.find("Embeds the images and texts of train.csv."), std::string::npos) << recipe;
  EXPECT_NE(recipe.find("    max_length: 64"), std::string::npos) << recipe;
  EXPECT_NE(recipe.find("#   train.csv: 2 rows, with an image in 'file_name' and its text in "
                        "'caption'\n"),
            std::string::npos)
      << recipe;
  EXPECT_EQ(complaint([&] { draft("set/other.csv"); }),
            "'" + work.path("set/other.csv") +
                "' has no rows with an image file and a text\n"
                "its columns are such as 'image' and 'text', and paths of images are relative to "
                "its folder; --target names the column of the text");
}

}  // namespace
}  // namespace accel::new_recipe_test
