#include "runner/job/recipe_values.h"

namespace accel {
namespace {

constexpr std::pair<Expectation::Op, const char*> kOps[] = {{Expectation::Op::kAtLeast, ">="},
                                                            {Expectation::Op::kAtMost, "<="},
                                                            {Expectation::Op::kMore, ">"},
                                                            {Expectation::Op::kLess, "<"}};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

}  // namespace

bool Expectation::met(double value) const {
  switch (op) {
    case Op::kAtLeast:
      return value >= bound;
    case Op::kAtMost:
      return value <= bound;
    case Op::kMore:
      return value > bound;
    case Op::kLess:
      return value < bound;
  }
  return false;
}

std::string to_string(const Expectation& expectation) {
  for (const auto& [op, text] : kOps) {
    if (op == expectation.op) return std::string(text) + " " + show_number(expectation.bound);
  }
  return {};
}

Schema<MixturePart> MixturePart::schema() {
  return Schema<MixturePart>()
      .field("weight", &MixturePart::weight,
             "Share of the samples drawn from this dataset; none: each sample once an epoch.",
             if_given<std::optional>(more_than(0.0)))
      .field("limit", &MixturePart::limit, "Use only this many samples, from the first on.",
             if_given<std::optional>(at_least<int64_t>(1)));
}

Schema<PhaseLength> PhaseLength::schema() {
  return Schema<PhaseLength>().field("for", &PhaseLength::duration,
                                     "How long this phase lasts; the last one takes the rest.");
}

std::optional<ResumeFrom> Codec<ResumeFrom>::read(const Node& node, const std::string& name,
                                                  Reading& reading) {
  const Scalar* scalar = node.scalar();
  if (!scalar || scalar->text.empty()) {
    reading.wrong_type(node, name, Codec::name());
    return std::nullopt;
  }
  if (scalar->text == "auto") return ResumeFrom{};
  if (scalar->text == "never") return ResumeFrom{ResumeFrom::Kind::kNever, {}};
  std::optional<FilePath> path = Codec<FilePath>::read(node, name, reading);
  if (!path) return std::nullopt;
  return ResumeFrom{ResumeFrom::Kind::kPath, *path};
}

Node Codec<ResumeFrom>::write(const ResumeFrom& value) {
  switch (value.kind) {
    case ResumeFrom::Kind::kAuto:
      return scalar_node("auto");
    case ResumeFrom::Kind::kNever:
      return scalar_node("never");
    case ResumeFrom::Kind::kPath:
      break;
  }
  return Codec<FilePath>::write(value.path);
}

std::optional<Expectation> Codec<Expectation>::read(const Node& node, const std::string& name,
                                                    Reading& reading) {
  if (const Scalar* scalar = node.scalar()) {
    const std::string text = trimmed(scalar->text);
    for (const auto& [op, sign] : kOps) {
      if (!text.starts_with(sign)) continue;
      const std::string rest = trimmed(text.substr(std::string(sign).size()));
      if (const auto bound = parse_number({rest}).value) return Expectation{op, *bound};
      break;
    }
  }
  reading.wrong_type(node, name, Codec::name(),
                     "write a comparison, '>=', '<=', '>' or '<', and a number");
  return std::nullopt;
}

Node Codec<Expectation>::write(const Expectation& value) {
  return scalar_node(to_string(value), true);
}

std::optional<DatasetParts> Codec<DatasetParts>::read(const Node& node, const std::string& name,
                                                      Reading& reading) {
  auto parts = Codec<std::vector<DatasetPart>>::read(node, name, reading);
  if (!parts) return std::nullopt;
  if (parts->size() == 1 && parts->front().extra.weight) {
    reading.problems.error(parts->front().component.resolved.where,
                           "a 'weight' says nothing of a dataset that is mixed with no other",
                           "leave it out, or write a list of datasets");
    return std::nullopt;
  }
  return DatasetParts{std::move(*parts)};
}

Node Codec<DatasetParts>::write(const DatasetParts& value) {
  if (value.parts.size() == 1) return Codec<DatasetPart>::write(value.parts[0]);
  return Codec<std::vector<DatasetPart>>::write(value.parts);
}

std::optional<SchedulePhases> Codec<SchedulePhases>::read(const Node& node, const std::string& name,
                                                          Reading& reading) {
  std::optional<std::vector<SchedulePhase>> phases =
      Codec<std::vector<SchedulePhase>>::read(node, name, reading);
  if (!phases) return std::nullopt;
  for (size_t i = 0; i + 1 < phases->size(); ++i) {
    if (!(*phases)[i].extra.duration) {
      reading.problems.error((*phases)[i].component.resolved.where,
                             "a phase before the last one has no 'for'",
                             "say how long it lasts: 'for: 10%' or 'for: 500 steps'");
      return std::nullopt;
    }
  }
  return SchedulePhases{std::move(*phases)};
}

Node Codec<SchedulePhases>::write(const SchedulePhases& value) {
  if (value.phases.size() == 1 && !value.phases[0].extra.duration) {
    return value.phases[0].component.resolved;
  }
  return Codec<std::vector<SchedulePhase>>::write(value.phases);
}

}  // namespace accel
