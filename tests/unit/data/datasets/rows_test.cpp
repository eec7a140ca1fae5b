// Rows of arrays in other types.
#include "data/datasets/rows.h"

#include <gtest/gtest.h>

#include <numeric>

namespace accel::rows_test {
namespace {

TEST(RowsTest, EveryByteIsDividedAsOneAloneIs) {
  for (const int64_t count : {1, 7, 31, 256, 300}) {
    Array bytes(DType::kU8, {count});
    const auto from = bytes.mutable_as<uint8_t>();
    std::iota(from.begin(), from.end(), static_cast<uint8_t>(count));
    const Array out = to_unit_range(bytes);
    ASSERT_EQ(out.shape(), bytes.shape());
    for (size_t i = 0; i < from.size(); ++i) {
      volatile float value = from[i];  // divided where the test runs, by itself
      ASSERT_EQ(out.as<float>()[i], value / 255.0F) << count << " " << i;
    }
  }
}

}  // namespace
}  // namespace accel::rows_test
