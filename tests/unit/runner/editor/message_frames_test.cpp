#include "runner/editor/language_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"

namespace accel::message_frames_test {
namespace {

/// A reader of a text that arrives in pieces of `piece` bytes.
FrameReader reader_of(std::string text, size_t piece) {
  return FrameReader(
      [text = std::move(text), piece, at = size_t{0}](char* to, size_t size) mutable {
        const size_t count = std::min({size, piece, text.size() - at});
        std::copy_n(text.data() + at, count, to);
        at += count;
        return count;
      });
}

class FramePieceTest : public testing::TestWithParam<size_t> {};

TEST_P(FramePieceTest, MessagesComeWholeHoweverTheyArrive) {
  FrameReader reader = reader_of(framed("{}") + "content-type: x\r\nCONTENT-LENGTH:  3\r\n\r\nabc" +
                                     framed("") + framed("last"),
                                 GetParam());
  for (const char* body : {"{}", "abc", "", "last"}) {
    const auto frame = reader.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->body, body);
    EXPECT_FALSE(frame->too_large);
  }
  EXPECT_FALSE(reader.next());
}

INSTANTIATE_TEST_SUITE_P(MessageFrames, FramePieceTest, testing::Values(1, 2, 7, 100000));

TEST(MessageFramesTest, WhatIsTooLargeIsPassedOver) {
  FrameReader reader =
      reader_of(framed(std::string(kMaxMessageBytes + 1, 'x')) + framed("next"), 1 << 20);
  auto frame = reader.next();
  ASSERT_TRUE(frame);
  EXPECT_TRUE(frame->too_large);
  EXPECT_EQ(frame->body, "");
  frame = reader.next();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->body, "next");
  EXPECT_FALSE(frame->too_large);
}

TEST(MessageFramesTest, AMessageThatEndsEarlyIsNone) {
  for (const char* text : {"", "Content-Length: 5\r\n", "Content-Length: 5\r\n\r\nabcd"}) {
    FrameReader reader = reader_of(text, 3);
    EXPECT_FALSE(reader.next()) << text;
  }
}

TEST(MessageFramesTest, WithoutALengthThereIsNoNextMessage) {
  const std::pair<std::string, const char*> cases[] = {
      {"Content-Type: x\r\n\r\n", "a header without 'Content-Length'"},
      {"Content-Length: x\r\n\r\n", "'Content-Length: x'"},
      {"Content-Length: 5x\r\n\r\n", "'Content-Length: 5x'"},
      {"Content-Length:\r\n\r\n", "'Content-Length:'"},
      {"Content-Length: -5\r\n\r\n", "'Content-Length: -5'"},
      {"Content-Length: 99999999999999999999\r\n\r\n", "'Content-Length: 99999999999999999999'"},
      {"{\"jsonrpc\"}\r\n", "'{\"jsonrpc\"}'"},
      {"\r\n", "''"},
      {std::string(5000, 'a'), "a line without an end"},
      {std::string("a: b\r\n") + std::string(3000, 'a') + ":\r\n" + std::string(3000, 'a') +
           ":\r\n",
       "too long a header"},
  };
  for (const auto& [text, found] : cases) {
    FrameReader reader = reader_of(text, 1000);
    try {
      reader.next();
      ADD_FAILURE() << found;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), std::string(found) + ", expected the header of a message");
      EXPECT_EQ(error.hint(), "'accel-run lsp' is started by editors: see docs/editors.md");
    }
  }
}

}  // namespace
}  // namespace accel::message_frames_test
