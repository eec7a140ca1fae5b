#include "runner/sweep/trials.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "core/sample_rng.h"
#include "core/schema.h"

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
      if (longer.size() > kMostTrials) break;  // reported below
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
                "draw some of them with 'random'");
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

}  // namespace accel
