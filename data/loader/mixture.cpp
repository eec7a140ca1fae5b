#include "data/loader/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/progress_text.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"
#include "data/datasets/skipped_samples.h"
#include "data/loader/epoch_order.h"

namespace accel {
namespace {

std::string describe(DType type, const Shape& shape) {
  return accel::text("{} {}", name_of(type), to_string(shape));
}

struct Fact {
  const char* name;
  std::string (*text)(const DataShape&);
};

// The properties that models, tasks and metrics depend on.
constexpr Fact kFacts[] = {
    {"inputs", [](const DataShape& s) { return describe(s.input_type, s.input); }},
    {"targets", [](const DataShape& s) { return describe(s.target_type, s.target); }},
    {"classes", [](const DataShape& s) { return std::to_string(s.classes); }},
    {"tokens", [](const DataShape& s) { return std::to_string(s.vocab); }},
    {"fills",
     [](const DataShape& s) { return s.padding ? std::to_string(s.padding->input) : "none"; }},
    {"labels", [](const DataShape& s) { return "[" + joined(s.labels) + "]"; }},
};

}  // namespace

void require_same_shape(const std::vector<std::shared_ptr<const Dataset>>& sources) {
  const DataShape wanted = sources.front()->shape();
  for (size_t i = 1; i < sources.size(); ++i) {
    const DataShape found = sources[i]->shape();
    for (const Fact& fact : kFacts) {
      if (fact.text(found) == fact.text(wanted)) continue;
      throw DataError(accel::text("the {} of dataset {} are {}, but those of dataset 1 are {}",
                                  fact.name, i + 1, fact.text(found), fact.text(wanted)),
                      "datasets that are trained on together must hold samples of one kind");
    }
  }
}

Concatenation::Concatenation(std::vector<std::shared_ptr<const Dataset>> sources)
    : sources_(std::move(sources)), offsets_{0} {
  for (const auto& source : sources_) offsets_.push_back(offsets_.back() + source->size());
}

size_t Concatenation::source_of(int64_t index) const {
  const auto end = std::upper_bound(offsets_.begin(), offsets_.end(), index);
  return static_cast<size_t>(end - offsets_.begin()) - 1;
}

Sample Concatenation::sample(int64_t index) const {
  const size_t source = source_of(index);
  return sources_[source]->sample(index - offsets_[source]);
}

bool Concatenation::lengths_known() const {
  return std::all_of(sources_.begin(), sources_.end(), [](const auto& source) {
    const auto* known = dynamic_cast<const KnowsLengths*>(source.get());
    return known && known->lengths_known();
  });
}

int64_t Concatenation::length(int64_t index) const {
  const size_t source = source_of(index);
  return dynamic_cast<const KnowsLengths&>(*sources_[source]).length(index - offsets_[source]);
}

void Concatenation::read_singly() const {
  for (const auto& source : sources_) accel::read_singly(*source);
}

int64_t Concatenation::samples_ahead() const {
  int64_t most = 0;
  for (const auto& source : sources_) most = std::max(most, accel::samples_ahead(*source));
  return most;
}

void Concatenation::read_ahead(std::span<const int64_t> samples) const {
  std::vector<std::vector<int64_t>> of_sources(sources_.size());
  for (const int64_t sample : samples) {
    const size_t source = source_of(sample);
    of_sources[source].push_back(sample - offsets_[source]);
  }
  for (size_t i = 0; i < sources_.size(); ++i) accel::read_ahead(*sources_[i], of_sources[i]);
}

void Concatenation::forget_ahead() const {
  for (const auto& source : sources_) accel::forget_ahead(*source);
}

bool Concatenation::exceeds_cache() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const auto& source) { return accel::exceeds_cache(*source); });
}

int64_t Concatenation::left_out() const {
  int64_t sum = 0;
  for (const auto& source : sources_) sum += accel::left_out(*source);
  return sum;
}

std::string Concatenation::fingerprint() const {
  std::string all;
  for (const auto& source : sources_) all += (all.empty() ? "" : "+") + source->fingerprint();
  return all;
}

namespace {

/// Splits `total` in proportion to `weights`: rounds down, then assigns the rest to the largest
/// remainders.
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

/// The source of each draw of an epoch: `counts` draws per source, evenly spread; each turn goes to
/// the source with the largest deficit.
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
  std::vector<int64_t> behind_;  // deficit in units of 1/total_ draws
};

/// The infinite sequence of a source's samples, epoch after epoch, from any position.
class SourceDraws {
 public:
  SourceDraws(int64_t size, uint64_t seed, bool shuffle, int64_t first)
      : size_(size), seed_(seed), shuffle_(shuffle), first_pass_(first / size), next_(first) {}

