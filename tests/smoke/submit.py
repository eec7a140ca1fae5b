#!/usr/bin/env python3
"""`submit` to schedulers that are programs of this test: jobs of two machines with ranks that really meet.

    submit.py ACCEL_RUN
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import rank_runs
import runs

FAKES = pathlib.Path(__file__).resolve().parent / "fake_cluster"
RECIPE = rank_runs.JOB.replace("num_processes: 2,", "num_processes: 4, reduction: canonical,").replace("until: 24", "until: 160").replace("every: 8", "every: 40")
SLURM = "submit: {to: slurm, nodes: 2, retries: 2, env: {PLAIN: 'two words', KEY: '${secret:KEY}'}}\n"
PODS = "submit: {to: %s, nodes: 2, retries: 2, image: x, mounts: ['pvc/a:/work']}\n"


class Cluster(rank_runs.Scratch):
    """A folder with schedulers on PATH."""

    def __init__(self, binary, config, recipe=RECIPE):
        super().__init__(binary, recipe)
        self.bin, self.state = self.path / "bin", self.path / "cluster"
        self.bin.mkdir()
        self.state.mkdir()
        for name in ("sbatch", "srun", "scontrol", "squeue", "sacct"):
            (self.bin / name).symlink_to(FAKES / "slurm.py")
        (self.bin / "kubectl").symlink_to(FAKES / "kubectl.py")
        (self.bin / "accel-run").symlink_to(self.binary)
        (self.path / "cluster.yaml").write_text(config)

    def environment(self, **variables):
        own = dict(PATH=f"{self.bin}:{os.environ['PATH']}", FAKE_CLUSTER=str(self.state), FAKE_PORT=str(runs.reserved_port()),
                   FAKE_VOLUME=str(self.path), KEY="hidden")
        return super().environment(**dict(own, **variables))

    def without_clients(self):
        """PATH of a machine that has no scheduler's client but those in the folder."""
        return {"PATH": str(self.bin)}

    def output(self, *words, **variables):
        done = subprocess.run([self.binary, *words], cwd=self.path, text=True, env=self.environment(**variables),
                              capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def tool(self, *words):
        subprocess.run([str(self.bin / words[0]), *words[1:]], env=self.environment(), check=True)

    def job(self):
        return json.loads(next(self.state.glob("*.json")).read_text())

    def wait(self, done, limit=100):
        start = time.monotonic()
        while time.monotonic() - start < limit:
            files = list(self.state.glob("*.json"))
            if files and done(json.loads(files[0].read_text())):
                return True
            time.sleep(0.02)
        return False

    def wait_for_steps(self, count):
        start = time.monotonic()
        while self.recorded_steps() < count and time.monotonic() - start < 100:
            time.sleep(0.005)

    def log(self):
        return "".join(path.read_text() for path in sorted((self.run / "submit").glob("slurm-*.out")))


def over(state):
    return state["state"] in ("COMPLETED", "FAILED", "Complete", "Failed")


def wanted_end(binary):
    """Of the run that no scheduler has touched."""
    with rank_runs.Scratch(binary, RECIPE) as scratch:
        scratch.call("job.yaml")
        return scratch.end()


def check_slurm(binary, report, wanted):
    """Preempted once, a machine lost once: the record and weights of a run left alone."""
    with Cluster(binary, SLURM) as cluster:
        code, out, errors = cluster.output("submit", "job.yaml", "--config", "cluster.yaml")
        report.check("Slurm takes the job", code == 0 and "submitted 1000 to sbatch" in out, out + errors)
        script = (cluster.run / "submit" / "job.sh").read_text()
        report.check("the script has no secret", "hidden" not in script and "KEY:?" in script, script)
        if shutil.which("shellcheck"):
            found = subprocess.run(["shellcheck", cluster.run / "submit" / "job.sh"], text=True, capture_output=True, check=False)
            report.check("shellcheck is content with it", found.returncode == 0, found.stdout)
        cluster.wait_for_steps(5)
        running = cluster.output("jobs", "runs/job")[1]
        report.check("'jobs' shows it running", "1000" in running and "RUNNING" in running, running)
        cluster.tool("scontrol", "preempt", "1000")
        cluster.wait(lambda state: state["restarts"] == 1)
        report.check("a preempted run saves and is requeued", "saved and stopped, requeueing" in cluster.log(), cluster.log())
        cluster.wait_for_steps(cluster.recorded_steps() + 5)
        cluster.tool("scontrol", "lose", "1000", "1")
        ended = cluster.wait(over)
        report.check("the job completes", ended and cluster.job()["state"] == "COMPLETED", f"{cluster.job()}\n{cluster.log()}")
        report.check("as the run that nobody stopped", cluster.end() == wanted, cluster.log())
        report.check("and where to ask for its state", "state: accel-run jobs runs/job" in out, out)
        ended = cluster.output("jobs", "runs/job")[1]
        report.check("'jobs' shows its end", "COMPLETED" in ended and "slurm-1000.out" in ended, ended)
        (cluster.bin / "squeue").unlink()
        ended = cluster.output("jobs", "runs/job", **cluster.without_clients())[1]
        report.check("or why it is not known", "unknown: no 'squeue' on PATH" in ended, ended)


def check_bad_recipe(binary, report):
    """It fails on the cluster only: its data is gone by then."""
    data = "{type: csv, path: rows.csv, target: kind}"
    recipe = RECIPE.replace("{type: synthetic/glyphs, length: 88}", data).replace("  eval: {type: synthetic/glyphs, length: 32}\n", "")
    with Cluster(binary, SLURM, recipe.replace("eval: {every: 8 steps}\n", "")) as cluster:
        rows = cluster.path / "rows.csv"
        code, _, errors = cluster.output("submit", "job.yaml", "--config", "cluster.yaml")
        report.check("a recipe without data is not submitted", code == 2 and "rows.csv" in errors and not list(cluster.state.iterdir()),
                     f"exit {code}: {errors}")
        rows.write_text("a,kind\n" + "1,x\n2,y\n3,x\n4,y\n" * 5)
        (cluster.bin / "real").mkdir()
        sbatch = (cluster.bin / "sbatch").rename(cluster.bin / "real/sbatch")
        (cluster.bin / "sbatch").write_text(f"#!/bin/sh\nrm '{rows}'\nexec '{sbatch}' \"$@\"\n")
        (cluster.bin / "sbatch").chmod(0o755)
        cluster.output("submit", "job.yaml", "--config", "cluster.yaml", "model.type=mlp")
        ended = cluster.wait(over)
        report.check("a job that no restart repairs is not restarted", ended and cluster.job()["restarts"] == 0
                     and "no restart" in cluster.log(), f"{cluster.job()}\n{cluster.log()}")


def check_pods(binary, report, target, wanted):
    """A pod is killed; a JobSet replaces all pods, a Job only that one, for which the other waits."""
    with Cluster(binary, PODS % target) as cluster:
        code, out, errors = cluster.output("submit", "job.yaml", "--config", "cluster.yaml")
        report.check(f"kubectl takes the {target}", code == 0 and f"submitted {target}/job" in out, out + errors)
        cluster.wait_for_steps(5)
        os.killpg(cluster.job()["pods"]["1"], signal.SIGKILL)
        for pid, environment in list(cluster.processes().items()):  # ranks lead groups of their own
            if environment.get("GROUP_RANK") == "1":
                rank_runs.send(pid, signal.SIGKILL)
        ended = cluster.wait(over)
        logs = "".join(path.read_text() for path in sorted(cluster.state.glob("pod-*.log")))
        report.check(f"the {target} completes", ended and cluster.job()["state"] == "Complete", f"{cluster.job()}\n{logs}")
        report.check(f"its run is one that nobody stopped ({target})", cluster.end() == wanted, logs)
        report.check(f"'jobs' shows its end ({target})", "Complete" in cluster.output("jobs")[1])
        code, _, errors = cluster.output("submit", "job.yaml", "--config", "cluster.yaml")
        report.check(f"the same {target} once more is refused", code == 1 and f"'{target}/job' is in the cluster already and does not start again"
                     in errors and f"delete it first: kubectl delete {target}/job" in errors, f"exit {code}: {errors}")


REFUSALS = [
    # (config, overrides, exit code, pattern of a part of the message)
    ("accelerator: {device: cpu}\n", [], 2, "'cluster.yaml' has no section 'submit'"),
    (SLURM, ["accelerator.main_process_port=29500"], 2, "'accelerator.main_process_port' is of one machine"),
    (SLURM, ["submit.gpus=4"], 2, "'num_processes' is 4, but 2 machines with 4 GPUs have 8 ranks"),
    (SLURM, ["submit.nodes=3"], 2, "'num_processes' is 4, which 3 machines cannot share evenly"),
    (SLURM, ["submit.memory=1 MiB", "model.hidden_sizes=[4000]"], 8, "a machine would need .*, and the job asks for 1.00 MiB"),
    (SLURM, ["submit.env.OTHER=${secret:OTHER}"], 2, "the secret 'OTHER' of 'submit.env' is not set"),
    (PODS % "job", ["~submit.image"], 2, "'submit.image' is missing"),
]


def check_paths(binary, report):
    """Data of this machine that the pods do not have."""
    recipe = RECIPE.replace("{type: synthetic/glyphs, length: 88}", "{type: csv, path: rows/a.csv, target: kind}")
    with Cluster(binary, PODS % "job", "include: [parts/data.yaml]\n" + recipe) as cluster:
        for folder in (cluster.path / "rows", cluster.path / "parts/more"):
            folder.mkdir(parents=True)
            (folder / "a.csv").write_text("a,kind\n" + "1,x\n2,y\n" * 20)
        (cluster.path / "parts/data.yaml").write_text("data: {eval: {type: csv, path: more/a.csv, target: kind}}\n")
        said = cluster.output("submit", "job.yaml", "--config", "cluster.yaml", "--print")[2]
        report.check("paths of this machine are named", f"'data.train.path' is '{cluster.path}/rows/a.csv', a path of this machine "
                     "that no mount of the job has" in said, said)
        mounted = cluster.output("submit", "job.yaml", "--config", "cluster.yaml", "--print", f"submit.mounts=['pvc/a:/work','{cluster.path}:{cluster.path}:ro']",
                                 f"data.train.path={cluster.path}/rows/a.csv")[2]
        report.check("paths of mounts are not", "a path of this machine" not in mounted, mounted)


def check_refusals(binary, report):
    """Nothing is sent."""
    for config, words, code, message in REFUSALS:
        with Cluster(binary, config) as cluster:
            found, _, errors = cluster.output("submit", "job.yaml", "--config", "cluster.yaml", *words)
            report.check(f"refused: {message}", found == code and re.search(message, errors) and not list(cluster.state.iterdir()),
                         f"exit {found}: {errors}")
    with Cluster(binary, SLURM) as cluster:
        found = cluster.output("jobs", "runs/job")
        report.check("'jobs' of a run that was not submitted", found[0] == 2 and "nothing was submitted from 'runs/job'" in found[2], str(found))
        (cluster.bin / "sbatch").unlink()
        (cluster.bin / "sbatch").write_text("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n")
        (cluster.bin / "sbatch").chmod(0o755)
        found = cluster.output("submit", "job.yaml", "--config", "cluster.yaml")
        report.check("sbatch's refusal is shown", found[0] == 1 and "'sbatch' refused the job with exit code 1: invalid partition" in found[2],
                     str(found))
        report.check("the plan is printed", re.search("plan: 4 ranks on 2 machines, .* of tensors per rank, 160 steps", found[1]) is not None,
                     str(found))
        (cluster.bin / "sbatch").unlink()
        found = cluster.output("submit", "job.yaml", "--config", "cluster.yaml", **cluster.without_clients())
        report.check("without sbatch the script is printed", found[0] == 0 and found[1].startswith("#!/bin/bash")
                     and "'sbatch' is not on PATH: the spec is printed, not submitted" in found[2], str(found))
        found = cluster.output("show", "job.yaml", "accelerator.num_machines=3", PET_NNODES="2", PET_NODE_RANK="0", PET_MASTER_ADDR="a")
        report.check("variables and recipe contradict each other", found[0] == 2
                     and "'num_machines' is '3', but PET_NNODES of Kubeflow says 2" in found[2], str(found))
    with Cluster(binary, SLURM.replace("nodes:", "node_count:")) as cluster:
        found = cluster.output("validate", "job.yaml", "--config", "cluster.yaml")
        report.check("'validate' reads the section", found[0] == 2 and "unknown option 'node_count'" in found[2], str(found))
    with Cluster(binary, PODS % "job", RECIPE.replace("{type: synthetic/glyphs, length: 88}", "{type: csv, path: /work/a.csv, target: kind}")) as cluster:
        found = cluster.output("submit", "job.yaml", "--config", "cluster.yaml")
        report.check("data of the pods only", "memory is not checked: the recipe cannot be planned here: " in found[2], str(found))
    check_paths(binary, report)


def main():
    binary, report = sys.argv[1], runs.Report()
    wanted = wanted_end(binary)
    check_slurm(binary, report, wanted)
    check_bad_recipe(binary, report)
    check_refusals(binary, report)
    try:
        import yaml  # noqa: F401  (of the fake kubectl)
    except ImportError:
        print("no PyYAML: Kubernetes is not tested")
    else:
        for target in ("job", "jobset"):
            check_pods(binary, report, target, wanted)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
