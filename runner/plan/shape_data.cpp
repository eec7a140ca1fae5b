#include "runner/plan/shape_data.h"

#include <algorithm>
#include <memory>

namespace accel {
namespace {

Array zeros(DType type, const Shape& shape) {
  Array array(type, shape);
  std::fill_n(array.mutable_data(), array.bytes(), std::byte{0});
  return array;
}

Shape stacked(int64_t samples, Shape one) {
  one.insert(one.begin(), samples);
  return one;
}

class ShapeData final : public Dataset {
 public:
  ShapeData(DataShape shape, int64_t samples) : shape_(std::move(shape)), samples_(samples) {}

  int64_t size() const override { return samples_; }
  Sample sample(int64_t) const override {
    return {zeros(shape_.input_type, shape_.input), zeros(shape_.target_type, shape_.target)};
  }
  DataShape shape() const override { return shape_; }
  std::string fingerprint() const override { return "shape"; }

 private:
  DataShape shape_;
  int64_t samples_;
};

}  // namespace

DatasetParts shape_data(const DatasetParts& like, const DataShape& shape, int64_t samples) {
  if (like.parts.empty()) return {};
  DatasetPart part{like.parts.front().component, {}};
  part.component.type.clear();  // its samples are what transforms made of that one's
  part.component.make = [shape, samples](const DatasetContext&) {
    return std::make_unique<ShapeData>(shape, samples);
  };
  return {{std::move(part)}};
}

Window shape_window(const DataShape& shape, int64_t samples, int64_t count, int64_t world) {
  Window window;
  window.samples = samples * count * world;
  window.parts = count * world;
  for (int64_t i = 0; i < count; ++i) {
    HostBatch batch;
    batch.inputs = zeros(shape.input_type, stacked(samples, shape.input));
    batch.targets = zeros(shape.target_type, stacked(samples, shape.target));
    batch.ids.assign(static_cast<size_t>(samples), 0);
    batch.part = i * world;
    if (shape.padding) {
      const std::vector<int64_t> lengths(static_cast<size_t>(samples), shape.input.front());
      batch.lengths = Array::of(DType::kI64, {samples}, std::span<const int64_t>(lengths));
    }
    if (shape.segments > 0) batch.segments = zeros(DType::kI64, stacked(samples, shape.input));
    window.micro_batches.push_back(std::move(batch));
  }
  return window;
}

int64_t sample_bytes(const DataShape& shape) {
  const auto bytes = [](DType type, const Shape& part) {
    return count_of(part) * static_cast<int64_t>(size_of(type));
  };
  const int64_t segments = shape.segments > 0 ? bytes(DType::kI64, shape.input) : 0;
  return bytes(shape.input_type, shape.input) + bytes(shape.target_type, shape.target) + segments;
}

}  // namespace accel
