#!/usr/bin/env python3
"""Ranks that another launcher starts find each other by its variables, and train the same run.

    ranks_outside.py ACCEL_RUN

The variables of torchrun, srun, Open MPI, and MPICH and Intel MPI are set by hand. What a rank does
when another one is gone, it must find out by itself then.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import rank_runs
import runs

HOST = re.escape(socket.gethostname())
JOB = rank_runs.JOB.replace("num_processes: 2", "num_processes: auto")
TABLE_JOB = """
model: {type: mlp, hidden_sizes: [8]}
data: {train: {type: csv, path: /proc/self/cwd/train.csv, target: label}, loader: {workers: 0}}
optimizer: {type: adamw, lr: 0.01}
train: {until: 4 steps, batch: 16, micro_batch: 4}
accelerator: {num_cpu_threads_per_process: 1}
"""


def torchrun(rank, port):
    return {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port}


def kubernetes(rank, port):
    return {"RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": port}


def open_mpi(rank, port):
    return {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_LOCAL_RANK": rank,
            "OMPI_COMM_WORLD_LOCAL_SIZE": 2, "PMIX_NAMESPACE": f"prterun-{port}@1"}


def hydra(rank, port):
    return {"PMI_RANK": rank, "PMI_SIZE": 2, "MPI_LOCALRANKID": rank, "MPI_LOCALNRANKS": 2, "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port}


def srun(rank, port):
    return {"SLURM_JOB_ID": port, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_NODEID": 0,
            "SLURM_STEP_NUM_TASKS": 2, "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "n01",
            "SLURM_NTASKS": 2, "SLURM_NNODES": 1}


LAUNCHERS = (torchrun, kubernetes, open_mpi, hydra, srun)


def start(scratch, launcher, *words):
    port = runs.reserved_port()
    return [scratch.start("job.yaml", *words, **{name: str(value) for name, value in launcher(rank, port).items()})
            for rank in (0, 1)]


def ends(processes):
    """[(exit code, standard output, standard error)], by rank."""
    reported = [process.communicate(timeout=600) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, reported)]


def check_launcher(binary, report, launcher, wanted):
    name = launcher.__name__
    with rank_runs.Scratch(binary, JOB) as scratch:
        (code, shown, errors), other = ends(start(scratch, launcher))
        report.check(f"{name}: two ranks train", (code, errors) == (0, "") and "\ndone at step 24" in shown,
                     f"exit {code}: {errors}")
        report.check(f"{name}: the second is silent", other == (0, "", ""), str(other))
        report.check(f"{name}: the run is that of accel-run's own ranks", scratch.end() == wanted)


def check_stop(binary, report, wanted, rank):
    with rank_runs.Scratch(binary, JOB) as scratch:
        processes = start(scratch, torchrun)
        scratch.wait_for_step(processes[0], 4)
        processes[rank].send_signal(signal.SIGTERM)
        found = [end[::2] for end in ends(processes)]
        report.check(f"SIGTERM to rank {rank} alone: both save and stop", found == [(75, ""), (75, "")], str(found))
        found = [end[::2] for end in ends(start(scratch, torchrun))]
        report.check("and go on", found == [(0, ""), (0, "")] and scratch.end() == wanted, str(found))


def check_death(binary, report, rank):
    with rank_runs.Scratch(binary, JOB) as scratch:
        processes = start(scratch, torchrun, "train.until=100000 steps", "accelerator.timeout=300 s")
        scratch.wait_for_step(processes[0], 4)
        processes[rank].kill()
        code, _, errors = ends(processes)[1 - rank]
        reported = re.fullmatch(rf"error: rank {1 - rank} lost rank {rank} on host '{HOST}' at step \d+, in collective \d+ '[^']+'\n"
                                r"  hint: the log of the lost rank has the cause\n", errors)
        report.check(f"rank {rank} dies: the other names it", code == 5 and reported is not None, f"exit {code}: {errors}")


def check_lost_before_training(binary, report):
    """Rank 0 ends while rank 2 is awaited."""
    with rank_runs.Scratch(binary, JOB) as scratch:
        port = runs.reserved_port()
        variables = [{name: str(value) for name, value in (torchrun(rank, port) | {"WORLD_SIZE": 3, "LOCAL_WORLD_SIZE": 3}).items()}
                     for rank in (0, 1)]
        processes = [scratch.start("job.yaml", "train.batch=24", **each) for each in variables]
        shown = processes[0].stdout.readline()
        while shown and not shown.startswith("waiting for rank 2"):
            shown = processes[0].stdout.readline()
        processes[0].kill()
        code, _, errors = ends(processes)[1]
        report.check("rank 0 dies before training: the other ends", code == 5 and
                     re.fullmatch(r"error: rank 1 lost rank 0 before training\n  hint: see the log of rank 0\n", errors)
                     is not None, f"exit {code}: {errors}")


def check_hidden_folder(binary, report):
    """Rank 1 does not have the folder from which rank 0 resumes, as on a machine with separate disks."""
    if os.geteuid() != 0:
        print("skipped a hidden folder: not allowed to mount a tmpfs")
        return
    with rank_runs.Scratch(binary, JOB) as scratch:
        scratch.call("job.yaml")
        port = runs.reserved_port()
        variables = [{name: str(value) for name, value in torchrun(rank, port).items()} for rank in (0, 1)]
        hidden = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none runs && exec \"$@\"", "sh"]
        processes = [scratch.start("job.yaml", **variables[0]),
                     subprocess.Popen([*hidden, scratch.binary, "job.yaml"], cwd=scratch.path, text=True,
                                      env=scratch.environment(**variables[1]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)]
        code, _, errors = ends(processes)[1]
        checkpoint = scratch.path / "runs/job/checkpoints/checkpoint_24"
        report.check("a rank without the checkpoint names it", (code, errors) == (
            4, f"error: rank 1 cannot read '{checkpoint}', from which rank 0 resumes\n"
            "  hint: put the run folder on a file system that all machines share\n"), f"exit {code}: {errors}")


def check_hidden_shards(binary, report):
    """Rank 1 does not have the folder into which it is to write its shards."""
    if os.geteuid() != 0:
        print("skipped hidden shards: not allowed to mount a tmpfs")
        return
    with rank_runs.Scratch(binary, JOB) as scratch:
        (scratch.path / "runs").mkdir()
        port = runs.reserved_port()
        variables = [{name: str(value) for name, value in torchrun(rank, port).items()} for rank in (0, 1)]
        hidden = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none runs && exec \"$@\"", "sh"]
        words = ["job.yaml", "accelerator.fsdp.stage=3"]
        processes = [scratch.start(*words, **variables[0]),
                     subprocess.Popen([*hidden, scratch.binary, *words], cwd=scratch.path, text=True,
                                      env=scratch.environment(**variables[1]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)]
        for rank, (code, _, errors) in enumerate(ends(processes)):
            report.check(f"without the folder for shards rank {rank} ends", (code, errors) == (
                4, "error: rank 1 does not see the run folder of rank 0, into which it is to write its shards\n"
                "  hint: put the run folder on a file system that all machines share, or set "
                "'accelerator.fsdp.state_dict' to full\n"), f"exit {code}: {errors}")


def check_other_checkpoint(binary, report):
    """Rank 1 has a checkpoint of another run at the path of rank 0's."""
    if os.geteuid() != 0:
        print("skipped another checkpoint: not allowed to mount")
        return
    with rank_runs.Scratch(binary, JOB) as scratch:
        scratch.call("job.yaml")
        scratch.call("job.yaml", "name=other", "seed=1")
        port = runs.reserved_port()
        variables = [{name: str(value) for name, value in torchrun(rank, port).items()} for rank in (0, 1)]
        other = ["unshare", "-m", "sh", "-c", "mount --bind runs/other runs/job && exec \"$@\"", "sh"]
        processes = [scratch.start("job.yaml", **variables[0]),
                     subprocess.Popen([*other, scratch.binary, "job.yaml"], cwd=scratch.path, text=True,
                                      env=scratch.environment(**variables[1]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)]
        code, _, errors = ends(processes)[1]
        checkpoint = scratch.path / "runs/job/checkpoints/checkpoint_24"
        report.check("a rank with another checkpoint is refused", (code, errors) == (
            4, f"error: rank 1 has another '{checkpoint}' than rank 0\n"
            "  hint: put the run folder on a file system that all machines share, or give all machines the same"
            " checkpoint\n"), f"exit {code}: {errors}")


def check_stopped(binary, report):
    with rank_runs.Scratch(binary, JOB) as scratch:
        processes = start(scratch, torchrun, "train.until=100000 steps", "accelerator.timeout=6 s")
        scratch.wait_for_step(processes[0], 4)
        os.kill(processes[1].pid, signal.SIGSTOP)
        _, errors = processes[0].communicate(timeout=600)
        reported = re.fullmatch(rf"error: rank 0 waited longer than 'accelerator\.timeout' for rank 1 on host '{HOST}'"
                                r" at step \d+, in collective \d+ '[^']+'\n"
                                r"  hint: check that the others run and that their network works, or raise the timeout\n",
                                errors)
        report.check("rank 1 is stopped: the other names it", processes[0].returncode == 6 and reported is not None,
                     f"exit {processes[0].returncode}: {errors}")


def check_other_port(binary, report):
    """Another program listens at the port of rank 0: it says nothing, or something else."""
    for name, reply in (("a silent server", b""), ("a web server", b"HTTP/1.1 400 Bad Request\r\n\r\n")):
        with rank_runs.Scratch(binary, JOB) as scratch, socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            threading.Thread(target=answer_all, args=(server, reply), daemon=True).start()
            variables = {name: str(value) for name, value in torchrun(1, port).items()}
            process = scratch.start("job.yaml", "accelerator.join_timeout=3 s", **variables)
            _, errors = process.communicate(timeout=600)
            report.check(f"{name} at the port of rank 0 is refused", (process.returncode, errors) == (
                6, f"error: rank 1 is connected to 127.0.0.1:{port}, which does not answer as rank 0 of accel-run does\n"
                "  hint: if another program listens there, give all machines another 'accelerator.main_process_port';"
                " else start rank 0 again\n"), f"exit {process.returncode}: {errors}")


def answer_all(server, reply):
    connections = []
    with contextlib.suppress(OSError):
        while True:
            connections.append(server.accept()[0])
            connections[-1].sendall(reply)


def check_other_data(binary, report):
    """Each rank reads /proc/self/cwd/train.csv, as machines read the same path of their own disks."""
    rows = "".join(f"{i},{2 * i},{'xy'[i % 2]}\n" for i in range(100))
    recipe = TABLE_JOB
    for name, other, words, wanted in (
            ("fewer samples", rows[:rows.rindex("99,")], ["--allow", "data"],
             "  data.train: 99 samples instead of 100\n  hint: give all machines the same files\n"),
            ("another sample", rows.replace("99,198,", "99,199,"), [],
             "  data.train: sample 99 differs\n  hint: give all machines the same files, or add --allow data if they"
             " are meant to differ\n"),
            ("another sample that is permitted", rows.replace("99,198,", "99,199,"), ["--allow", "data"], "")):
        with rank_runs.Scratch(binary, recipe) as main, rank_runs.Scratch(binary, recipe) as second:
            port = runs.reserved_port()
            processes = []
            for rank, (scratch, text) in enumerate(((main, rows), (second, other))):
                (scratch.path / "train.csv").write_text("a,b,label\n" + text)
                variables = {key: str(value) for key, value in torchrun(rank, port).items()}
                processes.append(scratch.start("job.yaml", *words, **variables))
            found = [(code, errors) for code, _, errors in ends(processes)]
            who = rf"rank 1 \({HOST}, process {processes[1].pid}\) has read other inputs than rank 0" \
                  rf" \({HOST}, process {processes[0].pid}\):\n"
            if wanted:
                text = re.compile("error: " + who + re.escape(wanted))
                good = all(code == 3 and text.fullmatch(errors) for code, errors in found) and not main.run.exists()
            else:
                text = re.compile("warning: as --allow permits, " + who + "  data.train: sample 99 differs\n")
                good = found[0][0] == 0 and text.fullmatch(found[0][1]) and found[1] == (0, "")
            report.check(f"{name} on rank 1", good, str(found))


def check_warnings(binary, report):
    """Rank 0 prints the warnings about its configuration, the launcher of accel-run those of its ranks."""
    wanted = "warning: environment ACCELERATE_FOO: 'ACCELERATE_FOO' has no effect: Accelerate has no such variable\n"
    with rank_runs.Scratch(binary, JOB) as scratch:
        found = [errors for _, _, errors in ends(start(
            scratch, lambda rank, port: {**torchrun(rank, port), "ACCELERATE_FOO": 1}))]
        report.check("rank 0 of another launcher warns, once", found == [wanted, ""], str(found))
    with rank_runs.Scratch(binary, JOB) as scratch:
        process = scratch.start("job.yaml", "accelerator.num_processes=2", ACCELERATE_FOO="1")
        _, errors = process.communicate()
        report.check("ranks of accel-run: one warning", errors == wanted, errors)


def check_fault(binary, report):
    """A fault to inject that is none."""
    with rank_runs.Scratch(binary, JOB) as scratch:
        process = scratch.start("job.yaml", "accelerator.num_processes=2", ACCEL_RUN_FAULT="jump:0:1:during")
        _, errors = process.communicate()
        report.check("a fault that is none is refused", process.returncode == 2 and
                     "error: ACCEL_RUN_FAULT is 'jump:0:1:during', which is not a fault\n"
                     "  hint: give ACTION:RANK:SEQUENCE:WHEN, such as kill:1:7:during\n" in errors, errors)


def check_alone(binary, report):
    """One process under a launcher is none of several."""
    with rank_runs.Scratch(binary, JOB) as scratch:
        one = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(runs.reserved_port())}
        process = scratch.start("job.yaml", **one)
        shown, errors = process.communicate()
        report.check("a launcher's only process trains alone", (process.returncode, errors) == (0, "")
                     and "ranks" not in shown, shown + errors)


def main():
    binary, report, begun = sys.argv[1], rank_runs.runs.Report(), time.monotonic()
    with rank_runs.Scratch(binary) as scratch:
        scratch.call("job.yaml")
        wanted = scratch.end()
    for launcher in LAUNCHERS:
        check_launcher(binary, report, launcher, wanted)
    for rank in (0, 1):
        check_stop(binary, report, wanted, rank)
        check_death(binary, report, rank)
    check_lost_before_training(binary, report)
    check_hidden_folder(binary, report)
    check_hidden_shards(binary, report)
    check_other_checkpoint(binary, report)
    check_stopped(binary, report)
    check_other_port(binary, report)
    check_other_data(binary, report)
    check_warnings(binary, report)
    check_fault(binary, report)
    check_alone(binary, report)
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
