// Tables with tabs, in which a quote is a character like any other.
#include "core/registry.h"
#include "data/table.h"

namespace accel {
namespace {

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
