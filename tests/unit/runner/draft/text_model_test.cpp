// Drafts that fine-tune Hugging Face model folders on texts.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "runner/draft/new_recipe.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::text_model_test {
namespace {

constexpr char kCut[] = "max_length: {}  # the positions of the model";

class TextModelTest : public testing::Test {
 protected:
  TextModelTest() {
    std::string reviews, talks, tags, documents;
    std::string long_text;
    for (int i = 0; i < 30'000; ++i) long_text += "aa ";
    for (int i = 0; i < 40; ++i) {
      reviews += text("{\"text\": \"{} {}\", \"label\": {}}\n", std::string(900, 'a'), i, i % 2);
      talks += text("{\"prompt\": \"{} {}\", \"completion\": \"yes\"}\n", std::string(900, 'a'), i);
      documents += text("{\"text\": \"{}\"}\n", long_text);
      tags += "Ada B-PER\nlives O\nin O\nLima B-LOC\n\n";
    }
    work_.write("reviews.jsonl", reviews);
    work_.write("talks.jsonl", talks);
    work_.write("documents.jsonl", documents);
    work_.write("tags.txt", tags);
  }

  NewRecipe draft(const char* data, const std::string& config) {
    work_.write("model/config.json", config);
    work_.write("model/tokenizer.json", "{}");
    work_.write("model/chat_template.jinja", "{}");
    return new_recipe(
        {.data = work_.path(data), .recipe = "/elsewhere/new.yaml", .model = work_.path("model")});
  }

  bool has_line(const char* data, const std::string& config, const std::string& line) {
    return draft(data, config).text.find("    " + line + "\n") != std::string::npos;
  }

  /// The message without the folder, and the hint.
  std::string refusal(const char* data, const std::string& config) {
    try {
      draft(data, config);
    } catch (const Error& error) {
      const std::string message = error.what();
      return message.substr(message.find(" is a ")) + "; " + error.hint();
    }
    return "";
  }

  TempFolder work_;
};

TEST_F(TextModelTest, TextsAreCutToThePositionsOfTheModel) {
  constexpr auto kWhole = "max_length: 256  # tokens; longer ones are cut";
  const std::pair<const char*, int> cases[] = {
      {R"({"model_type": "bert", "max_position_embeddings": 64})", 64},
      {R"({"model_type": "roberta", "max_position_embeddings": 66, "pad_token_id": 1})", 64},
      {R"({"model_type": "camembert", "max_position_embeddings": 70})", 68},
      {R"({"model_type": "xlm-roberta", "max_position_embeddings": 70, "pad_token_id": 0})", 69},
      {R"({"model_type": "gpt2", "n_positions": 32})", 32},
      {R"({"model_type": "opt", "max_position_embeddings": 48})", 48},
      {R"({"model_type": "llama", "max_position_embeddings": 128})", 128}};
  for (const auto& [config, positions] : cases) {
    EXPECT_TRUE(has_line("reviews.jsonl", config, text(kCut, positions))) << config;
  }
  for (const char* config :
       {R"({"model_type": "bert"})", R"({"model_type": "roberta", "max_position_embeddings": 514})",
        R"({"model_type": "llama"})", R"({"model_type": "unheard"})"}) {
    EXPECT_TRUE(has_line("reviews.jsonl", config, kWhole)) << config;
  }
  const std::string small = R"({"model_type": "gpt2", "n_positions": 32})";
  EXPECT_TRUE(has_line("talks.jsonl", small, text(kCut, 32)));
  EXPECT_TRUE(has_line("tags.txt", small, text(kCut, 32)));
  EXPECT_TRUE(has_line("documents.jsonl", small, "max_seq_len: 32  # tokens of context"));
}

TEST_F(TextModelTest, DecodersGetTheHeadOfTheTask) {
  const std::string llama = R"({"model_type": "llama", "max_position_embeddings": 128})";
  const auto head_in = [&](const char* data) {
    const std::string recipe = draft(data, llama).text;
    const size_t at = recipe.find("  head: ");
    return at == recipe.npos ? "" : recipe.substr(at, recipe.find('\n', at) - at);
  };
  EXPECT_EQ(head_in("reviews.jsonl"), "  head: classes  # in place of that for the next token");
  EXPECT_EQ(head_in("tags.txt"), "  head: labels  # in place of that for the next token");
  EXPECT_EQ(head_in("talks.jsonl"), "");
  const std::vector<std::string> lines = draft("reviews.jsonl", llama).lines;
  EXPECT_NE(std::find(lines.begin(), lines.end(),
                      "a llama model predicts next tokens: its head is replaced by a new one for "
                      "classes"),
            lines.end());
}

TEST_F(TextModelTest, ModelsWithoutTheHeadAreRefused) {
  EXPECT_EQ(refusal("talks.jsonl", R"({"model_type": "electra"})"),
            " is a electra model, which does not predict next tokens; name a folder of one of "
            "gpt2, gpt_neox, opt, llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe, "
            "phi3, smollm3, gemma, gemma2, gemma3_text");
  for (const char* type : {"opt", "gemma3_text"}) {
    EXPECT_EQ(refusal("tags.txt", text("{\"model_type\": \"{}\"}", type)),
              text(" is a {} model, of which transformers has no token classification; name a "
                   "folder of one of bert, roberta, xlm-roberta, camembert, distilbert, "
                   "modernbert, electra, deberta-v2, gpt2, gpt_neox, llama, mistral, mixtral, "
                   "qwen2, qwen2_moe, qwen3, qwen3_moe, phi3, smollm3, gemma, gemma2",
                   type));
  }
}

TEST_F(TextModelTest, AnEncoderDecoderLearnsTargetsOfSources) {
  for (const char* type : {"t5", "mt5"}) {
    const std::string config = text("{\"model_type\": \"{}\"}", type);
    const std::string recipe = draft("talks.jsonl", config).text;
    for (const char* line :
         {"    type: text_to_text\n", "    source: \"prompt\"\n", "    target: \"completion\"\n",
          "    max_source_length: 512  # tokens; longer ones are cut\n",
          "    max_target_length: 16\n",
          "#   the fields 'prompt' and 'completion' are a source and its target\n",
          "{type: seq2seq, predict_with_generate: true}\n"}) {
      EXPECT_NE(recipe.find(line), recipe.npos) << line << recipe;
    }
    try {
      draft("reviews.jsonl", config);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), text("'{}' is a {} model, which maps a source text to a target text",
                                   work_.path("model"), type));
      EXPECT_EQ(error.hint(),
                "give it rows with two texts, such as 'prompt' and 'completion', or name a folder "
                "of another model");
    }
  }
}

}  // namespace
}  // namespace accel::text_model_test
