// Streamed texts: characters of several tokens stay whole.
#include "infer/text_stream.h"

#include <gtest/gtest.h>

#include "core/base/utf8.h"
#include "text/unicode.h"

namespace accel::text_stream_test {
namespace {

/// A token for each byte; a space before the first token is not decoded, as of SentencePiece.
class Bytes final : public TextCodec {
 public:
  std::vector<int64_t> encode(const std::string& text) const override {
    std::vector<int64_t> ids;
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  std::string decode(std::span<const int64_t> ids) const override {
    std::string bytes;
    for (const int64_t id : ids) bytes += static_cast<char>(id);
    return lossy_utf8(bytes.starts_with(' ') ? bytes.substr(1) : bytes);
  }
};

std::vector<std::string> pieces_of(const std::string& prompt, const std::string& text) {
  const Bytes codec;
  TextStream stream(codec, codec.encode(prompt));
  std::vector<std::string> pieces;
  for (const int64_t token : codec.encode(text)) {
    if (const std::string piece = stream.add(token); !piece.empty()) pieces.push_back(piece);
  }
  if (const std::string rest = stream.finish(); !rest.empty()) pieces.push_back(rest);
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(TextStreamTest, ReturnsCharactersWhole) {
  EXPECT_EQ(pieces_of("p", "a\u00e9b"), (Pieces{"a", "\u00e9", "b"}));
  EXPECT_EQ(pieces_of("p", "\U0001F600!"), (Pieces{"\U0001F600", "!"}));
}

TEST(TextStreamTest, ReturnsAnIncompleteCharacterAtTheEnd) {
  EXPECT_EQ(pieces_of("p", "a\xF0\x9F"), (Pieces{"a", "\uFFFD"}));
  EXPECT_EQ(pieces_of("p", "\xC3z"), (Pieces{"\uFFFDz"}));
}

TEST(TextStreamTest, DecodesTheFirstTokenAfterTheContext) {
  EXPECT_EQ(pieces_of("p", " a"), (Pieces{" ", "a"}));
  EXPECT_EQ(pieces_of("", " a"), (Pieces{"a"}));
}

TEST(TextStreamTest, JoinsToTheWholeText) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += i % 3 == 0 ? " x" : i % 3 == 1 ? "\u20ac" : "\u00fc  ";
  std::string joined;
  for (const std::string& piece : pieces_of("the prompt", text)) joined += piece;
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace accel::text_stream_test
