#include "runner/sweep/stages.h"

#include <algorithm>
#include <numeric>

namespace accel {

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
  const std::string by = promote ? promote->by.value_or(ranking_.by) : ranking_.by;
  const Better mode = promote ? promote->mode.value_or(ranking_.mode) : ranking_.mode;
  std::vector<size_t> list;
  for (const size_t trial : entrants(stage - 1)) {
    const StageResult* found = result(trial, stage - 1);
    if (!found || found->failed || found->missed()) continue;
    if (!promote || found->values.contains(by)) list.push_back(trial);
  }
  std::sort(list.begin(), list.end());
  std::stable_sort(list.begin(), list.end(),
                   [&](size_t a, size_t b) { return better(a, b, stage - 1, by, mode); });
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
    const auto all = static_cast<int64_t>(stages_.size());
    if (!found || found->failed) return -all - 1;
    return static_cast<int64_t>(found->stage) - (found->missed() ? all : 0);
  };
  std::stable_sort(list.begin(), list.end(), [&](size_t a, size_t b) {
    const int64_t first = group(a), second = group(b);
    if (first != second) return first > second;
    return newest(a) && better(a, b, newest(a)->stage, ranking_.by, ranking_.mode);
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
