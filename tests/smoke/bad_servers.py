#!/usr/bin/env python3
"""A tracker's server that is slow, fails, lies or talks without end costs a run nothing.

    bad_servers.py BINARY [STEPS]

Each of four servers gets what a run of an MLflow tracker sends. The run ends well and within ten seconds of its last
step, with the numbers of one without a tracker and every line in the outbox. The processor time of the training thread
and the time that steps took are printed beside those of a run without a tracker; with STEPS, some ten thousand, they
are a measurement.
"""

import json
import os
import re
import socket
import sys
import threading
import time

import runs

SLOW = "a byte a second"
REPLIES = {
    "slow": SLOW,
    "failing": b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n",
    "lying": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"run\": \"never\"",
    "talkative": b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n" + b"x" * 100000,
}


class Server:
    """Answers every connection in the same way, for as long as it is there."""

    def __init__(self, reply):
        self.reply, self.asked = reply, 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        try:
            while connection.recv(1 << 16):
                self.asked += 1
                if self.reply == SLOW:
                    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}":
                        connection.sendall(bytes([byte]))
                        time.sleep(1)
                else:
                    connection.sendall(self.reply)
        except OSError:
            pass  # the run has given up


def train(binary, steps, trackers):
    """(exit code, errors, seconds after the last step, cpu seconds of the main thread, seconds of steps, lines, outbox)."""
    recipe = runs.JOB.replace("until: 24 steps", f"until: {steps} steps").replace("every: 8 steps", "every: never")
    recipe = recipe.replace("every: 1 steps, keep: {last: 2}", "every: never, at_end: false")
    with runs.Scratch(binary, recipe + f"log: {{every: 1 steps}}\ntrackers: {trackers}\n") as scratch:
        process = scratch.start("job.yaml")
        said, processor, ended = [], 0.0, 0.0
        errors = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        for line in process.stdout:
            said.append(line)
            if line.startswith(f"step {steps}/"):
                ended = time.monotonic()
                try:
                    fields = open(f"/proc/{process.pid}/task/{process.pid}/stat").read().rsplit(")", 1)[1].split()
                    processor = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                except OSError:
                    pass
        process.wait()
        after = time.monotonic() - ended
        reader.join()
        uses = [json.loads(line)["use"] for line in (scratch.run / "metrics.jsonl").read_text().splitlines()
                if '"use":' in line]
        taken = sum(value for use in uses for name, value in use.items() if name.startswith("time/"))
        outbox = scratch.run / "mlflow/outbox.jsonl"
        kept = outbox.read_text().splitlines() if outbox.exists() else []
        kept = [json.loads(line)["step"] for line in kept if '"train/loss"' in line]
        return process.returncode, errors[0], after, processor, taken, scratch.exact_lines(), kept


def main():
    report = runs.Report()
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    _, _, _, processor, taken, exact, _ = train(sys.argv[1], steps, "[]")
    print(f"without: {processor:.2f} s of the training thread, {taken:.2f} s of steps")
    for name, reply in REPLIES.items():
        server = Server(reply)
        code, errors, after, own, own_taken, lines, kept = train(sys.argv[1], steps, f"[{{type: mlflow, uri: '{server.url}'}}]")
        print(f"{name}: {own:.2f} s of the training thread, {own_taken:.2f} s of steps, {after:.1f} s after them")
        report.check(f"a {name} server does not end the run", code == 0 and server.asked > 0, f"{code} {errors}")
        report.check("it is reported, and not for every line", 1 <= len(re.findall("warning", errors)) <= 4, errors)
        report.check("the numbers are the same", lines == exact)
        report.check("what the server is to get is kept", kept == list(range(1, steps + 1)), f"{len(kept)} lines")
        # It has ten seconds at the end; the rest is for a busy machine.
        report.check("the run does not wait for it", after < 120, f"{after:.1f} s")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
