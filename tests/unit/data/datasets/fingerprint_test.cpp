#include "data/datasets/fingerprint.h"

#include <vector>

#include <gtest/gtest.h>

namespace accel::fingerprint_test {
namespace {

TEST(FingerprintTest, BoundariesBetweenTextsCount) {
  EXPECT_NE(Fingerprint().add("ab").add("c").text(), Fingerprint().add("a").add("bc").text());
  EXPECT_EQ(Fingerprint().add("ab").text().size(), 16u);
}

TEST(FingerprintTest, LongContentsAreSampledFromStartToEnd) {
  std::vector<std::byte> content((size_t{16} << 20) + 5000);
  const std::string print = Fingerprint().add_content(content).text();
  content.back() = std::byte{1};
  EXPECT_NE(Fingerprint().add_content(content).text(), print);
  content.back() = std::byte{0};
  content.front() = std::byte{1};
  EXPECT_NE(Fingerprint().add_content(content).text(), print);
  content.front() = std::byte{0};
  EXPECT_EQ(Fingerprint().add_content(content).text(), print);
}

}  // namespace
}  // namespace accel::fingerprint_test
