#!/usr/bin/env python3
"""`sweep`: trials, promotions, and the state after a kill, a failure and Ctrl-C.   sweep.py BINARY"""

import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECIPE = runs.JOB.replace("until: 24 steps", "until: 12 steps").replace("every: 8 steps", "every: 3 steps")

HALVING = """
recipe: job.yaml
grid: {optimizer.lr: [1e-5, 0.003, 0.01]}
stages: [{until: 6 steps}, {until: 12 steps, promote: {keep: 1, metric: eval/loss}}]
parallel: 2
"""


def check(condition, what):
    if not condition:
        sys.exit(f"sweep: {what}")


class Sweeps(runs.Scratch):
    def __init__(self, binary):
        super().__init__(binary, RECIPE)

    def sweep(self, text, *words, name="s"):
        """(exit code, standard output, standard error)."""
        (self.path / f"{name}.yaml").write_text(text)
        done = subprocess.run([self.binary, "sweep", f"{name}.yaml", *words], cwd=self.path, text=True,
                              env=runs.ENVIRONMENT, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def record(self, name):
        lines = (self.path / "runs" / name / "metrics.jsonl").read_text().splitlines()
        return [line for line in lines if '"loss_bits"' in line or '"eval"' in line]

    def journal(self, name):
        lines = (self.path / "runs" / name / "sweep.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines[1:]]


def check_refusals(scratch):
    """Everything is found before anything runs, and reported at the sweep's own value."""
    code, out, errors = scratch.sweep("recipe: job.yaml\ngrid: {optimizer.lr: [0.1, -1], model.hiden: [[8]]}\n")
    check(code == 2, f"{code} {errors}")
    check("s.yaml:2:28: error: 'lr' must be " in errors and "s.yaml:2:47: error: unknown option 'hiden'" in errors, errors)
    check(errors.count("unknown option") == 1, f"each problem once: {errors}")
    code, out, errors = scratch.sweep("grid: {seed: [1]}\nrecipe: jobs.yaml\n")
    check(code == 2 and errors == "s.yaml:2:9: error: cannot read the recipe 'jobs.yaml': No such file or directory\n"
          "    recipe: jobs.yaml\n            ^\n  hint: did you mean 'job.yaml'?\n", errors)
    code, out, errors = scratch.sweep(HALVING.replace("6 steps", "2 steps"))
    check(code == 2 and errors == "s.yaml:4:73: error: trials are ranked by 'eval/loss' after 2 steps, before the first "
          "evaluation\n    stages: [{until: 2 steps}, {until: 12 steps, promote: {keep: 1, metric: eval/loss}}]\n"
          f"{' ' * 76}^\n  hint: set 'eval.every' to at most '2 steps'\n", errors)
    for option, wanted in (("checkpoint.resume: runs/x", "s.yaml:3:32: error: the trials of a sweep start from scratch and resume from their own checkpoints\n"),
                           ("accelerator.num_machines: 2, accelerator.main_process_ip: a, accelerator.main_process_port: 29500, "
                            "accelerator.num_processes: 2",
                            "s.yaml:3:39: error: a sweep runs on one machine, and the recipe is for 2\n")):
        code, out, errors = scratch.sweep(f"recipe: job.yaml\ngrid: {{seed: [1]}}\noverrides: {{{option}}}\n")
        check(code == 2 and wanted in errors, errors)
    (scratch.path / "blind.yaml").write_text(re.sub(r"(?m)^ *eval: .*\n", "", RECIPE))
    code, out, errors = scratch.sweep("recipe: blind.yaml\ngrid: {seed: [1]}\n")
    check(code == 2 and errors.startswith("s.yaml:1:9: error: trials are ranked by 'eval/loss', but the recipe has no "
                                          "eval data\n"), errors)
    code, out, errors = scratch.sweep("recipe: job.yaml\ngrid: {seed: [1, 1]}\n")
    check(code == 2 and errors.startswith("s.yaml:2:18: error: 'seed' has the value 1 twice\n"), errors)
    code, out, errors = scratch.sweep("recipe: job.yaml\ngrid: {seed: [1]}\nranking: {metric: eval/acuracy, mode: max}\n")
    check(code == 2 and errors == "s.yaml:3:19: error: 'trial_000' does not log a metric 'eval/acuracy'\n"
          "    ranking: {metric: eval/acuracy, mode: max}\n                      ^\n  hint: did you mean 'eval/accuracy'?\n", errors)
    code, out, errors = scratch.sweep(HALVING, "--dry-run")
    check(code == 0 and out == "trial      optimizer.lr\ntrial_000  1e-5\ntrial_001  0.003\ntrial_002  0.01\n", out)
    check(not (scratch.path / "runs").exists(), "what only looks leaves a folder")


def check_folder(scratch, name):
    """The folder of a sweep is no run's, and an error names what to give instead."""
    for words, hint in ((("top", "--once"), f"it is a sweep: give one of its trials, such as 'runs/{name}/trial_000'"),
                        (("resume",), "resume a sweep with the command that started it: accel-run sweep FILE")):
        code, errors = scratch.call(*words, f"runs/{name}")
        check(code == 2 and errors.endswith(f"\n  hint: {hint}\n"), errors)


def check_promotion(scratch):
    """The best is promoted, and equals the same run alone."""
    code, out, errors = scratch.sweep(HALVING)
    check(code == 0, f"{code} {out} {errors}")
    results = scratch.journal("s")
    check([(r["stage"], r["step"]) for r in results] == [(0, 6)] * 3 + [(1, 12)], results)
    best = min(results[:3], key=lambda r: r["values"]["eval/loss"])["trial"]
    check(results[3]["trial"] == best, results)
    table = out[out.index("trial      eval/loss"):].splitlines()
    check(re.match(rf"trial_00{best} +[0-9.]+ +12 +done +", table[1]), table)
    check("stage 1 of 2" in table[2], table)
    check("report runs/s/report.html" in out and (scratch.path / "runs/s/report.html").exists(), out)
    code, errors = scratch.call("job.yaml", "name=alone", f"optimizer.lr={['1e-5', '0.003', '0.01'][best]}")
    check(code == 0, errors)
    check(scratch.record("alone") == scratch.record(f"s/trial_00{best}"), "a promoted trial is another run")
    check_folder(scratch, "s")
    check(len(scratch.record(f"s/trial_00{(best + 1) % 3}")) < len(scratch.record("alone")), "who is not promoted stops")
    before = {path: path.stat().st_mtime_ns for path in scratch.path.glob("runs/s/trial_*/metrics.jsonl")}
    code, out, errors = scratch.sweep(HALVING)
    check(code == 0 and "starts" not in out, f"a sweep that is over runs again: {out}")
    check(before == {path: path.stat().st_mtime_ns for path in before}, "records were touched")
    lost = scratch.path / "runs/s/sweep.jsonl"
    other = (best + 1) % 3
    exact = scratch.record(f"s/trial_00{other}")
    lost.write_text("".join(line for line in lost.read_text().splitlines(keepends=True)
                            if not line.startswith(f'{{"trial":{other},')))
    code, out, errors = scratch.sweep(HALVING)
    check(code == 0 and f"trial_00{other} done at step 6" in out, f"{out} {errors}")
    check(scratch.record(f"s/trial_00{other}") == exact, "a trial that had ended its stage makes another step")
    code, out, errors = scratch.sweep(HALVING.replace("0.003", "0.004"))
    check(code == 2 and "belongs to a sweep with other trials or stages" in errors, errors)


def check_shared_cores(scratch):
    """Trials side by side share the cores, unless their recipe says how many threads each has."""
    (scratch.path / "free_job.yaml").write_text(RECIPE.replace("accelerator: {num_cpu_threads_per_process: 1}\n", ""))
    code, out, errors = scratch.sweep("recipe: free_job.yaml\ngrid: {seed: [1, 2, 3]}\nparallel: 2\n", name="free")
    check(code == 0 and all(line["code"] == 0 for line in scratch.journal("free")), f"{code} {out} {errors}")


def check_unranked(scratch):
    """Nobody can be promoted by what nobody has measured."""
    late = HALVING.replace("job.yaml", "late_job.yaml").replace("parallel: 2", "parallel: 1")
    (scratch.path / "late_job.yaml").write_text(RECIPE.replace("every: 3 steps", "every: 9 epochs"))
    code, out, errors = scratch.sweep(late, name="late")
    check("warning: trial_000 has no 'eval/loss', by which trials are ranked\n" in errors, errors)
    check(code == 1 and "error: no trial was promoted to the last stage\n  hint: evaluate each trial in the earlier stages: lower 'eval.every'" in errors, f"{code} {out} {errors}")


def check_failure(scratch):
    """A trial that fails stops no other; --retry tries it again."""
    broken = scratch.path / "runs/f/trial_000"
    broken.parent.mkdir(parents=True)
    broken.write_text("no folder can be here")
    text = "recipe: job.yaml\nname: f\ngrid: {seed: [1, 2]}\nranking: {metric: train/loss}\n"
    code, out, errors = scratch.sweep(text)
    check(code == 1, f"{code} {out} {errors}")
    check(errors == "warning: trial_000 failed with exit code 7: see 'runs/f/logs/trial_000.log'\n", errors)
    check(re.search(r"^trial_001 +[0-9.]+ +12 +done +2$", out, re.MULTILINE), out)
    broken.unlink()
    code, out, errors = scratch.sweep(text)
    check(code == 1 and "starts" not in out, "a failed trial is run again without being asked")
    code, out, errors = scratch.sweep(text, "--retry")
    check(code == 0 and "trial_000 starts\n" in out and "trial_001 starts" not in out, f"{code} {out} {errors}")


def check_missed(scratch):
    """A trial that misses what its recipe expects is not done, and not what the sweep recommends."""
    text = ("recipe: job.yaml\nname: m\ngrid: {optimizer.lr: [1e-9, 0.01]}\noverrides: {expect: {eval/loss: '<= 2.25'}}\n"
            "ranking: {metric: eval/accuracy, mode: max}\n")
    code, out, errors = scratch.sweep(text)
    check(code == 1 and "warning: trial_000 missed an expectation of its recipe: see 'runs/m/logs/trial_000.log'\n"
          == errors, f"{code} {out} {errors}")
    table = out[out.index("trial      eval/accuracy"):].splitlines()
    check(re.match(r"trial_001 +[0-9.]+ +12 +done +0.01$", table[1]), table)
    check(re.match(r"trial_000 +[0-9.]+ +12 +missed +1e-9$", table[2]), table)
    code, out, errors = scratch.sweep(text, "--retry")
    check(code == 1 and "starts" not in out, f"a trial that came to its end is run again: {out}")
    (scratch.path / "strict.yaml").write_text(RECIPE + "expect: {eval/loss: '<= 1e-9'}\n")
    text = "recipe: strict.yaml\nname: e\ngrid: {seed: [1, 2]}\noverrides: {expect: {}, train.until: 3 steps}\n"
    code, out, errors = scratch.sweep(text)
    check(code == 0 and " missed" not in out, f"an emptied section still acts: {code} {out} {errors}")
    code, out, errors = scratch.sweep(HALVING.replace("job.yaml", "strict.yaml") + "name: h\n", name="h")
    states = re.findall(r"^trial_\d+ .* (missed|stage 1 of 2) ", out, re.MULTILINE)
    check(code == 1 and states == ["missed", "stage 1 of 2", "stage 1 of 2"],
          f"an eliminated trial is above the finished one: {out} {errors}")


def wait_for(condition, what):
    end = time.monotonic() + 600
    while not condition():
        check(time.monotonic() < end, f"no {what}")
        time.sleep(0.01)


def start_long(scratch, name="k"):
    """A sweep whose second trial is on its way."""
    (scratch.path / f"{name}.yaml").write_text("recipe: job.yaml\ngrid: {seed: [1, 2]}\noverrides: {train.until: 200 steps, "
                                         "checkpoint.every: 10 steps}\n")
    process = subprocess.Popen([scratch.binary, "sweep", f"{name}.yaml"], cwd=scratch.path, env=runs.ENVIRONMENT,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    while "trial_001 starts" not in said:
        line = process.stdout.readline()
        check(line, f"it ended: {said}")
        said += line
    return process, said


def checkpoints(folder):
    return sorted(path.name for path in (folder / "checkpoints").glob("*")) if folder.is_dir() else []


def check_stops(scratch):
    """Killed, then stopped by Ctrl-C, a sweep resumes, and ends as an uninterrupted one."""
    process, _ = start_long(scratch)
    second = scratch.path / "runs/k/trial_001"
    wait_for(lambda: checkpoints(second), "checkpoint of the second trial")
    process.kill()
    process.communicate()
    check([r["trial"] for r in scratch.journal("k")] == [0], scratch.journal("k"))
    saved = checkpoints(second)
    process, said = start_long(scratch)
    wait_for(lambda: checkpoints(second) != saved, "later checkpoint of the second trial")
    os.kill(process.pid, signal.SIGINT)
    said += process.communicate()[0]
    check(process.returncode == 75, f"{process.returncode} {said}")
    check("trial_000 starts" not in said and "stopping the running trials\ntrial_001 stopped\n" in said, said)
    check("stopped: resume with the same command" in said, said)
    code, errors = scratch.call("sweep", "k.yaml")
    check(code == 0, errors)
    code, errors = scratch.call("job.yaml", "name=straight", "seed=2", "train.until=200 steps", "checkpoint.every=never")
    check(code == 0, errors)
    check(scratch.record("straight") == scratch.record("k/trial_001"), "a stopped trial resumes differently")


def check_killed(scratch):
    """A second Ctrl-C waits for no trial."""
    process, _ = start_long(scratch, "kk")
    second = scratch.path / "runs/kk/trial_001"
    wait_for(lambda: checkpoints(second), "checkpoint of the second trial")
    for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGSTOP)  # it does not end by itself
    os.kill(process.pid, signal.SIGINT)
    said = ""
    while "stopping the running trials" not in said:
        said = process.stdout.readline()
        check(said, "it ended at the first signal")
    os.kill(process.pid, signal.SIGINT)
    said = process.communicate()[0]
    check(process.returncode == 75 and said == "error: the sweep was stopped twice by signal 2\n",
          f"{process.returncode} {said}")


def check_report(scratch):
    """A report that cannot be written is a warning."""
    (scratch.path / "runs/r/report.html").mkdir(parents=True)
    text = ("recipe: job.yaml\nname: r\ngrid: {seed: [1]}\noverrides: {train.until: 3 steps}\n")
    code, out, errors = scratch.sweep(text)
    check(code == 0 and errors == "warning: cannot write the report of the sweep: cannot write 'runs/r/report.html': Is a directory\n",
          f"{code} {out} {errors}")


def check_in_use(scratch):
    """A trial in whose folder another process trains has no result, and can be run later."""
    text = "recipe: job.yaml\nname: u\ngrid: {seed: [1, 2]}\noverrides: {train.until: 3 steps}\n"
    trial = scratch.path / "runs/u/trial_001"
    trial.mkdir(parents=True)
    with open(trial / "run.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, out, errors = scratch.sweep(text)
    check(code == 11 and errors == "error: the folder of trial_001 is in use by another process: see 'runs/u/logs/trial_001.log'\n"
          "  hint: stop that process, then continue with the same command\n", f"{code} {out} {errors}")
    check([entry["trial"] for entry in scratch.journal("u")] == [0], f"{scratch.journal('u')}")
    code, out, errors = scratch.sweep(text)
    check(code == 0 and "trial_000 starts" not in out, f"{code} {out} {errors}")


def check_document(scratch):
    """The example of docs/sweep.md, as far as can be checked without training."""
    text = (ROOT / "docs/sweep.md").read_text()
    example, commands = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("yaml", "console"))
    words = commands.splitlines()[0].split()
    check(words[:3] == ["$", "accel-run", "cp"], commands)
    code, errors = scratch.call(*words[2:])
    check(code == 0, errors)
    code, out, errors = scratch.sweep(example, "--dry-run", name="lr")
    check(code == 0 and len(out.splitlines()) == 7, f"{out} {errors}")


def main():
    with Sweeps(sys.argv[1]) as scratch:
        for part in (check_refusals, check_promotion, check_shared_cores, check_unranked, check_failure, check_missed,
                     check_stops, check_killed, check_report, check_in_use, check_document):
            start = time.monotonic()
            part(scratch)
            print(f"{part.__name__}: {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
