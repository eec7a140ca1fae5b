"""Lets the real packages of all trackers read a run that was killed twice and resumed twice.

Usage: check_killed_runs.py ACCEL_RUN [SEED]
The run is a real one, killed where SEED has it. Each package must find what the run's own record has: every
step once, with its loss, and every evaluation. The mlflow tracker is there twice, with a server and with a
file store.
"""

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "smoke"))  # last: it has a secrets.py
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

import check_clearml  # noqa: E402
import check_comet  # noqa: E402
import check_mlflow_server  # noqa: E402
import check_swanlab  # noqa: E402
import check_tensorboard  # noqa: E402
import check_trackio  # noqa: E402
import check_wandb  # noqa: E402
import runs  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402

STEPS = 200
RECIPE = runs.JOB.replace("until: 24 steps", f"until: {STEPS} steps").replace(
    "every: 8 steps", "every: 50 steps").replace("every: 1 steps, keep: {last: 2}", "every: 20 steps") + """
log: {every: 1 steps, histograms: 100 steps, images: 2}
trackers: [tensorboard, wandb, comet, clearml, {type: swanlab, project: proj, workspace: us}, mlflow,
           {type: mlflow, uri: "URL"}, dvclive, trackio]
"""
KILLS = 2


def logged(scratch):
    try:
        return (scratch.run / "metrics.jsonl").read_text().count('"log"')
    except FileNotFoundError:
        return 0


def kill_and_resume(scratch, seed):
    """The lives of one run; each but the last ends by SIGKILL."""
    draw = random.Random(seed)
    for _ in range(KILLS):
        process = scratch.start("job.yaml")
        wanted = logged(scratch) + draw.randrange(25, 75)
        # Without a checkpoint the next life would be another run.
        while process.poll() is None and (logged(scratch) < wanted or not scratch.checkpoints()):
            time.sleep(0.002)
        assert process.poll() is None, "the run ended before it was killed:\n" + process.stderr.read()
        process.kill()
        process.communicate()
    code, errors = scratch.call("job.yaml")
    assert code == 0 and errors == "", errors
    assert scratch.events().count("resume") == KILLS, scratch.events()


def recorded(scratch, kind, name):
    """What the run's record has: [(step, value)]."""
    lines = map(json.loads, (scratch.run / "metrics.jsonl").read_text().splitlines())
    return [(line["step"], line[kind][name]) for line in lines if name in line.get(kind, {})]


def only(paths):
    (path,) = paths
    return path


def of_tensorboard(run, _):
    accumulator = check_tensorboard.load(str(run / "tensorboard"))
    assert [event.step for event in accumulator.Histograms("weights/layers.0.weight")] == [100, 200]
    assert sum("samples" in tag for tag in accumulator.Tags()["images"]) == 2, accumulator.Tags()
    start = check_tensorboard.hparams_record(accumulator, "_hparams_/session_start_info").session_start_info
    assert start.hparams["optimizer.lr"].number_value == 0.01, start
    return {name: [(event.step, event.value) for event in accumulator.Scalars(name)]
            for name in ("train/loss", "eval/accuracy")}


def of_wandb(run, folder):
    server = check_wandb.FakeWandb()
    check_wandb.sync(only(run.glob("wandb/offline-run-*")), server, folder)
    assert server.complete == 0, "the end of the run is missing"
    rows = [server.rows[number] for number in sorted(server.rows)]
    return {name: [(row["_step"], row[name]) for row in rows if name in row]
            for name in ("train/loss", "eval/accuracy")}


def of_mlflow(client):
    experiment = only([found for found in client.search_experiments() if found.name != "Default"])
    found = only(client.search_runs([experiment.experiment_id]))
    assert found.info.status == "FINISHED", found.info
    return {name: sorted((point.step, point.value) for point in client.get_metric_history(found.info.run_id, name))
            for name in ("train/loss", "eval/accuracy")}


def of_comet(run, folder):
    values = {}
    for body in check_comet.json_bodies(check_comet.upload(only(run.glob("comet/*.zip")), folder), "experiment/metric"):
        for item in body["values"]:
            values.setdefault(item["metricName"], []).append((item["step"], float(item["metricValue"])))
    return values


def of_clearml(run, folder):
    values = {}
    for event in check_clearml.events_of(check_clearml.import_session(str(only(run.glob("clearml/*.zip"))), folder)):
        if event.get("type") == "training_stats_scalar":
            name = f"{event['variant']}/{event['metric']}"
            values.setdefault(name, []).append((event["iter"], event["value"]))
    return {name: sorted(points) for name, points in values.items()}


def of_swanlab(run, folder):
    values = {}
    for item in check_swanlab.metrics_of(check_swanlab.sync(str(only(run.glob("swanlog/run-*"))), folder), "scalar"):
        values.setdefault(item["key"], []).append((item["index"], item["data"]))
    return values


def of_dvclive(run, folder):
    """The state that DVCLive itself resumes from."""
    from dvclive import Live
    from dvclive.utils import parse_metrics

    os.chdir(folder)
    live = Live(str(run / "dvclive"), resume=True, dvcyaml=None, save_dvc_exp=False)
    assert live.step == STEPS + 1, live.step
    tables, _ = parse_metrics(live)
    return {str(Path(path).relative_to(run / "dvclive/plots/metrics").with_suffix("")):
            [(int(row["step"]), float(row[Path(path).stem])) for row in rows] for path, rows in tables.items()}


def of_trackio(run, _):
    os.environ["TRACKIO_DIR"] = str(run / "trackio")
    values = {}
    for name in ("train/loss", "eval/accuracy"):
        found = check_trackio.trackio("get", "metric", "--project", "accel-run", "--run", "job", "--metric", name)
        values[name] = [(item["step"], item["value"]) for item in found["values"]]
    return values


def single(points):
    """As an event file has them."""
    import numpy as np

    return [(step, float(np.float32(value))) for step, value in points]


def main():
    with runs.Scratch(sys.argv[1], RECIPE) as scratch, tempfile.TemporaryDirectory() as folder:
        server = check_mlflow_server.Server(folder, check_mlflow_server.free_port())
        recipe = scratch.path / "job.yaml"
        recipe.write_text(recipe.read_text().replace("URL", server.url))
        readers = {"tensorboard": of_tensorboard, "wandb": of_wandb, "comet": of_comet, "swanlab": of_swanlab,
                   "mlflow's files": lambda run, _: of_mlflow(MlflowClient(str(run / "mlruns"))),
                   "an mlflow server": lambda run, _: of_mlflow(MlflowClient(server.url)),
                   "trackio": of_trackio, "clearml": of_clearml, "dvclive": of_dvclive}
        try:
            server.start()
            kill_and_resume(scratch, seed=int(sys.argv[2]) if len(sys.argv) > 2 else 1)
            for name, values_of in readers.items():
                found = values_of(scratch.run, folder)
                for metric, kind, count in (("train/loss", "log", STEPS), ("eval/accuracy", "eval", STEPS // 50)):
                    wanted = recorded(scratch, kind, metric)
                    assert len(wanted) == count, wanted
                    points = found[metric]
                    same = points == (single(wanted) if name == "tensorboard" else wanted)
                    assert same, f"{name} has {len(points)} of {metric}: {sorted(set(points) ^ set(wanted))[:6]}"
                print(name, "passed", flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
