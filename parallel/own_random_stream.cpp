#include "parallel/own_random_stream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

#include "core/api/sample_rng.h"

namespace accel {
namespace {

/// Replaces the stream of a device's default generator.
class OwnRandomStream final : public RandomScope {
 public:
  OwnRandomStream(int64_t rank, at::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    const uint64_t shared = draw();
    const std::scoped_lock lock(generator_.mutex());
    before_ = generator_.get_state();
    generator_.set_current_seed(SampleRng(shared, static_cast<uint64_t>(rank), 0).next());
  }
  ~OwnRandomStream() override {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(before_);
  }

 private:
  /// Of the CPU's generator, which is in step on all ranks of the group for every device.
  static uint64_t draw() {
    at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
    const std::scoped_lock lock(generator.mutex());
    return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  }

  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace

std::unique_ptr<RandomScope> make_own_random_stream(int64_t rank, at::Device device) {
  return std::make_unique<OwnRandomStream>(rank, device);
}

}  // namespace accel
