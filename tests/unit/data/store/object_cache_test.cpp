// The cache of objects: its limit, damage, and processes that share it or are killed.
#include "data/store/object_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::object_cache_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

class ObjectCacheTest : public testing::Test {
 protected:
  CacheEntry get(ObjectCache& cache, const std::string& key, int64_t bytes = 100) {
    return cache.get(key, bytes, "s3://b/" + key, [&](const ByteSink& write) {
      ++fetches_;
      write(bytes_of(std::string(static_cast<size_t>(bytes), key.front())));
    });
  }
  int64_t disk_bytes() const {
    int64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path("c"))) {
      if (entry.path().filename() != "size") sum += static_cast<int64_t>(entry.file_size());
    }
    return sum;
  }
  /// The bytes of one moment, beside threads that fetch: the sum changes under the lock of the size
  /// only, and an entry that is published during the listing is one file.
  int64_t locked_disk_bytes() const {
    const OwnedFd size = open_fd(folder_.path("c/size"), O_RDWR | O_CREAT);
    EXPECT_EQ(::flock(size.get(), LOCK_EX), 0);
    std::map<ino_t, int64_t> files;
    for (const auto& entry : fs::directory_iterator(folder_.path("c"))) {
      struct stat status = {};
      if (entry.path().filename() != "size" && ::stat(entry.path().c_str(), &status) == 0) {
        files[status.st_ino] = status.st_size;
      }
    }
    int64_t sum = 0;
    for (const auto& [file, bytes] : files) sum += bytes;
    return sum;
  }
  /// What the fetch of a new entry throws, with "F" for the folder of the cache.
  std::string refusal(ObjectCache& cache, const std::string& key, int64_t bytes) {
    std::string out = complaint([&] { get(cache, key, bytes); });
    const std::string folder = folder_.path("c");
    const size_t at = out.find(folder);
    return at == out.npos ? out : out.replace(at, folder.size(), "F");
  }
  void make_old(const std::string& name, int hours) const {
    const fs::path path = folder_.path("c/" + name);
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }

  TempFolder folder_;
  std::atomic<int> fetches_ = 0;
};

TEST_F(ObjectCacheTest, FetchesOnceAndReadsRangesAndMaps) {
  ObjectCache cache(folder_.path("c"), 1000);
  std::string part(3, ' ');
  get(cache, "a").read(97, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "aaa");
  const SharedBytes all = get(cache, "a").map();
  EXPECT_EQ(as_text(all.view), std::string(100, 'a'));
  ObjectCache other(folder_.path("c"), 1000);  // as of another process
  get(other, "a");
  EXPECT_EQ(fetches_, 1);
}

TEST_F(ObjectCacheTest, RemovesWhatWasUsedLeastRecently) {
  ObjectCache cache(folder_.path("c"), 400);
  for (const char* key : {"a", "b", "c"}) get(cache, key);
  make_old("a.object", 1);
  make_old("b.object", 2);
  make_old("c.object", 3);
  get(cache, "c");  // used now
  get(cache, "d");
  EXPECT_LE(disk_bytes(), 400);
  EXPECT_FALSE(fs::exists(folder_.path("c/b.object")));
  EXPECT_TRUE(fs::exists(folder_.path("c/c.object")));
  for (int i = 0; i < 100; ++i) {
    get(cache, "k" + std::to_string(i));
    ASSERT_LE(disk_bytes(), 400);
  }
}

TEST_F(ObjectCacheTest, EntriesInUseStay) {
  ObjectCache cache(folder_.path("c"), 250, milliseconds(40));
  const SharedBytes a = get(cache, "a").map();
  const CacheEntry b = get(cache, "b");
  EXPECT_EQ(refusal(cache, "d", 100),
            "the cache 'F' has no room for 's3://b/d': 216 of its 250 bytes are in use\n"
            "raise 'streaming.cache_limit'");
  EXPECT_EQ(disk_bytes(), 216);
  EXPECT_EQ(refusal(cache, "e", 243),
            "the cache 'F' of at most 250 bytes cannot hold the 251 bytes of 's3://b/e'\n"
            "raise 'streaming.cache_limit'");
}

