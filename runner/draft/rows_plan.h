// Decision on what JSON rows are: conversations, labelled texts, ...
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runner/draft/draft_request.h"
#include "runner/draft/sniff_rows.h"

namespace accel {

enum class RowsKind {
  kChat,        ///< a list of messages
  kPair,        ///< a prompt and its completion
  kLabel,       ///< a text or two, with a label
  kText,        ///< documents
  kTagged,      ///< words with tags
  kPreference,  ///< chosen and rejected answers
  kUnpaired,    ///< answers that are desirable or not
  kTargets,     ///< source texts and target texts
};

/// The kind of rows, and the fields it uses.
struct RowsPlan {
  RowsKind kind = RowsKind::kText;
  std::string reason;                       ///< "its messages have the keys 'from' and 'value'"
  std::map<std::string, std::string> uses;  ///< field to use; other fields are not used
  std::vector<std::string> texts;           ///< fields of text, prompt, words or answers
  std::string target;                       ///< field of the label, completion or tags
  std::string messages, role_key, content_key, system;
  std::map<std::string, std::string> roles;  ///< of the file to those of chat templates
  bool is_number = false;                    ///< the target is a number, not a class
  bool is_label_list = false;                ///< the target is a list of labels
  bool is_flag_list = false;                 ///< the target is a list with 0 or 1 for each label
  std::string prompt;                        ///< of preference pairs; empty: within the answers
  bool last_answer = false;                  ///< only the last answer is learnt
};

/// Decides by names and types of fields, and by the wishes `as` and `target`. Throws DataError for
/// rows that cannot be trained, with the nearest possibility, and Error(kRecipe) for wishes that do
/// not fit.
RowsPlan plan_rows(const SniffedRows& rows, const DraftRequest& request);

/// Fields that a classifier of the texts could predict: few values that repeat.
std::vector<std::string> possible_labels(const SniffedRows& rows);

}  // namespace accel
