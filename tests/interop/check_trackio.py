"""Reads the database of the trackio tracker with the real package.

Usage: check_trackio.py FOLDER
FOLDER is what tests/unit/track/tracker_interop_test.cpp writes: 120 steps, killed and resumed from
step 100, up to step 150.
"""

import json
import os
import subprocess
import sys
from pathlib import Path


def trackio(*words):
    tool = Path(sys.executable).parent / "trackio"
    done = subprocess.run([tool, *words, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def check_metrics():
    found = trackio("get", "metric", "--project", "proj", "--run", "run", "--metric", "train/loss")
    points = [(item["step"], item["value"]) for item in found["values"]]
    wanted = [(step, (1 if step <= 100 else 2) / step) for step in range(1, 151)]
    assert points == wanted, "a step is missing or doubled"


def check_runs():
    found = trackio("list", "runs", "--project", "proj")
    names = [run["name"] if isinstance(run, dict) else run for run in found["runs"]]
    assert names == ["run"], found


def check_rows():
    from trackio.sqlite_storage import SQLiteStorage

    rows = SQLiteStorage.get_logs("proj", "run")
    first = rows[0]
    assert first["note"] == "**bold** \u00e9 \ufffd", first
    assert first["weights"]["_type"] == "trackio.histogram" and sum(first["weights"]["values"]) == 1000
    image = Path(os.environ["TRACKIO_DIR"]) / "media" / first["sample"]["file_path"]
    assert image.read_bytes().startswith(b"\x89PNG")
    config = SQLiteStorage.get_run_config("proj", "run")
    assert (config["optimizer.lr"], config["train.deterministic"]) == (0.001, True), config


def check_append():
    """Trackio's own client continues the same project."""
    import trackio as package

    package.init(project="proj", name="theirs", embed=False)
    package.log({"train/loss": 1.0}, step=1)
    package.finish()
    names = [run["name"] if isinstance(run, dict) else run
             for run in trackio("list", "runs", "--project", "proj")["runs"]]
    assert sorted(names) == ["run", "theirs"], names


def main():
    os.environ["TRACKIO_DIR"] = sys.argv[1]
    for check in (check_metrics, check_runs, check_rows, check_append):
        check()
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
