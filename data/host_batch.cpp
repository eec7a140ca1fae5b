#include "data/host_batch.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace accel {
namespace {

std::string describe(const Array& value) {
  if (value.empty()) return "none";
  return std::string(name_of(value.type())) + " " + to_string(value.shape());
}

bool fits(const Array& value, const Array& stack) {
  if (value.empty() || stack.empty()) return value.empty() && stack.empty();
  return value.type() == stack.type() && std::equal(value.shape().begin(), value.shape().end(),
                                                    stack.shape().begin() + 1, stack.shape().end());
}

Array first_of(const Array& stack) {
  if (stack.empty()) return stack;
  return {stack.type(), Shape(stack.shape().begin() + 1, stack.shape().end()), stack.data(),
          stack.owner()};
}

}  // namespace

Collator::Collator(int64_t size) : size_(size) {
  batch_.ids.reserve(static_cast<size_t>(size));
}

void Collator::add(const Sample& sample, int64_t id) {
  batch_.ids.push_back(id);
  put("input", sample.input, batch_.inputs);
  put("target", sample.target, batch_.targets);
}

void Collator::put(const char* part, const Array& value, Array& stack) {
  const size_t row = batch_.ids.size() - 1;
  if (row == 0 && !value.empty()) {
    Shape shape = {size_};
    shape.insert(shape.end(), value.shape().begin(), value.shape().end());
    stack = Array(value.type(), std::move(shape));
  }
  if (!fits(value, stack)) {
    throw DataError("the " + std::string(part) + " of sample " + std::to_string(batch_.ids.back()) +
                        " is " + describe(value) + ", but that of sample " +
                        std::to_string(batch_.ids.front()) + " in the same batch is " +
                        describe(first_of(stack)),
                    "bring all samples to one shape with a transform, or use batches of one");
  }
  if (value.bytes() > 0) {
    std::memcpy(stack.mutable_data() + row * value.bytes(), value.data(), value.bytes());
  }
}

}  // namespace accel
