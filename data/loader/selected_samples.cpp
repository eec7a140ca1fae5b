#include "data/loader/selected_samples.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "core/base/text.h"
#include "data/datasets/fingerprint.h"

namespace accel {
namespace {

/// "[:8]" for the first 8 samples, as version 0.1.0 wrote it.
std::string selection_text(const std::vector<int64_t>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  if (rows.empty() || rows.back() == count - 1) return accel::text("[:{}]", count);
  const auto* bytes = reinterpret_cast<const std::byte*>(rows.data());
  Fingerprint print;
  for (size_t at = 0; at < rows.size(); at += 4096) {
    const size_t part = std::min<size_t>(4096, rows.size() - at);
    print.add_content({bytes + at * sizeof(int64_t), part * sizeof(int64_t)});
  }
  return accel::text("[{}:{}]", count, print.text());
}

}  // namespace

SelectedSamples::SelectedSamples(std::shared_ptr<const Dataset> source, std::vector<int64_t> rows,
                                 std::string selection)
    : source_(std::move(source)), rows_(std::move(rows)), selection_(std::move(selection)) {}

bool SelectedSamples::lengths_known() const {
  const auto* known = dynamic_cast<const KnowsLengths*>(source_.get());
  return known && known->lengths_known();
}

int64_t SelectedSamples::length(int64_t index) const {
  return dynamic_cast<const KnowsLengths&>(*source_).length(row(index));
}

void SelectedSamples::read_ahead(std::span<const int64_t> samples) const {
  std::vector<int64_t> rows(samples.size());
  std::transform(samples.begin(), samples.end(), rows.begin(),
                 [this](int64_t index) { return row(index); });
  accel::read_ahead(*source_, rows);
}

std::shared_ptr<const Dataset> select_samples(std::shared_ptr<const Dataset> dataset,
                                              std::vector<int64_t> rows) {
  if (static_cast<int64_t>(rows.size()) == dataset->size()) return dataset;
  std::string selection = selection_text(rows);
  return std::make_shared<SelectedSamples>(std::move(dataset), std::move(rows),
                                           std::move(selection));
}

std::vector<int64_t> all_rows(const Dataset& dataset) {
  std::vector<int64_t> rows(static_cast<size_t>(dataset.size()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

}  // namespace accel
