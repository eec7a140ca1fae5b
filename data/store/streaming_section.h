// The options of data that is streamed from an object store.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/recipe/schema.h"
#include "data/store/data_path.h"

namespace accel {

struct StreamingSection {
  Auto<FilePath> local;
  ByteSize cache_limit{int64_t{64} << 30};
  int64_t connections = 16;
  int64_t download_retry = 8;
  int64_t download_timeout = 10;
  static Schema<StreamingSection> schema();
};

/// Refuses options of `section` where `path` is no URL. By value: a resolved recipe has them all.
void check_streaming(const StreamingSection& section, const DataPath& path, const Node& node,
                     Reading& reading);

/// Adds `path`, which `help` documents, and `streaming`: members of `Options` with these names.
template <class Options>
Schema<Options> with_streaming(Schema<Options> schema, const char* help) {
  return std::move(schema)
      .field("path", static_cast<DataPath Options::*>(&Options::location), help)
      .required()
      .field("streaming", static_cast<StreamingSection Options::*>(&Options::streaming),
             "Cache and requests of data that 'path' names by a URL.")
      .on_resume(Change::kFree)
      .check([](const Options& options, const Node& node, Reading& reading) {
        check_streaming(options.streaming, options.location, node, reading);
      });
}

}  // namespace accel
