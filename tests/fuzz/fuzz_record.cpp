// Any bytes taken for a run's record are read or passed over, and what is kept of them is bounded.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runner/report/report.h"
#include "runner/report/run_summary.h"
#include "runner/report/top_frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  accel::RunSummary run;
  run.folder = "/dev/null";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (const auto line = accel::read_record_line(text.substr(0, end))) run.add(*line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (run.logged.size() > 40 || run.events.size() > 200) std::abort();
  const std::string page = accel::run_page(run);
  if (page.find("<script") != page.npos) std::abort();
  volatile size_t lines = accel::top_frame(run, {80, 24}, 0, 0).size();
  (void)lines;
  return 0;
}
