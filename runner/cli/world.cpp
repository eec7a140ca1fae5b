#include "runner/cli/world.h"

#include <sys/time.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/hardware_info.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "parallel/join.h"
#include "parallel/nccl.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/cli/end_rank.h"
#include "runner/cli/error_text.h"
#include "runner/launch/launcher.h"
#include "runner/launch/status_board.h"
#include "train/job/build_strategy.h"
#include "train/job/device.h"

namespace accel {
namespace {

constexpr auto kFaultVariable = "ACCEL_RUN_FAULT";
constexpr suseconds_t kFaultDelayMicroseconds = 200;

template <class Value, size_t N>
Value fault_field(const std::array<std::pair<const char*, Value>, N>& names,
                  const std::string& field, const std::string& whole) {
  for (const auto& [name, value] : names) {
    if (field == name) return value;
  }
  throw Error(ExitCode::kRecipe, text("{} is '{}', which is not a fault", kFaultVariable, whole),
              "give ACTION:RANK:SEQUENCE:WHEN, such as kill:1:7:during");
}

void spin_forever() noexcept {
  for (volatile bool forever = true; forever;) {
  }
}

}  // namespace

/// A fault that tests inject. ACCEL_RUN_FAULT=ACTION:RANK:SEQUENCE:WHEN, where ACTION is kill, stop
/// or spin, SEQUENCE the number of a collective and WHEN before, during or after it; during is 0.2
/// ms after its start.
class Fault {
 public:
  /// The fault for this rank, if any. Throws Error for an invalid variable.
  static std::optional<Fault> of_rank(int64_t rank);

  void entered(int64_t sequence) const noexcept;
  void left(int64_t sequence) const noexcept;

 private:
  enum class Action { kKill, kStop, kSpin };
  enum class When { kBefore, kDuring, kAfter };

  void act() const noexcept;

  Action action_ = Action::kKill;
  When when_ = When::kBefore;
  int64_t sequence_ = 0;
};

std::optional<Fault> Fault::of_rank(int64_t rank) {
  const std::optional<std::string> variable = environment_variable(kFaultVariable);
  if (!variable) return std::nullopt;
  const std::string& whole = *variable;
  std::istringstream in(whole);
  std::array<std::string, 4> fields;
  for (std::string& field : fields) std::getline(in, field, ':');
  Fault fault;
  fault.action_ = fault_field<Action, 3>(
      {{{"kill", Action::kKill}, {"stop", Action::kStop}, {"spin", Action::kSpin}}}, fields[0],
      whole);
  fault.when_ = fault_field<When, 3>(
      {{{"before", When::kBefore}, {"during", When::kDuring}, {"after", When::kAfter}}}, fields[3],
      whole);
  fault.sequence_ = std::atoll(fields[2].c_str());
  return std::atoll(fields[1].c_str()) == rank ? std::optional(fault) : std::nullopt;
}

void Fault::entered(int64_t sequence) const noexcept {
  if (sequence != sequence_) return;
  if (when_ == When::kBefore) act();
  if (when_ != When::kDuring) return;
  std::signal(
      SIGALRM, action_ == Action::kStop   ? [](int) { std::raise(SIGSTOP); }
               : action_ == Action::kKill ? [](int) { std::raise(SIGKILL); }
                                          : [](int) { spin_forever(); });
  const itimerval soon = {{0, 0}, {0, kFaultDelayMicroseconds}};
  setitimer(ITIMER_REAL, &soon, nullptr);
}

void Fault::left(int64_t sequence) const noexcept {
  if (sequence == sequence_ && when_ == When::kAfter) act();
}

void Fault::act() const noexcept {
  if (action_ == Action::kKill) std::raise(SIGKILL);
  if (action_ == Action::kStop) std::raise(SIGSTOP);
  if (action_ == Action::kSpin) spin_forever();
}

/// Reports the progress of a rank to the launcher.
class BoardWatch final : public RankWatch {
 public:
  BoardWatch(BoardWriter& board, std::optional<Fault> fault) : board_(board), fault_(fault) {}
  void step(int64_t step) noexcept override {
    board_.step(step);
    step_ = step;
  }
  int64_t current_step() const { return step_; }
  void phase(const char* name) noexcept override { board_.phase(name); }
  void entered(const char* collective, int64_t sequence) noexcept override {
    board_.enter(collective, sequence);
    sequence_ = sequence;
    if (fault_) fault_->entered(sequence);
  }
  void left() noexcept override {
    board_.leave();
    if (fault_) fault_->left(sequence_);
  }

