// Tables with commas, quoted by RFC 4180.
#include "core/registry.h"
#include "data/table.h"

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

}  // namespace
}  // namespace accel
