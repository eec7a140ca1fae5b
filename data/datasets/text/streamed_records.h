// Options of record datasets whose path may be a URL.
#pragma once

#include "data/datasets/text/text_records.h"
#include "data/store/streaming_section.h"

namespace accel {

/// `location` stands for the path of TextRecordOptions.
struct StreamedRecordOptions : TextRecordOptions {
  DataPath location;
  StreamingSection streaming;

  /// The options of record datasets.
  TextRecordOptions records() const {
    TextRecordOptions out = *this;
    out.path.text = location.text;
    return out;
  }
};

}  // namespace accel
