// Reads by blocks and of whole objects, ahead of their use.
#include "data/store/streamed_objects.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "tests/unit/data/store/fake_server.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::streamed_objects_test {
namespace {

constexpr int64_t kBlock = StreamedObjects::kBlockBytes;

class StreamedObjectsTest : public testing::Test {
 protected:
  StreamedObjectsTest() {
    for (const char* name : {"a", "b"}) {
      std::string& object = server_.objects[std::string("https://h/d/") + name];
      for (int64_t i = 0; i < 3 * kBlock + 10; ++i) object += static_cast<char>(i * 7 + name[0]);
    }
    server_.objects["https://h/d/empty"] = "";
  }

  std::unique_ptr<StreamedObjects> open(int64_t limit = 64 * kBlock) {
    auto out = std::make_unique<StreamedObjects>(
        open_store("https://h/d", server_.context()),
        std::make_unique<ObjectCache>(folder_.path("c"), limit), 4);
    out->add({"a", "b", "empty"});
    server_.take_log();
    return out;
  }
  void wait_for_requests(size_t count) {
    for (int i = 0; i < 2000 && requests_ < count; ++i) {
      requests_ += server_.take_log().size();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  TempFolder folder_;
  FakeServer server_;
  size_t requests_ = 0;
};

TEST_F(StreamedObjectsTest, BlocksThatFitStayMapped) {
  const auto objects = open();
  std::string part(20, ' ');
  const auto read = [&](size_t object, int64_t first) {
    objects->read(object, first, std::as_writable_bytes(std::span(part)));
    return part;
  };
  EXPECT_FALSE(objects->is_at_hand());
  for (size_t object = 0; object < 2; ++object) {
    for (int64_t block = 0; block < 4; ++block) read(object, block * kBlock - 10 * (block / 3));
  }
  EXPECT_TRUE(objects->is_at_hand());
  std::filesystem::remove_all(folder_.path("c"));
  server_.objects.clear();
  EXPECT_EQ(read(1, kBlock - 5), read(1, kBlock - 5));
  EXPECT_EQ(part[0], static_cast<char>((kBlock - 5) * 7 + 'b'));
  EXPECT_EQ(part[19], static_cast<char>((kBlock + 14) * 7 + 'b'));
}

TEST_F(StreamedObjectsTest, ReadsAcrossBlocks) {
  const auto objects = open();
  EXPECT_EQ(objects->total_bytes(), 2 * (3 * kBlock + 10));
  std::string part(20, ' ');
  objects->read(1, kBlock - 5, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, server_.objects["https://h/d/b"].substr(kBlock - 5, 20));
  EXPECT_EQ(server_.take_log().size(), 2U);
  objects->read(1, 2, std::as_writable_bytes(std::span(part)));
  objects->read(1, 3 * kBlock - 5, std::as_writable_bytes(std::span(part)).first(15));
  EXPECT_EQ(part.substr(0, 15), server_.objects["https://h/d/b"].substr(3 * kBlock - 5));
  EXPECT_EQ(server_.take_log().size(), 2U);
  EXPECT_EQ(as_text(objects->map(0).view), server_.objects["https://h/d/a"]);
  EXPECT_TRUE(objects->map(2).view.empty());
}

TEST_F(StreamedObjectsTest, FetchesAnnouncedPartsAheadOnce) {
  const auto objects = open();
  std::vector<ObjectPart> parts;
  objects->add_parts(0, {kBlock - 5, kBlock + 20}, parts);
  ASSERT_EQ(parts.size(), 3U);
  objects->add_parts(0, {2 * kBlock + 1, 3}, parts);
  ASSERT_EQ(parts.size(), 3U);
  objects->read_ahead(parts);
  objects->read_ahead(parts);
  wait_for_requests(3);
  std::string part(20, ' ');
  objects->read(0, 0, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(requests_ + server_.take_log().size(), 3U);
}

TEST_F(StreamedObjectsTest, StopsAheadAtItsShareOfTheCache) {
  const auto objects = open(8 * kBlock);  // two blocks ahead
  std::vector<ObjectPart> parts;
  objects->add_parts(0, {0, 3 * kBlock}, parts);
  objects->add_parts(1, {0, 3 * kBlock}, parts);
  objects->read_ahead(parts);
  wait_for_requests(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(requests_ + server_.take_log().size(), 2U);
  std::string part(1, ' ');
  for (size_t i = 0; i < parts.size(); ++i) {
    objects->read(parts[i].object, parts[i].range.first, std::as_writable_bytes(std::span(part)));
  }
  wait_for_requests(6);
  EXPECT_EQ(requests_ + server_.take_log().size(), 6U);
}

TEST_F(StreamedObjectsTest, ForgottenPartsAreNotFetched) {
  const auto objects = open(8 * kBlock);
  std::vector<ObjectPart> parts;
  objects->add_parts(0, {0, 3 * kBlock}, parts);
  objects->read_ahead(parts);
  wait_for_requests(2);
  objects->forget_ahead();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(requests_ + server_.take_log().size(), 2U);
}

/// Of a request in the server's log.
int64_t bytes_of_request(const std::string& request) {
  const size_t space = request.find(' '), dash = request.find('-', space);
  return std::stoll(request.substr(dash + 1)) - std::stoll(request.substr(space)) + 1;
}

TEST_F(StreamedObjectsTest, BeyondTheCacheReadsWithoutLocalityAreFetchedAlone) {
  constexpr int64_t kBytes = 1000, kReads = 600, kObject = 3 * kBlock + 10;
  const auto objects = open(4 * kBlock);  // three blocks with their checksums
  objects->read_singly();
  EXPECT_EQ(objects->ahead_bytes(), kBlock);
  std::vector<ObjectPart> parts;
  for (int64_t i = 0; i < kReads; ++i) {
    const int64_t first = i * 7919 * 331 % (kObject - kBytes);
    objects->add_parts(static_cast<size_t>(i % 2), {first, kBytes}, parts);
  }
  ASSERT_EQ(parts.size(), static_cast<size_t>(kReads));
  objects->read_ahead(parts);
  std::string part(kBytes, ' ');
  for (const ObjectPart& each : parts) {
    objects->read(each.object, each.range.first, std::as_writable_bytes(std::span(part)));
    const std::string& whole =
        server_.objects[each.object == 0 ? "https://h/d/a" : "https://h/d/b"];
    ASSERT_EQ(part, whole.substr(static_cast<size_t>(each.range.first), kBytes));
  }
  int64_t blocks = 0, singles = 0;
  for (const std::string& request : server_.take_log()) {
    ++(bytes_of_request(request) == kBytes ? singles : blocks);
  }
  EXPECT_EQ(blocks, 3);
  EXPECT_GT(singles, kReads / 3);
  EXPECT_LT(singles, kReads * 2 / 3);
}

TEST_F(StreamedObjectsTest, DataThatFitTheCacheAreFetchedInBlocks) {
  const auto objects = open();
  objects->read_singly();
  std::string part(1, ' ');
  objects->read(0, 7, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(server_.take_log(), std::vector<std::string>{"https://h/d/a 0-1048575"});
}

TEST_F(StreamedObjectsTest, CachedBlocksAreNotFetchedAheadAgain) {
  const auto objects = open();
  std::vector<ObjectPart> parts;
  objects->add_parts(0, {0, kBlock}, parts);
  std::string part(1, ' ');
  objects->read(0, 0, std::as_writable_bytes(std::span(part)));
  std::filesystem::remove_all(folder_.path("c"));
  std::filesystem::create_directory(folder_.path("c"));
  server_.take_log();
  objects->read_ahead(parts);
  objects->read(0, 5, std::as_writable_bytes(std::span(part)));  // still mapped
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(server_.take_log().empty());
}

TEST_F(StreamedObjectsTest, AnErrorAheadIsThatOfTheRead) {
  const auto objects = open();
  server_.set_mishaps("https://h/d/a", std::deque<Mishap>(100, {.etag = "\"v2\""}));
  objects->read_ahead({objects->whole(0)});
  wait_for_requests(1);
  EXPECT_EQ(complaint([&] { objects->map(0); }).substr(0, 64),
            "'https://h/d/a' changed while it was read: its version was \"v1\" ");
  objects->forget_ahead();
  server_.set_mishaps("https://h/d/a", {});
  EXPECT_EQ(as_text(objects->map(0).view), server_.objects["https://h/d/a"]);
}

TEST_F(StreamedObjectsTest, ANewVersionIsAnotherEntry) {
  const auto objects = open();
  EXPECT_EQ(objects->identity(0), std::string("a\0", 2) + "3145738" + std::string("\0\"v1\"", 5));
  objects->map(0);
  EXPECT_EQ(complaint([&] { open()->add(std::vector<std::string>{"x"}); }),
            "'https://h/d/x' does not exist");
  EXPECT_EQ(read_object_text(objects->store(), "empty", 10), "");
  EXPECT_EQ(complaint([&] { read_object_text(objects->store(), "a", 10); }),
            "'https://h/d/a' has 3145738 bytes, more than 10\ncheck 'path'");
  EXPECT_EQ(complaint([&] { read_object_text(objects->store(), "x", 10); }),
            "'https://h/d/x' does not exist\ncheck 'path'");
}

}  // namespace
}  // namespace accel::streamed_objects_test
