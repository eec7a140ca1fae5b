// Folders of datasets, on the disk and in an object store.
#include "data/datasets/hub/data_folder.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/datasets/hub/hub_files.h"
#include "tests/unit/data/store/fake_server.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::data_folder_test {
namespace {

using Names = std::vector<std::string>;

const std::string kGolden =
    std::string(std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".") +
    "/tests/unit/data/golden/arrow/";
const std::string kBucket = "http://127.0.0.1:9/b/";

/// A bucket with the files of a folder.
class DataFolderTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectStore> upload(const std::string& folder) {
    std::string listing = "<ListBucketResult>";
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = entry.path().lexically_relative(folder);
      server_.objects[kBucket + name] = file_content(entry.path());
      listing += "<Contents><Key>" + name + "</Key><Size>1</Size><ETag>e</ETag></Contents>";
    }
    server_.objects["http://127.0.0.1:9/b?list-type=2&prefix="] = listing + "</ListBucketResult>";
    StoreContext context = server_.context();
    context.environment = [](const std::string& name) {
      return name == "AWS_ENDPOINT_URL" ? std::optional<std::string>("http://127.0.0.1:9")
                                        : std::nullopt;
    };
    return open_store("s3://b", context);
  }

  TempFolder folder_;
  FakeServer server_;
};

TEST_F(DataFolderTest, NamesAreThoseOfTheDisk) {
  for (const char* name : {"b.csv", "a/x.csv", ".git/y", "a/__old/z.csv", "a/.hidden"}) {
    folder_.write(name, name);
  }
  const auto store = upload(folder_.path());
  const StoreFolder remote(*store);
  const DiskFolder local(folder_.path());
  EXPECT_EQ(local.names(), (Names{"a/x.csv", "b.csv"}));
  EXPECT_EQ(remote.names(), local.names());
  EXPECT_EQ(remote.path(), "s3://b");
  for (const DataFolder* folder :
       {static_cast<const DataFolder*>(&remote), static_cast<const DataFolder*>(&local)}) {
    EXPECT_EQ(folder->text("a/x.csv"), "a/x.csv");
    EXPECT_EQ(folder->text("none"), std::nullopt);
  }
  EXPECT_EQ(complaint([&] { DiskFolder(folder_.path("b.csv")).names(); }),
            "'" + folder_.path("b.csv") + "' is not a folder");
}

TEST_F(DataFolderTest, SavedDatasetsAreThoseOfTheDisk) {
  for (const std::string name : {"saved", "selected", "splits", "hub"}) {
    const auto store = upload(kGolden + name);
    const StoreFolder remote(*store);
    const DiskFolder local(kGolden + name);
    const bool has_splits = name == "splits";
    EXPECT_EQ(saved_splits(remote), saved_splits(local));
    EXPECT_EQ(saved_splits(remote).size(), has_splits ? 2U : 0U);
    const auto found = saved_files(remote, has_splits ? "train" : "");
    const auto wanted = saved_files(local, has_splits ? "train" : "");
    ASSERT_EQ(found.has_value(), name != "hub");
    if (!found) continue;
    EXPECT_EQ(found->data, wanted->data);
    EXPECT_EQ(found->indices.size(), name == "selected" ? 1U : 0U);
    server_.objects.clear();
  }
  EXPECT_EQ(in_folder("x", {{"a"}, {"b"}}).data, Names{"x/a"});
}

TEST_F(DataFolderTest, AServerWithoutListingsNeedsTheNamesOfFiles) {
  StreamingSection options;
  options.local = {FilePath{folder_.path("c")}};
  const auto refusal = [&](const std::string& url, const HubChoice& choice) {
    return complaint([&] { stream_hub_files({{url}, options, choice}, SavedDatasets::kIgnore); });
  };
  const std::string unnamed =
      "the server of 'https://h/d' lists no files, among which to choose\n"
      "name each with 'files', such as 'files: [\"data/train-{00000..00009}-of-00010.parquet\"]'";
  EXPECT_EQ(refusal("https://h/d", {}), unnamed);
  EXPECT_EQ(refusal("https://h/d", {.config = {}, .split = {}, .files = {"data/*.csv"}}), unnamed);
  EXPECT_EQ(refusal("https://h/d", {.config = {}, .split = {}, .files = {"a-{1..}.csv"}}),
            "'a-{1..}.csv' has no range of numbers in braces\nwrite 'shard-{000000..000099}.csv'");
  EXPECT_EQ(refusal("https://h/d", {.config = {}, .split = {}, .files = {"a.csv", "b.txt"}}),
            "the files of 'https://h/d' are of several kinds: '.csv', '.txt'\n"
            "select them with 'files', such as 'files: [\"**/*.csv\"]'");
  EXPECT_EQ(refusal("https://h/d.csv", {.config = {}, .split = "train", .files = {}}),
            "'https://h/d.csv' is a file, and 'config', 'split' and 'files' choose in a folder\n"
            "leave them out, or name the folder");
}

}  // namespace
}  // namespace accel::data_folder_test
