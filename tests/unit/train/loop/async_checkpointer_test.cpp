// Disk space for checkpoints, before they are written.
#include "train/loop/async_checkpointer.h"

#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/unit/checkpoint/memory_files.h"
#include "tests/unit/checkpoint/small_state.h"
#include "tests/unit/formats/test_bytes.h"
#include "tests/unit/train/job/make_job.h"

namespace accel::async_checkpointer_test {
namespace {

/// What check_space() throws or warns of, where `share` of a checkpoint's bytes is free.
std::string found_with(double share, const std::string& options) {
  const auto job = make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 40}, loader: {workers: 0}}\n"
      "train: {until: 20 steps, batch: 16}\n"
      "checkpoint: {" +
      options + "}\n");
  MemoryFiles files;
  CheckpointStore store(files, "/run");
  const TrainState state = small_state(1);
  const int64_t needed = store.space(state).needed;
  files.free_bytes = static_cast<int64_t>(share * static_cast<double>(needed));
  RunRecord record;
  AsyncCheckpointer checkpointer(*job, store, record, "");
  testing::internal::CaptureStderr();
  std::string found = complaint([&] { checkpointer.check_space(state); });
  found += testing::internal::GetCapturedStderr();
  const std::string bytes = std::to_string(needed), free = std::to_string(files.free_bytes);
  for (const auto& [number, name] : {std::pair(bytes, "NEEDED"), std::pair(free, "FREE")}) {
    if (const size_t at = found.find(number); at != found.npos) {
      found.replace(at, number.size(), name);
    }
  }
  return found;
}

TEST(AsyncCheckpointerTest, DiskSpaceIsCheckedFirst) {
  EXPECT_EQ(found_with(4.5, "keep: {last: 3}"), "");
  EXPECT_EQ(found_with(2.5, "keep: {last: 3}"),
            "warning: the disk has space for 2 more checkpoints of NEEDED bytes, but "
            "'checkpoint.keep' needs 4: "
            "free disk space, or keep fewer\n");
  EXPECT_EQ(found_with(0.5, "keep: {last: 3}"),
            "too little disk space for a checkpoint: NEEDED bytes needed, FREE free\n"
            "free disk space, or move the run to another folder");
  EXPECT_EQ(found_with(0.5, "on_error: continue"),
            "warning: too little disk space for a checkpoint: NEEDED bytes needed, FREE free; "
            "training continues "
            "('checkpoint.on_error' is continue)\n");
}

}  // namespace
}  // namespace accel::async_checkpointer_test
