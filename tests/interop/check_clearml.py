"""Lets the clearml package import an archive of the clearml tracker into a server of our own.

Usage: check_clearml.py ZIP
ZIP is what tests/unit/track/tracker_interop_test.cpp writes: 120 steps, killed in the middle of a
line and resumed from step 100, up to step 150.
"""

import io
import json
import os
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import PIL.Image

TASK = "1" * 32
PROJECT = "2" * 32


class FakeServer(BaseHTTPRequestHandler):
    requests = []  # (endpoint, what was sent)
    task = {"id": TASK, "name": "run", "project": PROJECT, "type": "training", "status": "created", "script": {},
            "execution": {}, "output": {}, "hyperparams": {}, "configuration": {}, "tags": [], "comment": ""}

    def log_message(self, *args):
        pass

    def do_GET(self):
        endpoint = self.path.split("?")[0].rsplit("/", 1)[-1]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Type", "").startswith("multipart/form-data"):  # to the file server
            self.requests.append(("upload", body))
            self.answer("upload", [])
            return
        lines = [json.loads(line) for line in body.splitlines()]
        self.requests.append((endpoint, lines if len(lines) != 1 else lines[0]))
        self.answer(endpoint, lines)

    do_POST = do_PUT = do_GET

    def answer(self, endpoint, lines):
        data = {"tasks.create": {"id": TASK}, "projects.create": {"id": PROJECT}, "projects.get_all": {"projects": []},
                "tasks.get_by_id": {"task": self.task}, "tasks.get_all": {"tasks": [self.task]},
                "projects.get_by_id": {"project": {"id": PROJECT, "name": "proj"}}}.get(endpoint, {})
        if endpoint == "auth.login":
            import jwt

            claims = {"exp": int(time.time()) + 3600, "env": "x", "identity": {"user": "u", "company": "c"}}
            data = {"token": jwt.encode(claims, "k" * 32, algorithm="HS256")}
        if endpoint == "tasks.edit":
            self.task.update({key: value for key, value in lines[0].items() if key in self.task and key != "id"})
            data = {"updated": 1, "fields": {}}
        if endpoint in ("tasks.started", "tasks.completed", "tasks.stopped"):
            self.task["status"] = {"tasks.started": "in_progress"}.get(endpoint, "completed")
            data = {"updated": 1, "fields": {}, "started": 1}
        if endpoint == "events.add_batch":
            data = {"added": len(lines), "errors": 0, "errors_info": {}}
        meta = {"id": "0" * 32, "trx": "0" * 32, "endpoint": {"name": endpoint, "requested_version": "2.23",
                "actual_version": "1.0"}, "result_code": 200, "result_subcode": 0, "result_msg": "OK",
                "error_stack": None, "error_data": {}}
        reply = json.dumps({"meta": meta, "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)


def import_session(archive, scratch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    os.environ.update(CLEARML_API_HOST=url, CLEARML_WEB_HOST=url, CLEARML_FILES_HOST=url, HOME=scratch,
                      CLEARML_API_ACCESS_KEY="k" * 20, CLEARML_API_SECRET_KEY="s" * 40,
                      CLEARML_CONFIG_FILE=os.path.join(scratch, "clearml.conf"))
    os.chdir(scratch)
    from clearml import Task

    assert Task.import_offline_session(archive) == TASK
    return FakeServer.requests


def events_of(requests):
    for endpoint, sent in requests:
        if endpoint == "events.add_batch":
            yield from sent if isinstance(sent, list) else [sent]


def check_metrics(requests):
    points = {}
    for event in events_of(requests):
        if event.get("type") == "training_stats_scalar":
            assert event["task"] == TASK, event
            points.setdefault((event["metric"], event["variant"]), []).append((event["iter"], event["value"]))
    wanted = [(step, (1 if step <= 100 else 2) / step) for step in range(1, 151)]
    assert sorted(points.pop(("loss", "train"))) == wanted, "a step is missing or doubled"
    assert points == {("accuracy", "eval"): [(100, 0.5)]}, points


def check_images(requests):
    (event,) = [event for event in events_of(requests) if event.get("type") == "training_debug_image"]
    assert (event["iter"], event["metric"], event["variant"], event["task"]) == (1, "sample", "sample", TASK), event
    assert event["url"].startswith(os.environ["CLEARML_FILES_HOST"]) and f"/run.{TASK}/" in event["url"], event
    (sent,) = [sent for endpoint, sent in requests if endpoint == "upload"]
    image = PIL.Image.open(io.BytesIO(sent[sent.index(b"\x89PNG"):]))
    assert (image.size, list(image.tobytes())) == ((3, 2), [0, 50, 100, 150, 200, 250]), image


def check_log(requests):
    lines = [event["msg"] for event in events_of(requests) if event.get("type") == "log"]
    assert lines == ["note: **bold** \u00e9 \ufffd"], lines


def check_task(requests):
    created = [sent for endpoint, sent in requests if endpoint == "tasks.create"]
    assert len(created) == 1 and created[0]["name"] == "run", created
    assert [sent["name"] for endpoint, sent in requests if endpoint == "projects.create"] == ["proj"]
    task = FakeServer.task
    options = {name: item["value"] for name, item in task["hyperparams"]["General"].items()}
    assert options == {"optimizer.lr": "0.001", "train.deterministic": "true", "model.type": "mlp"}, options
    assert task["tags"] == ["a", "b"], task["tags"]
    assert task["script"]["version_num"] == "0123456789abcdef0123456789abcdef01234567", task["script"]
    assert task["script"]["repository"] == "https://example.com/code", task["script"]
    assert task["status"] == "completed", task["status"]


def main():
    with tempfile.TemporaryDirectory() as scratch:
        requests = import_session(os.path.abspath(sys.argv[1]), scratch)
        for check in (check_metrics, check_images, check_log, check_task):
            check(requests)
            print(check.__name__, "passed")


if __name__ == "__main__":
    main()
