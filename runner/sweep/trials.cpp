#include "runner/sweep/trials.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/api/sample_rng.h"
#include "core/recipe/schema.h"

namespace accel {
namespace {

constexpr size_t kMostTrials = 10'000;

using TrialRow = std::vector<TrialValue>;

/// FNV-1a.
uint64_t number_of(const std::string& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Node drawn(const RandomValue& from, SampleRng& rng) {
  Node out;
  if (from.kind == RandomValue::Kind::kChoice) {
    out = from.choices[rng.below(from.choices.size())];
  } else if (from.kind == RandomValue::Kind::kInt) {
    const auto low = static_cast<int64_t>(from.low), high = static_cast<int64_t>(from.high);
    out = Codec<int64_t>::write(
        low + static_cast<int64_t>(rng.below(static_cast<uint64_t>(high - low) + 1)));
  } else if (from.kind == RandomValue::Kind::kLogUniform) {
    const double low = std::log(from.low), high = std::log(from.high);
    out = Codec<double>::write(std::exp(low + rng.uniform() * (high - low)));
  } else {
    out = Codec<double>::write(from.low + rng.uniform() * (from.high - from.low));
  }
  out.where = from.where;
  return out;
}

std::vector<TrialRow> grid_rows(const SweepOptions& sweep) {
  std::vector<TrialRow> rows = {{}};
  for (const auto& [key, values] : sweep.grid) {
    std::vector<TrialRow> longer;
    for (const TrialRow& row : rows) {
      if (longer.size() > kMostTrials) break;  // reported in trials_of()
      for (const Node& value : values) {
        longer.push_back(row);
        longer.back().push_back({key, value});
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

std::vector<TrialRow> paired_rows(const SweepOptions& sweep) {
  if (sweep.paired.empty()) return {{}};
  std::vector<TrialRow> rows(sweep.paired.begin()->second.size());
  for (const auto& [key, values] : sweep.paired) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back({key, values[i]});
  }
  return rows;
}

std::vector<TrialRow> random_rows(const RandomSection& random) {
  if (random.values.empty()) return {{}};
  std::vector<TrialRow> rows(static_cast<size_t>(random.trials));
  for (const auto& [key, from] : random.values) {
    for (size_t i = 0; i < rows.size(); ++i) {
      SampleRng rng(static_cast<uint64_t>(random.seed), i, number_of(key));
      rows[i].push_back({key, drawn(from, rng)});
    }
  }
  return rows;
}

std::vector<TrialRow> product(const std::vector<TrialRow>& first,
                              const std::vector<TrialRow>& second) {
  std::vector<TrialRow> rows;
  for (const TrialRow& a : first) {
    if (rows.size() > kMostTrials) break;
    for (const TrialRow& b : second) {
      rows.push_back(a);
      rows.back().insert(rows.back().end(), b.begin(), b.end());
    }
  }
  return rows;
}

}  // namespace

std::vector<Trial> trials_of(const SweepOptions& sweep) {
  std::vector<TrialRow> rows =
      product(product(grid_rows(sweep), paired_rows(sweep)), random_rows(sweep.random));
  if (rows.size() > kMostTrials) {
    throw Error(ExitCode::kRecipe, "the sweep has more than 10000 trials",
                "sample some of them with 'random'");
  }
  std::vector<Trial> trials;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::array<char, 32> name;
    std::snprintf(name.data(), name.size(), "trial_%03zu", i);
    trials.push_back({name.data(), std::move(rows[i])});
  }
  return trials;
}

std::string value_text(const TrialValue& value) {
  std::string text = detail::inline_text(value.value);
  const Scalar* scalar = value.value.scalar();
  if (scalar && scalar->quoted) text = text.substr(1, text.size() - 2);
  return text;
}

std::string override_text(const TrialValue& value) {
  const Node& node = value.value;
  const bool is_nothing = !node.scalar() && !node.list() && !node.map();
  return value.key + "=" + (is_nothing ? "~" : detail::inline_text(node));
}

SweepProgress::SweepProgress(const SweepOptions& sweep, size_t trials)
    : ranking_(sweep.ranking), stages_(sweep.stages), trials_(trials) {
  if (stages_.empty()) stages_.emplace_back();
  results_.resize(stages_.size());
}

void SweepProgress::add(const StageResult& result) {
  if (result.stage < results_.size()) results_[result.stage][result.trial] = result;
}

const StageResult* SweepProgress::result(size_t trial, size_t stage) const {
  const auto found = results_[stage].find(trial);
  return found == results_[stage].end() ? nullptr : &found->second;
}

const StageResult* SweepProgress::newest(size_t trial) const {
  for (size_t stage = stages_.size(); stage-- > 0;) {
    if (const StageResult* found = result(trial, stage)) return found;
  }
  return nullptr;
}

bool SweepProgress::better(size_t a, size_t b, size_t stage, const std::string& by,
                           Better mode) const {
  const auto value = [&](size_t trial) -> const double* {
    const StageResult* found = result(trial, stage);
    if (!found || found->failed) return nullptr;
    const auto at = found->values.find(by);
    return at == found->values.end() ? nullptr : &at->second;
  };
  const double *first = value(a), *second = value(b);
  if (!first || !second) return first && !second;
  return mode == Better::kMin ? *first < *second : *first > *second;
}

size_t SweepProgress::stage() const {
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    for (const size_t trial : entrants(stage)) {
      if (!result(trial, stage)) return stage;
    }
  }
  return stages_.size();
}

std::vector<size_t> SweepProgress::entrants(size_t stage) const {
  if (stage == 0) {
    std::vector<size_t> all(trials_);
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }
  const std::optional<PromoteSection>& promote = stages_[stage].promote;
  const std::string metric = promote ? promote->metric.value_or(ranking_.metric) : ranking_.metric;
  const Better mode = promote ? promote->mode.value_or(ranking_.mode) : ranking_.mode;
  std::vector<size_t> list;
  for (const size_t trial : entrants(stage - 1)) {
    const StageResult* found = result(trial, stage - 1);
    if (!found || found->failed || found->missed()) continue;
    if (!promote || found->values.contains(metric)) list.push_back(trial);
  }
  std::sort(list.begin(), list.end());
  std::stable_sort(list.begin(), list.end(),
                   [&](size_t a, size_t b) { return better(a, b, stage - 1, metric, mode); });
  if (promote) list.resize(std::min(list.size(), static_cast<size_t>(promote->keep)));
  return list;
}

std::vector<size_t> SweepProgress::waiting() const {
  const size_t now = stage();
  if (now == stages_.size()) return {};
  std::vector<size_t> list = entrants(now);
  std::erase_if(list, [&](size_t trial) { return result(trial, now) != nullptr; });
  return list;
}

std::vector<size_t> SweepProgress::ranking() const {
  std::vector<size_t> list = entrants(0);
  const auto group = [&](size_t trial) -> int64_t {
    const StageResult* found = newest(trial);
    if (!found || found->failed) return -1;
    // A trial that missed an expectation has still come further than one that was eliminated.
    return 2 * static_cast<int64_t>(found->stage) + (found->missed() ? 0 : 1);
  };
  std::stable_sort(list.begin(), list.end(), [&](size_t a, size_t b) {
    const int64_t first = group(a), second = group(b);
    if (first != second) return first > second;
    return newest(a) && better(a, b, newest(a)->stage, ranking_.metric, ranking_.mode);
  });
  return list;
}

template <class Holds>
bool SweepProgress::any(const Holds& holds) const {
  return std::any_of(results_.begin(), results_.end(), [&](const auto& stage) {
    return std::any_of(stage.begin(), stage.end(),
                       [&](const auto& entry) { return holds(entry.second); });
  });
}

bool SweepProgress::any_failed() const {
  return any([](const StageResult& result) { return result.failed; });
}

bool SweepProgress::any_missed() const {
  return any([](const StageResult& result) { return result.missed(); });
}

}  // namespace accel
