"""What the tests of several ranks share."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import runs

# 88 samples in windows of 16: every epoch ends with one of 8. Micro-batches of 4 suit 1, 2 and 4 ranks.
JOB = """
model: {type: mlp, hidden_sizes: [24], dropout: 0.3}
data:
  train: {type: synthetic/glyphs, length: 88}
  eval: {type: synthetic/glyphs, length: 32}
  loader: {workers: 0}
optimizer: {type: adamw, lr: 0.01}
train: {until: 24 steps, batch: 16, micro_batch: 4, max_grad_norm: 1.0}
accelerator: {num_processes: 2, num_cpu_threads_per_process: 1}
eval: {every: 8 steps}
checkpoint: {every: 4 steps, keep: {last: 2}}
"""
CANONICAL = "accelerator.reduction=canonical"
MARK = "ACCEL_TEST_SCRATCH"
NEARLY = 2e-6  # relative, of two losses


def on(count):
    """The override that makes it `count` ranks."""
    return f"accelerator.num_processes={count}"


def within(seconds):
    """A limit for what takes `seconds` on an idle machine: it finds what never ends, on a busy machine too."""
    return seconds + 60


def environment_of(pid):
    """Of another process; empty for one that is gone, or a zombie."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def state_of(pid):
    """The kernel's letter for a process; empty for one that is gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def listens(network, port):
    """Whether a process of a network namespace listens at a TCP port."""
    done = subprocess.run(["ip", "netns", "exec", network, "cat", "/proc/net/tcp"], text=True, capture_output=True, check=True)
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in done.stdout.splitlines()[1:])


def send(pid, signal):
    """A signal to one process: 0 is refused, which stands for this test and all that run it."""
    if pid <= 1:
        raise ValueError(f"no process to send signal {signal} to")
    os.kill(pid, signal)


class Scratch(runs.Scratch):
    """What is started in it bears its mark, so that none of it goes unseen."""

    def __init__(self, binary, recipe=JOB):
        super().__init__(binary, recipe)
        self.temporary = self.path / "tmp"
        self.temporary.mkdir()

    def environment(self, **variables):
        return dict(runs.ENVIRONMENT, TMPDIR=str(self.temporary), **{MARK: self.name}, **variables)

    def start(self, *words, **variables):
        return subprocess.Popen([self.binary, *words], cwd=self.path, text=True, env=self.environment(**variables),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def processes(self):
        """Everything that runs in it: {process: its environment}."""
        found = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                environment = environment_of(entry)
                if environment.get(MARK) == self.name:
                    found[int(entry)] = environment
        return found

    def ranks(self):
        """{rank: process} of those that have come as far as being one.

        A rank executes itself once more when it starts, and is not among them while the kernel does that.
        """
        return {int(environment["RANK"]): pid for pid, environment in self.processes().items() if "RANK" in environment}

    def wait_for_ranks(self, process, count):
        """{rank: process} once all have been seen; fewer when the job ended before."""
        found = self.ranks()
        while len(found) < count and process.poll() is None:
            time.sleep(0.005)
            found |= self.ranks()
        return found

    def wait_until_gone(self, limit):
        """How many seconds it took until nothing ran any more; None after within(limit)."""
        start = time.monotonic()
        while self.processes():
            if time.monotonic() - start > within(limit):
                return None
            time.sleep(0.002)
        return time.monotonic() - start

    def end_all(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                send(pid, 9)

    def recorded_steps(self):
        with contextlib.suppress(FileNotFoundError):
            return (self.run / "metrics.jsonl").read_text().count('"loss_bits"')
        return 0

    def wait_for_step(self, process, step):
        while process.poll() is None and self.recorded_steps() < step:
            time.sleep(0.005)

    def ids(self):
        """The digest of each step's samples."""
        return [re.search(r'"ids":"(\w+)"', line)[1] for line in self.exact_lines() if '"ids"' in line]

    def end(self):
        """What equal runs share."""
        return self.exact_lines(), self.weights()

    def __exit__(self, *error):
        self.end_all()
        super().__exit__(*error)


def train(scratch, report, recipe, name, *words):
    code, errors = scratch.call(recipe, f"name={name}", *words)
    report.check(f"{name} trains", code == 0, f"exit {code}: {errors}")


def records(scratch, name, key):
    lines = (scratch.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)[key] for line in lines if f'"{key}"' in line]


def check_texts(scratch, report, *names):
    """The callback `generate` has written the same texts in these runs."""
    texts = {name: [line for line in records(scratch, name, "text") if line.startswith("generated/")] for name in names}
    report.check(f"generated texts of {', '.join(names)} are equal",
                 len(texts[names[0]]) > 0 and all(found == texts[names[0]] for found in texts.values()), str(texts))


def apart(one, other):
    return max((abs(a - b) / abs(a) for a, b in zip(one, other)), default=1) if len(one) == len(other) else 1


def check_close(scratch, report, wanted, found, bound=NEARLY):
    for key in ("loss", "grad_norm"):
        far = apart(records(scratch, wanted, key), records(scratch, found, key))
        report.check(f"{found}: '{key}' is {far:.1e} from {wanted}", far <= bound * (5 if key == "grad_norm" else 1))


def diff(scratch, one, other):
    """What differs between two checkpoints; "" when nothing does."""
    done = subprocess.run([scratch.binary, "checkpoint", "diff", one, other], cwd=scratch.path, capture_output=True,
                          text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def last_line_of_diff(scratch, one, other):
    output = subprocess.run([scratch.binary, "diff", f"runs/{one}", f"runs/{other}"], cwd=scratch.path,
                            capture_output=True, text=True, check=False)
    return (output.stdout.splitlines() or [output.stderr])[-1]


def output_of(scratch, *words):
    done = subprocess.run([scratch.binary, *words], cwd=scratch.path, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}: {done.stderr}"


def check_restored(scratch, report, recipe, first, name, *words):
    """A copy of the run `first`, whose last step is 4, resumes and saves what it has restored."""
    shutil.copytree(scratch.path / "runs" / first, scratch.path / "runs" / name)
    # Another end of the run changes the recipe, so that the state is saved again.
    train(scratch, report, recipe, name, *words, "train.until=[4 steps, 9 epochs]", "checkpoint.every=4 steps",
          "--allow", "train.until")
    found = diff(scratch, f"runs/{first}/checkpoints/checkpoint_4", f"runs/{name}/checkpoints/checkpoint_4")
    report.check(f"{name} restores and saves equal bits", found == "", found)


def check_killed(scratch, report, recipe, count, *words, name="killed", rank=1, says=""):
    """A run of `count` ranks, one of which is killed, continues bit for bit. `says`: what its report has."""
    words = [*words, "checkpoint.every=5 steps"]
    train(scratch, report, recipe, f"{name}-not", *words)
    process = scratch.start(recipe, f"name={name}", *words)
    ranks, saved = scratch.wait_for_ranks(process, count), scratch.path / f"runs/{name}/checkpoints/checkpoint_5"
    while process.poll() is None and not saved.exists():
        time.sleep(0.002)
    send(ranks[rank], signal.SIGKILL)
    _, errors = process.communicate()
    report.check(f"{name}: the report names the rank", process.returncode == 5 and says in errors, errors)
    train(scratch, report, recipe, name, *words)
    found = last_line_of_diff(scratch, f"{name}-not", name)
    report.check(f"{name}: a killed run ends with the bits of the other",
                 found == "bit-identical: every step, every evaluation, the checkpoint", found)
