#include "kernels/memory/skip_init.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "core/api/batch.h"

namespace accel::skip_init_test {
namespace {

at::Tensor sevens() {
  return at::full({100}, 7.0F);
}

TEST(UndrawnWeightsTest, KeepWhatIsInTheirMemory) {
  const SkipInit undrawn;
  EXPECT_TRUE(sevens().normal_().equal(sevens()));
  EXPECT_TRUE(sevens().normal_(1, 0.02).equal(sevens()));
  EXPECT_TRUE(sevens().uniform_(-1, 1).equal(sevens()));
  EXPECT_TRUE(sevens().fill_(2).equal(at::full({100}, 2.0F)));  // only what is drawn
}

TEST(UndrawnWeightsTest, AreNanWhereTestsWantThemUnread) {
  ::setenv("ACCEL_RUN_NAN_INIT", "1", 1);
  {
    const SkipInit undrawn;
    EXPECT_TRUE(sevens().normal_().isnan().all().item<bool>());
    EXPECT_TRUE(sevens().uniform_(-1, 1).isnan().all().item<bool>());
  }
  ::unsetenv("ACCEL_RUN_NAN_INIT");
  const SkipInit undrawn;
  EXPECT_TRUE(sevens().normal_().equal(sevens()));
}

TEST(UndrawnWeightsTest, OthersAreDrawnAsEver) {
  at::manual_seed(3);
  const at::Tensor normal = sevens().normal_(), uniform = sevens().uniform_();
  {
    const SkipInit undrawn;
    const SkipInit inner;
  }
  at::manual_seed(3);
  {
    const SkipInit undrawn;
    sevens().normal_();  // takes nothing from the generator
    at::Tensor elsewhere = sevens();
    std::thread([&] { elsewhere.normal_(); }).join();
    EXPECT_TRUE(elsewhere.equal(normal));
  }
  EXPECT_TRUE(sevens().uniform_().equal(uniform));
  EXPECT_NE(uniform[0].item<float>(), 7);
}

}  // namespace
}  // namespace accel::skip_init_test
