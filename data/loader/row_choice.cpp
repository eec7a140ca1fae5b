#include "data/loader/row_choice.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/base/text.h"

namespace accel {
namespace {

// In place of the epoch in the random stream of a sample.
constexpr uint64_t kSplitStream = ~uint64_t{0} - 16;
constexpr uint64_t kSpreadStream = kSplitStream - 1;

using Rows = std::vector<int64_t>;

/// A seeded choice. The key of each row does not depend on the other rows.
struct Draw {
  uint64_t seed;
  uint64_t stream;

  uint64_t key(uint64_t item) const { return SampleRng(seed, stream, item).next(); }

  /// The `count` items of `items` with the smallest keys.
  template <class Item>
  std::vector<Item> smallest(const std::vector<Item>& items, int64_t count) const {
    std::vector<std::pair<uint64_t, Item>> keyed;
    keyed.reserve(items.size());
    for (const Item item : items) keyed.emplace_back(key(static_cast<uint64_t>(item)), item);
    const auto middle = keyed.begin() + count;
    std::nth_element(keyed.begin(), middle, keyed.end());
    std::vector<Item> out;
    std::transform(keyed.begin(), middle, std::back_inserter(out),
                   [](const auto& pair) { return pair.second; });
    return out;
  }
};

/// Chooses `count` of `rows` with the share of each class; `spare` rows of each class are not
/// chosen.
Rows choose_by_class(const Rows& rows, const Rows& classes, int64_t count, int64_t spare,
                     const Draw& draw) {
  std::map<int64_t, Rows> strata;
  for (size_t i = 0; i < rows.size(); ++i) strata[classes[i]].push_back(rows[i]);
  std::vector<int64_t> sizes;
  for (const auto& [label, members] : strata) {
    sizes.push_back(static_cast<int64_t>(members.size()));
  }
  const std::vector<int64_t> counts = proportional(count, sizes);
  Rows chosen;
  size_t i = 0;
  for (const auto& [label, members] : strata) {
    const int64_t most = std::max<int64_t>(0, sizes[i] - spare);
    const Rows part = draw.smallest(members, std::min(counts[i++], most));
    chosen.insert(chosen.end(), part.begin(), part.end());
  }
  return chosen;
}

/// The rows of whole groups, together close to `count` and not more unless one group is.
Rows choose_groups(const Rows& rows, const std::vector<uint64_t>& keys, int64_t count,
                   const std::string& column, const Draw& draw) {
  std::map<uint64_t, Rows> groups;
  for (const int64_t row : rows) groups[keys[static_cast<size_t>(row)]].push_back(row);
  if (groups.size() < 2) {
    throw DataError(text("all samples have one value in the column '{}' of 'group'", column),
                    "name a column with several values, or leave 'group' out");
  }
  std::vector<std::pair<uint64_t, uint64_t>> order;
  for (const auto& [key, members] : groups) order.emplace_back(draw.key(key), key);
  std::sort(order.begin(), order.end());
  Rows chosen;
  const Rows* smallest = &groups[order.front().second];
  size_t taken = 0;
  for (const auto& [unused, key] : order) {
    const Rows& members = groups[key];
    if (members.size() < smallest->size()) smallest = &members;
    const size_t together = chosen.size() + members.size();
    if (together > static_cast<size_t>(count) || taken + 1 == groups.size()) continue;
    chosen.insert(chosen.end(), members.begin(), members.end());
    ++taken;
  }
  return chosen.empty() ? *smallest : chosen;
}

int64_t number_held_out(size_t rows, const RowSplitOptions& options) {
  const auto all = static_cast<int64_t>(rows);
  const int64_t wanted =
      options.samples > 0
          ? options.samples
          : std::max<int64_t>(1, std::llround(static_cast<double>(all) * options.share));
  if (wanted < all) return wanted;
  throw DataError(
      text("'split' holds out {} of {} samples, which leaves none to train on", wanted, all),
      "lower 'eval' of 'split'");
}

[[noreturn]] void refuse_option(const std::string& message, const std::string& hint) {
  throw Error(ExitCode::kRecipe, message, hint);
}

/// The last windows of a sequence; `overlap` windows before them are unused.
RowSplit split_windows(const Rows& rows, int64_t count, int64_t overlap,
                       const RowSplitOptions& options) {
  if (!options.group.empty()) {
    refuse_option(text("'group' names a column, but samples of the dataset '{}' are windows of one "
                       "text",
                       options.dataset),
                  "leave 'group' out: the last windows are held out");
  }
  const auto end = rows.end() - count;
  const auto last = std::lower_bound(rows.begin(), end, *end - overlap);
  if (last == rows.begin()) {
    throw DataError(
        text("all {} windows before the held-out ones overlap them: none is left to train on",
             end - rows.begin()),
        "lower 'eval' of 'split', or select parts of the file with 'from' and 'to'");
  }
  return {{rows.begin(), last}, {end, rows.end()}, end - last, "the last windows"};
}

std::vector<uint64_t> keys_of(const Dataset& dataset, const RowSplitOptions& options) {
  const auto* keyed = dynamic_cast<const RowKeys*>(&dataset);
  if (keyed) return keyed->row_keys(options.group);
  refuse_option(
      text("'group' names a column, but the dataset '{}' has no columns", options.dataset),
      "tables, JSON Lines, Parquet and Arrow files have them; leave 'group' out");
}

}  // namespace

std::vector<int64_t> proportional(int64_t total, const std::vector<int64_t>& sizes) {
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<int64_t> counts;
  std::vector<std::pair<double, size_t>> remainders;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double share =
        static_cast<double>(total) * static_cast<double>(sizes[i]) / static_cast<double>(sum);
    counts.push_back(std::min(static_cast<int64_t>(share), sizes[i]));
    remainders.emplace_back(static_cast<double>(counts[i]) - share, i);
  }
  std::sort(remainders.begin(), remainders.end());
  int64_t rest = total - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t k = 0; rest > 0; k = (k + 1) % remainders.size()) {
    const size_t i = remainders[k].second;
    if (counts[i] == sizes[i]) continue;
    ++counts[i];
    --rest;
  }
  return counts;
}

