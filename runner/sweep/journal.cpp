#include "runner/sweep/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/json_text.h"

namespace accel {
namespace {

using Json = nlohmann::json;

/// What has to be the same for a journal to go on: not how many run at once, nor the ranking.
std::string description(const SweepOptions& sweep, const std::vector<Trial>& trials) {
  std::string out = "{\"recipe\":" + json_text(sweep.recipe) + ",\"trials\":[";
  for (const Trial& trial : trials) {
    out += trial.name == trials.front().name ? "[" : ",[";
    for (const TrialValue& value : trial.values) {
      out += (out.back() == '[' ? "" : ",") + json_text(override_text(value));
    }
    out += ']';
  }
  out += "],\"overrides\":[";
  for (const auto& [key, value] : sweep.overrides) {
    out += (out.back() == '[' ? "" : ",") + json_text(override_text({key, value}));
  }
  out += "],\"stages\":[";
  for (const StageSection& stage : sweep.stages) {
    out += (out.back() == '[' ? "" : ",") + json_text(to_string(stage.until));
    if (!stage.promote) continue;
    const Better mode = stage.promote->mode.value_or(sweep.ranking.mode);
    out += "," + json_text(std::to_string(stage.promote->keep) + " by " +
                           stage.promote->by.value_or(sweep.ranking.by) +
                           (mode == Better::kMin ? " min" : " max"));
  }
  return out + "]}";
}

StageResult result_of(const std::string& text, const std::string& path) try {
  const Json line = Json::parse(text);
  StageResult result;
  result.trial = line.at("trial").get<size_t>();
  result.stage = line.at("stage").get<size_t>();
  result.failed = line.at("failed").get<bool>();
  result.code = line.at("code").get<int>();
  result.step = line.at("step").get<int64_t>();
  result.values = line.at("values").get<std::map<std::string, double>>();
  return result;
} catch (const Json::exception&) {
  throw IoError("'" + path + "' has a line that is none of a sweep's: " + text,
                "move the sweep's folder away");
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

[[noreturn]] void cannot(const char* what, const std::string& path) {
  throw IoError(std::string("cannot ") + what + " '" + path + "': " + std::strerror(errno));
}

}  // namespace

SweepJournal::SweepJournal(std::string path, const SweepOptions& sweep,
                           const std::vector<Trial>& trials)
    : path_(std::move(path)) {
  const std::string text = read_all(path_);
  const std::string first = description(sweep, trials);
  size_t whole = 0;  // bytes of whole lines
  for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n', whole)) {
    const std::string line = text.substr(whole, end - whole);
    if (whole == 0) {
      if (line != first) {
        throw Error(ExitCode::kRecipe, "'" + path_ + "' is of a sweep with other trials or stages",
                    "give the sweep another 'name', or move its folder away");
      }
    } else {
      results_.push_back(result_of(line, path_));
    }
    whole = end + 1;
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(whole)) != 0) cannot("write", path_);
  if (whole == 0) append(first);
}

SweepJournal::~SweepJournal() {
  if (fd_ >= 0) ::close(fd_);
}

void SweepJournal::add(const StageResult& result) {
  std::string line = "{\"trial\":" + std::to_string(result.trial);
  line += ",\"stage\":" + std::to_string(result.stage);
  line += std::string(",\"failed\":") + (result.failed ? "true" : "false");
  line += ",\"code\":" + std::to_string(result.code);
  line += ",\"step\":" + std::to_string(result.step) + ",\"values\":{";
  for (const auto& [name, value] : result.values) {
    line += (line.back() == '{' ? "" : ",") + json_text(name) + ":" + json_number(value);
  }
  append(line + "}}");
}

void SweepJournal::append(const std::string& line) {
  const std::string text = line + "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) cannot("write", path_);
    if (wrote > 0) done += static_cast<size_t>(wrote);
  }
  if (::fsync(fd_) != 0) cannot("write", path_);
}

}  // namespace accel
