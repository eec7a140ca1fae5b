#!/usr/bin/env python3
"""'accel-run push' to a hub of our own, which checks each request.   push.py ACCEL_RUN"""

import base64
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading

import runs

TOKEN = "hf_secret_of_push"
CHUNK = 3000
RECIPE = """model: {type: llama, hidden_size: 16, intermediate_size: 32, num_layers: 1, num_heads: 2, num_kv_heads: 1, max_seq_len: 64}
task: causal_lm
data: {train: {type: tokens, path: tokens.bin, vocab_size: 64, max_seq_len: 16}}
optimizer: {type: adamw, lr: 0.01}
train: {until: 4 steps, batch: 4}
"""


class Hub(http.server.ThreadingHTTPServer):
    """Its repositories: the files of each commit, and objects by digest. `trouble` answers 503 to so many requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.commits, self.objects, self.parts, self.created, self.log = [], {}, {}, {}, []
        self.trouble, self.multipart, self.read_only, self.verified = 0, False, False, set()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=None, **headers):
        body = json.dumps(body or {}).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self, method):
        hub = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        hub.log.append((method, self.path, self.headers.get("Authorization")))
        if hub.trouble:
            hub.trouble -= 1
            self.reply(503)
        elif method == "PUT":
            hub.parts[self.path] = body
            self.reply(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        elif hub.read_only or self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(403)
        else:
            self.post(body)

    def do_PUT(self):  # noqa: N802
        self.handle_one("PUT")

    def do_POST(self):  # noqa: N802
        self.handle_one("POST")

    def post(self, body):
        hub = self.server
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            assert asked["type"] == "model", asked
            known = name in hub.created
            hub.created.setdefault(name, asked["private"])
            self.reply(409 if known else 200, {"url": f"{hub.url}/{name}"})
        elif self.path == "/api/validate-yaml":  # which huggingface_hub asks about a model card
            self.reply(200, {"errors": [], "warnings": []})
        elif self.path == "/api/models/org/tiny/preupload/main":
            files = json.loads(body)["files"]
            self.reply(200, {"files": [{"path": file["path"], "shouldIgnore": False, "uploadMode": "lfs" if
                                        b"\0" in base64.b64decode(file["sample"]) else "regular"} for file in files]})
        elif self.path == "/org/tiny.git/info/lfs/objects/batch":
            asked = json.loads(body)
            assert asked["operation"] == "upload" and asked["hash_algo"] == "sha256", asked
            self.reply(200, {"objects": [self.action(entry) for entry in asked["objects"]]})
        elif self.path.startswith("/complete/"):
            asked = json.loads(body)
            urls = [f"/part/{asked['oid']}/{part['partNumber']}" for part in asked["parts"]]
            parts = [hub.parts[url] for url in urls]
            assert [part["etag"] for part in asked["parts"]] == [f'"{hashlib.md5(part).hexdigest()}"' for part in parts]
            hub.parts[f"/whole/{asked['oid']}"] = b"".join(parts)
            self.reply(200)
        elif self.path == "/verify":
            asked = json.loads(body)
            whole = hub.parts[f"/whole/{asked['oid']}"]
            good = len(whole) == asked["size"] and hashlib.sha256(whole).hexdigest() == asked["oid"]
            if good:
                hub.objects[asked["oid"]] = whole
            self.reply(200 if good else 400)
        elif self.path == "/api/models/org/tiny/commit/main":
            self.commit([json.loads(line) for line in body.decode().splitlines()])
        else:
            self.reply(404)

    def action(self, entry):
        hub, oid, size = self.server, entry["oid"], entry["size"]
        if oid in hub.objects:
            return entry
        upload = {"href": f"{hub.url}/whole/{oid}"}
        if hub.multipart:
            count = -(-size // CHUNK)
            upload = {"href": f"{hub.url}/complete/{oid}", "header": {"chunk_size": str(CHUNK), **{
                f"{i:05}": f"{hub.url}/part/{oid}/{i}" for i in range(1, count + 1)}}}
        return {**entry, "actions": {"upload": upload, "verify": {"href": f"{hub.url}/verify"}}}

    def commit(self, lines):
        hub = self.server
        assert lines[0]["key"] == "header", lines[0]
        files = {}
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "lfsFile":
                assert value["algo"] == "sha256" and len(hub.objects[value["oid"]]) == value["size"], value
                files[value["path"]] = hub.objects[value["oid"]]
            else:
                assert line["key"] == "file" and value["encoding"] == "base64", line
                files[value["path"]] = base64.b64decode(value["content"])
        hub.commits.append((lines[0]["value"]["summary"], files))
        self.reply(200, {"commitUrl": f"{hub.url}/org/tiny/commit/c0ffee", "commitOid": "c0ffee"})


def main():
    report = runs.Report()
    with runs.Scratch(sys.argv[1], RECIPE) as scratch:
        (scratch.path / "tokens.bin").write_bytes(bytes(byte for i in range(600) for byte in (i * 7 % 64, 0)))
        hub = Hub()
        environment = {name: value for name, value in runs.ENVIRONMENT.items() if not name.startswith("HF_")}
        environment.update(HF_ENDPOINT=hub.url, HF_HOME=str(scratch.path / "hf"), NO_PROXY="127.0.0.1", no_proxy="127.0.0.1",
                           MY_TOKEN=TOKEN)

        def call(*words):
            done = subprocess.run([scratch.binary, *words], cwd=scratch.path, env=environment, text=True,
                                  capture_output=True, check=False)
            return done.returncode, done.stdout + done.stderr

        code, output = call("job.yaml")
        report.check("a run to push", code == 0, output)
        code, output = call("push", "runs/job", "--to", "org/tiny", "--dry-run")
        report.check("a dry run lists the files", code == 0 and all(name in output for name in (
            f"these files would go to {hub.url}/org/tiny:\n", "config.json", "model.safetensors", "README.md")), output)
        report.check("and sends nothing", not hub.log, hub.log)
        hub.trouble = 2
        code, output = call("push", "runs/job", "--to", "org/tiny", "--token", "${secret:MY_TOKEN}", "--private", "--message", "first")
        report.check("a run is pushed", code == 0 and output.endswith(f"pushed to {hub.url}/org/tiny/commit/c0ffee\n"), output)
        call("export", "runs/job", "--to", "exported")
        wanted = {path.name: path.read_bytes() for path in (scratch.path / "exported").iterdir()}
        summary, files = hub.commits[-1] if hub.commits else ("", {})
        card = files.pop("README.md", b"").decode()
        report.check("with its exported files", files == wanted and summary == "first" and hub.created == {"org/tiny": True},
                     (files.keys(), wanted.keys(), hub.created))
        report.check("and a model card", card.startswith("---\nlibrary_name: transformers\npipeline_tag: text-generation\n"
                     "tags:\n- accel-run\n---\n\n# tiny\n\nTrained with accel-run ") and card.endswith(" for 4 steps.\n"), card)
        report.check("the weights are an LFS object", list(hub.objects.values()) == [wanted["model.safetensors"]])
        report.check("the token is not printed", TOKEN not in output)
        before = len(hub.parts)
        environment["HF_TOKEN"] = TOKEN
        code, output = call("push", "exported", "--to", "org/tiny")
        report.check("a card is written for an exported folder", code == 0 and
                     b"\n\nExported by accel-run " in hub.commits[-1][1]["README.md"], output)
        (scratch.path / "exported/README.md").write_text("my card")
        code, output = call("push", "exported", "--to", "org/tiny")
        report.check("an exported folder is pushed with its card", code == 0 and hub.commits[-1][0] == "Upload the model with accel-run"
                     and hub.commits[-1][1]["README.md"] == b"my card", output)
        report.check("objects that the hub has are not sent again", len(hub.parts) == before, hub.parts.keys())
        hub.objects.clear()
        hub.parts.clear()
        hub.multipart = True
        code, output = call("push", "exported", "--to", "org/tiny")
        report.check("large files go in parts", code == 0 and hub.commits[-1][1]["model.safetensors"] == wanted["model.safetensors"]
                     and sum(url.startswith("/part/") for url in hub.parts) > 2, output)
        refusals = {
            ("--token", TOKEN): "'--token' is no reference to a secret",
            ("--token", "${secret:NONE_SUCH}"): "there is no secret 'NONE_SUCH'",
            ("--merge",): "'--merge' has no effect: 'exported' is exported already",
        }
        for words, text in refusals.items():
            code, output = call("push", "exported", "--to", "org/tiny", *words)
            report.check(text, code == 2 and text in output and TOKEN not in output, output)
        code, output = call("push", "exported", "--to", "tiny")
        report.check("a name without organisation is refused", code == 2 and "'tiny' is not a model to push to" in output, output)
        environment["HF_HUB_OFFLINE"] = "1"
        code, output = call("push", "exported", "--to", "org/tiny")
        report.check("offline is offline", code == 2 and "HF_HUB_OFFLINE forbids to push" in output, output)
        del environment["HF_HUB_OFFLINE"]
        os.mkdir(scratch.path / "exported/more")
        code, output = call("push", "exported", "--to", "org/tiny")
        report.check("folders are refused", code == 3 and "exported/more' is not a file" in output, output)
        os.rmdir(scratch.path / "exported/more")
        hub.read_only = True
        code, output = call("push", "exported", "--to", "org/tiny")
        report.check("a refused token is an error", code == 3 and "the hub refuses to create the repository for 'org/tiny': "
                     "it answered 403" in output and "check that the token has write access" in output, output)
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
