#include "runner/cli/world.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>

#include "core/build_info.h"
#include "core/log.h"
#include "runner/cli/error_text.h"
#include "runner/cli/fault.h"
#include "runner/dist/join.h"
#include "runner/dist/nccl.h"
#include "runner/job/build_strategy.h"
#include "runner/job/device.h"
#include "runner/launch/launcher.h"
#include "runner/launch/rank_link.h"
#include "runner/launch/rank_place.h"
#include "runner/launch/rendezvous.h"
#include "runner/launch/status_board.h"

namespace accel {
namespace {

/// Writes what a rank does where the launcher sees it.
class BoardWatch final : public RankWatch {
 public:
  BoardWatch(BoardWriter& board, std::optional<Fault> fault) : board_(board), fault_(fault) {}
  void step(int64_t step) noexcept override { board_.step(step); }
  void phase(const char* name) noexcept override { board_.phase(name); }
  void entered(const char* what, int64_t sequence) noexcept override {
    board_.enter(what, sequence);
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
  int64_t sequence_ = 0;
};

/// The recipe as all ranks must have it: without what differs from machine to machine.
std::string shared_text(RecipeOptions recipe, const Node& resolved) {
  recipe.accelerator.machine_rank = 0;
  return to_yaml(resolve_recipe(recipe, resolved));
}

std::string build_text() {
  return "accel-run " + std::string(build_info().version) + " (" +
         std::string(build_info().commit) + ", libtorch " + std::string(build_info().torch) + ")";
}

/// Seconds that ranks leave to their launcher.
constexpr double kLauncherFirst = 0.5;

int64_t whole_seconds(const Duration& time) {
  return std::max<int64_t>(1, std::llround(time.value));
}

int64_t processes_of(const AcceleratorSection& section) {
  return section.num_processes.value_or(section.num_machines);
}

}  // namespace

bool is_rank() {
  const std::optional<RankPlace> place = find_rank(&environment_variable);
  return place && (place->world > 1 || find_link(&environment_variable));
}

bool wants_ranks(const AcceleratorSection& section) {
  return processes_of(section) > 1 && !is_rank();
}

void check_ranks(const RecipeOptions& recipe, const Node& resolved) {
  const std::optional<RankPlace> place = find_rank(&environment_variable);
  check_sharing(recipe, resolved, place ? place->world : processes_of(recipe.accelerator));
}

ExitCode launch_ranks(const AcceleratorSection& section, const RanksOrder& order) {
  LaunchRequest request;
  request.argv = order.argv;
  request.json = order.json;
  request.local_ranks = processes_of(section) / section.num_machines;
  request.num_machines = section.num_machines;
  request.machine_rank = section.machine_rank;
  request.main_process_ip = section.main_process_ip;
  request.main_process_port = section.main_process_port.value;
  request.max_restarts = section.max_restarts;
  request.timeout_seconds = whole_seconds(section.timeout);
  request.join_timeout_seconds = whole_seconds(section.join_timeout);
  request.log_dir = order.run_dir + "/logs";
  request.go_on_with = "accel-run resume " + order.run_dir;
  return static_cast<ExitCode>(launch(request));
}

struct RankSession::Ties {
  RankPlace place = *find_rank(&environment_variable);
  std::optional<RankLink> link = find_link(&environment_variable);
  BoardWriter board = BoardWriter::open(&environment_variable);
  OrphanGuard guard{link ? link->lifeline_fd.value_or(-1) : -1};
  std::shared_ptr<BoardWatch> watch =
      std::make_shared<BoardWatch>(board, Fault::of_rank(place.rank));
  std::shared_ptr<Communicator> group;
};

RankSession::RankSession() {
  if (is_rank()) ties_ = std::make_unique<Ties>();
}

RankSession::~RankSession() = default;

World RankSession::world(const RecipeOptions& recipe, const Node& resolved) {
  World world;
  world.device = choose_device(recipe.accelerator.wanted_device(), recipe.accelerator.gpu_ids,
                               ties_ ? ties_->place.local_rank : 0);
  if (!ties_) return world;
  Ties& ties = *ties_;
  if (!ties.group) {
    check_sharing(recipe, resolved, ties.place.world);
    if (ties.place.rank != 0) be_silent();
    JoinRequest request;
    request.rank = ties.place.rank;
    request.world = ties.place.world;
    request.address = ties.place.main_address;
    request.port = static_cast<int>(ties.place.main_port);
    request.join_timeout = recipe.accelerator.join_timeout.value;
    // A launcher sees all ranks and can say more: it is to be the first to find one missing.
    request.timeout = recipe.accelerator.timeout.value + (ties.link ? kLauncherFirst : 0);
    request.recipe = shared_text(recipe, resolved);
    request.build = build_text();
    request.checked = recipe.accelerator.debug == DebugMode::kCollectives;
    request.tell = &say;
    request.watch = ties.watch.get();
    if (world.device.is_cuda()) request.device_backend = nccl_backend(world.device.index());
    if (ties.link) {
      request.listen_fd = ties.link->store_fd;
    } else {
      // torchrun serves the store itself, to one generation of ranks after another.
      const auto variable = [](const char* name) {
        return environment_variable(name).value_or("");
      };
      request.store_is_there = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
      request.group = variable("TORCHELASTIC_RESTART_COUNT");
      if (!request.store_is_there && request.rank == 0) {
        const MeetingPoint point = meet_as_main_machine(request.address, request.port);
        request.listen_fd = fcntl(point.listener.get(), F_DUPFD_CLOEXEC, 0);
      }
    }
    ties.board.enter("join", 0);
    ties.group = join(request);
    ties.board.leave();
  }
  world.group = ties.group;
  world.local_world = ties.place.local_world;
  world.watch = ties.watch;
  return world;
}

ExitCode RankSession::guarded(bool json, const std::function<ExitCode()>& body) {
  if (!ties_ || !ties_->board.has_launcher()) return body();
  const auto fail = [&](const std::exception& error, const std::string& text) {
    const ExitCode code = exit_code_of(error);
    const std::string fitting = json ? whole_lines(text, BoardWriter::kLongestError) : text;
    ties_->board.fail(static_cast<int>(code), fitting.c_str());
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