TEST_F(ObjectCacheTest, IfThereIsRoomEntriesOfThisRunStay) {
  {
    ObjectCache earlier(folder_.path("c"), 350);
    get(earlier, "a");
    get(earlier, "b");
  }
  make_old("a.object", 2);
  make_old("b.object", 1);
  ObjectCache cache(folder_.path("c"), 350);  // three entries
  const auto has_room = [&](const std::string& key) {
    return cache
        .get_if_room(key, 100, "s3://b/" + key,
                     [&](const ByteSink& write) {
                       ++fetches_;
                       write(bytes_of(std::string(100, key.front())));
                     })
        .has_value();
  };
  EXPECT_TRUE(has_room("a"));  // used now
  EXPECT_TRUE(has_room("c"));
  EXPECT_TRUE(has_room("d"));  // in place of b
  EXPECT_FALSE(fs::exists(folder_.path("c/b.object")));
  EXPECT_FALSE(has_room("e"));
  EXPECT_FALSE(has_room("b"));
  EXPECT_TRUE(has_room("a") && has_room("c") && has_room("d"));
  EXPECT_EQ(fetches_, 4);
  EXPECT_EQ(disk_bytes(), 324);
}

TEST_F(ObjectCacheTest, WaitsForRoom) {
  ObjectCache cache(folder_.path("c"), 250);
  SharedBytes a = get(cache, "a").map();
  const CacheEntry b = get(cache, "b");
  std::jthread release([&] {
    std::this_thread::sleep_for(milliseconds(50));
    a = {};
  });
  get(cache, "d");
  EXPECT_LE(disk_bytes(), 250);
}

TEST_F(ObjectCacheTest, DamagedEntriesAreFetchedAgain) {
  { ObjectCache(folder_.path("c"), 1000); }
  for (const std::string& damage : {std::string("short"), std::string(108, 'x'), std::string()}) {
    folder_.write("c/a.object", damage);
    ObjectCache cache(folder_.path("c"), 1000);
    testing::internal::CaptureStderr();
    const SharedBytes all = get(cache, "a").map();
    EXPECT_EQ(as_text(all.view), std::string(100, 'a'));
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "warning: '" + folder_.path("c/a.object") +
                  "' in the cache is damaged; it is fetched again\n");
  }
}

TEST_F(ObjectCacheTest, AFailedFetchLeavesNothing) {
  ObjectCache cache(folder_.path("c"), 250);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(complaint([&] {
                cache.get("a", 100, "s3://b/a", [](const ByteSink& write) {
                  write(bytes_of("begin"));
                  throw IoError("broken");
                });
              }),
              "broken");
    EXPECT_EQ(disk_bytes(), 0);
  }
  get(cache, "a");
  get(cache, "b");
  EXPECT_EQ(disk_bytes(), 216);
}

TEST_F(ObjectCacheTest, DraftsOfKilledProcessesMakeRoom) {
  { ObjectCache(folder_.path("c"), 250); }
  folder_.write("c/z.object.incomplete", std::string(200, 'z'));
  folder_.write("c/y.object", std::string(40, 'y'));
  ObjectCache cache(folder_.path("c"), 250);
  get(cache, "a");
  EXPECT_FALSE(fs::exists(folder_.path("c/z.object.incomplete")));
  EXPECT_LE(disk_bytes(), 250);
}

TEST_F(ObjectCacheTest, OneOfManyThreadsFetches) {
  ObjectCache first(folder_.path("c"), 4000), second(folder_.path("c"), 4000);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 10; ++k) {
        std::string read(100, ' ');
        const std::string key(1, static_cast<char>('a' + (i + k) % 10));
        get(i % 2 == 0 ? first : second, key).read(0, std::as_writable_bytes(std::span(read)));
        EXPECT_EQ(read, std::string(100, key.front()));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(fetches_, 10);
}

TEST_F(ObjectCacheTest, AnEntryInUseDelaysNobodyWhoWaitedForItsFetch) {
  ObjectCache cache(folder_.path("c"), 10000);
  std::atomic<bool> waits = false;
  std::jthread second;
  const CacheEntry first = cache.get("k", 100, "s3://b/k", [&](const ByteSink& write) {
    second = std::jthread([&] {
      waits = true;
      get(cache, "k");
    });
    while (!waits) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    write(bytes_of(std::string(100, 'k')));
  });
  second.join();
  EXPECT_EQ(fetches_, 0);
}

TEST_F(ObjectCacheTest, TheLimitHoldsAmongThreads) {
  ObjectCache first(folder_.path("c"), 700), second(folder_.path("c"), 700);
  std::atomic<bool> done = false;
  std::atomic<int64_t> most = 0;
  std::jthread watch([&] {
    while (!done) most = std::max(most.load(), locked_disk_bytes());
  });
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < 50; ++k) {
          get(i % 2 == 0 ? first : second, std::to_string(i * 7 + k));
        }
      });
    }
  }
  done = true;
  watch.join();
  EXPECT_LE(most, 700);
  EXPECT_GE(most, 500);
}

}  // namespace
}  // namespace accel::object_cache_test
