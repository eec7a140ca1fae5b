#include "runner/tokenizers/post_processor.h"

namespace accel {
namespace {

using From = SequencePiece::From;

constexpr int64_t kMostId = 0x7fffffff;

int32_t read_id(const JsonPlace& place) {
  return static_cast<int32_t>(place.integer(0, kMostId));
}

/// ["[SEP]", 102].
int32_t read_token_and_id(const JsonPlace& place) {
  const std::vector<JsonPlace> items = place.items();
  if (items.size() != 2 || !items[0].is_text()) place.refuse("must be a token and its id");
  return read_id(items[1]);
}

SequencePiece read_piece(const JsonPlace& place, const JsonPlace& special_tokens) {
  place.only({"Sequence", "SpecialToken"});
  const bool fixed = !place.find("SpecialToken").is_null();
  const JsonPlace body = place.at(fixed ? "SpecialToken" : "Sequence");
  body.only({"id", "type_id"});
  SequencePiece piece;
  piece.type = read_id(body.at("type_id"));
  const std::string& name = body.at("id").text();
  if (fixed) {
    piece.source = From::kFixed;
    for (const JsonPlace& id : special_tokens.at(name).at("ids").items()) {
      piece.ids.push_back(read_id(id));
    }
  } else if (name == "B") {
    piece.source = From::kSecond;
  } else if (name != "A") {
    body.at("id").refuse("must be A or B");
  }
  return piece;
}

std::vector<SequencePiece> read_pieces(const JsonPlace& place, const JsonPlace& special_tokens) {
  std::vector<SequencePiece> pieces;
  for (const JsonPlace& item : place.items()) pieces.push_back(read_piece(item, special_tokens));
  return pieces;
}

void append_ids(std::vector<int32_t>& to, const std::vector<int32_t>& ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace

PostProcessor::PostProcessor()
    : single_{{From::kFirst, 0, {}}}, pair_{{From::kFirst, 0, {}}, {From::kSecond, 1, {}}} {}

PostProcessor PostProcessor::read(const JsonPlace& place) {
  PostProcessor processor;
  if (place.is_null()) return processor;
  const std::string& type = place.type();
  if (type == "TemplateProcessing") {
    processor.read_template(place);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    processor.read_around(place, type == "RobertaProcessing");
  } else if (type == "Sequence") {
    processor.read_sequence(place);
  } else if (type == "ByteLevel") {
    place.only({"add_prefix_space", "trim_offsets", "use_regex"});  // all about offsets
  } else {
    place.refuse_type("BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
  }
  return processor;
}

void PostProcessor::read_template(const JsonPlace& place) {
  place.only({"single", "pair", "special_tokens"});
  const JsonPlace special_tokens = place.at("special_tokens");
  single_ = read_pieces(place.at("single"), special_tokens);
  pair_ = read_pieces(place.at("pair"), special_tokens);
  for (const SequencePiece& piece : single_) {
    if (piece.source == From::kSecond) place.at("single").refuse("must not have the second text");
  }
}

void PostProcessor::read_around(const JsonPlace& place, bool roberta) {
  if (roberta) {
    place.only({"sep", "cls", "trim_offsets", "add_prefix_space"});
  } else {
    place.only({"sep", "cls"});
  }
  const int32_t cls = read_token_and_id(place.at("cls"));
  const int32_t sep = read_token_and_id(place.at("sep"));
  const int32_t type = roberta ? 0 : 1;
  single_ = {{From::kFixed, 0, {cls}}, {From::kFirst, 0, {}}, {From::kFixed, 0, {sep}}};
  pair_ = single_;
  if (roberta) pair_.push_back({From::kFixed, 0, {sep}});
  pair_.push_back({From::kSecond, type, {}});
  pair_.push_back({From::kFixed, type, {sep}});
}

void PostProcessor::read_sequence(const JsonPlace& place) {
  place.only({"processors"});
  bool adds = false;
  for (const JsonPlace& part : place.at("processors").items()) {
    if (part.is_null()) part.refuse("must be an object");
    PostProcessor processor = read(part);
    if (part.type() == "ByteLevel") continue;
    if (adds) part.refuse("is a second one that adds tokens, which is not supported");
    adds = true;
    *this = std::move(processor);
  }
}

std::vector<int32_t> PostProcessor::single(std::vector<int32_t> ids) const {
  if (single_.size() == 1 && single_[0].source == From::kFirst) return ids;
  std::vector<int32_t> all;
  for (const SequencePiece& piece : single_) {
    append_ids(all, piece.source == From::kFirst ? ids : piece.ids);
  }
  return all;
}

TokenPair PostProcessor::pair(const std::vector<int32_t>& first,
                              const std::vector<int32_t>& second) const {
  TokenPair pair;
  for (const SequencePiece& piece : pair_) {
    const bool fixed = piece.source == From::kFixed;
    append_ids(pair.ids, fixed ? piece.ids : piece.source == From::kFirst ? first : second);
    pair.types.resize(pair.ids.size(), piece.type);
  }
  return pair;
}

}  // namespace accel
