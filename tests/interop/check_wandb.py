"""Lets the wandb package upload a run of the wandb tracker to a server of our own.

Usage: check_wandb.py FOLDER
FOLDER is the offline run that tests/unit/track/tracker_interop_test.cpp writes: 120 steps, killed
in the middle of a record and resumed from step 100, up to step 150.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fake_wandb import FakeWandb


def sync(folder, server, scratch):
    tool = Path(sys.executable).parent / "wandb"
    env = dict(os.environ, WANDB_BASE_URL=server.url, WANDB_API_KEY="local-" + "0" * 40,
               WANDB_ERROR_REPORTING="false")
    for name in ("DIR", "CACHE_DIR", "CONFIG_DIR", "DATA_DIR"):
        env["WANDB_" + name] = scratch
    subprocess.run([tool, "sync", "--yes", folder], env=env, check=True, timeout=300)


def check_rows(server):
    rows = [server.rows[number] for number in sorted(server.rows)]
    assert [row["_step"] for row in rows] == list(range(1, 151)), "a step is missing or doubled"
    for row in rows:
        scale = 1 if row["_step"] <= 100 else 2
        assert row["train/loss"] == scale / row["_step"], row
    assert rows[99]["eval/accuracy"] == 0.5
    first = rows[0]
    assert math.isnan(float(first["train/nan"])), first["train/nan"]
    assert first["note"] == "**bold** \u00e9 \ufffd"
    assert first["weights"]["_type"] == "histogram"
    assert sum(first["weights"]["values"]) == 1000
    assert len(first["weights"]["bins"]) == len(first["weights"]["values"]) + 1
    image = first["sample"]
    assert (image["width"], image["height"]) == (3, 2)
    assert image["filenames"][0] in server.files, "the image was not uploaded"
    assert server.files[image["filenames"][0]].startswith(b"\x89PNG")


def check_run(server):
    found = server.variables
    assert found["project"] == "proj" and found["displayName"] == "run", found
    assert found["tags"] == ["a", "b"] and found["notes"] == "tried", found
    assert found["commit"] == "0123456789abcdef0123456789abcdef01234567", found
    assert found["repo"] == "https://example.com/code", found
    config = json.loads(found["config"])
    assert config["optimizer"]["value"] == {"lr": 0.001}, config
    assert config["train"]["value"] == {"deterministic": True}, config
    assert config["model"]["value"] == {"type": "mlp"}, config
    assert server.summary["train/loss"] == 2 / 150 and server.summary["_step"] == 150
    assert server.summary["eval/accuracy"] == 0.5
    assert server.complete == 0, "the end of the run is missing"


def main():
    server = FakeWandb()
    with tempfile.TemporaryDirectory() as scratch:
        sync(sys.argv[1], server, scratch)
    for check in (check_rows, check_run):
        check(server)
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
