// Replacement of mapped parts.
#include "data/store/mapped_parts.h"

#include <gtest/gtest.h>

namespace accel::mapped_parts_test {
namespace {

ObjectPart part(int64_t number) {
  return {0, {number * 10, 10}};
}

SharedBytes content() {
  return {{}, std::make_shared<int>(0)};
}

bool has(MappedParts& parts, int64_t number) {
  return parts.find(part(number)).owner != nullptr;
}

TEST(MappedPartsTest, PartsThatWereReadStay) {
  MappedParts parts(1000, 2);
  parts.add(part(0), content());
  parts.add(part(1), content());
  EXPECT_TRUE(has(parts, 0));
  parts.add(part(2), content());
  EXPECT_TRUE(has(parts, 0));
  EXPECT_FALSE(has(parts, 1));
  EXPECT_TRUE(has(parts, 2));
  parts.add(part(3), content());  // all were read: the oldest goes
  EXPECT_FALSE(has(parts, 0));
  EXPECT_TRUE(has(parts, 2));
  EXPECT_TRUE(has(parts, 3));
  parts.add(part(3), content());
  EXPECT_TRUE(has(parts, 2));
}

TEST(MappedPartsTest, ALimitOnBytesHolds) {
  MappedParts parts(25, 100);
  for (int64_t i = 0; i < 4; ++i) parts.add(part(i), content());
  EXPECT_FALSE(has(parts, 0) || has(parts, 1));
  EXPECT_TRUE(has(parts, 2) && has(parts, 3));
  MappedParts none(5, 100);
  none.add(part(0), content());
  EXPECT_FALSE(has(none, 0));
}

TEST(MappedPartsTest, APartInUseOutlivesItsReplacement) {
  MappedParts parts(10, 1);
  const SharedBytes used = content();
  parts.add(part(0), used);
  parts.add(part(1), content());
  EXPECT_FALSE(has(parts, 0));
  EXPECT_EQ(used.owner.use_count(), 1);
  EXPECT_GE(most_open_files(), 64U);
  EXPECT_LE(most_open_files(), 4096U);
}

}  // namespace
}  // namespace accel::mapped_parts_test