bool has_classes(const DataShape& shape) {
  return shape.classes > 0 && shape.target.empty() && shape.target_type == DType::kI64;
}

std::vector<int64_t> classes_of(const Dataset& dataset, const std::vector<int64_t>& rows) {
  if (!has_classes(dataset.shape())) return {};
  std::vector<int64_t> classes(rows.size());
  if (const auto* known = dynamic_cast<const ClassLabels*>(&dataset)) {
    std::transform(rows.begin(), rows.end(), classes.begin(),
                   [&](int64_t row) { return known->class_of(row); });
    return classes;
  }
  std::vector<std::exception_ptr> errors(rows.size());
  parallel_for(rows.size(), usable_cores(), [&](size_t i) {
    try {
      classes[i] = dataset.sample(rows[i]).target.as<int64_t>()[0];
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return classes;
}

RowSplit split_rows(const Dataset& dataset, const std::vector<int64_t>& rows,
                    const RowSplitOptions& options) {
  const bool stratify = options.stratify.value_or(false);
  if (stratify && !has_classes(dataset.shape())) {
    refuse_option(
        text("'stratify' is true, but the dataset '{}' has no class labels", options.dataset),
        "leave 'stratify' out: auto stratifies where there are classes");
  }
  if (stratify && !options.group.empty()) {
    refuse_option("'stratify' and 'group' exclude each other",
                  "leave 'stratify' out: groups stay together, whatever their classes");
  }
  const int64_t count = number_held_out(rows.size(), options);
  const auto* windows = dynamic_cast<const SequenceWindows*>(&dataset);
  const int64_t overlap = windows ? windows->overlap() : 0;
  if (overlap > 0) return split_windows(rows, count, overlap, options);
  const Draw draw{options.seed, kSplitStream};
  const std::string seed = text("seed {}", options.seed);
  RowSplit out;
  if (!options.group.empty()) {
    out.eval = choose_groups(rows, keys_of(dataset, options), count, options.group, draw);
    out.method = text("whole groups of '{}', {}", options.group, seed);
  } else if (options.stratify.value_or(true) && has_classes(dataset.shape())) {
    out.eval = choose_by_class(rows, classes_of(dataset, rows), count, /*spare=*/1, draw);
    out.method = text("stratified by class, {}", seed);
  } else {
    out.eval = draw.smallest(rows, count);
    out.method = seed;
  }
  if (out.eval.empty()) {
    throw DataError("no class has two samples: nothing can be held out",
                    "write 'stratify: false', or train on more data");
  }
  std::sort(out.eval.begin(), out.eval.end());
  std::set_difference(rows.begin(), rows.end(), out.eval.begin(), out.eval.end(),
                      std::back_inserter(out.train));
  return out;
}

std::vector<int64_t> spread_rows(const Dataset& dataset, std::vector<int64_t> rows, int64_t count,
                                 uint64_t seed) {
  if (count >= static_cast<int64_t>(rows.size())) return rows;
  const Draw draw{seed, kSpreadStream};
  const Rows classes = classes_of(dataset, rows);
  Rows chosen = classes.empty() ? draw.smallest(rows, count)
                                : choose_by_class(rows, classes, count, /*spare=*/0, draw);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace accel
