"""Lets the comet_ml package upload an archive of the comet tracker to a server of our own.

Usage: check_comet.py ZIP
ZIP is what tests/unit/track/tracker_interop_test.cpp writes: 120 steps, killed in the middle of a
line and resumed from step 100, up to step 150.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KEY = "k" * 32
REPLY = {"runId": "run", "experimentKey": KEY, "experimentId": KEY, "project_id": "p", "projectId": "p",
         "workspaceName": "us", "projectName": "proj", "focusUrl": "http://127.0.0.1/", "ws_url": "",
         "is_alive_beat_duration_millis": 60000, "gpu_monitor_interval_millis": 60000,
         "msgLimits": {}, "features": {}, "upload_web_asset_url_prefix": "", "limits": {}}


class Recorder(BaseHTTPRequestHandler):
    requests = []

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.requests.append((self.path, body))
        self.answer()

    do_GET = do_PUT = lambda self: self.answer()

    def answer(self):
        data = json.dumps(REPLY).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def upload(archive, scratch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/clientlib/"
    env = dict(os.environ, COMET_API_KEY="x" * 25, COMET_URL_OVERRIDE=url, HOME=scratch, COMET_LOGGING_FILE_LEVEL="",
               COMET_DISABLE_ANNOUNCEMENT="1")
    tool = Path(sys.executable).parent / "comet"
    done = subprocess.run([tool, "upload", archive], env=env, cwd=scratch, capture_output=True, text=True,
                          timeout=300)
    text = done.stdout + done.stderr
    assert done.returncode == 0 and "ERROR" not in text and "nvalid" not in text, text
    return Recorder.requests


def json_bodies(requests, ending):
    return [json.loads(body) for path, body in requests if path.split("?")[0].endswith(ending)]


def check_metrics(requests):
    values = {}
    for body in json_bodies(requests, "experiment/metric"):
        for item in body["values"]:
            values.setdefault(item["metricName"], []).append((item["step"], item["metricValue"]))
    wanted = [(step, (1 if step <= 100 else 2) / step) for step in range(1, 151)]
    assert [(s, float(v)) for s, v in values["train/loss"]] == wanted, "a step is missing or doubled"
    assert values["eval/accuracy"] == [(100, 0.5)], values["eval/accuracy"]


def check_parameters(requests):
    found = {}
    for body in json_bodies(requests, "experiment/parameter"):
        for item in body["values"]:
            found[item["parameterName"]] = item["parameterValue"]
    assert found == {"optimizer.lr": 0.001, "train.deterministic": True, "model.type": "mlp"}, found


def check_rest(requests):
    everything = b"\n".join(body for _, body in requests)
    for text in (b"0123456789abcdef0123456789abcdef01234567", b"\x89PNG", b"proj", b'"run"'):
        assert text in everything, text


def main():
    with tempfile.TemporaryDirectory() as scratch:
        requests = upload(sys.argv[1], scratch)
    for check in (check_metrics, check_parameters, check_rest):
        check(requests)
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
