#include "runner/formats/tf_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace accel {
namespace {

std::vector<double> make_default_edges() {
  std::vector<double> positive;
  for (double edge = 1e-12; edge < 1e20; edge *= 1.1) positive.push_back(edge);
  std::vector<double> edges;
  for (auto edge = positive.rbegin(); edge != positive.rend(); ++edge) edges.push_back(-*edge);
  edges.push_back(0);
  edges.insert(edges.end(), positive.begin(), positive.end());
  return edges;
}

/// The bucket [edges[i], edges[i + 1]) that holds `value`; the last one holds its right edge too.
size_t bucket_of(double value, const std::vector<double>& edges) {
  const auto right = std::upper_bound(edges.begin(), edges.end(), value);
  return std::min(static_cast<size_t>(right - edges.begin()), edges.size() - 1) - 1;
}

}  // namespace

std::optional<TfHistogram> tf_histogram(std::span<const float> values) {
  static const std::vector<double> edges = make_default_edges();
  TfHistogram out;
  std::vector<double> counts(edges.size() - 1);
  size_t first = counts.size();
  size_t last = 0;
  for (const double value : values) {
    if (!(edges.front() <= value && value <= edges.back())) continue;  // nan too
    out.min = out.count == 0 ? value : std::min(out.min, value);
    out.max = out.count == 0 ? value : std::max(out.max, value);
    out.count += 1;
    out.sum += value;
    out.sum_squares += value * value;
    const size_t bucket = bucket_of(value, edges);
    counts[bucket] += 1;
    first = std::min(first, bucket);
    last = std::max(last, bucket);
  }
  if (out.count == 0) return std::nullopt;
  out.limits.assign(edges.begin() + static_cast<ptrdiff_t>(first),
                    edges.begin() + static_cast<ptrdiff_t>(last) + 2);
  out.counts = {0};
  out.counts.insert(out.counts.end(), counts.begin() + static_cast<ptrdiff_t>(first),
                    counts.begin() + static_cast<ptrdiff_t>(last) + 1);
  return out;
}

}  // namespace accel
