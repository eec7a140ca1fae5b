#!/usr/bin/env python3
"""Kills a run that every tracker follows, resumes it, and counts what each of them has.

    trackers.py ACCEL_RUN

No step may be missing or doubled in any tracker's files, wherever the kills struck. A server that is
not there must neither end nor slow the run, and is reported twice: when it is missed and at the end.
"""

import csv
import json
import random
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time
import zipfile

import curves
import runs
from curves import fields

STEPS = 400
RECIPE = runs.JOB.replace("until: 24 steps", f"until: {STEPS} steps").replace(
    "every: 8 steps", "every: 50 steps").replace("every: 1 steps, keep: {last: 2}", "every: 20 steps") + """
log: {every: 1 steps, system: true, histograms: 50 steps}
trackers: [{type: tensorboard}, {type: csv}, {type: wandb}, {type: comet}, {type: clearml}, {type: swanlab},
           {type: mlflow}, {type: dvclive}, {type: trackio}]
"""
WANTED = list(range(1, STEPS + 1))


def csv_steps(run):
    with open(run / "metrics.csv", newline="") as table:
        return [int(row["step"]) for row in csv.DictReader(table) if row["train/loss"]]


def dvclive_steps(run):
    rows = (run / "dvclive/plots/metrics/train/loss.tsv").read_text().splitlines()[1:]
    return [int(row.split("\t")[0]) for row in rows]


def mlflow_steps(run):
    (metric,) = run.glob("mlruns/*/*/metrics/train/loss")
    return [int(line.split()[2]) for line in metric.read_text().splitlines()]


def trackio_steps(run):
    database = sqlite3.connect(run / "trackio/accel-run.db")
    rows = database.execute("SELECT step, metrics FROM metrics ORDER BY id").fetchall()
    database.close()
    return [step for step, metrics in rows if "train/loss" in json.loads(metrics)]


def comet_steps(run):
    (archive,) = run.glob("comet/*.zip")
    lines = zipfile.ZipFile(archive).read("messages.json").splitlines()
    metrics = [json.loads(line)["payload"].get("metric") for line in lines]
    return [metric["step"] for metric in metrics if metric and metric["metricName"] == "train/loss"]


def log_records(data):
    """Records of a .wandb file: frames of at most 32 KiB, cut at its multiples."""
    at, record = 7, b""
    while at < len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        _, length, part = struct.unpack_from("<IHB", data, at)
        record += data[at + 7:at + 7 + length]
        at += 7 + length
        if part in (1, 4):
            yield record
            record = b""


def wandb_steps(run):
    (log,) = run.glob("wandb/offline-run-*/run-*.wandb")
    steps = []
    for record in log_records(log.read_bytes()):
        for history in [value for number, value in fields(record) if number == 2]:
            items = [dict(fields(item)) for number, item in fields(history) if number == 1]
            row = {item[1].decode(): json.loads(item[16]) for item in items}
            if "train/loss" in row:
                steps.append(row["_step"])
    return steps


def clearml_steps(run):
    (archive,) = run.glob("clearml/*.zip")
    events = [event for line in zipfile.ZipFile(archive).read("metrics.jsonl").splitlines() for event in json.loads(line)]
    return [event["iter"] for event in events if (event["metric"], event["variant"]) == ("loss", "train")]


def swanlab_steps(run):
    (log,) = run.glob("swanlog/run-*/run-*.swanlab")
    steps = []
    for record in log_records(log.read_bytes()):
        for scalar in [dict(fields(value)) for number, value in fields(record) if number == 13]:
            if scalar[1] == b"train/loss":
                steps.append(scalar[2])
    return steps


def tensorboard_steps(run):
    """As TensorBoard reads them: files by name, and the start of a process drops its step and later ones."""
    steps = []
    for file in sorted(run.glob("tensorboard/events.out.tfevents.*")):
        data, at = file.read_bytes(), 0
        while at + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = list(fields(data[at + 12:at + 12 + length]))
            at += length + 16
            step = dict(event).get(2, 0)
            if any(number == 7 for number, _ in event):
                steps = [known for known in steps if known < step]
            values = [dict(fields(value)) for number, summary in event if number == 5 for _, value in fields(summary)]
            steps += [step for value in values if value.get(1) == b"train/loss"]
    return steps


READERS = {"tensorboard": tensorboard_steps, "clearml": clearml_steps, "comet": comet_steps, "csv": csv_steps, "dvclive": dvclive_steps, "mlflow": mlflow_steps,
           "swanlab": swanlab_steps, "trackio": trackio_steps, "wandb": wandb_steps}


def runs_of(run):
    """The runs of each tracker that gives every run a folder or an id."""
    database = sqlite3.connect(run / "trackio/accel-run.db")
    (trackio,) = database.execute("SELECT COUNT(DISTINCT run_id) FROM (SELECT run_id FROM metrics UNION SELECT run_id FROM configs)").fetchone()
    database.close()
    folders = {"clearml": "clearml/*/", "comet": "comet/*/", "mlflow": "mlruns/[0-9]*/*/", "swanlab": "swanlog/run-*/",
               "wandb": "wandb/offline-run-*/"}
    return {"trackio": trackio} | {name: sum(path.is_dir() for path in run.glob(glob)) for name, glob in folders.items()}


def recorded(scratch):
    try:
        return (scratch.run / "metrics.jsonl").read_text()
    except FileNotFoundError:
        return ""


