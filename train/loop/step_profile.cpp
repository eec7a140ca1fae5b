#include "train/loop/step_profile.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "core/base/folders.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "train/loop/operator_costs.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
namespace torch_profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

constexpr const char* kMemoryEvent = "[memory]";
constexpr const char* kStepItself = "(outside of operators)";

std::set<ActivityType> activities_on(at::Device device) {
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  return activities;
}

std::string device_name(at::DeviceType type) {
  return at::DeviceTypeName(type, true);
}

/// "[[64, 784], [128, 784], []]"
std::string shapes_text(const torch_profiler::KinetoEvent& event) {
  if (!event.hasShapes()) return "";
  std::string out = "[";
  for (const std::vector<int64_t>& shape : event.shapes()) {
    out += out.size() == 1 ? "[" : ", [";
    for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    out += ']';
  }
  return out + "]";
}

std::vector<ProfiledCall> calls_of(const torch_profiler::ProfilerResult& result) {
  std::vector<ProfiledCall> calls;
  for (const torch_profiler::KinetoEvent& event : result.events()) {
    if (event.isAsync() || event.name() == kMemoryEvent) continue;
    ProfiledCall call;
    const bool own = event.deviceType() == at::kCPU &&
                     event.scope() == static_cast<uint8_t>(at::RecordScope::USER_SCOPE);
    call.name = own ? kStepItself : event.name();
    call.device = device_name(event.deviceType());
    call.shapes = shapes_text(event);
    call.lane = event.deviceType() == at::kCPU ? event.startThreadId()
                                               : static_cast<uint64_t>(event.deviceResourceId());
    call.start = static_cast<int64_t>(event.startNs());
    call.end = static_cast<int64_t>(event.endNs());
    calls.push_back(std::move(call));
  }
  return calls;
}

/// Allocated bytes of each device since the first profiled step, at each change.
std::string memory_csv(const torch_profiler::ProfilerResult& result) {
  std::vector<const torch_profiler::KinetoEvent*> events;
  for (const torch_profiler::KinetoEvent& event : result.events()) {
    if (event.name() == kMemoryEvent) events.push_back(&event);
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto* a, const auto* b) { return a->startNs() < b->startNs(); });
  std::map<std::string, int64_t> held;
  std::string out = "microseconds,device,bytes\n";
  for (const torch_profiler::KinetoEvent* event : events) {
    const std::string device = device_name(event->deviceType());
    held[device] += event->nBytes();
    const uint64_t since = event->startNs() - events.front()->startNs();
    out += std::to_string(since / 1000) + "," + device + "," + std::to_string(held[device]) + "\n";
  }
  return out;
}

/// "step_5" or "steps_5_to_8".
std::string steps_name(int64_t first, int64_t last) {
  const std::string begin = std::to_string(first);
  return first == last ? "step_" + begin : "steps_" + begin + "_to_" + std::to_string(last);
}

void write_profile_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw IoError(accel::text("cannot write '{}': {}", path, std::strerror(errno)));
}

}  // namespace

/// The profiler is enabled during its lifetime.
struct StepProfile::Recording {
  Recording(const ProfileSection& section, at::Device device) {
    const ProfilerConfig config(ProfilerState::KINETO, section.shapes, section.memory);
    torch_profiler::prepareProfiler(config, activities_on(device));
    torch_profiler::enableProfiler(config, activities_on(device));
  }
  ~Recording() {
    if (!ended) torch_profiler::disableProfiler();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::unique_ptr<torch_profiler::ProfilerResult> end() {
    span.reset();
    ended = true;
    return torch_profiler::disableProfiler();
  }

  std::optional<at::RecordFunction> span;  ///< of the step under way
  int64_t first = 0, last = 0;             ///< steps that were recorded
  bool ended = false;
};

StepProfile::StepProfile(const ProfileSection& section, std::string run_dir, int64_t rank,
                         at::Device device)
    : section_(section), run_dir_(std::move(run_dir)), rank_(rank), device_(device) {}

StepProfile::~StepProfile() = default;

bool StepProfile::within(int64_t step) const {
  return !section_.steps.empty() && step >= section_.steps.front() && step <= section_.steps.back();
}

void StepProfile::before(int64_t step) {
  if (!within(step)) return;
  if (!recording_) {
    recording_ = std::make_unique<Recording>(section_, device_);
    recording_->first = step;
  }
  recording_->span.emplace(at::RecordScope::USER_SCOPE);
  recording_->span->before("step " + std::to_string(step));
}

void StepProfile::after(int64_t step) {
  if (!recording_) return;
  recording_->span.reset();
  recording_->last = step;
  if (!within(step + 1)) finish();
}

void StepProfile::warn_if_missed(int64_t last) const {
  if (rank_ != 0 || section_.steps.empty() || last >= section_.steps.front()) return;
  warn(text("no profile: the run ended after step {}, but 'profile.steps' begins at step {}", last,
            section_.steps.front()));
}

void StepProfile::finish() {
  if (!recording_) return;
  const auto recording = std::move(recording_);
  const auto result = recording->end();
  const std::string steps = steps_name(recording->first, recording->last);
  const std::string folder = run_dir_ + "/profile/" + steps;
  const std::string start = folder + "/rank_" + std::to_string(rank_);
  const std::vector<OperatorCost> costs = operator_costs(calls_of(*result));
  std::string kept;
  try {
    make_folder_within(run_dir_, folder);
    const std::string trace = start + ".json";
    result->save(trace);
    if (!fs::is_regular_file(trace)) throw IoError(text("cannot write '{}'", trace));
    write_profile_text(start + "_operators.csv", operator_csv(costs));
    if (section_.memory) write_profile_text(start + "_memory.csv", memory_csv(*result));
    kept = ", in " + fs::proximate(start + ".json").string();
  } catch (const std::exception& error) {
    warn(text("the profile cannot be written: {}", error.what()));
  }
  std::string head = "profile of " + steps;
  std::replace(head.begin(), head.end(), '_', ' ');
  say(head.append(kept));
  for (const std::string& line : operator_lines(costs, section_.operators)) say(line);
}

}  // namespace accel
