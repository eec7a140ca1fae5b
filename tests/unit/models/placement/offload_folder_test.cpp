// Accelerate's offload folder: what is written, read and refused.
#include "models/placement/offload_folder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "core/base/error.h"
#include "core/base/files.h"
#include "formats/tensors/safetensors.h"
#include "kernels/memory/deferred_init.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

class OffloadFolderTest : public ::testing::Test {
 protected:
  OffloadFolderTest() { fs::create_directories(base_); }
  ~OffloadFolderTest() override { fs::remove_all(base_); }

  static std::vector<Parameter> weights(double first = 0) {
    const at::Tensor matrix = at::arange(first, first + 9, at::kFloat).view({3, 3}).clone();
    const at::Tensor vector = at::arange(first, first + 2, at::kFloat).to(at::kBFloat16);
    return {{"a.weight", matrix}, {"a.bias", vector}};
  }
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories(path_);
    std::ofstream(path_ + "/" + name, std::ios::binary) << content;
  }
  std::string content(const std::string& name) const {
    std::ifstream in(path_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// What adopt() or the constructor throws.
  std::string error_of(const std::vector<Parameter>& wanted) const {
    try {
      OffloadFolder(path_).adopt(wanted);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  std::string base_ = testing::TempDir() + "accel-offload-" + std::to_string(::getpid());
  std::string path_ = base_ + "/deep/folder";
};

constexpr auto kIndexText = R"({
  "a.weight": {
    "dtype": "float32",
    "shape": [
      3,
      3
    ]
  },
  "a.bias": {
    "dtype": "bfloat16",
    "shape": [
      2
    ]
  }
})";

TEST_F(OffloadFolderTest, WritesTheFilesOfAccelerate) {
  const std::vector<Parameter> before = weights();
  OffloadFolder folder(path_);
  EXPECT_TRUE(folder.is_new());
  const std::vector<Parameter> given = weights();
  folder.adopt(given);
  EXPECT_EQ(content("index.json"), kIndexText);
  EXPECT_EQ(content("a.weight.dat").size(), 36U);
  EXPECT_EQ(content("a.bias.dat"), std::string("\0\0\x80\x3f", 4));
  EXPECT_TRUE(at::equal(given[0].local, before[0].local));
}

TEST_F(OffloadFolderTest, HasATiedWeightUnderBothNames) {
  OffloadFolder(path_).adopt(weights(), {"head.weight", "a.weight"});
  EXPECT_EQ(content("head.weight.dat"), content("a.weight.dat"));
  EXPECT_NE(content("index.json").find("\"head.weight\""), std::string::npos);
  fs::remove_all(path_);
  OffloadFolder(path_).adopt(weights(), {"head.weight", "other"});
  EXPECT_EQ(content("index.json"), kIndexText);
}

TEST_F(OffloadFolderTest, ReadsWhatItHasWritten) {
  OffloadFolder(path_).adopt(weights());
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_exec);
  OffloadFolder folder(path_);
  EXPECT_FALSE(folder.is_new());
  const std::vector<Parameter> given = weights();
  const void* const before = given[0].local.const_data_ptr();
  folder.adopt(given);
  EXPECT_NE(given[0].local.const_data_ptr(), before);
  EXPECT_TRUE(at::equal(given[0].local, weights()[0].local));
}

TEST_F(OffloadFolderTest, ReadsSafetensorsThatAnEntryNames) {
  const std::vector<Parameter> given = weights();
  const at::Tensor plain = weights()[0].local;
  const std::string file = base_ + "/model.safetensors";
  write_file_atomically(file, [&](const ByteSink& sink) {
    write_safetensors({{"first", Array(DType::kF32, {3, 3},
                                       static_cast<const std::byte*>(plain.const_data_ptr()), {})}},
                      sink);
  });
  const auto index = [&](const std::string& name) {
    return R"({"a.weight": {"safetensors_file": ")" + file + R"(", "weight_name": ")" + name +
           R"(", "dtype": "float32"}})";
  };
  write("index.json", index("first"));
  OffloadFolder(path_).adopt({given[0]});
  EXPECT_TRUE(at::equal(given[0].local, plain));
  write("index.json", index("second"));
  EXPECT_EQ(error_of({given[0]}), "'" + file +
                                      "' has no 'second' of the type in the index of the offload "
                                      "folder '" +
                                      path_ + "'");
  std::ofstream(file) << "short";
  EXPECT_TRUE(error_of({given[0]}).starts_with("cannot read the weights '" + file + "': "));
}

TEST_F(OffloadFolderTest, GivesDeferredWeightsNoMemory) {
  constexpr int64_t kSide = 64;
  const auto make = [] {
    const DeferredInit scope;
    at::Tensor out = at::empty({kSide, kSide}, at::kFloat);
    write_rows(out, [](const at::Tensor& to, int64_t first) { to.fill_(1.0 + 0.0 * first); });
    return out;
  };
  const at::Tensor written = make();
  OffloadFolder(path_).adopt({{"w", written}});
  EXPECT_EQ(written[3][5].item().toDouble(), 1);
  const at::Tensor read = make();
  ASSERT_TRUE(is_deferred(read));
  OffloadFolder(path_).adopt({{"w", read}});
  EXPECT_FALSE(is_deferred(read));
  EXPECT_EQ(read[3][5].item().toDouble(), 1);
}

TEST_F(OffloadFolderTest, RefusesOtherFolders) {
  write("notes.txt", "mine");
  EXPECT_EQ(error_of(weights()),
            "'--offload' is '" + path_ + "', which has no index.json and is not empty");
  for (const char* const text : {"[", "[1]", R"({"a": 1})", R"({"a": {"shape": "x"}})"}) {
    write("index.json", text);
    EXPECT_EQ(error_of(weights()), "'" + path_ + "/index.json' is no index of offloaded weights")
        << text;
  }
  fs::remove_all(path_);
  OffloadFolder(path_).adopt(weights());
  EXPECT_EQ(error_of({{"b", weights()[0].local}}), "the offload folder '" + path_ + "' has no 'b'");
  EXPECT_EQ(
      error_of({{"a.weight", weights()[0].local.view({9})}}),
      "'a.weight' of the offload folder '" + path_ + "' is [3, 3] of float32, not [9] of float32");
  EXPECT_EQ(
      error_of({{"a.bias", weights()[1].local.to(at::kHalf)}}),
      "'a.bias' of the offload folder '" + path_ + "' is [2] of bfloat16, not [2] of float16");
  EXPECT_EQ(error_of(weights(1)),
            "'a.weight' of the offload folder '" + path_ + "' has other values than the model");
  EXPECT_EQ(error_of({{"a.weight", weights()[0].local.t().contiguous()}}),
            "'a.weight' of the offload folder '" + path_ + "' has other values than the model");
  EXPECT_EQ(error_of({{"a.weight", weights()[0].local.to(at::kComplexFloat)}}).substr(0, 22),
            "'--offload' does not s");
  write("a.bias.dat", "abc");
  EXPECT_EQ(error_of(weights()), "'" + path_ + "/a.bias.dat' has 3 bytes, not 4");
}

}  // namespace
}  // namespace accel
