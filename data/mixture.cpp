#include "data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/scalar.h"
#include "data/limit.h"
#include "data/permutation.h"

namespace accel {
namespace {

/// `total` split by `weights`: each share rounded down, the rest to the largest remainders.
std::vector<int64_t> apportion(int64_t total, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> counts;
  std::vector<std::pair<double, size_t>> remainders;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = static_cast<double>(total) * (weights[i] / sum);
    counts.push_back(static_cast<int64_t>(share));
    remainders.emplace_back(static_cast<double>(counts[i]) - share, i);
  }
  std::sort(remainders.begin(), remainders.end());
  int64_t rest = total - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t k = 0; rest > 0; ++k, --rest) ++counts[remainders[k % remainders.size()].second];
  return counts;
}

/// Which source each draw of an epoch comes from: each source as often as `counts` says, spread
/// evenly, by giving the turn to the one that is furthest behind its share.
class Turns {
 public:
  explicit Turns(const std::vector<int64_t>& counts)
      : counts_(counts),
        total_(std::accumulate(counts.begin(), counts.end(), int64_t{0})),
        behind_(counts.size(), 0) {}

  size_t next() {
    for (size_t i = 0; i < counts_.size(); ++i) behind_[i] += counts_[i];
    const auto most = std::max_element(behind_.begin(), behind_.end());
    *most -= total_;
    return static_cast<size_t>(most - behind_.begin());
  }

 private:
  const std::vector<int64_t>& counts_;
  const int64_t total_;
  std::vector<int64_t> behind_;  // in units of 1/total_ draws
};

/// The endless sequence of one source's samples, pass after pass, from any point on.
class SourceDraws {
 public:
  SourceDraws(int64_t size, uint64_t seed, bool shuffle, int64_t first)
      : size_(size), seed_(seed), shuffle_(shuffle), first_pass_(first / size), next_(first) {}

  /// The sample, and how often it was drawn before since the start.
  std::pair<int64_t, int64_t> next() {
    const int64_t pass = next_ / size_;
    const auto place = static_cast<size_t>(next_++ % size_);
    if (!shuffle_) return {static_cast<int64_t>(place), pass - first_pass_};
    if (pass != pass_) {
      order_ = epoch_permutation(size_, seed_, pass);
      pass_ = pass;
    }
    return {order_[place], pass - first_pass_};
  }

 private:
  const int64_t size_;
  const uint64_t seed_;
  const bool shuffle_;
  const int64_t first_pass_;
  int64_t next_;
  int64_t pass_ = -1;
  std::vector<int64_t> order_;
};

bool weighted(const std::vector<DataPart>& parts) {
  size_t given = 0;
  for (const DataPart& part : parts) given += part.weight.has_value() ? 1 : 0;
  if (given != 0 && given != parts.size()) {
    throw DataError(
        std::to_string(given) + " of " + std::to_string(parts.size()) + " datasets have a 'weight'",
        "give all of them a weight, or none to use each sample once an epoch");
  }
  return given != 0;
}

void require_draws(const Mixture& mixture, const std::vector<double>& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (mixture.counts()[i] > 0) continue;
    throw DataError("weight " + show_number(weights[i]) + " gives dataset " +
                        std::to_string(i + 1) + " none of the " +
                        std::to_string(mixture.epoch_size()) + " samples of an epoch",
                    "raise its 'weight' or leave it out");
  }
}

}  // namespace

Mixture::Mixture(std::vector<std::shared_ptr<const Dataset>> sources,
                 const std::vector<double>& weights)
    : samples_(std::move(sources)), counts_(apportion(samples_.size(), weights)) {}

std::string Mixture::fingerprint() const {
  std::string proportions;
  for (const int64_t count : counts_) {
    proportions += (proportions.empty() ? "" : ":") + std::to_string(count);
  }
  return samples_.fingerprint() + " as " + proportions;
}

std::vector<int64_t> Mixture::draws(uint64_t seed, int64_t epoch, bool shuffle) const {
  std::vector<SourceDraws> sources;
  for (size_t i = 0; i < counts_.size(); ++i) {
    // Sources of one size must not be shuffled alike.
    const uint64_t own_seed = i == 0 ? seed : SampleRng(seed, i, 0).next();
    sources.emplace_back(samples_.sources()[i]->size(), own_seed, shuffle, epoch * counts_[i]);
  }
  Turns turns(counts_);
  std::vector<int64_t> all(static_cast<size_t>(epoch_size()));
  for (int64_t& draw : all) {
    const size_t source = turns.next();
    const auto [index, pass] = sources[source].next();
    draw = samples_.offset(source) + index + pass * size();
  }
  return all;
}

const Concatenation* parts_of(const Dataset& dataset) {
  if (const auto* mixture = dynamic_cast<const Mixture*>(&dataset)) return &mixture->parts();
  return dynamic_cast<const Concatenation*>(&dataset);
}

std::shared_ptr<const Dataset> combine(std::vector<DataPart> parts) {
  std::vector<std::shared_ptr<const Dataset>> sources;
  std::vector<double> weights;
  const bool mixed = weighted(parts);
  for (DataPart& part : parts) {
    weights.push_back(part.weight.value_or(1.0));
    sources.push_back(part.limit ? first_samples(std::move(part.dataset), *part.limit)
                                 : std::move(part.dataset));
    if (sources.back()->size() == 0) {
      throw DataError("dataset " + std::to_string(sources.size()) + " holds no samples");
    }
  }
  if (sources.size() == 1) return sources.front();
  require_same_shape(sources);
  if (!mixed) return std::make_shared<Concatenation>(std::move(sources));
  auto mixture = std::make_shared<Mixture>(std::move(sources), weights);
  require_draws(*mixture, weights);
  return mixture;
}

}  // namespace accel
