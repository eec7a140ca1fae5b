// Drafts of rows whose fields are known, from JSON rows or from columns.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/datasets/text/text_records.h"
#include "runner/draft/recipe_draft.h"
#include "runner/draft/sniff_rows.h"

namespace accel {

/// The lines of a recipe that name the files of the rows.
struct RowsSource {
  std::filesystem::path folder;    ///< `vars.data`
  bool is_one_file = true;         ///< false: files of a folder, by split
  std::string type;                ///< of the dataset; empty: one for JSON rows
  std::vector<std::string> train;  ///< path, and split
  std::vector<std::string> eval;   ///< empty: no eval data
  std::string eval_name;
  std::function<std::unique_ptr<RecordSource>()> open = {};  ///< opens the training rows
};

/// Throws DataError for rows that cannot be trained.
RecipeDraft draft_of_rows(const SniffedRows& rows, const RowsSource& source,
                          const DraftRequest& request);

/// A finding about the classes of a target. Throws DataError for a single one.
void note_classes(const SniffedRows& rows, const RowField& label, RecipeDraft& draft);

/// The table of the fields and their use, `uses` by name.
void add_field_findings(const SniffedRows& rows, const std::map<std::string, std::string>& uses,
                        RecipeDraft& draft);

}  // namespace accel
