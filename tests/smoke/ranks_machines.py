#!/usr/bin/env python3
"""Two launchers train as two machines: each in a network of its own, with a cable between them.

    ranks_machines.py ACCEL_RUN

Wants to be root, for the network namespaces; otherwise the exit code is 77.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import rank_runs

ADDRESSES = ("10.213.7.1", "10.213.7.2")
PORT = 29500
SHORT = 3  # seconds, for a wait in vain
TIMEOUT = JOIN_TIMEOUT = 300
IN_VAIN = [f"accelerator.join_timeout={SHORT} s"]
HOST = re.escape(socket.gethostname())
SELF = rf"{HOST}, process \d+"


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def two_networks():
    """Their names; None where they cannot be made."""
    names = [f"accel-test-{os.getpid()}-{i}" for i in (0, 1)]
    ends = [f"at{os.getpid()}-{i}" for i in (0, 1)]
    if not shutil.which("ip"):
        yield None
        return
    try:
        yield list(zip(names, ends)) if make_networks(names, ends) else None
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def make_networks(names, ends):
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", ends[1], "netns", names[1])
        for name, end, address in zip(names, ends, ADDRESSES):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            for device in ("lo", end):
                ip("-n", name, "link", "set", device, "up")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Machines(rank_runs.Scratch):
    """A folder that both machines see."""

    def __init__(self, binary, networks):
        super().__init__(binary)
        self.networks = networks
        self.started = {}

    def boot(self, machine, *words, rank=None, ip=ADDRESSES[0], within=()):
        """Starts the launcher of a machine, by the command `within`. Later words of a key win."""
        command = ["ip", "netns", "exec", self.networks[machine][0], *within, self.binary, "job.yaml",
                   f"accelerator.machine_rank={machine if rank is None else rank}", "accelerator.num_machines=2",
                   f"accelerator.main_process_ip={ip}", f"accelerator.main_process_port={PORT}",
                   f"accelerator.timeout={TIMEOUT} s", f"accelerator.join_timeout={JOIN_TIMEOUT} s", *words]
        self.started[machine] = subprocess.Popen(command, cwd=self.path, text=True, env=self.environment(),
                                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return self.started[machine]

    def ends(self):
        """{machine: (exit code, standard error)}, once all have ended."""
        ends = {}
        for machine, process in self.started.items():
            try:
                _, errors = process.communicate(timeout=600)
            except subprocess.TimeoutExpired:
                self.end_all()
                _, errors = process.communicate()
                errors += "(did not end)"
            ends[machine] = process.returncode, errors
        return ends


def matches(found, wanted):
    code, pattern = wanted
    return found[0] == code and re.fullmatch(pattern, found[1]) is not None


def expect(machines, report, name, wanted):
    """`wanted` is {machine: (exit code, pattern of all of standard error)}."""
    start = time.monotonic()
    found = machines.ends()
    report.check(f"{name}: {time.monotonic() - start:.1f} s",
                 all(matches(found[machine], wanted[machine]) for machine in wanted), f"\n{found}\nwanted {wanted}")
    report.check(f"{name}: nothing is left running", machines.wait_until_gone(2) is not None)


def check_same_record(binary, networks, report):
    with rank_runs.Scratch(binary) as scratch:
        scratch.call("job.yaml")
        wanted = scratch.end()
    with Machines(binary, networks) as machines:
        for machine in (1, 0):
            machines.boot(machine)
        expect(machines, report, "two machines train", {0: (0, ""), 1: (0, "")})
        report.check("and their run is that of two ranks of one", machines.end() == wanted)
        machines.started.clear()
        for machine in (0, 1):
            machines.boot(machine, "train.until=30 steps", "--stop-after", "26", "--allow", "train.until")
        expect(machines, report, "they go on, and stop", {0: (75, ""), 1: (75, "")})
        machines.started.clear()
        for machine in (0, 1):
            machines.boot(machine, "optimizer.lr=0.02", "train.until=30 steps", "--allow", "train.until")
        changed = r"error: the recipe has changed since the checkpoint:\n  optimizer.lr: was 0.01, is 0.02\n" \
                  r"  hint: to resume with the new values add --allow optimizer.lr\n"
        expect(machines, report, "what one refuses to resume, both tell", {0: (4, changed), 1: (4, changed)})


def check_asked_to_stop(binary, networks, report):
    for machine in (0, 1):
        with Machines(binary, networks) as machines:
            for each in (0, 1):
                machines.boot(each, "train.until=100000 steps")
            machines.wait_for_step(machines.started[0], 2)
            machines.started[machine].send_signal(signal.SIGTERM)
            expect(machines, report, f"SIGTERM to machine {machine} alone stops both", {0: (75, ""), 1: (75, "")})
            report.check("with a checkpoint", machines.events()[-1] == "interrupted" and machines.checkpoints())


def check_lost_machine(binary, networks, report):
    lost = [f"rank {rank} on host '{HOST}'" for rank in (0, 1)]
    for victim in (0, 1):
        with Machines(binary, networks) as machines:
            for machine in (0, 1):
                machines.boot(machine, "train.until=100000 steps")
            machines.wait_for_step(machines.started[0], 2)
            machines.started[victim].kill()
            other = 1 - victim
            text = (rf"error: rank {other} lost {lost[victim]} at step \d+, in collective \d+ '[^']+'\n"
                    r"  hint: the log of the lost rank has the cause\n")
            expect(machines, report, f"machine {victim} dies", {other: (5, text)})
    with Machines(binary, networks) as machines:
        for machine in (0, 1):
            machines.boot(machine, "train.until=100000 steps", "accelerator.timeout=6 s")
        machines.wait_for_step(machines.started[0], 2)
        name, end = networks[1]
        ip("-n", name, "link", "set", end, "down")
        silent = (r"error: rank {} waited longer than 'accelerator.timeout' for {} at step \d+, in collective \d+ '[^']+'\n"
                  r"  hint: check that the others run and that their network works, or raise the timeout\n")
        expect(machines, report, "the cable breaks",
               {0: (6, silent.format(0, lost[1])), 1: (6, silent.format(1, lost[0]))})
        ip("-n", name, "link", "set", end, "up")


def check_preflight(binary, networks, report):
    def case(name, wanted, *boots):
        with Machines(binary, networks) as machines:
            for machine, words, options in boots:
                machines.boot(machine, *words, **options)
            expect(machines, report, name, wanted)
            report.check(f"{name}: nothing is written", not (machines.path / "runs").exists())

    case("machine 1 never starts", {0: (6, r"error: rank 1 did not join within 3 s\n"
         r"  hint: check the machines that did not start, or raise 'accelerator.join_timeout'\n")}, (0, IN_VAIN, {}))
    case("machine 0 never starts", {1: (6, rf"error: no connection to '{ADDRESSES[0]}' port {PORT} within 3 s:"
         r" Connection refused\n  hint: start accel-run on machine 0 too, and open its port in the firewall;"
         r" 'join_timeout' is the time to wait\n")}, (1, IN_VAIN, {}))
    other = rf"error: rank 1 \({SELF}\) has another recipe than rank 0 \({SELF}\)\n" \
            r"  hint: start all machines with the same recipe and the same overrides\n"
    case("another recipe", {m: (2, other) for m in (0, 1)}, (0, [], {}), (1, ["optimizer.lr=0.02"], {}))
    count = rf"error: rank [23] \({SELF}\) is configured for 4 ranks, rank 0 \({SELF}\) for 2\n" \
            r"  hint: set the same 'num_processes' and 'num_machines' on all machines\n"
    case("another number of processes", {0: (2, count)}, (0, [], {}), (1, [rank_runs.on(4)], {}))
    twice = rf"error: two processes have rank 0: {SELF}, and {SELF}\n" \
            r"  hint: set another 'accelerator.machine_rank' on each machine\n"
    not_here = rf"error: 'main_process_ip' is '{ADDRESSES[0]}', which is not an address of this machine\n" \
               r"  hint: set 'accelerator.machine_rank' here: it is 0 only on the machine with that address\n"
    missing = r"error: rank 1 did not join within 3 s\n" \
              r"  hint: check the machines that did not start, or raise 'accelerator.join_timeout'\n"
    case("machine 0 twice", {0: (6, missing), 1: (2, not_here)}, (0, IN_VAIN, {}), (1, [], {"rank": 0}))
    case("a name that nobody knows", {0: (2, r"error: 'main_process_ip' is 'nowhere.invalid', which cannot be resolved:"
         r" [^\n]+\n  hint: give the address of machine 0, or a name that all machines resolve\n")},
         (0, [], {"ip": "nowhere.invalid"}))
    case("an address that no way leads to", {1: (6, rf"error: no connection to '192.0.2.1' port {PORT} within 3 s:"
         r" Network is unreachable\n  hint: start accel-run on machine 0 too, and open its port in the firewall;"
         r" 'join_timeout' is the time to wait\n")}, (1, IN_VAIN, {"ip": "192.0.2.1"}))
    case("an address that nobody has", {1: (6, rf"error: no connection to '10.213.7.77' port {PORT} within 3 s:"
         r" [^\n]+\n  hint: start accel-run on machine 0 too, and open its port in the firewall;"
         r" 'join_timeout' is the time to wait\n")}, (1, IN_VAIN, {"ip": "10.213.7.77"}))


def check_twice_on_machine_one(binary, networks, report):
    """Of three launchers two say that they are machine 1: the one that comes too late is reported, or all are."""
    with Machines(binary, networks) as machines:
        machines.boot(0)
        machines.boot(1)
        machines.started["again"] = machines.started.pop(1)
        machines.boot(1)
        found = sorted(machines.ends().values())
        twice = re.compile(rf"error: two processes have rank 1: {SELF}, and {SELF}\n"
                           r"  hint: set another 'accelerator.machine_rank' on each machine\n")
        output = [code == 2 and twice.fullmatch(errors) is not None for code, errors in found]
        report.check("machine 1 twice", all(output) or (found[:2] == [(0, ""), (0, "")] and output[2]), f"{found}")


def check_two_on_one_machine(binary, networks, report):
    """Two launchers of one network are machine 0: the second names the first."""
    with Machines(binary, networks) as machines:
        first = machines.boot(0)
        while not rank_runs.listens(networks[0][0], PORT) and first.poll() is None:
            time.sleep(0.02)
        machines.started["again"] = machines.started.pop(0)
        machines.boot(0)
        _, errors = machines.started[0].communicate()
        report.check("a second machine 0 on the machine", machines.started[0].returncode == 2 and re.fullmatch(
            rf"error: another accel-run is machine 0 at 'main_process_port' {PORT}: process \d+ \('accel-run'\)\n"
            r"  hint: set another 'accelerator.machine_rank' on each machine; for two runs, give each its own port\n",
            errors) is not None, errors)


def check_other_data(binary, networks, report):
    """The disk of machine 1 has another file at the same path."""
    with Machines(binary, networks) as machines:
        rows = "a,b,label\n" + "".join(f"{i},{2 * i},{'xy'[i % 2]}\n" for i in range(100))
        (machines.path / "train.csv").write_text(rows)
        (machines.path / "other.csv").write_text(rows.replace("\n0,0,", "\n0,1,"))
        data = ["data.train!={type: csv, path: train.csv, target: label}", "~data.eval", "~eval", "model.hidden_sizes=[8]"]
        machines.boot(0, *data)
        machines.boot(1, *data, within=["unshare", "-m", "sh", "-c", "mount --bind other.csv train.csv && exec \"$@\"", "sh"])
        other = rf"error: rank 1 \({SELF}\) has read other inputs than rank 0 \({SELF}\):\n" \
                r"  data.train: sample 0 differs\n" \
                r"  hint: give all machines the same files, or add --allow data if they are meant to differ\n"
        expect(machines, report, "another file on machine 1", {m: (3, other) for m in (0, 1)})
        report.check("another file: nothing is written", not (machines.path / "runs/job/checkpoints").exists())


def check_busy_port(binary, networks, report):
    listen = f"import socket, time; s = socket.create_server(('{ADDRESSES[0]}', {PORT})); print(flush=True); time.sleep(60)"
    with Machines(binary, networks) as machines:
        busy = subprocess.Popen(["ip", "netns", "exec", networks[0][0], sys.executable, "-c", listen],
                                stdout=subprocess.PIPE)
        busy.stdout.readline()
        machines.boot(0)
        expect(machines, report, "a port in use", {0: (2, rf"error: 'main_process_port' {PORT} is in use by process"
               rf" {busy.pid} \('[^']+'\)\n  hint: stop that process, or give all machines another port\n")})
        busy.kill()
        busy.communicate()


def main():
    report, start = rank_runs.runs.Report(), time.monotonic()
    with two_networks() as networks:
        if networks is None:
            print("skipped: network namespaces cannot be made here")
            return 77
        for check in (check_same_record, check_asked_to_stop, check_lost_machine, check_preflight,
                      check_twice_on_machine_one, check_two_on_one_machine, check_other_data,
                      check_busy_port):
            check(sys.argv[1], networks, report)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
