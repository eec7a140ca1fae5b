// Added tokens in a text.
#include "text/added_tokens.h"

#include <gtest/gtest.h>

namespace accel::added_tokens_test {
namespace {

TEST(AddedTokensTest, WhiteSpaceThatATokenHasTakenIsNoFurtherToken) {
  AddedToken line;
  line.id = 7;
  line.content = "\n";
  line.lstrip = line.rstrip = true;
  const TokenFinder finder({&line}, {line.content}, false);
  std::vector<std::pair<size_t, size_t>> spans;
  for (const AddedSegment& each : finder.segments("a \n \nb")) {
    spans.emplace_back(each.span.begin, each.span.end);
  }
  EXPECT_EQ(spans, (std::vector<std::pair<size_t, size_t>>{{0, 1}, {1, 5}, {5, 6}}));
}

}  // namespace
}  // namespace accel::added_tokens_test
