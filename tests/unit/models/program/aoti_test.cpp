// Compiled models that are refused; tests/interop/check_compiled.py trains one.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/api/model.h"
#include "tests/unit/build_component.h"
#include "tests/unit/compiled_archive.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::aoti_test {
namespace {

ModelContext two_numbers() {
  ModelContext context;
  context.data = {.input = {2}, .classes = 2};
  return context;
}

/// Without the recipe's line and the place in it.
std::string refusal_of(const CompiledArchive& archive,
                       const ModelContext& context = two_numbers()) {
  const TempFolder folder;
  const std::string path = folder.write("model.zip", archive.bytes());
  const std::string text = complaint<Model>("{type: aoti, file: '" + path + "'}", context);
  const size_t error = text.find("error: ");
  return error == text.npos ? text : text.substr(error + 7, text.find('\n') - error - 7);
}

TEST(AotiTest, FilesThatAreNotForHereAreRefusedBeforeTheirCodeIsLoaded) {
  CompiledArchive damaged, old, foreign;
  damaged.has_code = false;
  old.torch = "1.13.0";
  foreign.cpu = R"("of_a_later_year")";
  EXPECT_EQ(refusal_of(damaged),
            "the file is not a compiled model: the archive has no 'forward.so'");
  EXPECT_EQ(refusal_of(old), "the model was compiled by PyTorch 1.13.0, and this is libtorch " +
                                 std::string(build_info().torch));
  EXPECT_EQ(refusal_of(foreign),
            "the model was compiled for a processor with 'of_a_later_year', "
            "which this one lacks");
}

TEST(AotiTest, FilesThatEveryoneMayChangeAreRefused) {
  const TempFolder folder;
  const std::string path = folder.write("model.zip", CompiledArchive().bytes());
  std::filesystem::permissions(path, std::filesystem::perms::all);
  EXPECT_NE(complaint<Model>("{type: aoti, file: '" + path + "'}", two_numbers())
                .find("'" + path +
                      "' is writable by every user of this machine: code is not loaded from it"),
            std::string::npos);
}

TEST(AotiTest, DataThatItWasNotCompiledForIsRefused) {
  ModelContext five = two_numbers();
  five.data.input = {5};
  EXPECT_EQ(refusal_of({}, five),
            "the program requires [any, 2] of Float for 'x', but a sample of the data is F32 [5]");
}

TEST(AotiTest, CodeThatCannotBeLoadedIsAMessage) {
  const std::string start = "the compiled forward pass fails: Error in dlopen: ";
  EXPECT_EQ(refusal_of({}).substr(0, start.size()), start);
}

}  // namespace
}  // namespace accel::aoti_test
