#include "core/recipe/scalar.h"
#include "core/recipe/number_text.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <limits>

namespace accel::scalar_test {
namespace {

template <class T>
std::string shown(const Parsed<T>& parsed) {
  return parsed.hint.empty() ? "?" : "? " + parsed.hint;
}

std::string integer(const std::string& text, bool quoted = false) {
  const Parsed<int64_t> parsed = parse_integer({text, quoted});
  return parsed.value ? std::to_string(*parsed.value) : shown(parsed);
}

std::string number(const std::string& text, bool quoted = false) {
  const Parsed<double> parsed = parse_number({text, quoted});
  return parsed.value ? show_number(*parsed.value) : shown(parsed);
}

std::string truth(const std::string& text, bool quoted = false) {
  const Parsed<bool> parsed = parse_switch({text, quoted});
  return parsed.value ? (*parsed.value ? "true" : "false") : shown(parsed);
}

std::string duration(const std::string& text) {
  const Parsed<Duration> parsed = parse_duration({text, false});
  return parsed.value ? to_string(*parsed.value) : shown(parsed);
}

std::string bytes(const std::string& text) {
  const Parsed<ByteSize> parsed = parse_byte_size({text, false});
  return parsed.value ? std::to_string(parsed.value->bytes) : shown(parsed);
}

struct ScalarCase {
  const char* text;
  const char* result;
};

TEST(ScalarTest, IntegersAreReadWholeOrRefusedWithTheRemedy) {
  const ScalarCase cases[] = {
      {"5", "5"},
      {"-5", "-5"},
      {"+5", "5"},
      {"0", "0"},
      {"-0", "0"},
      {"1_000", "1000"},
      {"1e3", "1000"},
      {"2.5e4", "25000"},
      {"1200e-2", "12"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"9223372036854775808", "? the largest is 9223372036854775807"},
      {"-9223372036854775809", "? the smallest is -9223372036854775808"},
      {"18446744073709551616", "? the largest is 9223372036854775807"},
      {"1e19", "? the largest is 9223372036854775807"},
      {"1e999999999999999999999", "? the largest is 9223372036854775807"},
      {"1e-3", "?"},
      {"5.0", "? write 5"},
      {"5.5", "?"},
      {"010", "? leave out the leading zero: 10"},
      {"-010", "? leave out the leading zero: -10"},
      {"0x10", "? write numbers in decimal: 16"},
      {"0o17", "? write numbers in decimal: 15"},
      {"0b101", "? write numbers in decimal: 5"},
      {"1,000", "? leave out the commas: 1000"},
      {"1__000", "?"},
      {"_1", "?"},
      {"1_", "?"},
      {"", "?"},
      {"-", "?"},
      {"five", "?"},
      {"5k", "?"},
      {"1e", "?"},
      {".", "?"},
      {"nan", "? only finite numbers are allowed"},
      {"-.inf", "? only finite numbers are allowed"},
  };
  for (const ScalarCase& c : cases) EXPECT_EQ(integer(c.text), c.result) << c.text;
  EXPECT_EQ(integer("5", true), "? drop the quotes");
  EXPECT_EQ(integer("five", true), "?");
  EXPECT_EQ(integer(std::string(1000, '9')), "?");
}

TEST(ScalarTest, NumbersAreReadToTheNearestDoubleOrRefused) {
  const ScalarCase cases[] = {
      {"0.1", "0.1"},
      {"1e-3", "0.001"},
      {"1E-3", "0.001"},
      {".5", "0.5"},
      {"5.", "5"},
      {"1_000.5", "1000.5"},
      {"-2e-5", "-2e-5"},
      {"1e+20", "1e20"},
      {"1.7976931348623157e308", "1.7976931348623157e308"},
      {"1e999", "? the largest is about 1.8e308"},
      {"-1e999", "? the largest is about 1.8e308"},
      {"1e-999", "? the smallest above zero is about 2.2e-308"},
      {"nan", "? only finite numbers are allowed"},
      {".NaN", "? only finite numbers are allowed"},
      {"-inf", "? only finite numbers are allowed"},
      {"00.1", "? leave out the leading zero: 0.1"},
      {"0x1p3", "?"},
      {"1.2.3", "?"},
      {"1 2", "?"},
      {"0. 2", "?"},
      {"0.", "0"},
      {"00.", "? leave out the leading zero: 0."},
      {"1d", "?"},
  };
  for (const ScalarCase& c : cases) EXPECT_EQ(number(c.text), c.result) << c.text;
  EXPECT_EQ(number("0.1", true), "? drop the quotes");
}

TEST(ScalarTest, SwitchesAreTrueOrFalseAndNothingElse) {
  const ScalarCase cases[] = {
      {"true", "true"},
      {"false", "false"},
      {"yes", "? write true"},
      {"on", "? write true"},
      {"True", "? write true"},
      {"1", "? write true"},
      {"no", "? write false"},
      {"Off", "? write false"},
      {"0", "? write false"},
      {"ture", "? did you mean 'true'?"},
      {"", "?"},
      {"maybe", "?"},
  };
  for (const ScalarCase& c : cases) EXPECT_EQ(truth(c.text), c.result) << c.text;
  EXPECT_EQ(truth("true", true), "? drop the quotes");
  EXPECT_EQ(truth("no", true), "? write false");
}

TEST(ScalarTest, DurationsCarryTheirUnit) {
  const ScalarCase cases[] = {
      {"500", "500 steps"},
      {"500 steps", "500 steps"},
      {"1 step", "1 step"},
      {"3 epochs", "3 epochs"},
      {"3epochs", "3 epochs"},
      {"0.5 epochs", "0.5 epochs"},
      {"2M tokens", "2000000 tokens"},
      {"1.5k samples", "1500 samples"},
      {"2e9 tokens", "2000000000 tokens"},
      {"3B tokens", "3000000000 tokens"},
      {"90 min", "90 min"},
      {"1.5 h", "90 min"},
      {"2 h", "2 h"},
      {"45 s", "45 s"},
      {"1 d", "24 h"},
      {"5%", "5%"},
      {"6 %", "6%"},
      {"0", "0 steps"},
      {"1.5", "? add a unit: '1.5 epochs', '1.5 h'"},
      {"1.5 steps", "? a number of steps is whole"},
      {"-5 steps", "? it cannot be negative"},
      {"150%", "? the whole run is 100%"},
      {"3 epcohs", "? did you mean 'epochs'?"},
      {"3 Epochs", "? did you mean 'epochs'?"},
      {"1e30 steps", "? the largest is 9007199254740992"},
      {"1e400 h", "?"},
      {"epochs", "?"},
      {"3 bananas", "?"},
      {"", "?"},
      {"010 steps", "? leave out the leading zero: 10"},
  };
  for (const ScalarCase& c : cases) EXPECT_EQ(duration(c.text), c.result) << c.text;
  EXPECT_EQ(to_string(*parse_duration({"3 epochs", true}).value), "3 epochs") << "TOML quotes it";
}

TEST(ScalarTest, ByteSizesAreDecimalOrBinaryByTheirUnit) {
  const ScalarCase cases[] = {
      {"4096", "4096"},
      {"10 MB", "10000000"},
      {"10KB", "10000"},
      {"4 GiB", "4294967296"},
      {"1.5KiB", "1536"},
      {"9223372036854775807", "9223372036854775807"},
      {"1e30 GiB", "? the largest is about 8388607 TiB"},
      {"-1 MB", "? it cannot be negative"},
      {"-1", "? it cannot be negative"},
      {"4 gib", "? did you mean 'GiB'?"},
      {"4 G", "? did you mean 'GB'?"},
      {"lots", "?"},
  };
  for (const ScalarCase& c : cases) EXPECT_EQ(bytes(c.text), c.result) << c.text;
}

TEST(ScalarTest, ShownNumbersAreShortAndReadBackEqual) {
  EXPECT_EQ(show_number(2e-5), "2e-5");
  EXPECT_EQ(show_number(0.1), "0.1");
  EXPECT_EQ(show_number(1e20), "1e20");
  EXPECT_EQ(show_number(2e6), "2000000");
  EXPECT_EQ(show_number(-0.0), "-0");
  EXPECT_EQ(show_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(show_number(std::numeric_limits<double>::quiet_NaN()), "nan");
  for (const double value : {0.1, 1.0 / 3, 1e-5, 123456789.125, DBL_MAX, DBL_MIN, 1e15, 1e16}) {
    EXPECT_EQ(*parse_number({show_number(value), false}).value, value);
  }
}

}  // namespace
}  // namespace accel::scalar_test
