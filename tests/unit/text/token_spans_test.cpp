// Positions of tokens in texts, by the spellings of each kind of tokenizer.
#include "text/token_spans.h"

#include <gtest/gtest.h>

namespace accel::token_spans_test {
namespace {

using Texts = std::vector<std::string>;

struct SpanCase {
  const char* name;
  std::string text;
  Texts tokens;
  TokenSpelling spelling;
  Texts parts;  ///< the text of each token's span
};

class TokenSpansTest : public testing::TestWithParam<SpanCase> {};

TEST_P(TokenSpansTest, CoverTheTextOfEachToken) {
  const SpanCase& given = GetParam();
  Texts parts;
  size_t last = 0;
  for (const TokenSpan& span : align_tokens(given.text, given.tokens, given.spelling)) {
    ASSERT_LE(last, span.begin);
    ASSERT_LE(span.begin, span.end);
    last = span.end;
    parts.push_back(given.text.substr(span.begin, span.end - span.begin));
  }
  EXPECT_EQ(parts, given.parts);
  EXPECT_LE(last, given.text.size());
}

const TokenSpelling kBytes{.byte_level = true};
const TokenSpelling kPieces{};

INSTANTIATE_TEST_SUITE_P(
    Spellings, TokenSpansTest,
    testing::Values(
        SpanCase{"ByteLevel",
                 "Hi\n\n good",
                 {"Hi", "\u010a", "\u010a", "\u0120good"},
                 kBytes,
                 {"Hi", "\n", "\n", " good"}},
        SpanCase{"BytesOfACharacter",
                 "a\u00e9",
                 {"a", "\u00c3", "\u00a9"},
                 kBytes,
                 {"a", "\xc3", "\xa9"}},
        SpanCase{"PrefixSpaceOfByteLevel", "Hi", {"\u0120Hi"}, kBytes, {"Hi"}},
        SpanCase{"Metaspace",
                 "Hi  good",
                 {"\u2581Hi", "\u2581", "\u2581good"},
                 kPieces,
                 {"Hi", " ", " good"}},
        SpanCase{"MarkInTheText", "a\u2581b", {"\u2581a", "\u2581b"}, kPieces, {"a", "\u2581b"}},
        SpanCase{"ByteFallback",
                 "a\n\u00e9",
                 {"\u2581a", "<0x0A>", "<0xC3>", "<0xA9>"},
                 kPieces,
                 {"a", "\n", "\xc3", "\xa9"}},
        SpanCase{"WordPiece",
                 "Playing  now",
                 {"play", "##ing", "now"},
                 {.prefix = "##"},
                 {"Play", "ing", "now"}},
        SpanCase{"WordEnds", "ab c", {"a", "b</w>", "c</w>"}, {.suffix = "</w>"}, {"a", "b", "c"}},
        SpanCase{"UnknownInTheMiddle",
                 "a \u4e16 b",
                 {"a", "[UNK]", "b"},
                 kPieces,
                 {"a", " \u4e16 ", "b"}},
        SpanCase{"UnknownAtTheEnd", "a \u4e16", {"a", "[UNK]"}, kPieces, {"a", " \u4e16"}},
        SpanCase{"Normalized",
                 "xe\u0301y z",
                 {"x", "\u00e9", "y", "\u2581z"},
                 kPieces,
                 {"x", "e\u0301", "y", " z"}},
        SpanCase{"NothingLeft", "a", {"a", "b"}, kPieces, {"a", ""}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace accel::token_spans_test
