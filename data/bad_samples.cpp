#include "data/bad_samples.h"

#include "core/log.h"

namespace accel {
namespace {

constexpr size_t kTold = 3;

std::string samples(int64_t count) {
  return std::to_string(count) + (count == 1 ? " sample" : " samples");
}

/// The number between the parentheses of "skip(10)".
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
    throw DataError(std::string(error.what()) + "; 'on_bad_sample' lets " + samples(count_) +
                        " of '" + source_ + "' be left out, and this is one more",
                    "mend the data, or raise the number in 'skip(" + std::to_string(count_) + ")'");
  }
  ++count_;
  if (first_.size() < kTold) first_.push_back(error.what());
}

void BadSamples::tell(int64_t left) const {
  if (count_ == 0) return;
  if (left == 0) {
    throw DataError("'" + source_ +
                    "' holds no sample that can be read; the first: " + first_.front());
  }
  std::string line = "'" + source_ + "': " + samples(count_) + " left out that cannot be read, " +
                     samples(left) + " kept";
  for (const std::string& problem : first_) line += "\n  " + problem;
  if (count_ > static_cast<int64_t>(first_.size())) line += "\n  ...";
  warn(line);
}

int64_t left_out(const Dataset& dataset) {
  const auto* leaves = dynamic_cast<const LeavesOut*>(&dataset);
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
