#include "data/datasets/text/chat_file.h"

#include <nlohmann/json.hpp>

#include "core/base/format_error.h"
#include "core/base/text.h"
#include "data/datasets/text/chat_encoder.h"
#include "data/datasets/text/json_row_keys.h"
#include "data/datasets/text/text_columns.h"
#include "formats/records/jsonl.h"

namespace accel {

ChatFile::ChatFile(const ChatFileOptions& options)
    : path_(options.path.text),
      tokenizer_(load_tokenizer(options.tokenizer.text)),
      file_(map_file(options.path.text)),
      max_length_(options.max_length),
      bad_(options.on_bad_sample, options.path.text),
      padding_{.input = tokenizer_->special().pad.value_or(0),
               .multiple = options.pad_to_multiple_of} {}

std::vector<uint64_t> ChatFile::row_keys(const std::string& column) const {
  return json_row_keys(path_, column, &kept_);
}

void ChatFile::read(const AddRow& add) {
  TokenSequencesBuilder builder;
  int64_t number = -1;
  const std::string_view text = {reinterpret_cast<const char*>(file_.view.data()),
                                 file_.view.size()};
  each_json_row(text, [&](std::string_view row, int64_t line) {
    ++number;
    const std::string place = path_ + ":" + std::to_string(line) + ": ";
    try {
      add(read_chat_row(row), builder);
      kept_.push_back(number);
    } catch (const FormatError& error) {
      bad_.leave_out(DataError(place + error.what()));
    } catch (const DataError& error) {
      bad_.leave_out(DataError(place + error.what(), error.hint()));
    }
  });
  sequences_ = std::move(builder).finish();
  bad_.tell(sequences_.size());
  if (sequences_.size() == 0) throw DataError(accel::text("'{}' has no lines", path_));
}

Fingerprint ChatFile::content_digest(const std::string& source) const {
  Fingerprint print;
  print.add_content(file_.view).add(tokenizer_->digest()).add(source);
  return print;
}

void ChatFile::set_fingerprint(const Fingerprint& print) {
  fingerprint_ = print.text();
  file_ = {};
}

DataShape ChatFile::token_shape() const {
  DataShape shape{.input = {max_length_},
                  .input_type = DType::kI64,
                  .target = {max_length_},
                  .padding = padding_};
  describe_tokens(*tokenizer_, shape);
  return shape;
}

}  // namespace accel
