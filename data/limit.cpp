#include "data/limit.h"

#include <utility>

#include "data/bad_samples.h"
#include "data/length_groups.h"

namespace accel {
namespace {

class FirstSamples final : public Dataset, public LeavesOut, public KnowsLengths {
 public:
  FirstSamples(std::shared_ptr<const Dataset> dataset, int64_t size)
      : dataset_(std::move(dataset)), size_(size) {}

  int64_t size() const override { return size_; }
  Sample sample(int64_t index) const override { return dataset_->sample(index); }
  DataShape shape() const override { return dataset_->shape(); }
  std::string fingerprint() const override {
    return dataset_->fingerprint() + "[:" + std::to_string(size_) + "]";
  }
  int64_t left_out() const override { return accel::left_out(*dataset_); }
  bool lengths_known() const override {
    const auto* known = dynamic_cast<const KnowsLengths*>(dataset_.get());
    return known && known->lengths_known();
  }
  int64_t length(int64_t index) const override {
    return dynamic_cast<const KnowsLengths&>(*dataset_).length(index);
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const int64_t size_;
};

}  // namespace

std::shared_ptr<const Dataset> first_samples(std::shared_ptr<const Dataset> dataset,
                                             int64_t limit) {
  if (limit >= dataset->size()) return dataset;
  return std::make_shared<FirstSamples>(std::move(dataset), limit);
}

}  // namespace accel
