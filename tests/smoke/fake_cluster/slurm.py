#!/usr/bin/env python3
"""sbatch, srun, scontrol and squeue as one program, by the name it is called by: jobs are processes of this machine.

State is in the folder FAKE_CLUSTER: one JSON file per job. A node of a job is a process group on 127.0.0.1.
"""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys

STATE = pathlib.Path(os.environ["FAKE_CLUSTER"])


def directives(script):
    found = {}
    for line in pathlib.Path(script).read_text().splitlines():
        if line.startswith("#SBATCH --"):
            option, _, value = shlex.split(line[len("#SBATCH --"):])[0].partition("=")
            found[option] = value
        elif line and not line.startswith("#"):
            break
    return found


def load(job):
    return json.loads((STATE / f"{job}.json").read_text())


def save(job, state):
    draft = STATE / f"{job}.{os.getpid()}"
    draft.write_text(json.dumps(state))
    draft.rename(STATE / f"{job}.json")


def attempt(job, state):
    """Runs the batch script once; its exit code."""
    nodes = int(state["options"]["nodes"])
    output = pathlib.Path(state["options"]["chdir"]) / state["options"]["output"].replace("%j", job)
    environment = dict(os.environ, SLURM_JOB_ID=job, SLURM_JOB_NUM_NODES=str(nodes), SLURM_RESTART_COUNT=str(state["restarts"]),
                       SLURM_JOB_NODELIST=f"fake[0-{nodes - 1}]", SLURM_NODEID="0", SLURM_PROCID="0")
    with open(output, "a") as log:
        return subprocess.run(["bash", state["script"]], cwd=state["options"]["chdir"], env=environment, stdout=log, stderr=log,
                              check=False).returncode


def run_job(job):
    """In the background: attempts until one is not requeued."""
    while True:
        state = load(job)
        state.update(state="RUNNING", requeued=False)
        save(job, state)
        code = attempt(job, state)
        state = load(job)
        if not state["requeued"]:
            state.update(state="COMPLETED" if code == 0 else "FAILED", code=code)
            save(job, state)
            return
        state["restarts"] += 1
        save(job, state)


def sbatch(words):
    script = words[-1]
    job = str(1000 + len(list(STATE.glob("*.json"))))
    options = directives(script)
    save(job, {"script": os.path.abspath(script), "options": options, "restarts": 0, "state": "PENDING", "requeued": False})
    if os.fork() == 0:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        run_job(job)
        os._exit(0)
    print(job)
    return 0


def srun(words):
    command = words[next(i for i, word in enumerate(words) if not word.startswith("--")):]
    nodes = int(os.environ["SLURM_JOB_NUM_NODES"])
    processes = []
    for node in range(nodes):
        environment = dict(os.environ, SLURM_NODEID=str(node), SLURM_PROCID=str(node), SLURM_LOCALID="0", SLURM_STEP_ID="0",
                           SLURM_STEP_NUM_TASKS=str(nodes), SLURM_STEP_TASKS_PER_NODE=f"1(x{nodes})",
                           SLURM_STEP_NODELIST=os.environ["SLURM_JOB_NODELIST"])
        processes.append(subprocess.Popen(command, env=environment, start_new_session=True))
    state = load(os.environ["SLURM_JOB_ID"])
    state["nodes"] = [process.pid for process in processes]
    save(os.environ["SLURM_JOB_ID"], state)
    codes = [process.wait() for process in processes]
    return max(code if code >= 0 else 128 - code for code in codes)


def members(session):
    """The processes of a node: those of its session."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.getsid(int(entry)) == session:
                    yield int(entry)
            except ProcessLookupError:
                pass


def signal_all(node, number):
    for pid in list(members(node)):
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, number)


def scontrol(words):
    if words[:2] == ["show", "hostnames"]:
        print("127.0.0.1")
    elif words[0] == "requeue":
        state = load(words[1])
        state["requeued"] = True
        save(words[1], state)
    elif words[0] == "preempt":  # as Slurm does: every process of the step gets the signal
        for node in load(words[1])["nodes"]:
            signal_all(node, signal.SIGUSR1)
    elif words[0] == "lose":  # a machine is switched off: Slurm ends the job on the others and requeues it
        state = load(words[1])
        state["requeued"] = True
        save(words[1], state)
        for node in state["nodes"][int(words[2]):] + state["nodes"][:int(words[2])]:
            signal_all(node, signal.SIGKILL)
    else:
        return 1
    return 0


def squeue(words):
    state = load(words[-1])
    if state["state"] in ("PENDING", "RUNNING"):
        print(state["state"])
    return 0


def sacct(words):
    print(load(words[-1])["state"])
    return 0


if __name__ == "__main__":
    sys.exit(globals()[pathlib.Path(sys.argv[0]).name](sys.argv[1:]))
