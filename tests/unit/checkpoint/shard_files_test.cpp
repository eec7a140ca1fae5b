// Checkpoints that several ranks write, and parts of checkpoints that ranks read.
#include "checkpoint/shard_files.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/sharded_state.h"

namespace accel::shard_files_test {
namespace {

MemoryFiles run_folder() {
  MemoryFiles files;
  files.make_dirs("/run");
  files.sync_dir("/");
  return files;
}

TEST(ShardFilesTest, AnyNumberOfRanksWritesTheStateOfOne) {
  for (const int64_t ranks : {1, 2, 3, 4, 5}) {
    MemoryFiles files = run_folder();
    CheckpointStore store(files, "/run");
    const std::string folder = save_sharded(store, small_state(7), ranks);
    EXPECT_EQ(folder, "/run/checkpoints/checkpoint_7");
    EXPECT_TRUE(files.list("/run/staging").empty());
    store.verify(folder);
    EXPECT_EQ(text_of(comparable(store.load(folder))), text_of(comparable(small_state(7))))
        << ranks << " ranks";
  }
}

TEST(ShardFilesTest, ReplicasWriteEachShardOnce) {
  for (const int64_t replicas : {2, 3}) {
    MemoryFiles files = run_folder();
    CheckpointStore store(files, "/run");
    const std::string folder = save_sharded(store, small_state(7), 2, replicas);
    EXPECT_EQ(text_of(comparable(store.load(folder))), text_of(comparable(small_state(7))))
        << replicas << " replicas";
  }
}

TEST(ShardFilesTest, FilesAreThoseOfAccelerate) {
  MemoryFiles files = run_folder();
  CheckpointStore store(files, "/run");
  const std::string folder = save_sharded(store, small_state(7), 2) + "/";
  for (const char* name :
       {"pytorch_model_fsdp_0/.metadata", "pytorch_model_fsdp_0/__0_0.distcp",
        "pytorch_model_fsdp_0/__1_0.distcp", "optimizer_0/.metadata", "optimizer_0/__0_0.distcp",
        "optimizer_0/__1_0.distcp", "scheduler.bin", "random_states_0.pkl", "accel_run.json"}) {
    EXPECT_TRUE(files.exists(folder + name)) << name;
  }
  EXPECT_FALSE(files.exists(folder + "model.safetensors"));
  EXPECT_FALSE(files.exists(folder + "optimizer.bin"));
}

/// The state of a rank as a text, without the list of tensors that the rank writes.
std::string rows_text(TrainState state) {
  return text_of(comparable(std::move(state)));
}

TrainState with_rows(const TrainState& state, int64_t rank, int64_t ranks) {
  TrainState out = comparable(state);
  const RegionOf region_of = rows_of_rank(rank, ranks);
  const auto take = [&](const std::string& name, at::Tensor& tensor) {
    if (const auto rows = region_of(name, tensor.sizes().vec())) {
      tensor = tensor.narrow(0, rows->offsets[0], rows->sizes[0]);
    }
  };
  for (Parameter& item : out.model) take(item.name, item.local);
  for (OptimizerState::Group& group : out.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) take(parameter.name, slot.local);
    }
  }
  for (auto& [name, tensor] : out.sections["callbacks/ema"].tensors) take(name, tensor);
  return out;
}

TEST(ShardFilesTest, EveryMeshReadsItsRowsOfEveryOther) {
  for (const int64_t written : {0, 1, 2, 4}) {  // 0: a full checkpoint
    MemoryFiles files = run_folder();
    CheckpointStore store(files, "/run");
    const std::string folder =
        written == 0 ? store.save(small_state(7)) : save_sharded(store, small_state(7), written);
    for (const int64_t ranks : {1, 2, 3}) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        LoadOptions options{.region_of = rows_of_rank(rank, ranks)};
        const std::string when = std::to_string(written) + " ranks to rank " +
                                 std::to_string(rank) + " of " + std::to_string(ranks);
        const std::string wanted = text_of(with_rows(small_state(7), rank, ranks));
        EXPECT_EQ(rows_text(store.load(folder, options)), wanted) << when;
        options.verify = [](const std::string&) {};
        const TrainState loaded = store.load(folder, options);
        EXPECT_EQ(rows_text(loaded), wanted) << when;
        EXPECT_EQ(loaded.model[0].global, (Shape{3, 2})) << when;
      }
    }
  }
}

