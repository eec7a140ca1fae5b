#include "train/job/library_errors.h"

#include <c10/util/Exception.h>

#include <new>
#include <stdexcept>
#include <string_view>

#include "core/base/text.h"
#include "core/recipe/located_error.h"
#include "train/recipe/model_size.h"

namespace accel {
namespace {

/// The text between `before` and `after` in `message`; "" without them.
std::string between(std::string_view message, std::string_view before, std::string_view after) {
  const size_t begin = message.find(before);
  if (begin == message.npos) return {};
  const std::string_view rest = message.substr(begin + before.size());
  const size_t end = rest.find(after);
  return std::string(rest.substr(0, end == rest.npos ? 0 : end));
}

std::string first_line(const std::string& message) {
  return message.substr(0, message.find('\n'));
}

}  // namespace

std::optional<std::string> size_failure(const std::exception& error) {
  const std::string_view message = error.what();
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    if (ours->code() != ExitCode::kMemory) return std::nullopt;
    return std::string(message);
  }
  const std::string sizes =
      between(message, "Storage size calculation overflowed with sizes=", "]");
  if (!sizes.empty()) return text("a tensor of the shape {}] has 2^63 bytes or more", sizes);
  if (message.find("numel: integer multiplication overflow") != message.npos) {
    return "a tensor has 2^63 elements or more";
  }
  const std::string bytes = between(message, "you tried to allocate ", " bytes");
  if (!bytes.empty()) return text("{} bytes cannot be allocated", bytes);
  const bool length = dynamic_cast<const std::length_error*>(&error) != nullptr;
  if (length || is_out_of_memory(error)) return "an allocation failed";
  return std::nullopt;
}

void check_size_failure(const std::exception& error, const std::string& what, const Node& recipe,
                        const std::string& name) {
  const std::optional<std::string> reason = size_failure(error);
  if (!reason) return;
  throw_too_large(what, *reason, recipe, name);
}

void check_step_error(const Job& job, int64_t step, const std::exception& error) {
  if (dynamic_cast<const Error*>(&error)) return;
  if (const std::optional<std::string> reason = size_failure(error)) {
    throw LocatedError(ExitCode::kMemory,
                       {recipe_place(job.resolved, "train.micro_batch"),
                        text("step {}: a micro-batch of {} samples does not fit into memory: {}",
                             step, job.batches.micro_batch, *reason),
                        "lower 'train.micro_batch', or make the model or the samples smaller"});
  }
  const std::string line = first_line(error.what());
  if (line.ends_with("without overflow")) {
    throw DivergedError(text("step {}: a number is beyond the range of its tensor: {}", step, line),
                        "lower 'optimizer.lr' and the other numbers of 'optimizer' and 'train'");
  }
  if (line.find("Expected more than 1 value per channel") != line.npos) {
    throw LocatedError(ExitCode::kData,
                       {recipe_place(job.resolved, "train.micro_batch"),
                        text("step {}: batch norm needs several values per channel, but a "
                             "micro-batch has one: {}",
                             step, line),
                        "raise 'train.micro_batch', or set 'data.loader.drop_last'"});
  }
  if (!dynamic_cast<const c10::Error*>(&error)) return;
  throw Error(ExitCode::kOther, text("step {}: libtorch refuses an operation: {}", step, line),
              "check that the model, the task and the data fit one another");
}

}  // namespace accel
