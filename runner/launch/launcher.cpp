#include "runner/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "core/base/environment.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/terminal.h"
#include "core/base/text.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/rendezvous.h"
#include "runner/launch/failure_report.h"
#include "runner/launch/machine_link.h"
#include "runner/launch/memory_limits.h"
#include "runner/launch/outward_signs.h"
#include "runner/launch/rank_environment.h"
#include "runner/launch/rank_process.h"
#include "runner/launch/status_board.h"
#include "runner/launch/supervisor.h"

namespace accel {
namespace {

int64_t now_ms() {
  return steady_now_ns() / 1'000'000;
}

[[noreturn]] void system_error(const std::string& operation) {
  throw Error(ExitCode::kOther, text("cannot {}: {}", operation, std::strerror(errno)));
}

/// Opens closed standard descriptors, which the next opened file would replace.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) {
      system_error("open '/dev/null'");
    }
  }
}

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) system_error("make a pipe");
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  OwnedFd read, write;
};

/// The ranks of one generation: processes, pipes and board.
struct Generation {
  explicit Generation(int64_t ranks) : board(ranks) {}

  Board board;
  Rendezvous meeting;
  std::vector<RankOutput> outputs;
  std::vector<RankProcess> processes;  // ended before their pipes are closed
  std::vector<RankEnd> ends;
};

class Launch {
 public:
  explicit Launch(const LaunchRequest& request);
  int run();

 private:
  Rendezvous meet();
  Rendezvous meet_of_group();
  void connect_machines();
  void follow_machines();
  void finish_generation(int code);
  void report_end();
  void start(int64_t generation);
  void start_rank(Generation& to, int64_t local_rank);
  RankEnvironment environment_of(const Generation& generation, int64_t local_rank) const;
  std::string log_path(int64_t local_rank) const;

  void wait_for_events();
  void take_output();
  void take_last_output();
  void take_signals();
  void suspend();
  void reap();
  void tick();
  void obey(const Actions& actions);
  void report(bool restarts);
  std::vector<RankSnapshot> sights() const;

  const LaunchRequest& request_;
  std::string program_, token_;
  LaunchSignals signals_;
  Pipe lifeline_;  // its write end closes with this process
  OomWatch out_of_memory_;
  Relay to_stderr_{STDERR_FILENO};
  Supervisor supervisor_;
  std::unique_ptr<Generation> generation_;
  std::vector<RankSnapshot> captured_;
  std::unique_ptr<Machines> machines_;  ///< several with restarts; else null
  ReadyFile ready_;
  SlurmComment comment_;
  MachineOrder place_;  ///< of this machine in the generation
  int64_t next_tick_ms_ = 0;
  std::optional<int> exit_code_;
};

SupervisorRules rules_of(const LaunchRequest& request) {
  return {.ranks = request.local_ranks,
          .timeout_ms = request.timeout_seconds * 1000,
          .join_timeout_ms = request.join_timeout_seconds * 1000,
          .max_restarts = request.max_restarts,
          .generation = 0};
}

bool is_grouped(const LaunchRequest& request) {
  return request.num_machines > 1 && request.max_restarts > 0;
}

Launch::Launch(const LaunchRequest& request)
    : request_(request),
      // By its own name, not /proc/self/exe, which `ps` and `top` would show.
      program_(request.program.empty() ? std::filesystem::read_symlink("/proc/self/exe").string()
                                       : request.program),
      token_(random_token()),
      supervisor_(rules_of(request)) {
  place_.machines = request.num_machines;
  place_.rank = request.machine_rank;
}

/// Ends the launch with exit_code_ when a signal arrives during the wait for machine 0.
Rendezvous Launch::meet() {
  if (machines_) return meet_of_group();
  if (request_.num_machines == 1) return rendezvous_on_this_machine(request_.main_process_port);
  const int64_t port = request_.main_process_port.value_or(0);
  if (request_.machine_rank == 0) return rendezvous_as_main_machine(request_.main_process_ip, port);
  Rendezvous main = {request_.main_process_ip, port, OwnedFd()};
  if (!wait_for_main_machine(main, request_.join_timeout_seconds, signals_.user_fd())) {
    exit_code_ = 128 + signals_.next_of_user().value_or(SIGTERM);
  }
  return main;
}

/// A store for each generation: ranks of an old one never meet those of the next.
Rendezvous Launch::meet_of_group() {
  if (place_.rank != 0) return {request_.main_process_ip, machines_->store_port(), OwnedFd()};
  Rendezvous point = rendezvous_as_main_machine(request_.main_process_ip, 0);
  machines_->announce_port(point.port);
  return point;
}