TEST(ShardFilesTest, RanksVerifyAllFilesTogether) {
  MemoryFiles files = run_folder();
  CheckpointStore store(files, "/run");
  const std::string folder = save_sharded(store, small_state(7), 3);
  std::set<std::string> damaged;
  for (const auto& [name, record] : inspect_checkpoint(files, folder).files) {
    std::string& bytes = files.content(folder + "/" + name);
    bytes.back() ^= 1;
    int found = 0;
    for (int64_t rank = 0; rank < 2; ++rank) {
      try {
        verify_share(files, folder, rank, 2);
      } catch (const CheckpointError& error) {
        ++found;
        EXPECT_NE(std::string(error.what()).find("'" + name + "' has checksum"), std::string::npos)
            << error.what();
      }
    }
    EXPECT_EQ(found, 1) << name;
    bytes.back() ^= 1;
  }
}

TEST(ShardFilesTest, AShardThatIsMissingIsNamed) {
  MemoryFiles files = run_folder();
  CheckpointStore store(files, "/run");
  const std::string folder = save_sharded(store, small_state(7), 2);
  const auto complaint = [&] {
    try {
      store.load(folder);
      return std::string("loaded");
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
  };
  MemoryFiles whole = files;
  files.erase(folder + "/optimizer_0/__1_0.distcp");
  EXPECT_EQ(complaint(),
            "checkpoint '" + folder + "' is damaged: 'optimizer_0/__1_0.distcp' is missing");
  files = whole;
  files.remove_tree(folder + "/optimizer_0");
  EXPECT_EQ(complaint(), "checkpoint '" + folder + "' is damaged: 'optimizer_0' is missing");
  files.create(folder + "/optimizer_0");
  EXPECT_EQ(complaint(), "checkpoint '" + folder + "' is damaged: 'optimizer_0' is not a folder");
}

TEST(ShardFilesTest, RanksThatDisagreePublishNothing) {
  MemoryFiles files = run_folder();
  CheckpointStore store(files, "/run");
  store.save(small_state(6));
  const TrainState main = state_of_rank(small_state(7), 0, 2);
  const auto complaint = [&](const std::vector<TrainState>& others) {
    store.stage(main, 4096);
    std::vector<ShardRecord> records = {store.write_shards(main)};
    for (const TrainState& other : others) records.push_back(store.write_shards(other));
    if (others.empty()) records.push_back(records.front());
    try {
      store.publish_shards(main, std::move(records));
      return std::string("published");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(complaint({state_of_rank(small_state(7), 1, 3)}),
            "'parts/callbacks/ema/wte.weight': its chunks at [0, 0] and [1, 0] overlap");
  EXPECT_EQ(complaint({state_of_rank(small_state(7), 2, 3)}),
            "'optimizer.state.bias.step': two ranks have the same chunk");
  EXPECT_EQ(complaint({}), "'parts/callbacks/ema/wte.weight': two ranks have the same chunk");
  EXPECT_TRUE(files.list("/run/staging").empty());
  EXPECT_EQ(store.list().size(), 1U);
}

TEST(ShardFilesTest, RecordsOfARankThatAreCutAreRefused) {
  MemoryFiles files = run_folder();
  CheckpointStore store(files, "/run");
  const TrainState state = state_of_rank(small_state(7), 0, 2);
  store.stage(state, 4096);
  const std::string bytes = to_bytes(store.write_shards(state));
  const auto complaint = [](const std::string& from) {
    try {
      shard_record_of(from);
      return std::string("read");
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(complaint(bytes), "read");
  EXPECT_EQ(complaint(bytes.substr(0, bytes.size() - 1)), "it is truncated");
  EXPECT_EQ(complaint("x\n"), "it has no number");
}

}  // namespace
}  // namespace accel::shard_files_test
