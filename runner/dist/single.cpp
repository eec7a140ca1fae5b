#include "runner/dist/strategy.h"

namespace accel {
namespace {

class Single final : public Strategy {
 public:
  void run(const WindowParts& parts, const Pass& pass) override {
    for (size_t i = 0; i < parts.own.size(); ++i) pass(i);
    if (parts.before_sums) parts.before_sums();
  }
};

}  // namespace

std::unique_ptr<Strategy> make_single() {
  return std::make_unique<Single>();
}

}  // namespace accel
