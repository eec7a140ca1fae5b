#include "formats/tfevents.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "formats/checksum.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::tfevents_test {
namespace {

std::string hex_of(const std::string& bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

TEST(Crc32cTest, KnownAnswers) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(ProtoMessageTest, WireTypes) {
  ProtoMessage message;
  message.varint(1, 300).number(2, 1.0).number(3, 1.0f).bytes(4, "ab").varint(16, 0);
  EXPECT_EQ(hex_of(message.encoded()),
            "08ac02"
            "11000000000000f03f"
            "1d0000803f"
            "22026162"
            "800100");
}

TEST(ProtoMessageTest, NegativeNumbersTakeTenBytes) {
  EXPECT_EQ(hex_of(ProtoMessage().varint(1, static_cast<uint64_t>(-1)).encoded()),
            "08ffffffffffffffffff01");
}

TEST(ProtoMessageTest, TextIsMadeValidUtf8) {
  EXPECT_EQ(ProtoMessage().text(1, "a\xff").encoded(),
            "\x0a\x04"
            "a\xef\xbf\xbd");
}

// Bytes of the same events from Python's tensorboard package.
TEST(TfEventsTest, EventsAreByteForByteThoseOfTensorBoard) {
  EXPECT_EQ(hex_of(tf_version_event(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(hex_of(tf_restart_event(1.5, 101)),
            "0f000000000000006d532b0909000000000000f83f10653a02080101d02fc8");
  TfSummary summary;
  summary.scalar("train/loss", 0.25);
  EXPECT_EQ(hex_of(tf_summary_event(1.5, 7, summary)),
            "200000000000000029eda95009000000000000f83f10072a130a110a0a747261696e2f6c6f737315000080"
            "3ef4985d1a");
}

TEST(TfHistogramTest, CountsInTheBucketsOfPyTorch) {
  const float values[] = {-1.0f, 0.0f, 0.0f, 0.5f, 2.0f};
  const auto histogram = tf_histogram(values);
  ASSERT_TRUE(histogram);
  EXPECT_EQ(histogram->min, -1);
  EXPECT_EQ(histogram->max, 2);
  EXPECT_EQ(histogram->count, 5);
  EXPECT_EQ(histogram->sum, 1.5);
  EXPECT_EQ(histogram->sum_squares, 5.25);
  ASSERT_EQ(histogram->limits.size(), histogram->counts.size());
  EXPECT_EQ(histogram->counts.front(), 0);
  EXPECT_EQ(histogram->counts[1], 1);
  EXPECT_EQ(histogram->counts.back(), 1);
  EXPECT_LE(histogram->limits.front(), -1);
  EXPECT_GT(histogram->limits.back(), 2);
}

TEST(TfHistogramTest, ValuesThatAreNotFiniteAreLeftOut) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float values[] = {std::nanf(""), kInfinity, -kInfinity, 3.0f, 1e30f};
  const auto histogram = tf_histogram(values);
  ASSERT_TRUE(histogram);
  EXPECT_EQ(histogram->count, 1);
  EXPECT_EQ(histogram->max, 3);
  EXPECT_FALSE(tf_histogram(std::span(values).first(3)));
  EXPECT_FALSE(tf_histogram({}));
  TfSummary summary;
  summary.histogram("weights", {});
  EXPECT_TRUE(summary.empty());
}

std::string loss_at(int64_t step) {
  TfSummary summary;
  summary.scalar("train/loss", 0.5);
  summary.text("note", "text");
  return tf_summary_event(1.5, step, summary);
}

/// "8: train/loss note/text_summary" per event that the reader finds in a file with these bytes.
std::vector<std::string> events_in(const std::string& bytes) {
  const TempFolder folder;
  folder.write("events", bytes);
  TfEventReader reader(folder.path("events"));
  std::vector<std::string> found;
  while (const std::optional<TfEvent> event = reader.next()) {
    std::string line = std::to_string(event->step) + (event->restarts ? ": restart" : ":");
    for (const std::string& tag : event->tags) line += ' ' + tag;
    found.push_back(std::move(line));
  }
  return found;
}

TEST(TfEventsTest, AFileIsReadBack) {
  const std::vector<std::string> wanted = {"0:", "9: restart", "9: train/loss note/text_summary",
                                           "-1: train/loss note/text_summary"};
  EXPECT_EQ(events_in(tf_version_event(1.5) + tf_restart_event(1.5, 9) + loss_at(9) + loss_at(-1)),
            wanted);
  EXPECT_FALSE(TfEventReader("/no/such/file").next());
}

TEST(TfEventsTest, ReadingEndsAtTheFirstDamagedRecord) {
  const std::string first = loss_at(1), both = first + loss_at(2);
  for (size_t size = first.size(); size < both.size(); ++size) {
    EXPECT_EQ(events_in(both.substr(0, size)).size(), 1u) << size;
  }
  for (size_t at = first.size(); at < both.size(); ++at) {
    std::string damaged = both;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(events_in(damaged).size(), 1u) << at;
  }
  // A valid frame around an invalid message.
  EXPECT_EQ(events_in(first + tf_record("\x0a\xff") + first).size(), 1u);
}

}  // namespace
}  // namespace accel::tfevents_test
