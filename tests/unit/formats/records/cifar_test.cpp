// Records of CIFAR-10's binary version.
#include "formats/records/cifar.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"

namespace accel::cifar_test {
namespace {

constexpr size_t kPixels = 3072;

TEST(Cifar, RecordsAreALabelAndPlanes) {
  const std::string file =
      '\x03' + std::string(kPixels, 'a') + '\x09' + std::string(kPixels - 1, 'b') + "z";
  const CifarRecords records(shared_bytes(file), "x.bin");
  ASSERT_EQ(records.size(), 2);
  EXPECT_EQ(records.label(0), 3);
  EXPECT_EQ(records.label(1), 9);
  const Array image = records.image(1);
  EXPECT_EQ(image.shape(), (Shape{3, 32, 32}));
  EXPECT_EQ(image.type(), DType::kU8);
  EXPECT_EQ(static_cast<const void*>(image.data()), file.data() + 1 + kPixels + 1);
  EXPECT_EQ(image.as<uint8_t>()[0], 'b');
  EXPECT_EQ(image.as<uint8_t>()[kPixels - 1], 'z');
}

TEST(Cifar, OtherSizesAreRefused) {
  for (const size_t bytes : {size_t{0}, size_t{1}, kPixels, kPixels + 2, 2 * kPixels + 1}) {
    const std::string file(bytes, '\0');
    EXPECT_EQ(complaint([&] { CifarRecords(shared_bytes(file), "x.bin"); }),
              "'x.bin' has " + std::to_string(bytes) +
                  " bytes, not a multiple of the record size 3073\n"
                  "the file is truncated or damaged: copy it again");
  }
}

TEST(Cifar, LabelsAreBelowTen) {
  const std::string good(kPixels + 1, '\0');
  for (const auto& [label, reported] : {std::pair{'\x0a', "10"}, {'\xff', "255"}}) {
    const std::string file = good + label + std::string(kPixels, '\0');
    EXPECT_EQ(complaint([&] { CifarRecords(shared_bytes(file), "x.bin"); }),
              std::string("record 1 of 'x.bin' has the label ") + reported +
                  ", 0 to 9 wanted\n"
                  "the file is damaged, or not the binary version of CIFAR-10");
  }
}

}  // namespace
}  // namespace accel::cifar_test
