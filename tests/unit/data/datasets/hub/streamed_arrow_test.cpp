// Parquet files in an object store: the rows of the same files on the disk.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/store/streamed_objects.h"
#include "tests/unit/arrow_library.h"
#include "tests/unit/data/store/fake_server.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::streamed_arrow_test {
namespace {

const std::string kGolden =
    std::string(std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".") +
    "/tests/unit/data/golden/arrow/";
constexpr auto kUrl = "https://h/d/";

class StreamedArrowTest : public testing::Test {
 protected:
  void SetUp() override { open_arrow_library(); }

  std::shared_ptr<StreamedObjects> open(const std::vector<std::string>& names,
                                        int64_t limit = int64_t{64} << 20) {
    auto out = std::make_shared<StreamedObjects>(
        open_store("https://h/d", server_.context()),
        std::make_unique<ObjectCache>(folder_.path("c"), limit), 2);
    out->add(names);
    return out;
  }
  void upload(const std::string& name, const std::string& content) {
    server_.objects[kUrl + name] = content;
  }

  TempFolder folder_;
  FakeServer server_;
};

std::string all_rows(const ArrowRows& rows) {
  const auto reader = rows.open({"text", "label"});
  std::string out;
  for (std::vector<std::string_view> fields; reader->next(fields);) {
    out += text("{} {}\n", fields[0], fields[1]);
  }
  return out;
}

TEST_F(StreamedArrowTest, RowsAreThoseOfTheDisk) {
  upload("a", file_content(kGolden + "plain.parquet"));
  upload("b", file_content(kGolden + "hub/train-00000-of-00002.parquet"));
  const ArrowRows streamed(open({"a", "b", "a"}), ArrowFormat::kParquet);
  const std::string plain = kGolden + "plain.parquet";
  const ArrowRows local({{plain, kGolden + "hub/train-00000-of-00002.parquet", plain}, {}},
                        ArrowFormat::kParquet);
  EXPECT_EQ(all_rows(streamed), all_rows(local));
  EXPECT_EQ(all_rows(streamed), all_rows(local));  // from the cache
  EXPECT_EQ(streamed.columns().size(), local.columns().size());
  EXPECT_EQ(streamed.contents().size(), 3U);
  EXPECT_EQ(streamed.contents()[0].size,
            static_cast<int64_t>(server_.objects["https://h/d/a"].size()));
  EXPECT_EQ(as_text(streamed.contents()[1].bytes).substr(0, 1), "b");
  const auto reader = streamed.open({"text"});
  std::vector<std::string_view> fields;
  reader->next(fields);
  EXPECT_EQ(reader->location(), "https://h/d/a row 0");
}

TEST_F(StreamedArrowTest, ArrowFilesAreMappedFromTheCache) {
  const std::vector<std::string> names = {"data-00000-of-00002.arrow", "data-00001-of-00002.arrow"};
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(kGolden + "saved/" + name);
    upload(name, file_content(paths.back()));
  }
  const ArrowRows streamed(open(names), ArrowFormat::kIpc);
  const ArrowRows local({paths, {}}, ArrowFormat::kIpc);
  EXPECT_EQ(all_rows(streamed), all_rows(local));
  EXPECT_EQ(streamed.columns().size(), local.columns().size());
  EXPECT_EQ(streamed.class_names("label"), local.class_names("label"));
  ASSERT_EQ(streamed.contents().size(), 2U);
  EXPECT_EQ(streamed.contents()[1].size, local.contents()[1].size);
  EXPECT_EQ(as_text(streamed.contents()[0].bytes).substr(0, 25), names[0]);
}

TEST_F(StreamedArrowTest, AnIndicesMappingNeedsAllFilesAtOnce) {
  const std::vector<std::string> names = {"data-00000-of-00002.arrow", "data-00001-of-00002.arrow",
                                          "indices.arrow"};
  ArrowFiles files;
  for (const std::string& name : names) {
    (name == "indices.arrow" ? files.indices : files.data).push_back(kGolden + "selected/" + name);
    upload(name, file_content(kGolden + "selected/" + name));
  }
  EXPECT_EQ(all_rows(ArrowRows(open(names), ArrowFormat::kIpc, 1)),
            all_rows(ArrowRows(files, ArrowFormat::kIpc)));
  EXPECT_EQ(
      complaint([&] { ArrowRows(open(names, 1000), ArrowFormat::kIpc, 1); }),
      "'https://h/d' has an indices mapping, for which its files of 2128 bytes are read at once, "
      "and 'streaming.cache_limit' is 1000\n"
      "raise it, or save the dataset again after flatten_indices()");
}

TEST_F(StreamedArrowTest, ErrorsNameTheObject) {
  const std::string whole = file_content(kGolden + "plain.parquet");
  upload("a", whole);
  upload("torn", whole.substr(0, whole.size() - 20));
  upload("empty", "");
  for (const std::string name : {"torn", "empty"}) {
    EXPECT_TRUE(complaint([&] {
                  all_rows(ArrowRows(open({name}), ArrowFormat::kParquet));
                }).starts_with("'https://h/d/" + name + "' cannot be read: "))
        << name;
  }
  const auto objects = open({"a"});
  server_.set_mishaps("https://h/d/a", std::deque<Mishap>(100, {.etag = "\"v2\""}));
  try {
    all_rows(ArrowRows(objects, ArrowFormat::kParquet));
    FAIL() << "a changed object is read";
  } catch (const DataError&) {
    FAIL() << "the error is one of a single row";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_EQ(std::string(error.what()).substr(0, 51),
              "'https://h/d/a' changed while it was read: its vers");
  }
}

}  // namespace
}  // namespace accel::streamed_arrow_test
