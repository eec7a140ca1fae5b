#!/usr/bin/env python3
"""Plants a secret in eight places of a run and looks for it in all that the run leaves.   secrets.py BINARY

The places: `vars`, a note, an override, a tracker's option, the git remote, what a tracker's server and
one that is not used are signed in to with, and a proxy's address. Looked through are what is printed, what
processes call themselves, what a tracker's server is sent, and every file, archives and databases too; of a run that ends
and of one that fails.
"""

import http.server
import io
import pathlib
import subprocess
import sys
import threading
import time
import zipfile

import runs

SECRET = "pl4nted-hush-7c1f"
RECIPE = runs.JOB.replace("every: 8 steps", "every: 40 steps").replace("until: 24 steps", "until: 400 steps").replace(
    "every: 1 steps, keep", "every: 100 steps, keep") + """
x-note: {key: "${secret:PLANTED_NOTE}"}
vars: {token: "${secret:PLANTED}"}
log: {every: 20 steps, system: true, images: 1}
trackers: [{type: tensorboard}, {type: csv}, {type: wandb}, {type: comet}, {type: clearml}, {type: swanlab},
           {type: mlflow}, {type: dvclive}, {type: trackio}, {type: mlflow, uri: "URL"}]
"""
REMOTE = f"https://someone:{SECRET}@example.com/code.git"
ENVIRONMENT = dict(runs.ENVIRONMENT, PLANTED=SECRET, PLANTED_NOTE=SECRET, PLANTED_WORD=SECRET,
                   MLFLOW_TRACKING_USERNAME="someone", MLFLOW_TRACKING_PASSWORD=SECRET, WANDB_API_KEY=SECRET,
                   https_proxy=f"http://someone:{SECRET}@127.0.0.1:9", no_proxy="127.0.0.1")


class Server(http.server.BaseHTTPRequestHandler):
    """Remembers what it is sent, and takes nothing."""

    sent = []
    signed_in = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        Server.signed_in += self.headers.get("Authorization", "").startswith("Basic ")
        Server.sent.append(self.path.encode() + self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST


def names_of(pid):
    """What a process and its threads call themselves, and the words it was started with."""
    found = b""
    for path in (f"/proc/{pid}/cmdline", *pathlib.Path(f"/proc/{pid}/task").glob("*/comm")):
        try:
            found += pathlib.Path(path).read_bytes()
        except OSError:
            pass  # it has gone
    return found


def contents(path):
    """Of a file, and of those that are packed into it."""
    data = path.read_bytes()
    found = {str(path): data}
    if zipfile.is_zipfile(io.BytesIO(data)):
        archive = zipfile.ZipFile(io.BytesIO(data))
        found.update({f"{path}/{name}": archive.read(name) for name in archive.namelist()})
    return found


def train(scratch, *words):
    """(exit code, what was printed, what processes called themselves)."""
    process = subprocess.Popen([scratch.binary, "job.yaml", "vars.word=${secret:PLANTED_WORD}", *words],
                               cwd=scratch.path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    names = []

    def watch():
        while process.poll() is None:
            names.append(names_of(process.pid))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    printed = process.communicate()[0]
    watcher.join()
    return process.returncode, printed, b"".join(names)


def look(report, what, printed, names, scratch):
    secret = SECRET.encode()
    report.check(f"{what}: nothing printed has the secret", secret not in printed, printed.decode())
    report.check(f"{what}: no process is called by it", b"job.yaml" in names and secret not in names)
    report.check(f"{what}: no server is sent it", not any(secret in body for body in Server.sent))
    files = {}
    for path in (scratch.path / "runs").rglob("*"):
        if path.is_file():
            files.update(contents(path))
    bad = [name for name, data in files.items() if secret in data]
    report.check(f"{what}: none of {len(files)} files has it", len(files) > 20 and not bad, bad)


def main():
    report = runs.Report()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    recipe = RECIPE.replace("URL", f"http://127.0.0.1:{server.server_address[1]}")
    with runs.Scratch(sys.argv[1], recipe) as scratch:
        for words in (["init", "-q"], ["remote", "add", "origin", REMOTE],
                      ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run(["git", *words], cwd=scratch.path, check=True)
        code, printed, names = train(scratch)
        report.check("the run ends well", code == 0, printed.decode())
        report.check("the server was signed in to", Server.signed_in > 0)
        look(report, "a run", printed, names, scratch)
        page = (scratch.run / "report.html").read_text()
        report.check("the report has the references", "${secret:PLANTED}" in page and "${secret:PLANTED_WORD}" in page)
        code, printed, names = train(scratch, "name=fails", "train.until=30 steps", "expect.eval/loss='< 0'")
        report.check("a run that misses what is expected says so", code == 1, f"{code} {printed.decode()}")
        look(report, "one that fails", printed, names, scratch)
        code, printed, names = train(scratch, "trackers=[{type: wandb, notes: '${secret:PLANTED}'}]")
        report.check("an option that would show it is refused", code == 2 and b"'notes' would show a secret" in printed,
                     f"{code} {printed.decode()}")
        report.check("in words without it", SECRET.encode() not in printed)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
