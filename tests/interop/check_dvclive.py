"""Lets DVC show what the dvclive tracker writes.

Usage: check_dvclive.py FOLDER
FOLDER is what tests/unit/track/tracker_interop_test.cpp writes: 120 steps, killed in the middle of a
row and resumed from step 100, up to step 150. It is copied into a separate repository.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ENV = dict(os.environ, DVC_NO_ANALYTICS="1", GIT_CONFIG_GLOBAL="/dev/null",
           PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def run(repository, *words):
    done = subprocess.run(words, cwd=repository, env=ENV, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_metrics(repository):
    shown = json.loads(run(repository, "dvc", "metrics", "show", "--json"))
    data = shown[""]["data"]["dvclive/metrics.json"]["data"]
    assert data["train"]["loss"] == 2 / 150 and data["step"] == 150, data
    assert data["eval"]["accuracy"] == 0.5, data


def check_params(repository):
    shown = json.loads(run(repository, "dvc", "params", "diff", "--all", "--json"))
    values = {key: value for part in shown.values() for key, value in part.items()}
    assert values["optimizer.lr"]["new"] == 0.001, values
    assert values["train.deterministic"]["new"] is True, values


def check_plots(repository):
    shown = json.loads(run(repository, "dvc", "plots", "show", "--json", "-o", "plots_out"))
    tables = [plot for name, plot in shown["data"].items() if name.endswith("train/loss.tsv")]
    assert len(tables) == 1, list(shown["data"])
    text = json.dumps(shown)
    assert "sample" in text, "the image is missing"
    rows = (repository / "dvclive/plots/metrics/train/loss.tsv").read_text().splitlines()
    found = [(int(row.split("\t")[0]), float(row.split("\t")[1])) for row in rows[1:]]
    assert found == [(step, (1 if step <= 100 else 2) / step) for step in range(1, 151)]


def check_reader():
    """DVCLive itself takes the folder up where we left it."""
    from dvclive import Live

    live = Live("dvclive", resume=True, dvcyaml=None, save_dvc_exp=False)
    assert live.step == 151, live.step
    live.log_metric("train/loss", 0.0)
    live.end()
    assert json.loads(Path("dvclive/metrics.json").read_text())["train"]["loss"] == 0.0


def main():
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        shutil.copytree(sys.argv[1], repository / "dvclive")
        run(repository, "git", "init", "-q")
        run(repository, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q",
            "--allow-empty", "-m", "empty")
        run(repository, "dvc", "init", "-q")
        for check in (check_metrics, check_params, check_plots):
            check(repository)
            print(check.__name__, "passed")
        os.chdir(repository)
        check_reader()
        print("check_reader passed")
        os.chdir("/")


if __name__ == "__main__":
    main()
