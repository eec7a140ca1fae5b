#include "data/datasets/text/token_windows.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

TokenWindows::TokenWindows(const WindowOptions& options, int64_t tokens, const std::string& path)
    : context_(options.max_seq_len),
      stride_(options.stride.value_or(options.max_seq_len)),
      first_(static_cast<int64_t>(static_cast<double>(tokens) * options.from)) {
  const int64_t available = static_cast<int64_t>(static_cast<double>(tokens) * options.to) - first_;
  if (available <= context_) {
    throw DataError(text("'{}' has {} tokens between 'from' and 'to', too few for samples of {} "
                         "and a next token",
                         path, available, context_),
                    "lower 'max_seq_len', or select a larger part of the file");
  }
  size_ = (available - context_ - 1) / stride_ + 1;
}

Sample TokenWindows::sample(
    int64_t index, const std::function<void(int64_t first, std::span<int64_t> ids)>& read) const {
  Array block(DType::kI64, {tokens()});
  read(first_token(index), block.mutable_as<int64_t>());
  return {Array(DType::kI64, {context_}, block.data(), block.owner()),
          Array(DType::kI64, {context_}, block.data() + sizeof(int64_t), block.owner())};
}

DataShape TokenWindows::shape() const {
  return {.input = {context_},
          .input_type = DType::kI64,
          .target = {context_},
          .target_type = DType::kI64};
}

void TokenWindows::add_to(Fingerprint& fingerprint) const {
  for (const int64_t number : {context_, stride_, first_, size_}) fingerprint.add(number);
}

}  // namespace accel
