#include "data/store/streaming_section.h"

#include "core/base/text.h"

namespace accel {

void check_streaming(const StreamingSection& section, const DataPath& path, const Node& node,
                     Reading& reading) {
  if (path.is_url()) return;
  const StreamingSection plain;
  const auto refuse = [&](const char* key) {
    reading.problems.error(node.find("streaming")->node.find(key)->where,
                           text("'{}' has no effect: 'path' is not a URL", key), "leave it out");
  };
  if (section.local) refuse("local");
  if (section.cache_limit != plain.cache_limit) refuse("cache_limit");
  if (section.connections != plain.connections) refuse("connections");
  if (section.download_retry != plain.download_retry) refuse("download_retry");
  if (section.download_timeout != plain.download_timeout) refuse("download_timeout");
}

Schema<StreamingSection> StreamingSection::schema() {
  return Schema<StreamingSection>()
      .field("local", &StreamingSection::local,
             "Folder of the cache, on a local disk; ranks and runs share it; auto: "
             "accel-run/objects in the user's cache folder.")
      .on_resume(Change::kFree)
      .field("cache_limit", &StreamingSection::cache_limit,
             "Most bytes in the folder: what was used least recently is removed.")
      .on_resume(Change::kFree)
      .field(
          "connections", &StreamingSection::connections,
          "Requests of a rank at a time, ahead of the samples in use; four for each where samples "
          "are read singly.",
          between<int64_t>(1, 256))
      .on_resume(Change::kFree)
      .field("download_retry", &StreamingSection::download_retry,
             "Retries of a request without progress, with pauses from half a second to 30 s.",
             between<int64_t>(0, 100))
      .on_resume(Change::kFree)
      .field("download_timeout", &StreamingSection::download_timeout,
             "Seconds without a byte after which a request is repeated.", between<int64_t>(1, 3600))
      .on_resume(Change::kFree);
}

}  // namespace accel
