"""Lets the swanlab package upload a run of the swanlab tracker to a server of our own.

Usage: check_swanlab.py FOLDER
FOLDER is the offline run that tests/unit/track/tracker_interop_test.cpp writes: 120 steps, killed
in the middle of a record and resumed from step 100, up to step 150.
"""

import gzip
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import PIL.Image

SOON = "2999-01-01T00:00:00.000Z"
PROJECT = {"cuid": "p1", "name": "proj", "path": "/us/proj", "group": {"username": "us"}, "_count": {"experiments": 0},
           "visibility": "PRIVATE"}
RUN = {"cuid": "r1", "slug": "r1", "name": "run", "createdAt": "2026-01-01T00:00:00.000Z"}


class FakeServer(BaseHTTPRequestHandler):
    requests = []  # (method, path, what was sent)

    def log_message(self, *args):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        path = self.path.split("?")[0]
        stored = path.startswith("/store/")
        self.requests.append((self.command, path, body if stored else json.loads(body) if body else None))
        status, reply = 200, {}
        if path.endswith("/login/api_key"):
            reply = {"sid": "s", "expiredAt": SOON, "userInfo": {"username": "us"}}
        elif path.endswith("/experiment"):
            status, reply = 201, RUN
        elif path.endswith("/resources/presigned/put"):
            host = f"http://{self.headers['Host']}"
            reply = {"urls": [f"{host}/store/{name}" for name in self.requests[-1][2]["paths"]]}
        elif re.search(r"/project/us/proj$", path):
            reply = PROJECT
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_GET


def sync(folder, scratch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    env = dict(os.environ, HOME=scratch, SWANLAB_SAVE_DIR=scratch)
    tool = Path(sys.executable).parent / "swanlab"
    done = subprocess.run([tool, "sync", "--api-key", "k" * 21, "--host", url, folder], env=env, cwd=scratch,
                          capture_output=True, text=True, timeout=300, check=False)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and "rror" not in text, text + "\n".join(map(str, FakeServer.requests))
    return FakeServer.requests


def sent_to(requests, ending):
    return [sent for _, path, sent in requests if path.endswith(ending)]


def metrics_of(requests, kind):
    return [item for sent in sent_to(requests, "/house/metrics") if sent["type"] == kind for item in sent["metrics"]]


def check_scalars(requests):
    points = {}
    for item in metrics_of(requests, "scalar"):
        points.setdefault(item["key"], []).append((item["index"], item["data"]))
    wanted = [(step, (1 if step <= 100 else 2) / step) for step in range(1, 151)]
    assert points.pop("train/loss") == wanted, "a step is missing or doubled"
    assert points == {"eval/accuracy": [(100, 0.5)], "train/nan": [(1, "nan")]}, points


def check_columns(requests):
    columns = [column for sent in sent_to(requests, "/columns") for column in sent]
    found = sorted((column["key"], column["type"], column.get("sectionName")) for column in columns)
    assert found == [("eval/accuracy", "FLOAT", "eval"), ("note", "TEXT", None), ("sample", "IMAGE", None),
                     ("train/loss", "FLOAT", "train"), ("train/nan", "FLOAT", "train")], found


def check_media(requests):
    stored = {path.removeprefix("/store/"): sent for _, path, sent in requests if path.startswith("/store/")}
    media = {item["key"]: (item["index"], item["data"]) for item in metrics_of(requests, "media")}
    assert sorted(media) == ["note", "sample"], media
    (step, (name,)) = media["note"]
    assert step == 1 and stored.pop(name).decode() == "**bold** \u00e9 \ufffd", (step, name)
    (step, (name,)) = media["sample"]
    image = PIL.Image.open(io.BytesIO(stored.pop(name)))
    assert (step, image.size, list(image.tobytes())) == (1, (3, 2), [0, 50, 100, 150, 200, 250]), (step, image)
    assert not stored, stored


def check_run(requests):
    (run,) = sent_to(requests, "/experiment")
    assert (run["name"], run["description"]) == ("run", "tried"), run
    assert [label["name"] for label in run["labels"]] == ["a", "b"], run
    (profile,) = sent_to(requests, "/profile")
    options = {name: item["value"] for name, item in profile["config"].items()}
    assert options == {"optimizer.lr": 0.001, "train.deterministic": True, "model.type": "mlp"}, options
    (state,) = sent_to(requests, "/state")
    assert state["state"] == "FINISHED", state


def main():
    with tempfile.TemporaryDirectory() as scratch:
        requests = sync(os.path.abspath(sys.argv[1]), scratch)
    for check in (check_scalars, check_columns, check_media, check_run):
        check(requests)
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
