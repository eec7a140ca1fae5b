#include "formats/block_log.h"

#include <gtest/gtest.h>

#include <string>

namespace accel::block_log_test {
namespace {

/// Fragment type, length and data of the frame at `at`.
struct Frame {
  int part;
  size_t length;
};

Frame frame_at(const std::string& bytes, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<uint8_t>(bytes[at + i]));
  };
  return {static_cast<int>(byte(6)), byte(4) | byte(5) << 8};
}

TEST(BlockLogTest, AShortRecordIsOneFrame) {
  // zlib.crc32(b"\x01abc") is 0x539d20a9
  EXPECT_EQ(block_log_frames("abc", 7), std::string("\xa9\x20\x9d\x53\x03\x00\x01"
                                                    "abc",
                                                    10));
}

TEST(BlockLogTest, ALongRecordIsCutAtBlockEnds) {
  const std::string record(70000, 'x');
  const std::string bytes = block_log_frames(record, 7);
  constexpr size_t kFirst = 32768 - 7 - 7, kMiddle = 32768 - 7;
  EXPECT_EQ(frame_at(bytes, 0).part, 2);
  EXPECT_EQ(frame_at(bytes, 0).length, kFirst);
  EXPECT_EQ(frame_at(bytes, kFirst + 7).part, 3);
  EXPECT_EQ(frame_at(bytes, kFirst + 7).length, kMiddle);
  EXPECT_EQ(frame_at(bytes, kFirst + kMiddle + 14).part, 4);
  EXPECT_EQ(frame_at(bytes, kFirst + kMiddle + 14).length, 70000 - kFirst - kMiddle);
  EXPECT_EQ(bytes.size(), record.size() + 3 * 7);
}

TEST(BlockLogTest, ATailTooShortForAHeadIsFilledWithZeros) {
  const std::string bytes = block_log_frames("abc", 32768 - 6);
  EXPECT_EQ(bytes.substr(0, 6), std::string(6, '\0'));
  EXPECT_EQ(bytes.substr(6), block_log_frames("abc", 0));
}

TEST(BlockLogTest, ATailOfOneHeadTakesAnEmptyFirstPart) {
  const std::string bytes = block_log_frames("abc", 32768 - 7);
  EXPECT_EQ(frame_at(bytes, 0).part, 2);
  EXPECT_EQ(frame_at(bytes, 0).length, 0u);
  EXPECT_EQ(frame_at(bytes, 7).part, 4);
  EXPECT_EQ(bytes.substr(14), "abc");
}

TEST(BlockLogTest, AnEmptyRecordIsAFrameToo) {
  EXPECT_EQ(block_log_frames("", 0).size(), 7u);
}

}  // namespace
}  // namespace accel::block_log_test
