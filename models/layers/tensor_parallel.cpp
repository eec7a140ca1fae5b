#include "models/layers/tensor_parallel.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/product_type.h"
#include "models/layers/tied_embedding.h"

namespace accel {
at::Tensor enter(const TensorRanksPtr& ranks, const at::Tensor& x) {
  return ranks ? ranks->enter(x.to(product_type(x))) : x;
}

at::Tensor padded_sequence(const TensorRanksPtr& ranks, const at::Tensor& x, int64_t value) {
  const int64_t length = x.size(-1);
  const int64_t more = ranks ? ranks->padded_length(length) - length : 0;
  return more > 0 ? at::constant_pad_nd(x, {0, more}, value) : x;
}

at::Tensor own_part(const TensorRanksPtr& ranks, const at::Tensor& x, int64_t dim) {
  return ranks ? ranks->own_part(x, dim) : x;
}

at::Tensor own_head(const TensorRanksPtr& ranks, const at::Tensor& x, int64_t count,
                    int64_t width) {
  if (!ranks || count >= ranks->size()) return x;
  return own_heads(*ranks, x, 2, {count, width});
}

at::Tensor own_heads(const TensorRanks& ranks, const at::Tensor& x, int64_t dim,
                     const HeadSizes& heads) {
  const int64_t own = std::max<int64_t>(heads.count / ranks.size(), 1);
  const int64_t first = ranks.rank() * heads.count / ranks.size();
  return x.narrow(dim, first * heads.width, own * heads.width);
}

std::unique_ptr<RandomScope> own_random_stream(const TensorRanksPtr& ranks, at::Device device,
                                               bool needed) {
  return ranks && needed ? ranks->own_random_stream(device) : nullptr;
}

at::Tensor own_dropout(const TensorRanksPtr& ranks, const at::Tensor& x, double p) {
  const auto stream = own_random_stream(ranks, x.device(), p > 0);
  return at::dropout(x, p, /*train=*/p > 0);
}

at::Tensor residual_dropout(const TensorRanksPtr& ranks, const at::Tensor& x, double p) {
  const auto stream =
      own_random_stream(ranks, x.device(), p > 0 && ranks && ranks->divides_sequence());
  return at::dropout(x, p, /*train=*/p > 0);
}

namespace {

/// `look_up` returns rows of `table` for row numbers.
at::Tensor rows_of_vocabulary(const DividedVocabulary& vocabulary, const at::Tensor& table,
                              const at::Tensor& tokens,
                              const std::function<at::Tensor(const at::Tensor&)>& look_up) {
  if (!vocabulary.ranks) return look_up(tokens);
  const at::Tensor rows = tokens.sub(vocabulary.first());
  const at::Tensor outside = rows.lt(0).logical_or(rows.ge(table.size(0)));
  const at::Tensor found = look_up(rows.masked_fill(outside, 0));
  return vocabulary.ranks->leave(found.masked_fill(outside.unsqueeze(-1), 0));
}

}  // namespace

at::Tensor vocabulary_embedding(const DividedVocabulary& vocabulary, const at::Tensor& table,
                                const at::Tensor& tokens, bool tied,
                                std::optional<int64_t> padding) {
  const int64_t row = padding.value_or(-1) - vocabulary.first();
  const bool is_own = padding && row >= 0 && row < table.size(0);
  const int64_t untrained = is_own ? row : -1;
  return rows_of_vocabulary(vocabulary, table, tokens, [&](const at::Tensor& rows) {
    return tied ? tied_embedding(table, rows, untrained) : at::embedding(table, rows, untrained);
  });
}

at::Tensor vocabulary_logits(const DividedVocabulary& vocabulary, const at::Tensor& hidden,
                             const at::Tensor& head) {
  const at::Tensor logits = at::linear(hidden, head);
  return vocabulary.ranks ? vocabulary.ranks->gather_features(logits, vocabulary.size) : logits;
}

void check_divides(const char* name, int64_t size, int64_t ranks) {
  if (size % ranks == 0) return;
  throw Error(ExitCode::kRecipe,
              text("'tp' {} does not divide the model's '{}' {}", ranks, name, size),
              "use a divisor of it");
}

}  // namespace accel
