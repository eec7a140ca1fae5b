#include "train/precision/fp8_precision.h"

#include <utility>

#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

class DelayedPrecision final : public Precision {
 public:
  DelayedPrecision(at::Device device, DelayedScales scales,
                   std::function<void(const at::Tensor& amax)> reduce)
      : device_(device), scales_(std::move(scales)), reduce_(std::move(reduce)) {}

  AutocastScope autocast() const override { return {device_.type(), at::kBFloat16}; }
  void update() override { scales_.update(reduce_); }
  void save(StateDict& state) const override { scales_.save(state); }
  void load(const StateDict& state) override {
    const std::vector<std::string> absent = scales_.load(state);
    if (absent.empty()) return;
    warn(text(
        "the checkpoint lacks the fp8 scales of {} of the layers, such as '{}': they start at 1",
        absent.size(), absent.front()));
  }

 private:
  at::Device device_;
  DelayedScales scales_;
  std::function<void(const at::Tensor& amax)> reduce_;
};

}  // namespace

std::unique_ptr<Precision> make_delayed_precision(
    at::Device device, DelayedScales scales, std::function<void(const at::Tensor& amax)> reduce) {
  return std::make_unique<DelayedPrecision>(device, std::move(scales), std::move(reduce));
}

}  // namespace accel