  /// The sample, and the number of its earlier draws.
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

/// The draws of each source from its `first` one on.
std::vector<SourceDraws> draws_of(const Concatenation& samples, const std::vector<int64_t>& first,
                                  uint64_t seed, bool shuffle) {
  std::vector<SourceDraws> sources;
  for (size_t i = 0; i < first.size(); ++i) {
    // Sources of equal size get different orders.
    const uint64_t own_seed = i == 0 ? seed : SampleRng(seed, i, 0).next();
    sources.emplace_back(samples.sources()[i]->size(), own_seed, shuffle, first[i]);
  }
  return sources;
}

template <class Turn>
std::vector<int64_t> mixed_draws(const Concatenation& samples, std::vector<SourceDraws> sources,
                                 Turn turns) {
  std::vector<int64_t> all(static_cast<size_t>(samples.size()));
  for (int64_t& draw : all) {
    const size_t source = turns.next();
    const auto [index, pass] = sources[source].next();
    draw = samples.offset(source) + index + pass * samples.size();
  }
  return all;
}

/// "70 % : 30 %", to a tenth of a percent.
std::string percentages(const std::vector<double>& parts, double whole) {
  std::string out;
  for (const double part : parts) {
    const double percent = std::round(1000 * part / whole) / 10;
    out += (out.empty() ? "" : " : ") + show_number(percent) + " %";
  }
  return out;
}

bool weighted(const std::vector<DataPart>& parts) {
  size_t given = 0;
  for (const DataPart& part : parts) given += part.weight.has_value() ? 1 : 0;
  if (given != 0 && given != parts.size()) {
    throw DataError(accel::text("{} of {} datasets have a 'weight'", given, parts.size()),
                    "set 'weight' for all of them, or for none to use each sample once per epoch");
  }
  return given != 0;
}

void require_draws(const Mixture& mixture, const std::vector<double>& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (mixture.counts()[i] > 0) continue;
    throw DataError(accel::text("weight {} gives dataset {} none of the {} samples of an epoch",
                                show_number(weights[i]), i + 1, mixture.epoch_size()),
                    "raise its 'weight' or leave it out");
  }
}

}  // namespace

Mixture::Mixture(std::vector<std::shared_ptr<const Dataset>> sources,
                 const std::vector<double>& weights)
    : samples_(std::move(sources)), counts_(apportion(samples_.size(), weights)) {}

Mixture::Mixture(std::vector<std::shared_ptr<const Dataset>> sources, MixtureSchedule schedule)
    : samples_(std::move(sources)), schedule_(std::move(schedule)) {}

std::string Mixture::fingerprint() const {
  if (schedule_) return accel::text("{} as {}", samples_.fingerprint(), schedule_->identity);
  std::string proportions;
  for (const int64_t count : counts_) {
    proportions += (proportions.empty() ? "" : ":") + std::to_string(count);
  }
  return accel::text("{} as {}", samples_.fingerprint(), proportions);
}

std::string Mixture::proportions() const {
  if (!schedule_) {
    return percentages({counts_.begin(), counts_.end()}, static_cast<double>(epoch_size()));
  }
  std::string out;
  for (const int64_t step : schedule_->steps()) {
    out += (out.empty() ? "" : ", ") + percentages(schedule_->shares(step), 1) + " at step " +
           grouped_digits(step);
  }
  return out;
}

ScheduledTurns Mixture::turns_of(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  if (!turns_ || turns_epoch_ > epoch) {
    turns_.emplace(*schedule_, epoch_size());
    turns_epoch_ = 0;
  }
  for (; turns_epoch_ < epoch; ++turns_epoch_) {
    for (int64_t i = 0; i < epoch_size(); ++i) turns_->next();
  }
  return *turns_;
}

std::vector<int64_t> Mixture::draws(uint64_t seed, int64_t epoch, bool shuffle) const {
  if (!schedule_) {
    std::vector<int64_t> first;
    for (const int64_t count : counts_) first.push_back(epoch * count);
    return mixed_draws(samples_, draws_of(samples_, first, seed, shuffle), Turns(counts_));
  }
  ScheduledTurns turns = turns_of(epoch);
  std::vector<SourceDraws> sources = draws_of(samples_, turns.drawn(), seed, shuffle);
  return mixed_draws(samples_, std::move(sources), std::move(turns));
}

const Concatenation* parts_of(const Dataset& dataset) {
  if (const auto* mixture = dynamic_cast<const Mixture*>(&dataset)) return &mixture->parts();
  return dynamic_cast<const Concatenation*>(&dataset);
}

namespace {

std::vector<std::shared_ptr<const Dataset>> take_sources(std::vector<DataPart> parts) {
  std::vector<std::shared_ptr<const Dataset>> sources;
  for (DataPart& part : parts) {
    sources.push_back(std::move(part.dataset));
    if (sources.back()->size() == 0) {
      throw DataError(accel::text("dataset {} holds no samples", sources.size()));
    }
  }
  return sources;
}

}  // namespace

std::shared_ptr<const Dataset> combine(std::vector<DataPart> parts) {
  std::vector<double> weights;
  const bool mixed = weighted(parts);
  for (const DataPart& part : parts) weights.push_back(part.weight.value_or(1.0));
  auto sources = take_sources(std::move(parts));
  if (sources.size() == 1) return sources.front();
  require_same_shape(sources);
  if (!mixed) return std::make_shared<Concatenation>(std::move(sources));
  auto mixture = std::make_shared<Mixture>(std::move(sources), weights);
  require_draws(*mixture, weights);
  return mixture;
}

std::shared_ptr<const Dataset> combine(std::vector<DataPart> parts, MixtureSchedule schedule) {
  auto sources = take_sources(std::move(parts));
  require_same_shape(sources);
  return std::make_shared<Mixture>(std::move(sources), std::move(schedule));
}

}  // namespace accel
