#include "parallel/rendezvous/launcher_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <charconv>
#include <csignal>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {
namespace {

std::optional<int64_t> link_number(const EnvironmentLookup& lookup, const char* name) {
  const auto value = lookup(name);
  if (!value) return std::nullopt;
  int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error == std::errc() && stop == end && number >= 0) return number;
  throw Error(ExitCode::kRecipe,
              text("environment variable '{}' is '{}', not a whole number", name, *value),
              "only accel-run's launcher sets it: unset it");
}

std::optional<int> link_fd(const EnvironmentLookup& lookup, const char* name) {
  const auto number = link_number(lookup, name);
  if (!number) return std::nullopt;
  const int fd = static_cast<int>(*number);
  if (*number == fd && ::fcntl(fd, F_GETFD) >= 0) return fd;
  throw Error(ExitCode::kRecipe,
              text("environment variable '{}' is '{}', not an open file descriptor", name, *number),
              "only accel-run's launcher sets it: unset it");
}

void end_with_launcher(int lifeline, int wake) {
  pollfd watched[] = {{lifeline, POLLIN, 0}, {wake, POLLIN, 0}};
  for (;;) {
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[1].revents != 0) return;
    if (watched[0].revents != 0) ::kill(::getpgrp() == ::getpid() ? 0 : ::getpid(), SIGKILL);
  }
}

}  // namespace

std::optional<LauncherChannel> find_launcher_channel(const EnvironmentLookup& lookup) {
  const auto token = lookup(kTokenVariable);
  if (!token) return std::nullopt;
  LauncherChannel link;
  link.token = *token;
  link.store_fd = link_fd(lookup, kStoreVariable);
  link.lifeline_fd = link_fd(lookup, kLifelineVariable);
  link.generation = link_number(lookup, kGenerationVariable).value_or(0);
  return link;
}

OrphanGuard::OrphanGuard(int lifeline_fd) : lifeline_(lifeline_fd) {
  if (!lifeline_) return;
  ::fcntl(lifeline_.get(), F_SETFD, FD_CLOEXEC);
  wake_.reset(::eventfd(0, EFD_CLOEXEC));
  thread_ = std::jthread(&end_with_launcher, lifeline_.get(), wake_.get());
}

OrphanGuard::~OrphanGuard() {
  if (thread_.joinable()) ::eventfd_write(wake_.get(), 1);
}

}  // namespace accel
