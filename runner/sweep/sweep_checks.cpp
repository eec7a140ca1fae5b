#include "runner/sweep/sweep_checks.h"

#include <algorithm>
#include <cstdlib>

#include "core/schema.h"

namespace accel {
namespace {

/// What is done with the same key more than once, and keys that are not a trial's to set.
class KeyCheck {
 public:
  KeyCheck(const SweepOptions& sweep, Reading& reading) : sweep_(sweep), reading_(reading) {}

  void add(const Node& node, const char* section) {
    const Node::Entry* entry = node.find(section);
    const bool random = std::string(section) == "random";
    if (random && entry) entry = entry->node.find("values");
    if (!entry || !entry->node.map()) return;
    for (const Node::Entry& option : *entry->node.map()) {
      const std::string quoted = "'" + option.key + "'";
      const auto [first, added] = seen_.emplace(option.key, section);
      if (!added) {
        reading_.problems.error(
            option.where, quoted + " is in '" + first->second + "' as well as in '" + section + "'",
            "leave one of the two out");
      }
      if (option.key == "name") {
        reading_.problems.error(option.where, "a sweep names its trials itself",
                                "leave 'name' out here; the sweep's own 'name' comes first in "
                                "theirs");
      }
      if (option.key == "train.until" && !sweep_.stages.empty()) {
        reading_.problems.error(option.where, "'train.until' is what 'stages' say",
                                "leave one of the two out");
      }
    }
  }

 private:
  const SweepOptions& sweep_;
  Reading& reading_;
  std::map<std::string, std::string> seen_;
};

/// Whether two values are the same one for a recipe, however they are written: 0.001 and 1e-3.
bool same_value(const Node& a, const Node& b) {
  const Scalar *first = a.scalar(), *second = b.scalar();
  if (first && second && !first->quoted && !second->quoted) {
    char *rest_of_first = nullptr, *rest_of_second = nullptr;
    const double x = std::strtod(first->text.c_str(), &rest_of_first);
    const double y = std::strtod(second->text.c_str(), &rest_of_second);
    const bool numbers = !*rest_of_first && !*rest_of_second;
    if (numbers && !first->text.empty() && !second->text.empty()) return x == y;
  }
  return detail::inline_text(a) == detail::inline_text(b);
}

/// A trial that another one repeats tells nothing: equal recipes make equal runs.
void check_repeats(const SweepOptions& sweep, Reading& reading) {
  for (const auto& [key, values] : sweep.grid) {
    for (auto at = values.begin(); at != values.end(); ++at) {
      const auto is_it = [at](const Node& value) { return same_value(value, *at); };
      if (std::none_of(values.begin(), at, is_it)) continue;
      reading.problems.error(at->where,
                             "'" + key + "' has the value " + detail::inline_text(*at) + " twice",
                             "leave one out: equal trials make equal runs");
    }
  }
}

void check_lists(const SweepOptions& sweep, const Node& node, Reading& reading) {
  const auto check_empty = [&](const char* section, const auto& lists) {
    for (const auto& [key, values] : lists) {
      if (!values.empty()) continue;
      reading.problems.error(node.find(section)->node.find(key)->where,
                             "'" + key + "' has no values to try", "give a list, such as [1, 2]");
    }
  };
  check_empty("grid", sweep.grid);
  check_empty("paired", sweep.paired);
  for (const auto& [key, values] : sweep.paired) {
    const auto& [first, others] = *sweep.paired.begin();
    if (values.size() == others.size()) continue;
    reading.problems.error(node.find("paired")->node.find(key)->where,
                           "'" + key + "' has " + std::to_string(values.size()) + " values, and '" +
                               first + "' has " + std::to_string(others.size()),
                           "lists that are paired are equally long");
  }
  if (sweep.random.values.empty() == (sweep.random.trials == 0)) return;
  reading.problems.error(node.find("random")->where,
                         sweep.random.trials == 0 ? "'random' does not say how many to draw"
                                                  : "'random' has no values to draw",
                         sweep.random.trials == 0 ? "add 'trials: 10'" : "add 'values'");
}

/// How many trials these values make; as a double, which the largest of grids fits.
double trial_count(const SweepOptions& sweep) {
  double count = 1;
  for (const auto& [key, values] : sweep.grid) count *= static_cast<double>(values.size());
  if (!sweep.paired.empty()) count *= static_cast<double>(sweep.paired.begin()->second.size());
  if (!sweep.random.values.empty()) count *= static_cast<double>(sweep.random.trials);
  return count;
}

/// Of a stage that would choose among fewer trials than it is to keep.
void check_promotions(const SweepOptions& sweep, const Node& node, Reading& reading) {
  const Node::Entry* entry = node.find("stages");
  double entrants = trial_count(sweep);
  if (entrants < 1) return;  // reported
  for (size_t i = 1; i < sweep.stages.size(); ++i) {
    const std::optional<PromoteSection>& promote = sweep.stages[i].promote;
    if (!promote) continue;
    const auto keep = static_cast<double>(promote->keep);
    if (keep > entrants) {
      const Node& section = (*entry->node.list())[i].find("promote")->node;
      const auto count = static_cast<int64_t>(entrants);
      reading.problems.error(
          section.find("keep")->node.where,
          "'keep' is " + std::to_string(promote->keep) + ", and " +
              (count == 1 ? "one trial comes" : std::to_string(count) + " trials come") +
              " to this stage",
          "keep fewer, or leave 'promote' out to let all go on");
    }
    entrants = std::min(entrants, keep);
  }
}

void check_stages(const SweepOptions& sweep, const Node& node, Reading& reading) {
  const Node::Entry* entry = node.find("stages");
  double before = 0;
  for (size_t i = 0; i < sweep.stages.size(); ++i) {
    const Node& own = entry->node.list() ? (*entry->node.list())[i] : entry->node;
    const StageSection& stage = sweep.stages[i];
    const bool last = i + 1 == sweep.stages.size();
    const bool steps = stage.until.unit == Duration::Unit::kSteps;
    if (i == 0 && stage.promote) {
      reading.problems.error(own.find("promote")->where, "the first stage has no one to promote",
                             "'promote' chooses among the trials of the stage before");
    }
    if (!steps && !last) {
      reading.problems.error(own.find("until")->node.where,
                             "a stage but the last ends after a number of steps, not after '" +
                                 to_string(stage.until) + "'",
                             "write '100 steps'");
    } else if (steps && stage.until.value <= before) {
      reading.problems.error(own.find("until")->node.where,
                             "a stage ends later than the one before it");
    }
    if (steps) before = stage.until.value;
  }
}

}  // namespace

void check_sweep(const SweepOptions& sweep, const Node& node, Reading& reading) {
  if (sweep.grid.empty() && sweep.paired.empty() && sweep.random.values.empty() &&
      sweep.random.trials == 0) {
    reading.problems.error(node.where, "there are no values to try",
                           "add 'grid', 'random' or 'paired'");
  }
  KeyCheck keys(sweep, reading);
  for (const char* section : {"grid", "random", "paired", "overrides"}) keys.add(node, section);
  check_lists(sweep, node, reading);
  check_repeats(sweep, reading);
  check_stages(sweep, node, reading);
  check_promotions(sweep, node, reading);
}

}  // namespace accel