def logged(scratch):
    return recorded(scratch).count('"log"')


def kill_and_resume(binary, report, seed):
    draw = random.Random(seed)
    with runs.Scratch(binary, RECIPE) as scratch:
        for _ in range(3):
            process = scratch.start("job.yaml")
            wanted = logged(scratch) + draw.randrange(10, 90)
            # Without a checkpoint the next life would be another run.
            while process.poll() is None and (logged(scratch) < wanted or not scratch.checkpoints()):
                time.sleep(0.002)
            process.kill()
            process.communicate()
        code, errors = scratch.call("job.yaml")
        report.check(f"seed {seed}: the run ends well", code == 0 and errors == "", errors)
        for name, steps_of in READERS.items():
            steps = steps_of(scratch.run)
            report.check(f"seed {seed}: {name} has every step once", steps == WANTED,
                         f"{len(steps)} steps, {[s for s in steps if steps.count(s) > 1][:5]} doubled")


def evaluated_again(binary, report):
    """Stopped in an evaluation, and killed twice when the next process has made it, before it is saved."""
    recipe = RECIPE[:RECIPE.index("trackers:")].replace(f"until: {STEPS} steps", "until: 12 steps").replace(
        "every: 50 steps}\ncheckpoint: {every: 20 steps}", "every: 4 steps}\ncheckpoint: {every: never}").replace(
        "length: 32}", "length: 20000}") + "trackers: [tensorboard, csv, dvclive, mlflow]\n"
    with runs.Scratch(binary, recipe) as scratch:
        scratch.call("job.yaml", "name=straight")
        wanted = curves.of(scratch.path / "runs/straight")
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
            process = scratch.start("job.yaml")
            text = '"step":4,' if number == signal.SIGTERM else '"eval"'
            while process.poll() is None and text not in recorded(scratch):
                time.sleep(0.001)
            process.send_signal(number)
            process.communicate()
        code, errors = scratch.call("job.yaml")
        found = curves.of(scratch.run)
        report.check("an evaluation that is repeated is there once", code == 0 and len(wanted) == 4 and
                     not curves.difference(wanted, found), errors + curves.difference(wanted, found))


def killed_early(binary, report):
    """Killed before the first checkpoint, again and again: each tracker still has one run."""
    recipe = RECIPE.replace(f"until: {STEPS} steps", "until: 250 steps").replace("every: 20 steps", "every: never")
    traced = ["strace", "-f", "-qq", "-o", "/dev/null"]
    with runs.Scratch(binary, recipe) as scratch:
        if runs.can_trace():  # at the creation of folders and files, that of trackers.json and runs among them
            for call, number in (("rename", 2), ("rename", 3), ("rename", 4), ("rename", 9), ("mkdir", 5), ("mkdir", 9), ("mkdir", 14)):
                command = [*traced, "-e", f"inject={call}:signal=SIGKILL:when={number}", scratch.binary, "job.yaml"]
                subprocess.run(command, cwd=scratch.path, env=runs.ENVIRONMENT, capture_output=True, check=False)
        for wanted in (5, 60, 150):
            process = scratch.start("job.yaml")
            while process.poll() is None and (not scratch.holds_lock(process) or not wanted <= logged(scratch) < 250):
                time.sleep(0.001)
            process.kill()
            process.communicate()
        report.check("it is killed before a checkpoint", not scratch.checkpoints())
        report.check("its trackers' runs are on record", (scratch.run / "trackers.json").exists())
        code, errors = scratch.call("job.yaml")
        report.check("killed early: the run ends well", code == 0 and errors == "", errors)
        for name, steps_of in READERS.items():
            try:
                steps = steps_of(scratch.run)
            except ValueError as error:
                steps = [str(error)]
            report.check(f"killed early: {name} has one run and every step once", steps == list(range(1, 251)),
                         f"{len(steps)} steps, {steps[:3]}")
        for name, count in runs_of(scratch.run).items():
            report.check(f"killed early: {name} has one run", count == 1, str(count))


def dead_server(binary, report):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        seconds = []
        for trackers in ("[]", f"[{{type: mlflow, uri: '{url}'}}]"):
            recipe = RECIPE[:RECIPE.index("trackers:")] + f"trackers: {trackers}\n"
            with runs.Scratch(binary, recipe) as scratch:
                started = time.monotonic()
                code, errors = scratch.call("job.yaml")
                seconds.append(time.monotonic() - started)
                if trackers == "[]":
                    continue
                report.check("a server that is not there does not end the run", code == 0, errors)
                lines = errors.splitlines()
                report.check("it is reported twice", len(lines) == 2 and f"cannot send to {url}" in lines[0]
                             and "has not sent" in lines[1], errors)
                outbox = (scratch.run / "mlflow/outbox.jsonl").read_text()
                steps = [json.loads(line)["step"] for line in outbox.splitlines() if '"train/loss"' in line]
                report.check("what it is to get is kept", steps == WANTED)
        # At the end the server has ten seconds; the rest is for a busy machine.
        report.check("it does not hold the run up", seconds[1] < 300, f"{seconds[1]:.1f} s")


def main():
    report = runs.Report()
    for seed in (1, 2):
        kill_and_resume(sys.argv[1], report, seed)
    evaluated_again(sys.argv[1], report)
    killed_early(sys.argv[1], report)
    dead_server(sys.argv[1], report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
