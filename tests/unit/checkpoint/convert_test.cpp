#include "checkpoint/convert.h"

#include <gtest/gtest.h>

#include <set>

#include "checkpoint/accelerate_folder.h"
#include "checkpoint/file_names.h"
#include "checkpoint/folder_writer.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/store.h"
#include "core/base/error.h"
#include "formats/tensors/torch_file.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"

namespace accel::convert_test {
namespace {

/// A folder with a checkpoint of ours in it.
class ConvertTest : public testing::Test {
 protected:
  ConvertTest() {
    files_.make_dirs("/run");
    ours_ = CheckpointStore(files_, "/run").save(small_state(3));
    files_.sync_dir("/run");
  }

  std::vector<std::string> convert(const std::string& source, const std::string& target,
                                   WeightLayout to, uint64_t max_shard_bytes = UINT64_MAX) {
    return convert_checkpoint(files_, source, target, {to, max_shard_bytes});
  }

  std::string complaint(const std::string& source, const std::string& target,
                        WeightLayout to = WeightLayout::kSafetensors) {
    try {
      convert(source, target, to);
    } catch (const Error& error) {
      return std::string(error.what()) + "\n" + error.hint();
    }
    return "none";
  }

  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> out;
    for (const DirEntry& entry : files_.list(folder)) out.push_back(entry.name);
    return out;
  }

  /// Name, type, shape and bytes of each weight, by name.
  std::map<std::string, std::string> weights_in(const std::string& folder) {
    std::map<std::string, std::string> out;
    for (const auto& [name, array] : read_weights(files_, folder).tensors) {
      out[name] = std::string(name_of(array.type())) + to_string(array.shape()) +
                  hex_text(checksum_of({array.data(), array.bytes()}));
    }
    return out;
  }

  std::string bytes_of(const std::string& path) {
    return std::string(as_text(files_.read(path).view));
  }

