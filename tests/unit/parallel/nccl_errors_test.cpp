// What becomes of NCCL's errors in collectives of a device.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "core/base/text.h"
#include "parallel/c10d_group.h"
#include "tests/unit/parallel/ranks.h"

namespace accel::nccl_errors_test {
namespace {

/// NCCL's, as its last lines tell.
std::string nccl_error(const std::string& description, const std::string& lines) {
  return "NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3690, " +
         description + ", NCCL version 2.28.9\n" + lines + "\nException raised from a line";
}

/// A collective that fails: when it starts or, as NCCL's do, while it runs.
class FailingBackend final : public c10d::Backend {
 public:
  FailingBackend(int rank, int world, std::string error, bool at_start)
      : Backend(rank, world), error_(std::move(error)), at_start_(at_start) {}

  const std::string getBackendName() const override { return "failing"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    if (at_start_) throw std::runtime_error(error_);
    return c10::make_intrusive<FailingWork>(error_);
  }

 private:
  class FailingWork final : public c10d::Work {
   public:
    explicit FailingWork(std::string error) : error_(std::move(error)) {}
    bool wait(std::chrono::milliseconds /*timeout*/) override { throw std::runtime_error(error_); }

   private:
    std::string error_;
  };

  std::string error_;
  bool at_start_;
};

struct Found {
  std::string text, hint;
  ExitCode code = ExitCode::kDone;
};

/// On rank 0 of two, whose collective in step 7 fails with `error`.
Found found_on_rank_0(const std::string& error, bool at_start) {
  std::vector<JoinRequest> requests = requests_of(2);
  Found found;
  for (JoinRequest& request : requests) {
    request.step = [] { return int64_t{7}; };
    request.device_backend = [&](const StorePtr&, const GroupOptions& options) -> BackendPtr {
      return c10::make_intrusive<FailingBackend>(static_cast<int>(options.rank),
                                                 static_cast<int>(options.world), error, at_start);
    };
  }
  join_each(requests, [&](Communicator& group) {
    if (group.rank() == 1) return;
    try {
      group.all_reduce(at::empty({4}, at::kMeta), ReduceOp::kSum, "gradients");
    } catch (const Error& failure) {
      found = {failure.what(), failure.hint(), failure.code()};
    }
  });
  return found;
}

TEST(NcclErrorsTest, RankStepAndCollectiveAreNamedWithTheCause) {
  const std::string error = nccl_error(
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
      "device error. \nLast error:\nConnect to 10.0.0.2<5000> failed : No route to host");
  for (const bool at_start : {true, false}) {
    const Found found = found_on_rank_0(error, at_start);
    EXPECT_EQ(found.text,
              "rank 0 failed at step 7, in collective 1 'gradients': ncclSystemError: Connect to "
              "10.0.0.2<5000> failed : No route to host");
    EXPECT_EQ(found.hint, "set NCCL_DEBUG=INFO in the environment for details");
    EXPECT_EQ(found.code, ExitCode::kRank);
  }
}

TEST(NcclErrorsTest, ALostProcessIsALostRank) {
  const Found found = found_on_rank_0(
      nccl_error("remote process exited or there was a network error",
                 "ncclRemoteError: A call failed possibly due to a network error or a remote "
                 "process exiting prematurely.\nLast error:\nsocketProgress: Connection closed"),
      false);
  EXPECT_TRUE(found.text.starts_with("rank 0 lost ")) << found.text;
  EXPECT_TRUE(found.text.ends_with(" at step 7, in collective 1 'gradients'")) << found.text;
  EXPECT_EQ(found.hint, "the log of the lost rank has the cause");
}

TEST(NcclErrorsTest, AnAbortAfterATimeoutIsATimeout) {
  const Found found = found_on_rank_0(
      "NCCL communicator was aborted on rank 0. Original reason for failure was: [Rank 0] Watchdog "
      "caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=4, "
      "NumelOut=4, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.",
      false);
  EXPECT_TRUE(found.text.starts_with("rank 0 waited longer than 'accelerator.timeout' for "))
      << found.text;
  EXPECT_TRUE(found.text.ends_with(" at step 7, in collective 1 'gradients'")) << found.text;
  EXPECT_EQ(found.code, ExitCode::kTimeout);
}

TEST(NcclErrorsTest, AnAbortForAnotherReasonIsAFailure) {
  const Found found = found_on_rank_0("NCCL communicator was aborted on rank 0.\nmore", false);
  EXPECT_EQ(found.text,
            "rank 0 failed at step 7, in collective 1 'gradients': NCCL communicator was aborted "
            "on rank 0.");
  EXPECT_EQ(found.hint, "set NCCL_DEBUG=INFO in the environment for details");
}

TEST(NcclErrorsTest, AnErrorWithoutALastOneIsDescribed) {
  EXPECT_EQ(c10d_message(nccl_error("invalid usage",
                                    "ncclInvalidUsage: This usually reflects invalid usage of NCCL "
                                    "library.\nLast error:")),
            "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.");
  EXPECT_EQ(c10d_message("NCCL error in: a.cpp:3, out of memory"),
            "NCCL error in: a.cpp:3, out of memory");
}

}  // namespace
}  // namespace accel::nccl_errors_test
