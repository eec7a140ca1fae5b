// Folders that DeepSpeed wrote, at each stage of ZeRO on two ranks.
#include "checkpoint/deepspeed_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "checkpoint/accelerate_folder.h"
#include "checkpoint/reader.h"
#include "checkpoint/zero_partitions.h"
#include "core/base/error.h"
#include "core/base/format_error.h"
#include "formats/tensors/torch_file.h"
#include "tests/unit/checkpoint/golden_folder.h"
#include "tests/unit/checkpoint/memory_files.h"

namespace accel::deepspeed_folder_test {
namespace {

/// Of the optimizer's two groups: matrices, then vectors.
const std::vector<std::string> kTrained = {"embed.weight", "fc.weight", "out.weight", "fc.bias",
                                           "norm.weight",  "norm.bias", "out.bias"};

/// Name, type and CRC-32 of every tensor that DeepSpeed's own converter gives.
std::set<std::string> listed(const std::string& name) {
  std::set<std::string> out;
  std::ifstream in(golden_folder(name + ".tsv"));
  for (std::string line; std::getline(in, line);) {
    const size_t type = line.find('\t'), shape = line.find('\t', type + 1);
    out.insert(line.substr(0, shape) + line.substr(line.rfind('\t')));
  }
  return out;
}

std::string line_of(const std::string& name, const at::Tensor& tensor) {
  const char* type = tensor.scalar_type() == at::kBFloat16 ? "\tbfloat16\t" : "\tfloat32\t";
  return name + type + crc_text(tensor);
}

std::set<std::string> lines_of(const TrainState& state) {
  std::set<std::string> out;
  for (const Parameter& weight : state.model) {
    out.insert(line_of("model." + weight.name, weight.local));
  }
  for (const OptimizerState::Group& group : state.optimizer.groups) {
    for (const auto& [parameter, slots] : group.parameters) {
      for (const Parameter& slot : slots) {
        out.insert(line_of("optimizer.state." + parameter + "." + slot.name, slot.local));
      }
    }
  }
  return out;
}

LoadOptions trained() {
  LoadOptions options;
  options.parameters = kTrained;
  return options;
}

TEST(DeepSpeedFolderTest, EveryStageIsReadAsDeepSpeedsConverterReadsIt) {
  DiskFiles files;
  for (const std::string name : {"zero1", "zero2", "zero3"}) {
    const TrainState state = read_accelerate_checkpoint(files, golden_folder(name), trained());
    std::set<std::string> lines = lines_of(state);
    // DeepSpeed's converter leaves out frozen parameters at stage 1.
    if (name == "zero1") {
      EXPECT_EQ(
          std::erase_if(lines, [](const auto& line) { return line.starts_with("model.fro"); }), 2U);
    }
    EXPECT_EQ(lines, listed(name)) << name;
    ASSERT_EQ(state.optimizer.groups.size(), 2U) << name;
    EXPECT_EQ(state.optimizer.groups[0].parameters.size(), 3U);
    EXPECT_EQ(state.optimizer.groups[1].parameters[3].name, "out.bias");
    EXPECT_EQ(state.accelerate->updates, 2) << name;
    EXPECT_EQ(state.accelerate->not_used, std::vector<std::string>{}) << name;
    // Accelerate's folder, and the one inside it that DeepSpeed itself would be given.
    EXPECT_EQ(read_weights(files, golden_folder(name) + "/pytorch_model").tensors.size(), 11U)
        << name;
  }
}

TEST(DeepSpeedFolderTest, TheOptimizerIsLeftOutWhereItIsNotWanted) {
  DiskFiles files;
  LoadOptions options = trained();
  options.without = {"optimizer.bin"};
  const TrainState state = read_accelerate_checkpoint(files, golden_folder("zero3"), options);
  EXPECT_TRUE(state.optimizer.groups.empty());
  EXPECT_EQ(state.model.size(), 11U);
}

/// A golden folder in memory, to damage.
class DeepSpeedFaultTest : public testing::Test {
 protected:
  DeepSpeedFaultTest() {
    copy("zero2", "/two");
    copy("zero3", "/three");
  }

  void copy(const std::string& name, const std::string& folder) {
    files_.make_dirs(folder + "/pytorch_model");
    for (const std::string inner : {"", "/pytorch_model"}) {
      for (const DirEntry& entry : disk_.list(golden_folder(name) + inner)) {
        if (entry.kind != DirEntry::Kind::kFile) continue;
        const std::string path = inner + "/" + entry.name;
        put(folder + path, disk_.read(golden_folder(name) + path).view);
      }
    }
  }

  void put(const std::string& path, ByteSpan bytes) {
    const auto file = files_.create(path);
    file->write(bytes);
    file->close();
  }

  std::string complaint(const std::string& folder) {
    try {
      read_weights(files_, folder);
    } catch (const CheckpointError& error) {
      return std::string(error.what()) + "\n" + error.hint();
    }
    return "";
  }

