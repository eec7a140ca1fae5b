"""Lets a real MLflow server take runs that accel-run sends while it trains.

Usage: check_mlflow_server.py ACCEL_RUN
One run meets a server that is there; the next one that is away at first, comes, dies and comes back
for the resumed run.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

from mlflow.tracking import MlflowClient  # noqa: E402

RECIPE = """
name: {name}
model: {{type: mlp, hidden_sizes: [8]}}
data: {{train: {{type: synthetic/glyphs, length: 512}}}}
optimizer: {{type: sgd, lr: 0.1}}
train: {{until: {steps} steps, batch: 16}}
checkpoint: {{every: 10 steps, keep: {{last: 20}}}}
log: {{every: 1 steps}}
trackers: [{{type: mlflow, uri: "{url}", experiment: tests}}]
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    def __init__(self, folder, port):
        self.folder, self.port, self.process = folder, port, None
        self.url = f"http://127.0.0.1:{port}"

    def start(self):
        tool = Path(sys.executable).parent / "mlflow"
        self.process = subprocess.Popen(
            [tool, "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
             "--backend-store-uri", f"sqlite:///{self.folder}/ml.db",
             "--artifacts-destination", f"{self.folder}/arts"],
            cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, PATH=f"{tool.parent}:{os.environ['PATH']}"), start_new_session=True)
        for _ in range(600):
            try:
                if urllib.request.urlopen(self.url + "/health", timeout=2).read() == b"OK":
                    return
            except OSError:
                time.sleep(0.3)
        raise SystemExit("the MLflow server does not start")

    def stop(self):
        if self.process:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.process = None


def accel_run(binary, scratch, *words):
    done = subprocess.run([binary, *words], cwd=scratch, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def check(server, name, steps):
    client = MlflowClient(tracking_uri=server.url)
    experiment = client.get_experiment_by_name("tests").experiment_id
    runs = client.search_runs([experiment], f"attributes.run_name = '{name}'")
    assert len(runs) == 1, f"{len(runs)} runs are named {name}"
    run = runs[0]
    assert run.info.status == "FINISHED", run.info.status
    points = client.get_metric_history(run.info.run_id, "train/loss")
    found = sorted(point.step for point in points)
    assert found == list(range(1, steps + 1)), f"steps are missing or doubled: {found}"
    assert run.data.params["optimizer.lr"] == "0.1"
    print(name, "passed")


def write_recipe(scratch, name, steps, url):
    path = scratch / f"{name}.yaml"
    path.write_text(RECIPE.format(name=name, steps=steps, url=url))
    return path


def main():
    binary = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        server = Server(scratch, free_port())
        try:
            recipe = write_recipe(scratch, "away", 40, server.url)
            warnings = accel_run(binary, scratch, recipe)
            assert "cannot send to " + server.url in warnings, warnings
            assert "has not sent" in warnings, warnings
            server.start()
            warnings = accel_run(binary, scratch, write_recipe(scratch, "there", 30, server.url))
            assert warnings == "", warnings
            check(server, "there", 30)
            accel_run(binary, scratch, "resume", "runs/away", "train.until=60 steps")
            check(server, "away", 60)
            # As after a crash: the newest checkpoints are gone, the server has their steps.
            for step in (50, 60):
                subprocess.run(["rm", "-r", f"runs/away/checkpoints/checkpoint_{step}"], cwd=scratch, check=True)
            accel_run(binary, scratch, "resume", "runs/away", "train.until=60 steps")
            check(server, "away", 60)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
