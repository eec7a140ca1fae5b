// Models, tasks and data that do not go together are refused before anything is written.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "formats/image/image.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/train/job/make_job.h"

namespace accel::model_fit_test {
namespace {

constexpr auto kLetters = R"(data:
  train: {type: text, path: letters.txt, level: bytes, max_seq_len: 8}
train: {until: 1 step, batch: 2}
)";

class ModelFitTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() /
        ("model_fit_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::create_directories(folder_);
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    std::ofstream("letters.txt") << std::string(200, 'a');
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  static std::string complaint(const std::string& recipe) {
    try {
      make_job(recipe);
    } catch (const RecipeError& error) {
      return error.what();
    }
    return "";
  }

 private:
  std::filesystem::path folder_, before_;
};

TEST_F(ModelFitTest, EvalTextsMustNotBeLongerThanTheModelSees) {
  const auto recipe = [](const std::string& model, int context) {
    return "model: " + model + R"(
data:
  train: {type: text, path: letters.txt, level: bytes, max_seq_len: 8}
  eval: {type: text, path: letters.txt, level: bytes, max_seq_len: )" +
           std::to_string(context) + "}\ntrain: {until: 1 step, batch: 2}\n";
  };
  for (const std::string model : {"gpt", "llama"}) {
    const std::string small = "{type: " + model + ", num_layers: 1, num_heads: 1, hidden_size: 8";
    EXPECT_EQ(complaint(recipe(small + "}", 8)), "");
    EXPECT_EQ(
        complaint(recipe(small + "}", 16)),
        text("r.yaml:4:9: error: the model '{}' supports at most 8 tokens, but a sample of the "
             "data may have 16\n"
             "      eval: {type: text, path: letters.txt, level: bytes, max_seq_len: 16}\n"
             "            ^\n"
             "  hint: shorten the samples, or raise the model's 'max_seq_len'\n",
             model));
    EXPECT_EQ(complaint(recipe(small + ", max_seq_len: 16}", 16)), "");
  }
}

TEST_F(ModelFitTest, EvalImagesMustHaveTheSizeThatTheModelIsMadeFor) {
  for (const std::string name : {"first", "second"}) {
    const int64_t side = name == "first" ? 16 : 20;
    const std::vector<uint8_t> pixels(static_cast<size_t>(side * side * 3));
    for (const std::string label : {"cat", "dog"}) {
      std::filesystem::create_directories(name + "/" + label);
      std::ofstream(name + "/" + label + "/1.png") << encode_png({side, side}, 3, pixels);
    }
  }
  const auto recipe = [](const std::string& model) {
    return "model: " + model + R"(
data:
  train: {type: image_folder, path: first}
  eval: {type: image_folder, path: second}
train: {until: 1 step, batch: 2}
)";
  };
  for (const std::string model : {"vit", "lenet", "mlp", "linear"}) {
    EXPECT_EQ(
        complaint(recipe(model)),
        text("r.yaml:4:9: error: the model '{}' is built for samples [3, 16, 16], but a sample "
             "of the data is [3, 20, 20]\n"
             "      eval: {type: image_folder, path: second}\n"
             "            ^\n"
             "  hint: add a transform that makes both alike, such as 'resize'\n",
             model));
  }
  EXPECT_EQ(complaint(recipe("resnet")), "");
}

struct Misfit {
  const char* model;
  const char* task;
  const char* message;  ///< "": they fit
  const char* hint;
};

constexpr Misfit kMisfits[] = {
    {"{type: gpt, num_layers: 1, hidden_size: 8}", "causal_lm", "", ""},
    {"{type: bert, num_layers: 1, hidden_size: 8}", "causal_lm",
     "the task 'causal_lm' needs a model that predicts the next token, but the "
     "model 'bert' predicts masked tokens",
     "with these options its task is 'masked_lm'"},
    {"{type: roberta, num_layers: 1, hidden_size: 8}", "causal_lm",
     "the task 'causal_lm' needs a model that predicts the next token, but the "
     "model 'roberta' predicts masked tokens",
     "with these options its task is 'masked_lm'"},
    {"{type: distilbert, num_layers: 1, hidden_size: 8}", "causal_lm",
     "the task 'causal_lm' needs a model that predicts the next token, but the "
     "model 'distilbert' predicts masked tokens",
     "with these options its task is 'masked_lm'"},
    {"{type: gpt, num_layers: 1, hidden_size: 8}", "masked_lm",
     "the task 'masked_lm' needs a model that predicts masked tokens, but the model "
     "'gpt' predicts the next token",
     "with these options its task is 'causal_lm'"},
    {"{type: llama, num_layers: 1, hidden_size: 8}", "classification",
     "the task 'classification' needs a model that predicts one output per text, but the "
     "model 'llama' predicts the next token",
     "with these options its task is 'causal_lm'"},
    {"{type: bert, num_layers: 1, hidden_size: 8, head: classes, num_classes: 2}", "masked_lm",
     "the task 'masked_lm' needs a model that predicts masked tokens, but the model "
     "'bert' predicts one output per text",
     "with these options its task is 'classification'"},
};

