#include "train/recipe/recipe_values.h"

#include "core/base/text.h"
#include "core/recipe/number_text.h"

namespace accel {
namespace {

constexpr std::pair<Expectation::Op, const char*> kOps[] = {{Expectation::Op::kAtLeast, ">="},
                                                            {Expectation::Op::kAtMost, "<="},
                                                            {Expectation::Op::kMore, ">"},
                                                            {Expectation::Op::kLess, "<"}};

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

namespace {

/// Of a constant; the points of a schedule are checked when they are read.
Rule<MixtureWeight> more_than_nothing() {
  return {[](const MixtureWeight& v) { return v.is_schedule || v.constant() > 0; }, "more than 0",
          ""};
}

}  // namespace

Schema<MixturePart> MixturePart::schema() {
  return Schema<MixturePart>()
      .field("weight", &MixturePart::weight,
             "Share of this dataset in the samples; none: each sample once per epoch. Of training "
             "data also a share that changes over the run: weights at points in steps, epochs or "
             "percent of the run, such as `{0: 1, 50%: 0.2}`; see `data.loader.mixture`.",
             if_given<std::optional>(more_than_nothing()))
      .field("limit", &MixturePart::limit,
             "Maximum number of samples, drawn from all by the seed of the recipe, by class in "
             "proportion where there are classes.",
             if_given<std::optional>(at_least<int64_t>(1)))
      .field("head", &MixturePart::head, "Maximum number of samples, from the first.",
             if_given<std::optional>(at_least<int64_t>(1)))
      .check([](const MixturePart& part, const Node& node, Reading& reading) {
        if (!part.limit || !part.head) return;
        reading.problems.error(node.find("head")->node.where,
                               "'head' and 'limit' exclude each other",
                               "'head' takes the first samples, 'limit' draws from all");
      });
}

Schema<PhaseLength> PhaseLength::schema() {
  return Schema<PhaseLength>().field("for", &PhaseLength::duration,
                                     "Duration of this phase; the last one extends to the end.");
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
                     "write an operator, '>=', '<=', '>' or '<', and a number");
  return std::nullopt;
}

Node Codec<Expectation>::write(const Expectation& value) {
  return scalar_node(to_string(value), true);
}

std::string to_string(const Portion& portion) {
  if (portion.samples > 0) return text("{} samples", portion.samples);
  return show_number(portion.percent) + " %";
}

std::optional<Portion> Codec<Portion>::read(const Node& node, const std::string& name,
                                            Reading& reading) {
  std::string hint;
  if (const Scalar* scalar = node.scalar()) {
    const std::string text = trimmed(scalar->text);
    if (text.ends_with('%')) {
      const auto percent = parse_number({trimmed(text.substr(0, text.size() - 1))}).value;
      if (percent && *percent > 0 && *percent < 100) return Portion{.percent = *percent};
    } else if (const auto samples = parse_integer({text}).value; samples && *samples > 0) {
      return Portion{.samples = *samples};
    } else if (const auto share = parse_number({text}).value; share && *share > 0 && *share < 1) {
      hint = accel::text("write {}%", show_number(*share * 100));
    }
  }
  reading.wrong_type(node, name, Codec::name(), hint);
  return std::nullopt;
}

Node Codec<Portion>::write(const Portion& value) {
  if (value.samples > 0) return scalar_node(std::to_string(value.samples));
  return scalar_node(show_number(value.percent) + "%");
}

std::optional<DatasetParts> Codec<DatasetParts>::read(const Node& node, const std::string& name,
                                                      Reading& reading) {
  auto parts = Codec<std::vector<DatasetPart>>::read(node, name, reading);
  if (!parts) return std::nullopt;
  if (parts->size() == 1 && parts->front().extra.weight) {
    reading.problems.error(parts->front().component.resolved.where,
                           "'weight' has no effect on a single dataset",
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
                             "give its duration: 'for: 10%' or 'for: 500 steps'");
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
