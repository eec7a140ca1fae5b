// Columns of tables: options, and assignment to inputs and targets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/api/input_path.h"
#include "core/recipe/schema.h"
#include "data/datasets/label_map.h"
#include "data/datasets/skipped_samples.h"
#include "data/datasets/table_fields.h"
#include "data/datasets/table_fill.h"
#include "data/datasets/text/text_columns.h"

namespace accel {

/// The type of a target column.
enum class TargetType { kClasses, kNumber, kLabels };

template <>
struct EnumNames<TargetType> {
  static constexpr std::pair<TargetType, const char*> kValues[] = {
      {TargetType::kClasses, "classes"},
      {TargetType::kNumber, "number"},
      {TargetType::kLabels, "labels"}};
};

/// One column or several, in the order of the target's numbers.
struct TargetColumns {
  std::vector<std::string> names;

  bool empty() const { return names.empty(); }
  bool is_list() const { return names.size() > 1; }
  const std::string& front() const { return names.front(); }
  std::string text() const;
};

template <>
struct Codec<TargetColumns> {
  using Names = Codec<std::vector<std::string>>;

  static std::string name() { return "a column or a list of columns"; }
  static std::string json() { return Names::json(); }
  static std::optional<TargetColumns> read(const Node& node, const std::string& name,
                                           Reading& reading);
  static Node write(const TargetColumns& columns);
};

constexpr auto kTargetTypeHelp =
    "classes: a class label. number: for regression, of several columns or of a list several "
    "numbers. labels: any number of labels, for multi_label_classification: a list, or a column "
    "of 0 and 1 for each.";

/// Reports several columns of classes.
void check_target(const TargetColumns& target, TargetType type, const Node& node, Reading& reading);
/// Reports a target among the columns of the text.
void check_text_has_no_target(const std::vector<std::string>& text_columns,
                              const TargetColumns& target, const Node& node, Reading& reading);

struct TableOptions : TextColumnOptions {
  InputFile path;
  Auto<bool> header;
  Auto<std::string> delimiter;
  Auto<bool> quoting;
  bool skip_initial_space = false;
  std::vector<std::string> features;
  std::map<std::string, std::vector<std::string>> one_hot;
  std::vector<std::string> booleans;
  std::map<std::string, std::vector<DateFeature>> dates;
  std::string decimal = ".";
  std::vector<std::string> na_values = default_na_values();
  FillRules fill;
  TargetColumns target;
  TargetType target_type = TargetType::kClasses;
  std::vector<std::string> labels;
  OnBadSample on_bad_sample;

  static Schema<TableOptions> schema();
};

/// Columns by name.
class ColumnNames {
 public:
  /// `names` is empty for a table without a header.
  ColumnNames(std::vector<std::string> names, size_t count, std::string path);

  size_t count() const { return count_; }
  bool has_header() const { return !names_.empty(); }
  const std::string& path() const { return path_; }
  /// Position of a column given by name or by number from 0. Throws Error (recipe) naming `option`
  /// for a missing column.
  size_t find(const std::string& column, const std::string& option) const;
  /// The same; none for a missing column.
  std::optional<size_t> look_up(const std::string& column) const;
  /// For messages.
  std::string describe(size_t column) const;
  /// The column's name, or its number in a table without a header.
  std::string name(size_t column) const;

 private:
  std::vector<std::string> names_;
  size_t count_;
  std::string path_;
};

enum class ColumnKind { kNumber, kCategory, kBoolean, kDate };

/// One feature column.
struct FeatureColumn {
  size_t position = 0;
  std::string name = {};
  ColumnKind kind = ColumnKind::kNumber;
  bool listed = false;       ///< the recipe lists the categories
  LabelMap categories = {};  ///< of kCategory; if not listed, those found in the first pass
  std::vector<DateFeature> dates = {};  ///< of kDate
  std::optional<FillRule> rule = {};    ///< of missing values

  /// Number of features.
  size_t width() const;
};

/// The feature columns of the options, in order; without options all columns except the target.
/// Throws Error (recipe) for columns that do not fit together.
std::vector<FeatureColumn> feature_columns(const TableOptions& options, const ColumnNames& names,
                                           const std::vector<size_t>& targets);

/// A field as a finite float, ignoring surrounding spaces; none for other fields.
std::optional<float> field_number(std::string_view field);

/// Whether the first record is a header: it has no number, but the second one has.
bool looks_like_header(const std::vector<std::string_view>& first,
                       const std::vector<std::string_view>& second);

}  // namespace accel