TEST_F(ModelFitTest, TheModelMustTellWhatTheTaskAsksFor) {
  for (const Misfit& misfit : kMisfits) {
    const std::string task = std::string("task: ") + misfit.task;
    const std::string text =
        complaint(std::string("model: ") + misfit.model + "\n" + task + "\n" + kLetters);
    std::string expected;
    if (*misfit.message) {
      expected = std::string("r.yaml:2:7: error: ") + misfit.message + "\n    " + task +
                 "\n          ^\n  hint: " + misfit.hint + "\n";
    }
    EXPECT_EQ(text, expected) << misfit.model << " " << misfit.task;
  }
}

TEST_F(ModelFitTest, MaskedTokensNeedSomethingThatHidesThem) {
  EXPECT_EQ(
      complaint(std::string("model: {type: bert, num_layers: 1, hidden_size: 8}\n") + kLetters),
      "r.yaml:3:3: error: the task 'masked_lm' has no targets: no token is masked\n"
      "      train: {type: text, path: letters.txt, level: bytes, max_seq_len: 8}\n"
      "      ^\n"
      "  hint: add 'transform: [mask_tokens]'\n");
}

/// A file of int64 numbers as numpy.save writes it.
void write_npy(const char* name, int rows, int columns) {
  std::string header = "{'descr': '<i8', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(columns) + "), }";
  header.resize(117, ' ');
  header += '\n';
  std::ofstream out(name, std::ios::binary);
  out << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header
      << std::string(static_cast<size_t>(rows * columns) * sizeof(int64_t), '\0');
}

TEST_F(ModelFitTest, DataMayHaveHiddenTokensOfItsOwn) {
  write_npy("tokens.npy", 4, 6);
  EXPECT_EQ(
      complaint(
          "model: {type: bert, num_layers: 1, hidden_size: 8, vocab_size: 10}\ntask: masked_lm\n"
          "data: {train: {type: npy, inputs: tokens.npy, targets: tokens.npy}}\n"
          "train: {until: 1 step, batch: 2}\n"),
      "");
}

TEST_F(ModelFitTest, PackedTextsNeedAModelThatKeepsThemApart) {
  std::ofstream("tokenizer.json") << kSmallTokenizer;
  std::ofstream("chat_template.jinja")
      << "{% for m in messages %}{{ m.content }} [SEP] {% endfor %}";
  std::ofstream talks("talks.jsonl");
  for (int i = 0; i < 8; ++i) {
    talks << R"({"messages": [{"role": "user", "content": "good"}, )"
          << R"({"role": "assistant", "content": "bad film"}]})"
          << "\n";
  }
  talks.close();
  const auto recipe = [](const std::string& model, bool train, bool eval) {
    const auto data = [](bool pack) {
      return std::string("{type: chat, path: talks.jsonl, tokenizer: ., max_length: 12, pack: ") +
             (pack ? "true}" : "false}");
    };
    return "model: {type: " + model +
           ", num_layers: 1, hidden_size: 8}\ndata:\n  train: " + data(train) +
           "\n  eval: " + data(eval) + "\ntrain: {until: 1 step, batch: 2}\n";
  };
  const auto found = [&](const std::string& text, const std::string& message) {
    EXPECT_NE(text.find(message), text.npos) << text;
  };
  EXPECT_EQ(complaint(recipe("gpt", true, true)), "");
  EXPECT_EQ(complaint(recipe("llama", true, false)), "");
  found(complaint(recipe("gpt", false, true)),
        "r.yaml:4:9: error: the eval data is packed, the training data is not\n");
  found(complaint(recipe("bert", true, true)),
        "r.yaml:3:3: error: the task 'masked_lm' has no targets: no token is masked\n");
  std::ofstream("words.jsonl") << R"({"tokens": ["good", "film"], "ner_tags": ["O", "B-ART"]})"
                               << "\n";
  const auto labelled = [](const std::string& model) {
    return "model: {type: " + model +
           ", num_layers: 1, hidden_size: 8}\ntask: token_classification\ndata:\n  train: {type: "
           "token_classification, path: words.jsonl, tokenizer: ., pack: true}\n"
           "train: {until: 1 step, batch: 1}\n";
  };
  EXPECT_EQ(complaint(labelled("bert")), "");
  const std::string decoder = complaint(labelled("gpt, head: labels"));
  found(decoder, "r.yaml:4:3: error: the model 'gpt' does not support packed sequences\n");
  found(decoder, "  hint: leave out 'pack', or use an encoder such as 'bert' or 'modernbert'\n");
}

}  // namespace
}  // namespace accel::model_fit_test
