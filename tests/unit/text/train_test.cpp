#include "text/train.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace accel::train_test {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> loaded(const TrainedTokenizer& trained) {
  const TempFolder folder;
  folder.write("tokenizer.json", trained.tokenizer);
  folder.write("tokenizer_config.json", trained.config);
  return load_tokenizer(folder.path());
}

TrainingOptions options_of(bool wordpiece, int64_t size) {
  TrainingOptions options;
  options.wordpiece = wordpiece;
  options.vocab_size = size;
  return options;
}

constexpr auto kTongueTwister =
    "She sells sea shells.\nShe sells sea shells by the sea shore; the shells she sells are sea "
    "shells.\n";

TEST(LearnMergesTest, TheMostFrequentPairComesFirstAndOfEqualOnesTheLower) {
  std::vector<std::pair<int32_t, int32_t>> made;
  int32_t next = 10;
  learn_merges({{{1, 2, 3}, 5}, {{2, 3, 1}, 2}, {{4, 4, 4}, 3}, {{5, 6}, 1}, {{9, 1}, 2}},
               [&](int32_t left, int32_t right) {
                 made.emplace_back(left, right);
                 return next++;
               });
  // (2 3): 7 times; then (4 4): 2 x 3; (1 10): 5; (11 4): 3; (9 1) and (10 1): 2;
  // (5 6) occurs once.
  EXPECT_EQ(made, (std::vector<std::pair<int32_t, int32_t>>{
                      {2, 3}, {4, 4}, {1, 10}, {11, 4}, {9, 1}, {10, 1}}));
}

TEST(TrainTest, BytePairsGiveEveryTextBack) {
  const TrainedTokenizer trained = train_tokenizer({kTongueTwister}, options_of(false, 270));
  EXPECT_EQ(trained.vocab_size, 270);
  const auto tokenizer = loaded(trained);
  EXPECT_EQ(tokenizer->vocab_size(), 270);
  EXPECT_EQ(tokenizer->special().eos, 0);
  EXPECT_EQ(tokenizer->special().pad, 1);
  for (const std::string text : {"She sells sea shells.", "naïve 你好 \n\n x", ""}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_LT(tokenizer->encode(kTongueTwister).size(), 60u);  // of 121 bytes
  EXPECT_EQ(tokenizer->encode("<|endoftext|>"), Ids{0});
}

TEST(TrainTest, WordpieceIsWrappedAndLowersCapitals) {
  const TrainedTokenizer trained = train_tokenizer({kTongueTwister}, options_of(true, 36));
  EXPECT_EQ(trained.vocab_size, 36);
  const auto tokenizer = loaded(trained);
  const Ids ids = tokenizer->encode("SHE Sells");
  EXPECT_EQ(ids, tokenizer->encode("she sells"));
  EXPECT_EQ(ids.front(), tokenizer->special().cls);
  EXPECT_EQ(ids.back(), tokenizer->special().sep);
  EXPECT_EQ(tokenizer->decode(ids), "she sells");
  EXPECT_EQ(tokenizer->encode("ж", false), Ids{1});
  const TokenPair pair = tokenizer->encode_pair("she", "she");
  EXPECT_EQ(pair.types, (Ids{0, 0, 0, 1, 1}));
}

TEST(TrainTest, ChatMlHasItsTokensAndTemplate) {
  TrainingOptions options = options_of(false, 300);
  options.chatml = true;
  const TrainedTokenizer trained = train_tokenizer({kTongueTwister}, options);
  const auto tokenizer = loaded(trained);
  EXPECT_EQ(tokenizer->encode("<|im_start|>she<|im_end|>").front(), 2);
  EXPECT_EQ(tokenizer->encode("<|im_start|>she<|im_end|>").back(), 3);
  const auto config = nlohmann::json::parse(trained.config);
  EXPECT_EQ(config["eos_token"], "<|im_end|>");
  const ChatTemplate chat(config["chat_template"].get<std::string>());
  const auto messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", "Hi"}}});
  EXPECT_EQ(chat.render({{"messages", messages}, {"add_generation_prompt", true}}),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(TrainTest, CasedKeepsCapitals) {
  TrainingOptions options = options_of(true, 80);
  options.cased = true;
  const auto tokenizer = loaded(train_tokenizer({kTongueTwister}, options));
  EXPECT_NE(tokenizer->encode("She"), tokenizer->encode("she"));
}

TEST(TrainTest, TheOrderOfTextsDoesNotCount) {
  const char* other = "By the sea shore she sells shells she sold.\n";
  for (const bool wordpiece : {false, true}) {
    const TrainingOptions options = options_of(wordpiece, wordpiece ? 70 : 290);
    const TrainedTokenizer one = train_tokenizer({kTongueTwister, other}, options);
    const TrainedTokenizer two = train_tokenizer({other, kTongueTwister}, options);
    EXPECT_EQ(one.tokenizer, two.tokenizer);
  }
}

TEST(TrainTest, LongTextsAreReadInPartsThatChangeNothing) {
  std::string text;
  while (text.size() < (size_t{5} << 19)) text += kTongueTwister;
  const auto vocabulary = [](const TrainedTokenizer& trained) {
    return nlohmann::json::parse(trained.tokenizer)["model"]["vocab"];
  };
  EXPECT_EQ(vocabulary(train_tokenizer({text}, options_of(false, 290))),
            vocabulary(train_tokenizer({kTongueTwister, kTongueTwister}, options_of(false, 290))));
}

TEST(TrainTest, StopsWhereNothingComesTwice) {
  const TrainedTokenizer trained = train_tokenizer({"abc abd xyz"}, options_of(false, 1000));
  EXPECT_EQ(trained.vocab_size, 259);  // 'ab' begins two words
}

TEST(TrainTest, RefusesTooSmallSizesAndEmptyTexts) {
  try {
    train_tokenizer({"abc"}, options_of(false, 100));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    EXPECT_STREQ(error.what(),
                 "a vocabulary of 100 is too small for 258 single characters and special tokens");
    EXPECT_EQ(error.hint(), "use --vocab-size 258 or more");
  }
  try {
    train_tokenizer({"", "  \n"}, options_of(true, 100));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the texts have no words to train on");
  }
}

}  // namespace
}  // namespace accel::train_test
