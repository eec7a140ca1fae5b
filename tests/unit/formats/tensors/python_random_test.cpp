// Generator states after seeding, against Python 3 and NumPy 2.
#include "formats/tensors/python_random.h"

#include <gtest/gtest.h>

#include <span>

#include <zlib.h>

namespace accel::python_random_test {
namespace {

unsigned long crc_of(const MersenneState& words) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(words.data()), sizeof words);
}

TEST(PythonRandomTest, StatesAreThoseOfRandomSeed) {
  const std::pair<uint64_t, unsigned long> expected[] = {
      {0, 4204070223},          {1, 4126251363},          {42, 1643933539},
      {4294967295, 1846365595}, {4294967301, 1316162356}, {18446744073709551615U, 510908824}};
  for (const auto& [seed, crc] : expected) {
    EXPECT_EQ(crc_of(python_random_state(seed)), crc) << seed;
  }
}

TEST(PythonRandomTest, StatesAreThoseOfNumpyRandomSeed) {
  const std::pair<uint32_t, unsigned long> expected[] = {
      {0, 3860473892}, {1, 2679547496}, {42, 3884517279}, {4294967295, 3334249024}};
  for (const auto& [seed, crc] : expected) {
    EXPECT_EQ(crc_of(numpy_random_state(seed)), crc) << seed;
  }
}

}  // namespace
}  // namespace accel::python_random_test
