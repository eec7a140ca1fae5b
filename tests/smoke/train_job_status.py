#!/usr/bin/env python3
"""The status of a TrainJob, sent to an HTTPS server of this test with the variables of Kubeflow Trainer.

    train_job_status.py ACCEL_RUN
"""

import http.server
import json
import shutil
import ssl
import subprocess
import sys
import threading

import rank_runs
import runs

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/digits/status"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"


class Handler(http.server.BaseHTTPRequestHandler):
    """As the server of Kubeflow Trainer: the token, then the payload."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = self.path == PATH and self.headers["Authorization"] == f"Bearer {TOKEN}"
        if right:
            self.server.seen.append(json.loads(body)["trainerStatus"])
        self.send_response(200 if right else 403)
        self.end_headers()

    def log_message(self, *words):
        pass


class Server:
    def __init__(self, folder):
        self.certificate, key = folder / "ca.crt", folder / "key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost", "-keyout", key, "-out", self.certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.server = http.server.ThreadingHTTPServer(("localhost", 0), Handler)
        self.server.seen = []
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def variables(self, folder, token):
        (folder / "token").write_text(token + "\n")
        return {"KUBEFLOW_TRAINER_SERVER_URL": f"https://localhost:{self.server.server_port}{PATH}",
                "KUBEFLOW_TRAINER_SERVER_TOKEN": str(folder / "token"), "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(self.certificate)}


def run(scratch, variables, *words):
    process = scratch.start("job.yaml", *words, **variables)
    _, errors = process.communicate()
    return process.returncode, errors


def main():
    binary, report = sys.argv[1], runs.Report()
    if not shutil.which("openssl"):
        print("no openssl: nothing is tested")
        return 77
    with rank_runs.Scratch(binary) as scratch:
        server = Server(scratch.path)
        code, errors = run(scratch, server.variables(scratch.path, TOKEN))
        seen = server.server.seen
        report.check("one of two ranks sends", code == 0 and 1 <= len(seen) <= 3, f"exit {code}: {errors} {seen}")
        last = seen[-1] if seen else {}
        metrics = {metric["name"]: metric["value"] for metric in last.get("metrics", [])}
        report.check("the last status is that of the end", last.get("progressPercentage") == 100 and last.get("estimatedRemainingSeconds") == 0
                     and float(metrics.get("train/loss", "nan")) > 0 and "lastUpdatedTime" in last, str(last))
        report.check("without a word of it", "kubeflow" not in errors, errors)
        code, errors = run(scratch, server.variables(scratch.path, "wrong"), "name=wrong")
        report.check("a wrong token does not end the run", code == 0 and "the tracker 'kubeflow' stops sending: https://localhost:"
                     f"{server.server.server_port} answers with HTTP status 403" in errors, f"exit {code}: {errors}")
        variables = dict(server.variables(scratch.path, TOKEN), KUBEFLOW_TRAINER_SERVER_CA_CERT="/etc/ssl/certs/ca-certificates.crt")
        code, errors = run(scratch, variables, "name=stranger")
        report.check("a server with another certificate gets no token", code == 0 and "cannot send to https://localhost" in errors, errors)
        del variables["KUBEFLOW_TRAINER_SERVER_TOKEN"]
        code, errors = run(scratch, variables, "name=without")
        report.check("a missing variable is an error before anything is written", code == 2 and "is set, but not 'KUBEFLOW_TRAINER_SERVER_TOKEN'"
                     in errors and not (scratch.path / "runs/without").exists(), f"exit {code}: {errors}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
