#include "runner/draft/training_moments.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>

#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/text.h"
#include "data/loader/row_choice.h"

namespace accel {
namespace {

/// The samples of a draft with their classes, as split_rows() needs them.
class DraftedSamples final : public Dataset, public ClassLabels {
 public:
  DraftedSamples(int64_t samples, const std::vector<int64_t>& classes)
      : samples_(samples), classes_(classes) {}

  int64_t size() const override { return samples_; }
  Sample sample(int64_t) const override { return {}; }
  DataShape shape() const override {
    if (classes_.empty()) return {.target_type = DType::kF32};
    return {.target_type = DType::kI64,
            .classes = *std::max_element(classes_.begin(), classes_.end()) + 1};
  }
  std::string fingerprint() const override { return {}; }
  int64_t class_of(int64_t index) const override { return classes_[static_cast<size_t>(index)]; }

 private:
  int64_t samples_;
  const std::vector<int64_t>& classes_;
};

/// Calls `use` with the fields of each row that is a sample, and the class of its target, or 0.
template <class Use>
void each_table_sample(const TablePlan& plan, const std::string& path,
                       const std::vector<size_t>& required, const Use& use) {
  const SniffedTable& table = plan.table;
  const std::vector<std::string>& values = plan.goal().values;
  const SharedBytes file = map_file(path);
  CsvReader reader(file.view, table.dialect.dialect, path);
  std::vector<std::string_view> fields;
  if (table.header) reader.next(fields);
  while (reader.next(fields)) {
    const auto is_empty = [&](size_t column) { return trimmed(fields[column]).empty(); };
    if (std::any_of(required.begin(), required.end(), is_empty)) continue;
    const std::string_view target = fields[plan.target];
    int64_t label = 0;
    if (plan.is_class()) {
      const auto found = std::lower_bound(values.begin(), values.end(), target);
      if (found == values.end() || *found != target) continue;
      label = found - values.begin();
    } else if (!table_number(trimmed(target), table.dialect.decimal_comma)) {
      continue;
    }
    use(fields, label);
  }
}

}  // namespace

std::vector<bool> training_samples(const RecipeDraft& draft, int64_t samples,
                                   const std::vector<int64_t>& classes) {
  std::vector<bool> training(static_cast<size_t>(samples), true);
  if (draft.split.empty()) return training;
  std::vector<int64_t> rows(static_cast<size_t>(samples));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  const DraftedSamples dataset(samples, classes);
  const RowSplit split = split_rows(
      dataset, rows,
      {.share = draft.split_share, .samples = draft.split_samples, .seed = kDraftSplitSeed});
  for (const int64_t row : split.eval) training[static_cast<size_t>(row)] = false;
  return training;
}

void fit_moments(TablePlan& plan, const std::string& path, const RecipeDraft& draft,
                 const std::vector<size_t>& required) {
  if (draft.split.empty() && plan.goal().missing == 0) return;
  std::vector<int64_t> classes;
  int64_t samples = 0;
  each_table_sample(plan, path, required, [&](const auto&, int64_t label) {
    ++samples;
    if (plan.is_class()) classes.push_back(label);
  });
  const std::vector<bool> training = training_samples(draft, samples, classes);
  std::vector<ColumnScan> scans(plan.table.columns.size(),
                                ColumnScan(plan.table.dialect.decimal_comma));
  size_t index = 0;
  each_table_sample(plan, path, required, [&](const auto& fields, int64_t) {
    if (!training[index++]) return;
    for (size_t i = 0; i < fields.size(); ++i) scans[i].add(fields[i]);
  });
  for (size_t i = 0; i < scans.size(); ++i) scans[i].replace_moments(plan.table.columns[i]);
}

ColumnMoments target_moments(const RowsPlan& plan, const RecordSource& source,
                             const RecipeDraft& draft) {
  std::vector<std::string> wanted = plan.texts;
  wanted.push_back(plan.target);
  const std::unique_ptr<RecordReader> reader = source.open(wanted);
  std::vector<double> targets;
  std::vector<std::string_view> fields;
  for (bool more = true; more;) {
    try {
      more = reader->next(fields);
      if (!more) break;
    } catch (const DataError&) {
      continue;  // skipped and counted by the dataset
    }
    const std::optional<float> number = field_number(fields.back());
    if (number && !trimmed(fields.front()).empty()) targets.push_back(*number);
  }
  const std::vector<bool> training =
      training_samples(draft, static_cast<int64_t>(targets.size()), {});
  RunningMoments moments;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (training[i]) moments.add(targets[i]);
  }
  return moments.result();
}

std::string short_number(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.6g", value);
  return digits;
}

std::string regression_task(const ColumnMoments& target) {
  return text(
      "{type: regression, target_mean: {}, target_std: {}}  # of the training rows; metrics are in "
      "data units",
      short_number(target.mean), short_number(target.deviation));
}

}  // namespace accel
