// Inputs and targets in two NumPy files.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "core/api/dataset.h"
#include "core/api/input_path.h"
#include "core/api/row_values.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "data/datasets/fingerprint.h"
#include "data/datasets/rows.h"
#include "formats/tensors/npy.h"

namespace accel {
namespace {

struct NpyOptions {
  InputFile inputs;
  InputFile targets;
  bool scale = false;
};

bool is_float(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
}

class Npy final : public Dataset, public ClassLabels {
 public:
  static constexpr auto kName = "npy";
  static constexpr auto kSummary = "Inputs and targets in .npy files, memory-mapped.";

  static Schema<NpyOptions> schema() {
    return Schema<NpyOptions>()
        .field("inputs", &NpyOptions::inputs,
               "Inputs, one per entry of the first dimension. Bytes, booleans and floats become "
               "float32; wider whole numbers are tokens.")
        .required()
        .field("targets", &NpyOptions::targets,
               "Targets. Whole numbers are classes or tokens; floats are for regression.")
        .required()
        .field("scale", &NpyOptions::scale, "Divide inputs that are unsigned bytes by 255.");
  }

  Npy(const NpyOptions& options, const DatasetContext& context)
      : inputs_name_(options.inputs.text), inputs_(read_npy(options.inputs.text)) {
    check_entries(inputs_, options.inputs.text);
    targets_ =
        context.targets ? read_npy(options.targets.text) : undefined_classes(inputs_.shape()[0]);
    check_entries(targets_, options.targets.text);
    if (inputs_.shape()[0] != targets_.shape()[0]) {
      throw DataError(accel::text("'{}' has {} entries, but '{}' {}", options.inputs.text,
                                  inputs_.shape()[0], options.targets.text, targets_.shape()[0]));
    }
    if (options.scale && inputs_.type() != DType::kU8) {
      throw DataError(accel::text("'scale' is for unsigned bytes, but '{}' holds {}",
                                  options.inputs.text, name_of(inputs_.type())));
    }
    scale_ = options.scale;
    tokens_ = !is_float(inputs_.type()) && size_of(inputs_.type()) > 1;
    fingerprint_ = Fingerprint()
                       .add(name_of(inputs_.type()))
                       .add(to_string(inputs_.shape()))
                       .add_content({inputs_.data(), inputs_.bytes()})
                       .add(name_of(targets_.type()))
                       .add(to_string(targets_.shape()))
                       .add_content({targets_.data(), targets_.bytes()})
                       .text();
    if (is_float(targets_.type())) {
      targets_ = to_float(targets_);
    } else {
      targets_ = to_int64(targets_, options.targets.text);
      if (!tokens_) classes_ = count_classes(targets_, options.targets.text);
    }
    if (tokens_) vocab_ = count_tokens();
  }

  int64_t size() const override { return inputs_.shape()[0]; }

  Sample sample(int64_t index) const override {
    return {input_of(row_of(inputs_, index)), row_of(targets_, index)};
  }

  std::optional<Columns> columns() const override {
    const bool as_it_is = inputs_.type() == shape().input_type;
    if (!scale_ && !as_it_is) return std::nullopt;
    return Columns{inputs_, targets_, scale_};
  }

  DataShape shape() const override {
    return {.input = Shape(inputs_.shape().begin() + 1, inputs_.shape().end()),
            .input_type = tokens_ ? DType::kI64 : DType::kF32,
            .target = Shape(targets_.shape().begin() + 1, targets_.shape().end()),
            .target_type = targets_.type(),
            .classes = classes_,
            .vocab = vocab_};
  }

  std::string fingerprint() const override { return fingerprint_; }
  int64_t class_of(int64_t index) const override {
    return targets_.as<int64_t>()[static_cast<size_t>(index)];
  }

 private:
  static void check_entries(const Array& array, const std::string& path) {
    if (array.shape().empty()) {
      throw DataError(accel::text("'{}' holds a single number, not one entry per sample", path));
    }
  }

  Array input_of(const Array& row) const {
    if (tokens_) return to_int64(row, inputs_name_);
    return scale_ ? to_unit_range(row) : to_float(row);
  }

  int64_t count_tokens() const {
    int64_t vocab = 0;
    for (int64_t i = 0; i < size(); ++i) {
      vocab = std::max(vocab, count_classes(input_of(row_of(inputs_, i)), inputs_name_));
    }
    return vocab;
  }

  std::string inputs_name_;
  Array inputs_;
  Array targets_;
  bool scale_ = false;
  bool tokens_ = false;
  int64_t classes_ = 0;
  int64_t vocab_ = 0;
  std::string fingerprint_;
};

const Register<Npy> npy;

}  // namespace
}  // namespace accel
