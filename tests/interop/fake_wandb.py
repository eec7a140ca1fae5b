"""A W&B server on the loopback device that takes what `wandb sync` uploads."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

RUN = {"id": "UnVuOjE=", "name": "", "displayName": "run", "description": None, "config": "{}",
       "sweepName": None, "historyLineCount": 0,
       "project": {"id": "P", "name": "proj", "entity": {"id": "E", "name": "me"}}}


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that hangs up is no error."""


class FakeWandb:
    """`variables` of the run's creation, `rows`, `summary`, `complete` and `files` as uploaded."""

    def __init__(self):
        self.variables, self.rows, self.summary, self.files = {}, {}, {}, {}
        self.complete = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                self.reply({})

            def do_PUT(self):
                outer.files[self.path.removeprefix("/upload/")] = self.body()
                self.reply({})

            def do_POST(self):
                body = json.loads(self.body() or b"{}")
                if self.path.startswith("/graphql"):
                    self.reply({"data": outer.answer(body, self.headers["Host"])})
                else:
                    outer.take_stream(body)
                    self.reply({})

            def body(self):
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw

            def reply(self, content):
                data = json.dumps(content).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, body, host):
        query, variables = body.get("query", ""), body.get("variables", {})
        if "upsertBucket" in query:
            self.variables.update({k: v for k, v in variables.items() if v not in (None, "")})
            run = dict(RUN, name=variables.get("name") or "run")
            return {"upsertBucket": {"bucket": run, "inserted": True}}
        if "createRunFiles" in query:
            names = variables.get("files", [])
            return {"createRunFiles": {"runID": RUN["id"], "uploadHeaders": [], "files": [
                {"name": name, "uploadUrl": f"http://{host}/upload/{name}"} for name in names]}}
        if "serverInfo" in query.lower():
            return {"serverInfo": {"cliVersionInfo": None, "features": []}}
        if "viewer" in query:
            return {"viewer": {"id": "U", "entity": "me", "username": "me", "flags": "{}",
                               "teams": {"edges": []}}}
        return {"model": {"bucket": None}}

    def take_stream(self, body):
        for name, part in body.get("files", {}).items():
            for number, line in enumerate(part["content"]):
                if name == "wandb-history.jsonl":
                    self.rows[part["offset"] + number] = json.loads(line)
                elif name == "wandb-summary.json":
                    self.summary = json.loads(line)
        if body.get("complete"):
            self.complete = body.get("exitcode")
