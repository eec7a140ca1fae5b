// Sentences of CoNLL text, and which texts are in this format.
#include "formats/records/conll.h"

#include <gtest/gtest.h>

#include "core/base/text.h"

namespace accel::conll_test {
namespace {

/// "1:U.N./NNP/I-ORG" of each token.
std::string shown(const ConllToken& token) {
  std::string out = std::to_string(token.line) + ":";
  for (const std::string_view column : token.columns) {
    if (!out.ends_with(':')) out += '/';
    out += column;
  }
  return out;
}

std::vector<std::string> sentences_of(std::string_view text, const std::string& comment = "",
                                      bool ids = false) {
  ConllReader reader(text, comment, ids);
  std::vector<std::string> out;
  for (std::vector<ConllToken> sentence; reader.next(sentence);) {
    out.push_back(joined(sentence, " ", shown));
  }
  return out;
}

TEST(ConllReaderTest, BlankLinesSeparateSentences) {
  EXPECT_EQ(
      sentences_of("\xef\xbb\xbf-DOCSTART- -X- O\n\nEU NNP B-ORG\nsays  VBZ O\n\n\n \n# CD O\r\n"),
      (std::vector<std::string>{"3:EU/NNP/B-ORG 4:says/VBZ/O", "8:#/CD/O"}));
  EXPECT_EQ(sentences_of("New York\tB-LOC\n\n"), (std::vector<std::string>{"1:New York/B-LOC"}));
  EXPECT_TRUE(sentences_of("\n\n").empty());
}

TEST(ConllReaderTest, CommentsAndMultiwordTokensOfConllUAreSkipped) {
  constexpr auto kText = "# sent_id = 1\n1-2\tdel\t_\n1\tde\tADP\n2\tel\tDET\n2.1\tx\tX\n";
  EXPECT_EQ(sentences_of(kText, "#", true), (std::vector<std::string>{"3:1/de/ADP 4:2/el/DET"}));
  EXPECT_EQ(sentences_of(kText, "#", false).front().substr(0, 9), "2:1-2/del");
}

std::string repeated(const std::string& sentence, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += sentence + "\n";
  return out;
}

TEST(DetectConllTest, WordsWithTagsAreFound) {
  ConllFormat format;
  ASSERT_TRUE(detect_conll(repeated("Ada B-PER\nlives O\nin O\nLima B-LOC\n. O\n", 4), format));
  EXPECT_EQ(format.columns, 2u);
  EXPECT_EQ(format.tag_column, 1u);
  EXPECT_EQ(format.comment, "");
  ASSERT_TRUE(detect_conll(repeated("Ada\tNNP\nlives\tVBZ\n.\t.\n", 4), format));
  ASSERT_TRUE(
      detect_conll("-DOCSTART- -X- -X- O\n" + repeated("EU NNP B-NP B-org\n. . O O\n", 9), format));
  EXPECT_EQ(format.tag_column, 3u);
  ASSERT_TRUE(detect_conll(repeated("Ada B-PER\nsays O\nso O\n", 9) + "\nb\n", format))
      << "a faulty line";
  ASSERT_TRUE(detect_conll("# x\n" + repeated("1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_"
                                              "\n2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n",
                                              2),
                           format));
  EXPECT_EQ(format.word_column, 1u);
  EXPECT_EQ(format.tag_column, 3u);
  EXPECT_EQ(format.comment, "#");
}

TEST(DetectConllTest, ProseTablesAndVersesAreNot) {
  ConllFormat format;
  EXPECT_FALSE(detect_conll("", format));
  EXPECT_FALSE(detect_conll(repeated("roses are red\nviolets are blue\n", 20), format));
  EXPECT_FALSE(detect_conll(repeated("ROMEO:\nO teach me how I should\n", 20), format));
  EXPECT_FALSE(detect_conll(repeated("1 2\n3 4\n", 20), format)) << "numbers";
  EXPECT_FALSE(detect_conll(repeated("a X\nb Y", 20), format)) << "one sentence: a table";
  EXPECT_FALSE(detect_conll(repeated("a X\nb\n", 20), format)) << "many lines without a tag";
  EXPECT_FALSE(detect_conll(repeated("GO HOME\n\nBE GOOD\nCOME BACK", 1), format)) << "too few";
}

}  // namespace
}  // namespace accel::conll_test
