// Backends that cannot be made.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "core/base/text.h"
#include "parallel/nccl.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::backends_test {
namespace {

TEST(GlooTest, AnAddressOfAnotherMachineIsAnError) {
  GroupOptions options;
  options.rank = 1;
  options.world = 2;
  options.global_rank = 3;
  options.host = "192.0.2.1";
  const std::string found = complaint([&] { make_gloo_backend(StorePtr(), options); });
  EXPECT_TRUE(found.starts_with("rank 3 cannot connect to the others from '192.0.2.1': ")) << found;
  EXPECT_TRUE(found.ends_with("\nallow connections between the machines on all ports")) << found;
}

TEST(NcclTest, AMissingLibraryAndAFailedConnectionAreErrors) {
  const BackendMaker make = nccl_backend(5);
  GroupOptions options;
  options.rank = 1;
  options.world = 2;
  const auto connect = [&] { make(StorePtr(), options); };
  EXPECT_EQ(
      complaint(connect),
      "NCCL is unavailable: libaccel_nccl.so: cannot open shared object file: No such file or "
      "directory\n"
      "build accel-run on a machine with the CUDA toolkit and NCCL's header");
  // From now on the library of that name is one that fails.
  ASSERT_TRUE(::dlopen(FAILING_NCCL, RTLD_NOW)) << ::dlerror();
  EXPECT_EQ(complaint(connect),
            "rank 1 cannot connect GPU 5 to the others: ncclSystemError: Connect to 10.0.0.2<5000> "
            "failed : Connection timed out\n"
            "set NCCL_DEBUG=INFO in the environment for details");
  // c10d's own limits are later than those of the default of ten minutes.
  EXPECT_EQ(nccl_timeout(600), std::chrono::seconds(660));
  EXPECT_EQ(nccl_timeout(0.7), std::chrono::seconds(61));
  EXPECT_STREQ(std::getenv("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"), "720");
  EXPECT_TRUE(complaint([] { nccl_work_copy()({}); }).starts_with("NCCL is unavailable: "));
}

}  // namespace
}  // namespace accel::backends_test
