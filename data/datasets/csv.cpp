// Tables of comma-separated values, quoted by RFC 4180, and of tab-separated values without
// quoting.
#include "core/recipe/registry.h"
#include "data/datasets/table.h"

namespace accel {
namespace {

class Csv final : public Table {
 public:
  static constexpr auto kName = "csv";
  static constexpr auto kSummary =
      "Comma-separated values: numbers and categories as feature vectors.";

  static Schema<TableOptions> schema() { return TableOptions::schema(); }

  Csv(const TableOptions& options, const DatasetContext& context)
      : Table(options, context, {.delimiter = ',', .quoting = true}) {}
};

const Register<Csv> csv;

class Tsv final : public Table {
 public:
  static constexpr auto kName = "tsv";
  static constexpr auto kSummary =
      "Tab-separated values: numbers and categories as feature vectors.";

  static Schema<TableOptions> schema() { return TableOptions::schema(); }

  Tsv(const TableOptions& options, const DatasetContext& context)
      : Table(options, context, {.delimiter = '\t', .quoting = false}) {}
};

const Register<Tsv> tsv;

}  // namespace
}  // namespace accel
