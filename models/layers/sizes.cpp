#include "models/layers/sizes.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

namespace {

std::string named(const char* model, const char* option) {
  return text("'{}' of the model '{}'", option, model);
}

[[noreturn]] void untold(const char* model, const char* option) {
  throw Error(ExitCode::kRecipe,
              text("{} is auto, but the data does not determine it", named(model, option)),
              text("set '{}'", option));
}

/// `verb` relates the data to `there`: "has", "needs".
[[noreturn]] void contradicts(const std::string& option, const std::string& here, const char* verb,
                              const std::string& there) {
  throw Error(ExitCode::kRecipe, text("{} is {}, but the data {} {}", option, here, verb, there),
              "leave it out to take it from the data");
}

int64_t known_size(const SizeOption& option) {
  if (option.given) return *option.given;
  if (option.in_data > 0) return option.in_data;
  untold(option.model, option.name);
}

void misfit(const char* model, const char* wanted, const DataShape& data) {
  throw Error(ExitCode::kRecipe,
              text("the model '{}' requires {}, but a sample of the data is {} {}", model, wanted,
                   name_of(data.input_type), to_string(data.input)));
}

bool unknown(const DataShape& data) {
  return data.input.empty();
}

}  // namespace

int64_t equal_size(const SizeOption& option) {
  const int64_t size = known_size(option);
  if (option.in_data > 0 && size != option.in_data) {
    contradicts(named(option.model, option.name), std::to_string(size), "has",
                std::to_string(option.in_data));
  }
  return size;
}

int64_t sufficient_size(const SizeOption& option) {
  const int64_t size = known_size(option);
  if (size < option.in_data) {
    contradicts(named(option.model, option.name), std::to_string(size), "needs",
                std::to_string(option.in_data));
  }
  return size;
}

Shape equal_shape(const char* model, const char* option, const Auto<Shape>& given,
                  const Shape& in_data) {
  if (!given && in_data.empty()) untold(model, option);
  if (given && !in_data.empty() && *given != in_data) {
    contradicts(named(model, option), to_string(*given), "has", to_string(in_data));
  }
  return given ? *given : in_data;
}

bool check_multiple(NamedSize all, NamedSize part, const Node& node, Reading& reading) {
  if (all.value % part.value == 0) return true;
  reading.problems.error(node.where,
                         text("'{}' must be a multiple of '{}', but {} is not one of {}", all.name,
                              part.name, all.value, part.value));
  return false;
}

int64_t output_count(const DataShape& data) {
  return has_numeric_targets(data) ? count_of(data.target) : data.classes;
}

bool has_numeric_targets(const DataShape& data) {
  return data.target_type == DType::kF32;
}

void want_numbers(const char* model, const DataShape& data) {
  if (!unknown(data) && data.input_type != DType::kF32) misfit(model, "F32 numbers", data);
}

void want_images(const char* model, const DataShape& data) {
  if (!unknown(data) && (data.input_type != DType::kF32 || data.input.size() != 3)) {
    misfit(model, "F32 images [channels, height, width]", data);
  }
}

void require_tokens(const char* model, const DataShape& data) {
  if (!unknown(data) && (data.input_type != DType::kI64 || data.input.size() != 1)) {
    misfit(model, "I64 token ids [context]", data);
  }
}

}  // namespace accel