 private:
  BoardWriter& board_;
  std::optional<Fault> fault_;
  int64_t step_ = 0;
  int64_t sequence_ = 0;
};

namespace {

/// The recipe that all ranks must share, without the keys that differ between machines.
std::string shared_text(RecipeOptions recipe, const Node& resolved) {
  recipe.accelerator.machine_rank = 0;
  recipe.accelerator.main_process_ip.clear();  // AWS Batch: its own name on machine 0
  return to_yaml(resolve_recipe(recipe, resolved));
}

std::string build_text() {
  return text("accel-run {} ({}, libtorch {})", build_info().version, build_info().commit,
              build_info().torch);
}

/// Seconds by which ranks time out after their launcher.
constexpr double kLauncherFirst = 0.5;

/// Seconds by which ranks and their launcher time out after the report of a collective that hangs
/// on a GPU: ranks that wait on the host for the same reason know less, and the report takes
/// seconds.
constexpr int64_t kDeviceFirst = 8;

bool may_use_gpus(const AcceleratorSection& section) {
  const DeviceChoice wanted = section.wanted_device();
  return wanted == DeviceChoice::kCuda || (wanted == DeviceChoice::kAuto && gpus_here() > 0);
}

int64_t whole_seconds(const Duration& time) {
  return std::max<int64_t>(1, std::llround(time.value));
}

int64_t processes_of(const AcceleratorSection& section) {
  return section.num_processes.value_or(section.num_machines);
}

/// The place of each rank in the mesh.
std::vector<std::string> mesh_places(const AcceleratorSection& section, int64_t ranks) {
  const MeshSizes sizes = sizes_of_mesh(section, ranks);
  std::vector<std::string> places;
  for (int64_t rank = 0; rank < ranks; ++rank) places.push_back(mesh_place(sizes, rank));
  return places;
}

}  // namespace

bool is_rank() {
  const std::optional<RankInfo> place = find_rank(&environment_variable);
  return place && (place->world > 1 || find_launcher_channel(&environment_variable));
}

bool wants_ranks(const AcceleratorSection& section) {
  return processes_of(section) > 1 && !is_rank();
}

void check_ranks(const RecipeOptions& recipe, const Node& resolved) {
  const std::optional<RankInfo> place = find_rank(&environment_variable);
  check_sharing(recipe, resolved, place ? place->world : processes_of(recipe.accelerator));
}

ExitCode launch_ranks(const AcceleratorSection& section, const RanksRequest& ranks) {
  LaunchRequest request;
  request.argv = ranks.argv;
  request.json = ranks.json;
  request.local_ranks = processes_of(section) / section.num_machines;
  request.num_machines = section.num_machines;
  request.machine_rank = section.machine_rank;
  request.main_process_ip = section.main_process_ip;
  request.main_process_port = section.main_process_port.value;
  request.max_restarts = section.max_restarts;
  request.min_machines = section.min_machines.value_or(section.num_machines);
  request.monitor_interval_ms =
      std::max<int64_t>(1, std::llround(section.monitor_interval.value * 1e3));
  request.job_token = environment_variable(kJobTokenVariable).value_or("");
  request.timeout_seconds =
      whole_seconds(section.timeout) + (may_use_gpus(section) ? kDeviceFirst : 0);
  request.join_timeout_seconds = whole_seconds(section.join_timeout);
  if (!ranks.run_dir.empty()) {
    request.log_dir = ranks.run_dir + "/logs";
    request.resume_command = "accel-run resume " + ranks.run_dir;
  }
  request.places = mesh_places(section, processes_of(section));
  return static_cast<ExitCode>(launch(request));
}

struct RankSession::Connection {
  RankInfo place = *find_rank(&environment_variable);
  std::optional<LauncherChannel> link = find_launcher_channel(&environment_variable);
  BoardWriter board = BoardWriter::open(&environment_variable);
  OrphanGuard guard{link ? link->lifeline_fd.value_or(-1) : -1};
  std::shared_ptr<BoardWatch> watch =
      std::make_shared<BoardWatch>(board, Fault::of_rank(place.rank));
  std::atomic<bool> json = false;  ///< errors are reported as JSON
  std::shared_ptr<Communicator> group;
};

RankSession::RankSession() {
  if (is_rank()) connection_ = std::make_unique<Connection>();
}

RankSession::~RankSession() = default;

World RankSession::world(const RecipeOptions& recipe, const Node& resolved) {
  World world;
  world.device = choose_device(recipe.accelerator.wanted_device(), recipe.accelerator.gpu_ids,
                               connection_ ? connection_->place.local_rank : 0);
  if (!connection_) return world;
  Connection& connection = *connection_;
  if (!connection.group) {
    check_sharing(recipe, resolved, connection.place.world);
    if (connection.place.rank != 0) be_silent();
    JoinRequest request = join_request(connection.place, connection.link, &environment_variable);
    request.join_timeout = recipe.accelerator.join_timeout.value;
    // The launcher reports on all ranks, so its timeout should come first.
    request.timeout = recipe.accelerator.timeout.value + (connection.link ? kLauncherFirst : 0);
    request.recipe = shared_text(recipe, resolved);
    request.build = build_text();
    request.places = mesh_places(recipe.accelerator, connection.place.world);
    request.cpu_backend = recipe.accelerator.cpu_backend;
    request.checked = recipe.accelerator.debug == DebugMode::kCollectives;
    request.report_waiting = &say;
    request.watch = connection.watch.get();
    request.step = [watch = connection.watch.get()] { return watch->current_step(); };
    request.device_timeout = recipe.accelerator.timeout.value;
    if (world.device.is_cuda()) {
      request.timeout += kDeviceFirst;
      request.device_backend = nccl_backend(world.device.index());
      request.device_work = nccl_work_copy();
    }
    request.on_hang = [&connection](const Error& error) {
      end_rank(connection.board, error, connection.json);
    };
    request.axes = [sizes = sizes_of_mesh(recipe.accelerator, connection.place.world)](
                       const GroupShape& group) { return axes_of(sizes, group); };
    connection.board.enter("join", 0);
    connection.group = join(request);
    connection.board.leave();
  }
  world.mesh = build_mesh(recipe.accelerator, connection.group);
  world.local_world = connection.place.local_world;
  world.watch = connection.watch;
  return world;
}

ExitCode RankSession::guarded(bool json, const std::function<ExitCode()>& body) {
  if (connection_) connection_->json = json;
  if (!connection_ || !connection_->board.has_launcher()) return body();
  const auto fail = [&](const std::exception& error, const std::string& message) {
    const ExitCode code = exit_code_of(error);
    report_to_launcher(connection_->board, code, message, json);
    return code;
  };
  try {
    return body();
  } catch (const Error& error) {
    return fail(error, error_text(error, json));
  } catch (const std::exception& error) {
    return fail(error, error_text(error, json));
  }
}

}  // namespace accel
