#include "text/pipeline.h"

#include "core/base/text.h"

namespace accel {
namespace {

using From = SequencePiece::From;

constexpr int64_t kMaxId = 0x7fffffff;

// Each may be a text of the input once more.
constexpr size_t kMaxPieces = 64;
constexpr size_t kMaxPieceIds = 256;

std::vector<JsonNode> at_most(size_t count, const JsonNode& list) {
  std::vector<JsonNode> items = list.items();
  if (items.size() > count) list.refuse(text("has more than {} items", count));
  return items;
}

int32_t read_id(const JsonNode& node) {
  return static_cast<int32_t>(node.integer(0, kMaxId));
}

/// ["[SEP]", 102].
int32_t read_token_and_id(const JsonNode& node) {
  const std::vector<JsonNode> items = node.items();
  if (items.size() != 2 || !items[0].is_text()) node.refuse("must be a token and its id");
  return read_id(items[1]);
}

SequencePiece read_piece(const JsonNode& node, const JsonNode& special_tokens) {
  node.only({"Sequence", "SpecialToken"});
  const bool fixed = !node.find("SpecialToken").is_null();
  const JsonNode body = node.at(fixed ? "SpecialToken" : "Sequence");
  body.only({"id", "type_id"});
  SequencePiece piece;
  piece.type = read_id(body.at("type_id"));
  const std::string& name = body.at("id").text();
  if (fixed) {
    piece.source = From::kFixed;
    for (const JsonNode& id : at_most(kMaxPieceIds, special_tokens.at(name).at("ids"))) {
      piece.ids.push_back(read_id(id));
    }
  } else if (name == "B") {
    piece.source = From::kSecond;
  } else if (name != "A") {
    body.at("id").refuse("must be A or B");
  }
  return piece;
}

std::vector<SequencePiece> read_pieces(const JsonNode& node, const JsonNode& special_tokens) {
  std::vector<SequencePiece> pieces;
  for (const JsonNode& item : at_most(kMaxPieces, node))
    pieces.push_back(read_piece(item, special_tokens));
  return pieces;
}

void append_ids(std::vector<int32_t>& to, const std::vector<int32_t>& ids) {
  to.insert(to.end(), ids.begin(), ids.end());
}

}  // namespace

PostProcessor::PostProcessor()
    : single_{{From::kFirst, 0, {}}}, pair_{{From::kFirst, 0, {}}, {From::kSecond, 1, {}}} {}

PostProcessor PostProcessor::read(const JsonNode& node) {
  PostProcessor processor;
  if (node.is_null()) return processor;
  const std::string& type = node.type();
  if (type == "TemplateProcessing") {
    processor.read_template(node);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    processor.read_cls_sep(node, type == "RobertaProcessing");
  } else if (type == "Sequence") {
    processor.read_sequence(node);
  } else if (type == "ByteLevel") {
    node.only({"add_prefix_space", "trim_offsets", "use_regex"});  // used for offsets only
  } else {
    node.refuse_type("BertProcessing, ByteLevel, RobertaProcessing, Sequence, TemplateProcessing");
  }
  return processor;
}

void PostProcessor::read_template(const JsonNode& node) {
  node.only({"single", "pair", "special_tokens"});
  const JsonNode special_tokens = node.at("special_tokens");
  single_ = read_pieces(node.at("single"), special_tokens);
  pair_ = read_pieces(node.at("pair"), special_tokens);
  for (const SequencePiece& piece : single_) {
    if (piece.source == From::kSecond) node.at("single").refuse("must not contain the second text");
  }
}

void PostProcessor::read_cls_sep(const JsonNode& node, bool roberta) {
  if (roberta) {
    node.only({"sep", "cls", "trim_offsets", "add_prefix_space"});
  } else {
    node.only({"sep", "cls"});
  }
  const int32_t cls = read_token_and_id(node.at("cls"));
  const int32_t sep = read_token_and_id(node.at("sep"));
  const int32_t type = roberta ? 0 : 1;
  single_ = {{From::kFixed, 0, {cls}}, {From::kFirst, 0, {}}, {From::kFixed, 0, {sep}}};
  pair_ = single_;
  if (roberta) pair_.push_back({From::kFixed, 0, {sep}});
  pair_.push_back({From::kSecond, type, {}});
  pair_.push_back({From::kFixed, type, {sep}});
}

void PostProcessor::read_sequence(const JsonNode& node) {
  node.only({"processors"});
  bool adds = false;
  for (const JsonNode& step : node.at("processors").items()) {
    if (step.is_null()) step.refuse("must be an object");
    PostProcessor processor = read(step);
    if (step.type() == "ByteLevel") continue;
    if (adds) step.refuse("adds tokens too: only one processor may");
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