void Launch::connect_machines() {
  machines_ = std::make_unique<Machines>(
      MachinesRequest{.rules = {.most = request_.num_machines,
                                .least = request_.min_machines,
                                .max_restarts = request_.max_restarts,
                                .join_timeout_ms = request_.join_timeout_seconds * 1000,
                                .regroup_timeout_ms = 30'000},
                      .machine_rank = request_.machine_rank,
                      .address = request_.main_process_ip,
                      .port = request_.main_process_port.value_or(0),
                      .token = request_.job_token,
                      .beat_ms = request_.monitor_interval_ms,
                      .join_timeout_seconds = request_.join_timeout_seconds},
      signals_.user_fd());
  if (!machines_->connected()) exit_code_ = 128 + signals_.next_of_user().value_or(SIGTERM);
}

/// The ranks of this machine have ended, in a run on several.
void Launch::finish_generation(int code) {
  if (code >= 128) {  // the user's second signal
    machines_->quit(code, now_ms());
    exit_code_ = code;
    return;
  }
  const Cause& cause = supervisor_.cause();
  const bool killed = cause.kind == CauseKind::kEnded && cause.end.by_signal;
  const bool is_loss = code == static_cast<int>(ExitCode::kRank) && !killed;
  machines_->ended(
      {.generation = place_.generation,
       .code = code,
       .primary = code != 0 && code != static_cast<int>(ExitCode::kInterrupted) && !is_loss,
       .first_step = supervisor_.first_step()},
      now_ms());
  generation_.reset();
}

void Launch::follow_machines() {
  const std::vector<MachineOrder> orders = machines_->step(now_ms());
  for (const std::string& note : machines_->take_notes()) {
    request_.json ? to_stderr_.add(warning_json(note)) : warn(note);
  }
  for (const MachineOrder& order : orders) {
    if (exit_code_) return;
    switch (order.kind) {
      case OrderKind::kStart: {
        place_ = order;
        SupervisorRules rules = rules_of(request_);
        rules.max_restarts = 0;
        rules.generation = order.generation;
        supervisor_ = Supervisor(rules);
        obey(supervisor_.start(now_ms()));
        break;
      }
      case OrderKind::kStop:
        if (generation_) obey(supervisor_.stop());
        break;
      case OrderKind::kSave:
        if (!generation_) break;
        for (const RankProcess& rank : generation_->processes) rank.send(SIGUSR1);
        break;
      case OrderKind::kFinish:
        exit_code_ = order.code;
        break;
    }
  }
}

RankEnvironment Launch::environment_of(const Generation& generation, int64_t local_rank) const {
  RankEnvironment to;
  const int64_t ranks = request_.local_ranks;
  to.set("RANK", place_.rank * ranks + local_rank);
  to.set("WORLD_SIZE", place_.machines * ranks);
  to.set("LOCAL_RANK", local_rank);
  to.set("LOCAL_WORLD_SIZE", ranks);
  to.set("GROUP_RANK", place_.rank);
  to.set("MASTER_ADDR", generation.meeting.address);
  to.set("MASTER_PORT", generation.meeting.port);
  const bool has_store = local_rank == 0 && generation.meeting.listener;
  to.set(kStoreVariable, has_store ? std::to_string(generation.meeting.listener.get()) : "");
  to.set(kBoardVariable, generation.board.fd());
  to.set(kLifelineVariable, lifeline_.read.get());
  to.set(kGenerationVariable, supervisor_.generation());
  to.set(kTokenVariable, token_);
  const bool is_main = place_.rank == 0 && local_rank == 0;
  to.set(kColorVariable, std::string(is_main && is_colored(STDERR_FILENO) ? "1" : ""));
  return to;
}

std::string Launch::log_path(int64_t local_rank) const {
  const int64_t rank = place_.rank * request_.local_ranks + local_rank;
  if (request_.log_dir.empty() || rank == 0) return {};
  return request_.log_dir + "/rank-" + std::to_string(rank) + ".out";
}

void Launch::start_rank(Generation& to, int64_t local_rank) {
  Pipe pipe;
  const bool is_main = place_.rank == 0 && local_rank == 0;
  RankStart start = {.program = program_,
                     .argv = request_.argv,
                     .environment = environment_of(to, local_rank).all(),
                     .handed = {to.board.fd(), lifeline_.read.get()},
                     .standard_error = pipe.write.get(),
                     .own_output = is_main};
  if (local_rank == 0 && to.meeting.listener) start.handed.push_back(to.meeting.listener.get());
  to.outputs.emplace_back(std::move(pipe.read), log_path(local_rank),
                          is_main ? &to_stderr_ : nullptr);
  to.processes.emplace_back(start);
}

void Launch::start(int64_t generation) {
  if (generation > 0 && !machines_) {
    const std::string text = accel::text("restarting all ranks ({} of at most {} restarts)",
                                         supervisor_.restarts(), request_.max_restarts);
    request_.json ? to_stderr_.add(warning_json(text)) : warn(text);
  }
  generation_.reset();  // its socket may hold the port
  ready_.set(false);
  auto fresh = std::make_unique<Generation>(request_.local_ranks);
  fresh->meeting = meet();
  if (exit_code_) return;
  fresh->ends.resize(static_cast<size_t>(request_.local_ranks));
  for (int64_t rank = 0; rank < request_.local_ranks; ++rank) start_rank(*fresh, rank);
  fresh->meeting.listener.reset();  // else the end of rank 0 would go unnoticed
  generation_ = std::move(fresh);
}

void Launch::wait_for_events() {
  std::vector<pollfd> watched = {{signals_.user_fd(), POLLIN, 0}, {signals_.child_fd(), POLLIN, 0}};
  if (to_stderr_.pending()) watched.push_back({to_stderr_.fd(), POLLOUT, 0});
  if (machines_) machines_->watch(watched);
  if (generation_) {
    for (const RankOutput& output : generation_->outputs) {
      if (output.fd() >= 0) watched.push_back({output.fd(), POLLIN, 0});
    }
  }
  const int64_t wait =
      std::clamp<int64_t>(next_tick_ms_ - now_ms(), 0, request_.monitor_interval_ms);
  ::poll(watched.data(), watched.size(), static_cast<int>(wait));
}

void Launch::take_output() {
  to_stderr_.flush();
  if (!generation_) return;
  for (RankOutput& output : generation_->outputs) output.read();
}

void Launch::take_signals() {
  while (const auto signal = signals_.next_of_user()) {
    if (*signal == SIGTSTP) {
      suspend();
    } else if (machines_ && !generation_) {  // between two generations: nothing to save
      machines_->quit(128 + *signal, now_ms());
      exit_code_ = 128 + *signal;
    } else {
      obey(supervisor_.signaled(*signal));
    }
  }
}

/// Ctrl-Z in a terminal reaches only this process.
void Launch::suspend() {
  if (!generation_) {
    ::raise(SIGSTOP);
    return;
  }
  for (const RankProcess& rank : generation_->processes) rank.send_to_group(SIGSTOP);
  ::raise(SIGSTOP);
  for (const RankProcess& rank : generation_->processes) rank.send_to_group(SIGCONT);
}

void Launch::reap() {
  signals_.forget_children();
  if (!generation_) return;
  const int64_t generation = supervisor_.generation();
  for (size_t i = 0; i < generation_->processes.size(); ++i) {
    const auto end = generation_->processes[i].reap();
    if (!end) continue;
    generation_->ends[i] = *end;
    obey(supervisor_.exited(generation, static_cast<int64_t>(i), *end, now_ms()));
    if (exit_code_ || !generation_ || supervisor_.generation() != generation) return;
  }
}

void Launch::tick() {
  const int64_t now = now_ms();
  if (now < next_tick_ms_) return;
  next_tick_ms_ = now + request_.monitor_interval_ms;
  if (!generation_) return;
  std::vector<RankView> views;
  bool all_train = true;
  for (size_t i = 0; i < generation_->processes.size(); ++i) {
    const RankStatus status = generation_->board.read(static_cast<int64_t>(i));
    const RankProcess& process = generation_->processes[i];
    all_train = all_train && process.alive() && status.first_step >= 0;
    if (i == 0 && place_.rank == 0) comment_.update(status.step, now);
    const char state = process.alive() ? process_state(process.pid()) : '\0';
    views.push_back({.sequence = status.sequence,
                     .inside = status.inside,
                     .stopped = state == 'T' || state == 't',
                     .first_step = status.first_step});
  }
  ready_.set(all_train);
  obey(supervisor_.tick(views, now));
}

std::vector<RankSnapshot> Launch::sights() const {
  std::vector<RankSnapshot> sights;
  for (size_t i = 0; i < generation_->processes.size(); ++i) {
    const RankProcess& process = generation_->processes[i];
    RankSnapshot rank_state;
    rank_state.pid = process.pid();
    rank_state.state = process.alive() ? process_state(process.pid()) : '\0';
    rank_state.end = generation_->ends[i];
    rank_state.status = generation_->board.read(static_cast<int64_t>(i));
    rank_state.silent_seconds =
        static_cast<double>(steady_now_ns() - rank_state.status.heartbeat_ns) / 1e9;
    sights.push_back(std::move(rank_state));
  }
  return sights;
}

/// Reads the remaining output of ended ranks, for a limited time: a child of theirs may still
/// print.
void Launch::take_last_output() {
  for (int i = 0; i < 100; ++i) {
    bool more = false;
    for (RankOutput& output : generation_->outputs) more |= output.read();
    if (!more) break;
  }
  to_stderr_.finish(2000);
}

void Launch::report(bool restarts) {
  take_last_output();
  FailureContext context;
  context.cause = supervisor_.cause();
  context.first_rank = place_.rank * request_.local_ranks;
  context.host = host_name();
  context.places = request_.places;
  const bool ended = context.cause.kind == CauseKind::kEnded;
  context.ranks = context.cause.code() == ExitCode::kTimeout ? captured_ : sights();
  if (missed_expectations(context)) return;
  const int64_t about = ended ? context.cause.rank : context.cause.missing.front();
  const RankOutput& output = generation_->outputs[static_cast<size_t>(about)];
  if (!output.relayed()) context.last_lines = output.last_lines();
  if (output.log().written()) context.log_path = output.log().path();
  context.out_of_memory = ended && context.cause.end.by_signal &&
                          context.cause.end.number == SIGKILL && out_of_memory_.killed();
  if (!restarts) context.resume_command = request_.resume_command;
  constexpr std::string_view kError = "error: ";
  std::string text =
      request_.json ? report_json(context, restarts ? "warning" : "error") : report_text(context);
  write_termination_message(text);
  if (restarts && text.starts_with(kError)) text.replace(0, kError.size(), "warning: ");
  to_stderr_.add(!request_.json && is_colored(STDERR_FILENO) ? colored_report(text) : text);
  to_stderr_.finish(2000);
}

void Launch::obey(const Actions& actions) {
  for (const Action& action : actions) {
    switch (action.kind) {
      case SupervisorActionKind::kStart:
        start(action.value);
        break;
      case SupervisorActionKind::kForward:
        for (const RankProcess& rank : generation_->processes) {
          rank.send(static_cast<int>(action.value));
        }
        break;
      case SupervisorActionKind::kKill:
        for (const RankProcess& rank : generation_->processes) rank.send_to_group(SIGKILL);
        break;
      case SupervisorActionKind::kCapture:
        captured_ = sights();
        break;
      case SupervisorActionKind::kReport:
        report(action.value != 0 || machines_);
        break;
      case SupervisorActionKind::kFinish:
        if (machines_) return finish_generation(static_cast<int>(action.value));
        exit_code_ = static_cast<int>(action.value);
        break;
    }
  }
}

int Launch::run() {
  if (is_grouped(request_)) {
    connect_machines();
  } else {
    obey(supervisor_.start(now_ms()));
  }
  while (!exit_code_) {
    wait_for_events();
    take_signals();
    take_output();
    reap();
    if (!exit_code_) tick();
    if (!exit_code_ && machines_) follow_machines();
  }
  if (generation_) take_last_output();
  if (machines_) report_end();
  return *exit_code_;
}

/// On several machines the failures were warnings, as restarts followed.
void Launch::report_end() {
  const int code = *exit_code_;
  if (request_.machine_rank != 0 || code == 0 || code >= 128 ||
      code == static_cast<int>(ExitCode::kInterrupted)) {
    return;
  }
  const std::string text = accel::text("the run has ended on all machines with exit code {}", code);
  if (request_.json) {
    to_stderr_.add(error_json(text, request_.resume_command));
  } else {
    to_stderr_.add("error: " + text + "\n" +
                   (request_.resume_command.empty()
                        ? ""
                        : "  hint: resume with: " + request_.resume_command + "\n"));
  }
  to_stderr_.finish(2000);
}

}  // namespace

int launch(const LaunchRequest& request) {
  open_standard_streams();
  return Launch(request).run();
}

}  // namespace accel
