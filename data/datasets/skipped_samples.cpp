#include "data/datasets/skipped_samples.h"

#include "core/base/log.h"
#include "core/base/text.h"

namespace accel {
namespace {

constexpr size_t kTold = 3;

std::string samples(int64_t count) {
  return std::to_string(count) + (count == 1 ? " sample" : " samples");
}

/// The number in "skip(10)".
std::optional<int64_t> number_to_skip(std::string_view text) {
  constexpr std::string_view kOpen = "skip(";
  if (!text.starts_with(kOpen) || !text.ends_with(')')) return std::nullopt;
  text.remove_prefix(kOpen.size());
  text.remove_suffix(1);
  const std::optional<int64_t> most = parse_integer({std::string(text)}).value;
  return most && *most > 0 ? most : std::nullopt;
}

}  // namespace

void BadSamples::leave_out(const DataError& error) {
  if (!wanted_.most) throw error;
  if (count_ == *wanted_.most) {
    throw DataError(
        accel::text("{}; 'on_bad_sample' allows {} of '{}' to be skipped, and this is one more",
                    error.what(), samples(count_), source_),
        accel::text("repair the data, or raise the number in 'skip({})'", count_));
  }
  ++count_;
  if (first_.size() < kTold) first_.push_back(error.what());
}

void BadSamples::tell(int64_t left) const {
  if (count_ == 0) return;
  if (left == 0) {
    throw DataError(
        accel::text("'{}' has no readable sample; the first error: {}", source_, first_.front()));
  }
  std::string line = accel::text("'{}': {} skipped as unreadable, {} read", source_,
                                 samples(count_), samples(left));
  for (const std::string& problem : first_) line += "\n  " + problem;
  if (count_ > static_cast<int64_t>(first_.size())) line += "\n  ...";
  warn(line);
}

int64_t left_out(const Dataset& dataset) {
  const auto* leaves = dynamic_cast<const SkipsSamples*>(&dataset);
  return leaves ? leaves->left_out() : 0;
}

std::optional<OnBadSample> Codec<OnBadSample>::read(const Node& node, const std::string& name,
                                                    Reading& reading) {
  if (const Scalar* scalar = node.scalar()) {
    if (scalar->text == "stop") return OnBadSample{};
    if (const auto most = number_to_skip(scalar->text)) return OnBadSample{most};
  }
  reading.wrong_type(node, name, Codec::name());
  return std::nullopt;
}

Node Codec<OnBadSample>::write(const OnBadSample& value) {
  return scalar_node(value.most ? "skip(" + std::to_string(*value.most) + ")" : "stop");
}

}  // namespace accel