  MemoryFiles files_;
  std::string ours_;
};

using Names = std::vector<std::string>;

TEST_F(ConvertTest, WeightsAlone) {
  EXPECT_TRUE(convert(ours_, "/safe", WeightLayout::kSafetensors).empty());
  EXPECT_EQ(names_in("/safe"), Names{"model.safetensors"});
  EXPECT_EQ(bytes_of("/safe/model.safetensors"), bytes_of(ours_ + "/model.safetensors"));
  convert(ours_, "/bin", WeightLayout::kTorch);
  EXPECT_EQ(names_in("/bin"), Names{"pytorch_model.bin"});
  // A strict load of a .bin wants tied weights under every name, one of safetensors under one.
  auto weights = weights_in("/bin");
  EXPECT_EQ(weights["lm_head.weight"], weights["wte.weight"]);
  EXPECT_EQ(weights.size(), 4U);
  weights.erase("lm_head.weight");
  EXPECT_EQ(weights_in("/safe"), weights);
}

TEST_F(ConvertTest, ShardsAndBack) {
  convert(ours_, "/shards", WeightLayout::kSafetensors, 24);
  EXPECT_EQ(names_in("/shards"),
            (Names{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                   "model.safetensors.index.json"}));
  convert("/shards", "/whole", WeightLayout::kSafetensors);
  EXPECT_EQ(bytes_of("/whole/model.safetensors"), bytes_of(ours_ + "/model.safetensors"));
  convert(ours_, "/bins", WeightLayout::kTorch, 24);
  EXPECT_EQ(names_in("/bins").back(), "pytorch_model.bin.index.json");
  convert(ours_, "/bin", WeightLayout::kTorch);
  EXPECT_EQ(weights_in("/bins"), weights_in("/bin"));
}

TEST_F(ConvertTest, AllOfAccelerates) {
  EXPECT_TRUE(convert(ours_, "/all", WeightLayout::kAccelerate).empty());
  EXPECT_EQ(names_in("/all"), (Names{"model.safetensors", "optimizer.bin", "random_states_0.pkl",
                                     "scaler.pt", "scheduler.bin"}));
  for (const std::string& name : names_in("/all")) {
    EXPECT_EQ(bytes_of("/all/" + name), bytes_of(ours_ + "/" + name)) << name;
  }
}

TEST_F(ConvertTest, DistributedAndBack) {
  EXPECT_TRUE(convert(ours_, "/shared", WeightLayout::kDistributed).empty());
  EXPECT_EQ(names_in("/shared"), (Names{"optimizer_0", "pytorch_model_fsdp_0",
                                        "random_states_0.pkl", "scaler.pt", "scheduler.bin"}));
  EXPECT_EQ(names_in("/shared/optimizer_0"), (Names{".metadata", "__0_0.distcp"}));
  convert("/shared", "/back", WeightLayout::kAccelerate);
  EXPECT_EQ(bytes_of("/back/model.safetensors"), bytes_of(ours_ + "/model.safetensors"));
  // What was named is numbered again, in the order of the groups.
  const auto named = read_accelerate_folder(files_, "/shared").optimizers;
  ASSERT_EQ(named.size(), 1U);
  const Value* groups = named.front().find("param_groups");
  ASSERT_TRUE(groups && groups->as<Value::List>());
  EXPECT_EQ(groups->as<Value::List>()->items.size(), 2U);
  convert("/back", "/again", WeightLayout::kAccelerate);
  EXPECT_EQ(bytes_of("/again/optimizer.bin"), bytes_of("/back/optimizer.bin"));
  // The folder of shards by itself is a model too.
  convert("/shared/pytorch_model_fsdp_0", "/model", WeightLayout::kSafetensors);
  EXPECT_EQ(bytes_of("/model/model.safetensors"), bytes_of(ours_ + "/model.safetensors"));
}

/// small_state() with a second model, of which one tensor is tied, and a task's state.
TrainState state_with_critic() {
  TrainState state = small_state(5);
  const at::Tensor tied = floats({2}, 7);
  state.model.push_back({"critic/fc.weight", floats({2, 2}, 3)});
  state.model.push_back({"critic/fc.bias", tied});
  state.model.push_back({"critic/out.bias", tied});
  state.sections["custom/0"].numbers["loss"] = 0.5;
  return state;
}

TEST_F(ConvertTest, AllModelsGoAlong) {
  const std::string both = CheckpointStore(files_, "/run").save(state_with_critic());
  const auto same = [&](const std::string& folder, const std::string& name) {
    return bytes_of(folder + "/" + name) == bytes_of(both + "/" + name);
  };
  EXPECT_TRUE(convert(both, "/safe", WeightLayout::kSafetensors).empty());
  EXPECT_EQ(names_in("/safe"), (Names{"model.safetensors", "model_1.safetensors"}));
  EXPECT_TRUE(same("/safe", "model.safetensors") && same("/safe", "model_1.safetensors"));
  convert(both, "/bin", WeightLayout::kTorch);
  EXPECT_EQ(names_in("/bin"), (Names{"pytorch_model.bin", "pytorch_model_1.bin"}));
  const auto critic = read_accelerate_folder(files_, "/bin").further_models.at(0);
  ASSERT_EQ(critic.size(), 3U);
  EXPECT_EQ(critic[1].name, "fc.bias");
  EXPECT_EQ(critic[2].name, "out.bias");
  EXPECT_EQ(critic[2].array.as<float>()[0], critic[1].array.as<float>()[0]);
  convert(both, "/all", WeightLayout::kAccelerate);
  EXPECT_EQ(names_in("/all"),
            (Names{"custom_checkpoint_0.pkl", "model.safetensors", "model_1.safetensors",
                   "optimizer.bin", "random_states_0.pkl", "scaler.pt", "scheduler.bin"}));
  for (const std::string& name : names_in("/all")) EXPECT_TRUE(same("/all", name)) << name;
  convert("/all", "/shards", WeightLayout::kDistributed);
  EXPECT_TRUE(files_.exists("/shards/pytorch_model_fsdp_1/.metadata"));
  convert("/shards", "/back", WeightLayout::kAccelerate);
  EXPECT_TRUE(same("/back", "model_1.safetensors") && same("/back", "custom_checkpoint_0.pkl"));
}

TEST_F(ConvertTest, AFurtherModelIsLookedAtOrNamedAsNotUsed) {
  const std::string both = CheckpointStore(files_, "/run").save(state_with_critic());
  convert(both, "/all", WeightLayout::kAccelerate);
  const auto names = [&](const LoadOptions& options) {
    std::set<std::string> out;
    const TrainState state = read_accelerate_checkpoint(files_, "/all", options);
    for (const Parameter& item : state.model) out.insert(item.name);
    return std::pair(out, state.accelerate->not_used);
  };
  const auto [known, all_used] = names({.models = {"critic"}});
  EXPECT_TRUE(known.contains("critic/fc.weight"));
  EXPECT_EQ(all_used, Names{"custom_checkpoint_0.pkl"});
  EXPECT_TRUE(names({.numbered = true}).first.contains("model_1/fc.weight"));
  const auto [unknown, not_used] = names({});
  EXPECT_EQ(unknown.size(), 3U);
  EXPECT_EQ(not_used, (Names{"custom_checkpoint_0.pkl", "model_1.safetensors"}));
}

TEST_F(ConvertTest, NumbersWithoutNamesStayBehind) {
  convert(ours_, "/all", WeightLayout::kAccelerate);
  EXPECT_EQ(convert("/all", "/shared", WeightLayout::kDistributed),
            Names{"'optimizer.bin' is not converted: it has parameter ids without names"});
  EXPECT_EQ(names_in("/shared").front(), "pytorch_model_fsdp_0");
}

TEST_F(ConvertTest, BadSourcesAndTargetsAreRefused) {
  files_.make_dirs("/empty");
  EXPECT_EQ(complaint("/empty", "/x"),
            "'/empty' is not a checkpoint or model folder: it has no 'accel_run.json', "
            "'model.safetensors', 'pytorch_model.bin' or index of these, no "
            "'pytorch_model_fsdp.bin', 'pytorch_model_fsdp_0' or '.metadata'\n"
            "give a checkpoint, a model folder, or a folder of FSDP's shards");
  files_.create("/empty/zero_to_fp32.py")->close();
  EXPECT_EQ(complaint("/empty", "/x"),
            "'/empty' is a checkpoint of DeepSpeed without its partitions: it has no 'latest' and "
            "no 'pytorch_model'\n"
            "give the folder that has the files '*_model_states.pt' and '*_optim_states.pt'");
  EXPECT_EQ(complaint(ours_, "/run"),
            "cannot write '/run': cannot write '/run': File exists\n"
            "choose a new folder");
  convert(ours_, "/shards", WeightLayout::kSafetensors, 24);
  files_.erase("/shards/model-00001-of-00002.safetensors");
  EXPECT_EQ(first_line(complaint("/shards", "/x")),
            "checkpoint '/shards': cannot read '/shards/model-00001-of-00002.safetensors': No such "
            "file or directory");
  files_.content(ours_ + "/optimizer.bin")[40] ^= 1;
  EXPECT_NE(complaint(ours_, "/x").find("is damaged: 'optimizer.bin' has checksum"),
            std::string::npos);
  EXPECT_FALSE(files_.exists("/x"));
}

TEST_F(ConvertTest, AManifestMustMatchTheModel) {
  std::string& content = files_.content(ours_ + "/accel_run.json");
  Manifest manifest = read_manifest(content);
  manifest.model.push_back("ghost");
  content = write_manifest(manifest);
  EXPECT_EQ(first_line(complaint(ours_, "/x")),
            "checkpoint '" + ours_ + "' is damaged: 'model.safetensors' has no tensor 'ghost'");
}

TEST_F(ConvertTest, AnOptimizerThatIsNoneIsRefused) {
  convert(ours_, "/all", WeightLayout::kAccelerate);
  files_.erase("/all/optimizer.bin");
  FolderWriter(files_, "/all").add_value("optimizer.bin", Value::Dict{{{"state", Value::Dict()}}});
  EXPECT_EQ(complaint("/all", "/x", WeightLayout::kAccelerate),
            "cannot convert '/all': 'param_groups' is not a list\n");
  EXPECT_FALSE(files_.exists("/x"));
}

TEST_F(ConvertTest, AnIndexMustBeTrue) {
  convert(ours_, "/shards", WeightLayout::kSafetensors, 24);
  std::string& index = files_.content("/shards/model.safetensors.index.json");
  index.replace(index.find("\"bias\""), 6, "\"bios\"");
  EXPECT_EQ(first_line(complaint("/shards", "/x")),
            "checkpoint '/shards' is damaged: 'model.safetensors.index.json' cannot be read: "
            "it lists 3 weights, its files have 2 of them");
}

TEST_F(ConvertTest, AFailureLeavesNoTarget) {
  for (int call = 1;; ++call) {
    files_.fail_call(call, ENOSPC);
    const std::string said = complaint(ours_, "/target", WeightLayout::kDistributed);
    const bool fired = files_.fault_fired();
    files_.fail_call(0, 0);
    if (!fired) {
      EXPECT_EQ(said, "none");
      EXPECT_TRUE(files_.exists("/target"));
      break;
    }
    EXPECT_NE(said.find("No space left on device"), std::string::npos) << call;
    for (const std::string& name : names_in("")) EXPECT_EQ(name.find(".new-"), name.npos) << name;
    // Once it has its name it is whole, even if the disk could not confirm that.
    if (files_.exists("/target")) {
      EXPECT_EQ(names_in("/target").size(), 5U);
      files_.remove_tree("/target");
    }
  }
}

}  // namespace
}  // namespace accel::convert_test
