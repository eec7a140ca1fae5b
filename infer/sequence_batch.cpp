#include "infer/sequence_batch.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "kernels/few_rows.h"
#include "models/layers/module_state.h"
#include "models/layers/token_logits.h"

namespace accel {
namespace {

/// Drops all but the newest tokens.
void keep_newest(std::vector<int64_t>& tokens, int64_t count) {
  const auto size = static_cast<int64_t>(tokens.size());
  if (count > 0 && size > count) tokens.erase(tokens.begin(), tokens.end() - count);
}

/// Of models of one device.
at::Device device_of(LanguageModel& model) {
  const std::vector<Parameter> parameters = parameters_of(model);
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().local.device();
}

}  // namespace

SequenceBatch::SequenceBatch(LanguageModel& model, SequenceBatchOptions options)
    : model_(model),
      options_(std::move(options)),
      decoder_(dynamic_cast<CachedDecoder*>(&model)),
      shares_cache_(decoder_ && !options_.staged && decoder_->supports_ragged_rows()),
      window_(decoder_ ? decoder_->longest() : options_.window),
      cache_(options_.rows, window_ > 0 ? std::min(options_.capacity, window_) : options_.capacity,
             options_.cache_dtype),
      device_(device_of(model)) {}

int64_t SequenceBatch::cache_bytes() const {
  int64_t bytes = cache_.bytes();
  for (const Sequence& sequence : sequences_) {
    for (const KeyValueCache& cache : sequence.caches) bytes += cache.bytes();
  }
  return bytes;
}

at::Tensor SequenceBatch::add(std::vector<int64_t> tokens) {
  const FewRowsScope scope;
  keep_newest(tokens, window_);
  sequences_.push_back({std::move(tokens)});
  if (shares_cache_) cache_.set_length(static_cast<int64_t>(size()) - 1, 0);
  return row_logits(size() - 1);
}

at::Tensor SequenceBatch::add_all(std::vector<std::vector<int64_t>> sequences) {
  const FewRowsScope scope;
  size_t row = size();
  for (std::vector<int64_t>& tokens : sequences) {
    keep_newest(tokens, window_);
    sequences_.push_back({std::move(tokens)});
    if (shares_cache_) cache_.set_length(static_cast<int64_t>(size()) - 1, 0);
  }
  std::vector<at::Tensor> logits;
  while (row < size()) {
    const size_t count = shares_cache_ ? count_together(row) : 1;
    logits.push_back(count > 1 ? rows_logits(row, count) : row_logits(row).unsqueeze(0));
    row += count;
  }
  return at::cat(logits);
}

size_t SequenceBatch::count_together(size_t first) const {
  const auto most = static_cast<size_t>(options_.prefill_chunk);
  size_t count = 0, longest = 0, sum = 0;
  for (size_t row = first; row < size(); ++row) {
    const size_t length = sequences_[row].tokens.size();
    const size_t padded = std::max(longest, length) * (count + 1);
    if (count > 0 && (padded > most || padded > 2 * (sum + length))) break;
    longest = std::max(longest, length);
    sum += length;
    ++count;
  }
  return count;
}

at::Tensor SequenceBatch::rows_logits(size_t first, size_t count) {
  std::vector<int64_t> lengths;
  for (size_t row = first; row < first + count; ++row) {
    lengths.push_back(static_cast<int64_t>(sequences_[row].tokens.size()));
  }
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<int64_t> padded;
  for (size_t row = first; row < first + count; ++row) {
    const std::vector<int64_t>& tokens = sequences_[row].tokens;
    padded.insert(padded.end(), tokens.begin(), tokens.end());
    // The model is causal, and cached padding is overwritten.
    padded.resize((row - first + 1) * static_cast<size_t>(longest), tokens.back());
  }
  cache_.select(static_cast<int64_t>(first));
  const at::Tensor hidden =
      decoder_->hidden_next(input_of(padded).view({static_cast<int64_t>(count), longest}), cache_);
  std::vector<at::Tensor> last;
  for (size_t i = 0; i < count; ++i) {
    Sequence& sequence = sequences_[first + i];
    sequence.cached = sequence.tokens.size();
    cache_.set_length(static_cast<int64_t>(first + i), lengths[i]);
    last.push_back(hidden[static_cast<int64_t>(i)].narrow(0, lengths[i] - 1, 1));
  }
  return logits_of(at::stack(last));
}

void SequenceBatch::add_copies(size_t count) {
  const size_t from = size() - 1;
  for (size_t i = 0; i < count; ++i) {
    // Caches of separate passes are not copied: the next pass recomputes them.
    sequences_.push_back({sequences_[from].tokens, shares_cache_ ? sequences_[from].cached : 0});
    if (shares_cache_) {
      cache_.copy_row(static_cast<int64_t>(from), static_cast<int64_t>(size()) - 1);
    }
  }
}

at::Tensor SequenceBatch::next(std::span<const int64_t> tokens) {
  const FewRowsScope scope;
  bool outgrows = false;
  for (size_t row = 0; row < size(); ++row) {
    Sequence& sequence = sequences_[row];
    sequence.tokens.push_back(tokens[row]);
    if (window_ == 0 || static_cast<int64_t>(sequence.tokens.size()) <= window_) continue;
    keep_newest(sequence.tokens, std::max<int64_t>(1, window_ / 2));
    sequence.cached = 0;
    sequence.caches.clear();
    cache_.set_length(static_cast<int64_t>(row), 0);
    outgrows = true;
  }
  if (shares_cache_ && !outgrows) return batch_pass(tokens);
  std::vector<at::Tensor> rows;
  for (size_t row = 0; row < size(); ++row) rows.push_back(row_logits(row));
  return at::stack(rows);
}

void SequenceBatch::remove(size_t row) {
  const size_t last = size() - 1;
  if (row != last) {
    sequences_[row] = std::move(sequences_[last]);
    if (shares_cache_) {
      cache_.copy_row(static_cast<int64_t>(last), static_cast<int64_t>(row));
    }
  }
  sequences_.pop_back();
}

void SequenceBatch::gather(std::span<const int64_t> sources) {
  std::vector<Sequence> gathered;
  for (const int64_t source : sources) {
    const Sequence& from = sequences_[static_cast<size_t>(source)];
    // Caches of separate passes are not copied: the next pass recomputes them.
    gathered.push_back({from.tokens, shares_cache_ ? from.cached : 0});
  }
  if (shares_cache_) cache_.gather(sources);
  sequences_ = std::move(gathered);
}

at::Tensor SequenceBatch::row_logits(size_t row) {
  Sequence& sequence = sequences_[row];
  if (!shares_cache_) return separate_pass(sequence);
  cache_.select(static_cast<int64_t>(row));
  const auto chunk = static_cast<size_t>(std::max<int64_t>(1, options_.prefill_chunk));
  at::Tensor hidden;
  while (sequence.cached < sequence.tokens.size()) {
    const size_t count = std::min(chunk, sequence.tokens.size() - sequence.cached);
    hidden = decoder_->hidden_next(
        input_of(std::span(sequence.tokens).subspan(sequence.cached, count)), cache_);
    sequence.cached += count;
  }
  return logits_of(hidden).flatten();
}

at::Tensor SequenceBatch::batch_pass(std::span<const int64_t> tokens) {
  cache_.select(0);
  const at::Tensor input = input_of(tokens).view({-1, 1});
  for (Sequence& sequence : sequences_) ++sequence.cached;
  return logits_of(decoder_->hidden_next(input, cache_));
}

at::Tensor SequenceBatch::separate_pass(Sequence& sequence) {
  const size_t cached = decoder_ ? sequence.cached : 0;
  const at::Tensor tokens = input_of(std::span(sequence.tokens).subspan(cached));
  sequence.cached = sequence.tokens.size();
  const auto compute = [&](size_t stage) {
    while (stage >= sequence.caches.size()) {
      sequence.caches.emplace_back(/*rows=*/1, /*capacity=*/0, options_.cache_dtype);
    }
    return logits_of(decoder_ ? decoder_->hidden_next(tokens, sequence.caches[stage])
                              : model_.hidden(tokens))
        .flatten();
  };
  const at::Tensor logits = options_.staged ? options_.staged(tokens, compute) : compute(0);
  return logits.to(at::kCPU, at::kFloat).contiguous();
}

at::Tensor SequenceBatch::logits_of(const at::Tensor& hidden) {
  const at::Tensor last = hidden.select(1, hidden.size(1) - 1);
  const at::Tensor logits = token_logits(model_, last);
  return options_.staged ? logits : logits.to(at::kCPU, at::kFloat).contiguous();
}

at::Tensor SequenceBatch::input_of(std::span<const int64_t> tokens) const {
  return at::tensor(at::ArrayRef<int64_t>(tokens.data(), tokens.size())).unsqueeze(0).to(device_);
}

}  // namespace accel
