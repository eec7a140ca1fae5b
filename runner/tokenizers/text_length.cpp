#include "runner/tokenizers/text_length.h"

#include <limits>

namespace accel {
namespace {

constexpr int64_t kMostOfLength = std::numeric_limits<int32_t>::max();

bool is_left(const JsonPlace& place) {
  const std::string direction = place.text_or("direction", "Right");
  if (direction != "Left" && direction != "Right") {
    place.at("direction").refuse("must be 'Left' or 'Right'");
  }
  return direction == "Left";
}

CutShare share_in(const JsonPlace& place) {
  const std::string& strategy = place.text();
  if (strategy == "LongestFirst") return CutShare::kLongestFirst;
  if (strategy == "OnlyFirst") return CutShare::kOnlyFirst;
  if (strategy == "OnlySecond") return CutShare::kOnlySecond;
  place.refuse("must be 'LongestFirst', 'OnlyFirst' or 'OnlySecond'");
}

}  // namespace

std::optional<TextCut> read_truncation(const JsonPlace& place, int64_t special) {
  if (place.is_null()) return std::nullopt;
  place.only({"direction", "max_length", "strategy", "stride"});
  TextCut cut;
  cut.max_length = place.at("max_length").integer(1, kMostOfLength);
  cut.share = share_in(place.at("strategy"));
  cut.from_left = is_left(place);
  const int64_t stride = place.at("stride").integer(0, kMostOfLength);
  if (cut.max_length <= special) {
    place.at("max_length")
        .refuse("leaves no room for a text: " + std::to_string(special) +
                " special tokens are added");
  }
  if (stride > 0 && stride >= cut.max_length - special) {
    place.at("stride").refuse("must be less than the " + std::to_string(cut.max_length - special) +
                              " tokens of a text that 'max_length' leaves");
  }
  return cut;
}

std::optional<TextFill> read_padding(const JsonPlace& place) {
  if (place.is_null()) return std::nullopt;
  place.only({"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"});
  TextFill fill;
  const JsonPlace strategy = place.at("strategy");
  if (strategy.is_object()) {
    strategy.only({"Fixed"});
    fill.fixed = strategy.at("Fixed").integer(0, kMostOfLength);
  } else if (strategy.text() != "BatchLongest") {
    strategy.refuse("must be 'BatchLongest' or {'Fixed': a length}");
  }
  fill.on_left = is_left(place);
  const JsonPlace multiple = place.find("pad_to_multiple_of");
  if (!multiple.is_null()) fill.multiple = multiple.integer(1, kMostOfLength);
  fill.id = static_cast<int32_t>(place.at("pad_id").integer(0, kMostOfLength));
  place.at("pad_type_id").integer(0, kMostOfLength);
  fill.token = place.at("pad_token").text();
  return fill;
}

}  // namespace accel
