// Records of several readers.
#include "formats/records/records.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace accel::records_test {
namespace {

class OneRecord final : public RecordReader {
 public:
  bool next(std::vector<std::string_view>& fields) override {
    fields = {"x"};
    return std::exchange(more_, false);
  }
  std::string location() const override { return "here"; }

 private:
  bool more_ = true;
};

TEST(ChainedReaderTest, AFileThatCannotBeOpenedIsNotOneBadRecord) {
  ChainedReader reader(2, [](size_t index) -> std::unique_ptr<RecordReader> {
    if (index == 1) throw DataError("no such column", "look");
    return std::make_unique<OneRecord>();
  });
  std::vector<std::string_view> fields;
  EXPECT_TRUE(reader.next(fields));
  try {
    reader.next(fields);
    FAIL() << "the second file is open";
  } catch (const DataError&) {
    FAIL() << "the error is one of a single record";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_STREQ(error.what(), "no such column");
    EXPECT_EQ(error.hint(), "look");
  }
}

}  // namespace
}  // namespace accel::records_test
