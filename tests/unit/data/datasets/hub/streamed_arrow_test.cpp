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

  std::shared_ptr<StreamedObjects> open(const std::vector<std::string>& names) {
    auto out = std::make_shared<StreamedObjects>(
        open_store("https://h/d", server_.context()),
        std::make_unique<ObjectCache>(folder_.path("c"), int64_t{64} << 20), 2);
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
  const ArrowRows streamed(open({"a", "b", "a"}));
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

TEST_F(StreamedArrowTest, ErrorsNameTheObject) {
  const std::string whole = file_content(kGolden + "plain.parquet");
  upload("a", whole);
  upload("torn", whole.substr(0, whole.size() - 20));
  upload("empty", "");
  for (const std::string name : {"torn", "empty"}) {
    EXPECT_TRUE(complaint([&] {
                  all_rows(ArrowRows(open({name})));
                }).starts_with("'https://h/d/" + name + "' cannot be read: "))
        << name;
  }
  const auto objects = open({"a"});
  server_.set_mishaps("https://h/d/a", std::deque<Mishap>(100, {.etag = "\"v2\""}));
  try {
    all_rows(ArrowRows(objects));
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