  DiskFiles disk_;
  MemoryFiles files_;
};

TEST_F(DeepSpeedFaultTest, AMissingRankIsNamed) {
  files_.erase("/two/pytorch_model/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
  EXPECT_EQ(complaint("/two"),
            "checkpoint '/two/pytorch_model' is incomplete: it has no optimizer states of rank 1"
            "\ncopy the files of all ranks into one folder");
  files_.erase("/two/pytorch_model/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt");
  EXPECT_EQ(complaint("/two"),
            "checkpoint '/two/pytorch_model' is incomplete: it has no optimizer states of rank 0"
            "\ncopy the files of all ranks into one folder");
  files_.erase("/three/pytorch_model/zero_pp_rank_1_mp_rank_00_model_states.pt");
  EXPECT_EQ(complaint("/three"),
            "checkpoint '/three/pytorch_model' is incomplete: it has no model states of rank 1\n"
            "copy the files of all ranks into one folder");
}

TEST_F(DeepSpeedFaultTest, AMissingFolderIsNamed) {
  files_.erase("/two/latest");
  put("/two/latest", as_bytes("global_step7"));
  EXPECT_EQ(complaint("/two"),
            "'/two/latest' names the folder 'global_step7', which is missing\n"
            "copy the whole checkpoint");
  files_.erase("/two/latest");
  put("/two/latest", as_bytes("../three"));
  EXPECT_EQ(complaint("/two").find("is damaged: 'latest' has no name of a folder: '../three'"),
            std::string("checkpoint '/two' ").size());
}

TEST_F(DeepSpeedFaultTest, OtherParallelismIsRefused) {
  const auto with = [&](const std::string& file) {
    put("/two/pytorch_model/" + file, as_bytes("x"));
    const std::string out = complaint("/two");
    files_.erase("/two/pytorch_model/" + file);
    return out;
  };
  const std::string hint =
      "\nconvert its weights in Python by DeepSpeed's zero_to_fp32.py or ds_to_universal.py";
  EXPECT_EQ(with("mp_rank_01_model_states.pt"),
            "'/two/pytorch_model' is a checkpoint of DeepSpeed with tensor parallelism, which is "
            "not read" +
                hint);
  EXPECT_EQ(with("layer_00-model_states.pt"),
            "'/two/pytorch_model' is a checkpoint of DeepSpeed with a pipeline, which is not "
            "read" +
                hint);
  EXPECT_EQ(
      with("layer_0_expert_1_mp_rank_00_model_states.pt"),
      "'/two/pytorch_model' is a checkpoint of DeepSpeed with experts, which are not read" + hint);
}

TEST_F(DeepSpeedFaultTest, RanksOfDifferentStagesAreRefused) {
  const std::string file = "/pytorch_model/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";
  files_.erase("/two" + file);
  put("/two" + file, disk_.read(golden_folder("zero3") + file).view);
  EXPECT_NE(complaint("/two").find("cannot be read: it has no 'single_partition_of_fp32_groups'"),
            std::string::npos);
}

/// The value at a path of keys.
Value& at_keys(Value& value, const std::vector<Value>& keys) {
  Value* found = &value;
  for (const Value& key : keys) {
    auto& items = std::get<Value::Dict>(found->data).items;
    for (auto& [own, item] : items) {
      const bool same = own.data.index() == key.data.index() &&
                        (key.as<std::string>() ? *own.as<std::string>() == *key.as<std::string>()
                                               : *own.as<int64_t>() == *key.as<int64_t>());
      if (same) found = &item;
    }
  }
  return *found;
}

TEST_F(DeepSpeedFaultTest, OtherFormsAreNamed) {
  const std::string path = "/pytorch_model/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt";
  const auto with = [&](const std::vector<Value>& keys, const Value& value) {
    Value optim = read_torch_file(disk_.read(golden_folder("zero2") + path),
                                  [](const Value::Global&) { return true; });
    at_keys(optim, keys) = value;
    std::string bytes;
    write_torch_file(optim, "optim", [&](ByteSpan part) { bytes += as_text(part); });
    files_.erase("/two" + path);
    put("/two" + path, as_bytes(bytes));
    return complaint("/two");
  };
  const auto says = [](const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
  };
  EXPECT_EQ(with({"optimizer_state_dict", "overflow"}, false), "");
  EXPECT_TRUE(says(with({"optimizer_state_dict", "single_partition_of_fp32_groups"},
                        Value::List{{Value(1), Value(2)}}),
                   "'single_partition_of_fp32_groups' has another form than DeepSpeed's"));
  EXPECT_TRUE(says(with({"optimizer_state_dict", "group_paddings"}, Value::List{{Value(-1)}}),
                   "'group_paddings' has another form than DeepSpeed's"));
  const std::vector<float> numbers = {1, 2, 3};
  const Value factored = Array::of<float>(DType::kF32, {3}, numbers);
  EXPECT_TRUE(
      says(with({"optimizer_state_dict", "base_optimizer_state", "state", 0, "exp_avg"}, factored),
           "the optimizer's 'exp_avg' is not of single elements"));
}

/// The unpickler accepts DeepSpeed's classes in its files alone, and no others.
TEST_F(DeepSpeedFaultTest, OtherClassesAreRefused) {
  const std::string file = "/pytorch_model/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt";
  EXPECT_THROW(read_torch_file(disk_.read(golden_folder("zero2") + file)), FormatError);
  const SharedBytes original = disk_.read(golden_folder("zero2") + file);
  std::string bytes(as_text(original.view));
  const std::string known = "deepspeed.runtime.fp16.loss_scaler\nLossScaler\n";
  const size_t at = bytes.find(known);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, known.size(), "deepspeed.runtime.fp16.loss_scaler\nLossScalex\n");
  EXPECT_THROW(
      read_torch_file({as_bytes(bytes), nullptr},
                      [](const Value::Global& global) { return global.name == "LossScaler"; }),
      FormatError);
}

using Pieces = std::vector<std::vector<int64_t>>;

Pieces pieces_of(const ZeroParameter& parameter) {
  Pieces out;
  for (const ZeroPiece& piece : parameter.pieces) {
    out.push_back({static_cast<int64_t>(piece.rank), static_cast<int64_t>(piece.partition),
                   piece.first, piece.count});
  }
  return out;
}

TEST(ZeroPartitionsTest, AGroupIsDividedOverRanksWithPadding) {
  const ZeroGroup group = {{{"a", {5}, 0}, {"b", {2, 2}, 0}, {"c", {}, 0}}, {1, 0, 0}};
  const auto placed = place_groups({group}, {{4}, {4}, {4}});
  EXPECT_EQ(pieces_of(placed[0]), (Pieces{{0, 0, 0, 4}, {1, 0, 0, 1}}));
  EXPECT_EQ(pieces_of(placed[1]), (Pieces{{1, 0, 2, 2}, {2, 0, 0, 2}}));
  EXPECT_EQ(pieces_of(placed[2]), (Pieces{{2, 0, 2, 1}}));
}

TEST(ZeroPartitionsTest, EachParameterIsDividedOverRanksAndGroupsOfRows) {
  const ZeroGroup group = {{{"a", {5}, 0}, {"b", {4}, 0}, {"c", {}, 0}}, {}};
  const auto placed = place_each({group}, {{4, 2}, {4, 2}});
  EXPECT_EQ(pieces_of(placed[0]), (Pieces{{0, 0, 0, 3}, {1, 0, 0, 2}}));
  EXPECT_EQ(pieces_of(placed[1]), (Pieces{{0, 0, 3, 1}, {0, 1, 0, 1}, {1, 0, 3, 1}, {1, 1, 0, 1}}));
  EXPECT_EQ(pieces_of(placed[2]), (Pieces{{0, 1, 1, 1}}));
}

TEST(ZeroPartitionsTest, OtherSizesAreRefused) {
  const ZeroGroup group = {{{"a", {5}, 0}}, {}};
  const auto refusal = [](const auto& place) -> std::string {
    try {
      place();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([&] {
              place_groups({group}, {{2}, {2}});
            }),
            "its partitions have 4 elements, the parameters need 5");
  EXPECT_EQ(refusal([&] {
              place_groups({group}, {{8}, {8}});
            }),
            "its partitions have 16 elements, the parameters need 5");
  EXPECT_EQ(refusal([&] {
              place_each({group}, {{4}, {4}});
            }),
            "its partitions have 4 elements, the parameters need 3");
  const ZeroGroup huge = {{{"a", {int64_t{1} << 62, 4}, 0}}, {}};
  EXPECT_EQ(refusal([&] { place_each({huge}, {{4}}); }), "'a' has an invalid shape");
}

TEST(ZeroPartitionsTest, ATensorOfOnePartitionIsAView) {
  const std::vector<float> numbers = {1, 2, 3, 4};
  const Array flat = Array::of<float>(DType::kF32, {4}, numbers);
  const auto get = [&](size_t, size_t) -> const Array& { return flat; };
  const ZeroParameter view = {"a", {2}, 0, {{0, 0, 1, 2}}};
  EXPECT_EQ(join_pieces(view, get).data(), flat.data() + 4);
  const ZeroParameter joined = {"b", {2}, 0, {{0, 0, 3, 1}, {1, 0, 0, 1}}};
  EXPECT_EQ(join_pieces(joined, get).as<float>()[0], 4);
  EXPECT_EQ(join_pieces(joined, get).as<float>()[1], 1);
  const std::vector<int64_t> others = {1};
  const Array wide = Array::of<int64_t>(DType::kI64, {1}, others);
  try {
    join_pieces(joined, [&](size_t rank, size_t) -> const Array& { return rank ? wide : flat; });
    ADD_FAILURE();
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "the partitions of 'b' have several types");
  }
}

}  // namespace
}  // namespace accel::deepspeed_folder_test
