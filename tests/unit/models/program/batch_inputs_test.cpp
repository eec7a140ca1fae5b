// Inputs of programs that no batch of the data fits.
#include "models/program/batch_inputs.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"

namespace accel::batch_inputs_test {
namespace {

constexpr Pt2Size kAnyRows = {1, 64};

DataShape six_tokens() {
  DataShape data;
  data.input = {6};
  data.input_type = DType::kI64;
  data.vocab = 7;
  data.padding = Padding{};
  return data;
}

TEST(BatchInputsTest, ThePartOfALaterInputMustBeKnown) {
  const std::vector<ProgramInput> wanted = {{"ids", at::kLong, {}}, {"places", at::kLong, {}}};
  EXPECT_EQ(complaint([&] { parts_for(wanted, {}); }),
            "the program has the input 'places', to which no batch part is assigned\n"
            "assign it in 'inputs', such as {places: mask}");
  EXPECT_EQ(parts_for(wanted, {{"places", BatchPart::kLengths}}),
            (std::vector{BatchPart::kInputs, BatchPart::kLengths}));
}

TEST(BatchInputsTest, FixedSizesAreRefused) {
  const std::pair<std::vector<Pt2Size>, const char*> cases[] = {
      {{kAnyRows, {1, 6}}, ""},
      {{}, "the program's input 'x' is a scalar, but batches are tensors"},
      {{{4, 4}, {1, 6}},
       "the program requires batches of exactly 4 for 'x', and the last one of an epoch may be "
       "shorter\n"
       "export it for any batch, as 'tools/export_model.py' does"},
      {{kAnyRows, {6, 6}},
       "the program requires sequences of exactly 6 for 'x', but lengths in the data vary\n"
       "export it for any length, or pad the data to one"},
  };
  for (const auto& [sizes, message] : cases) {
    const ProgramInput input{"x", at::kLong, sizes};
    EXPECT_EQ(complaint([&] { check_program_input(input, BatchPart::kInputs, six_tokens()); }),
              message);
  }
}

}  // namespace
}  // namespace accel::batch_inputs_test
