#!/usr/bin/env python3
"""The language server as an editor uses it, on the shipped recipes.

    editor.py ACCEL_RUN RECIPES_FOLDER
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import runs


class Editor:
    """One editor with its server."""

    def __init__(self, binary, folder):
        self.process = subprocess.Popen([binary, "lsp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.number = 0
        self.notices = []
        # A message that never comes ends the test.
        watchdog = threading.Timer(240, self.process.kill)
        watchdog.daemon = True
        watchdog.start()

    def send(self, **message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self):
        length = None
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b": ")
            length = int(value) if name == b"Content-Length" else length
        if length is None:
            raise RuntimeError("the server has ended, or sent nothing for minutes")
        return json.loads(self.process.stdout.read(length))

    def request(self, method, **parameters):
        self.number += 1
        self.send(id=self.number, method=method, params=parameters)
        while (message := self.receive()).get("id") != self.number:
            self.notices.append(message)
        return message.get("result", message.get("error"))

    def problems(self, path):
        """The next message of the server about a file."""
        while True:
            message = self.notices.pop(0) if self.notices else self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                if message["params"]["uri"] == path.as_uri():
                    return message["params"]["diagnostics"]

    def open(self, path, text):
        self.send(method="textDocument/didOpen", params={"textDocument": {
            "uri": path.as_uri(), "languageId": path.suffix[1:], "version": 1, "text": text}})

    def change(self, path, text):
        self.send(method="textDocument/didChange", params={
            "textDocument": {"uri": path.as_uri(), "version": 2}, "contentChanges": [{"text": text}]})

    def ask(self, method, path, text):
        """Changes the text to one with a bar at the cursor, and asks there."""
        before, after = text.split("|")
        self.change(path, before + after)
        self.problems(path)
        line, character = before.count("\n"), len(before.rsplit("\n", 1)[-1])
        return self.request(f"textDocument/{method}", textDocument={"uri": path.as_uri()},
                            position={"line": line, "character": character})


def check_recipes(binary, recipes, report):
    editor = Editor(binary, recipes.parent)
    report.check("it starts", editor.request("initialize", capabilities={})["capabilities"]["hoverProvider"])
    for path in sorted((recipes / "tiny").glob("*.yaml")):
        editor.open(path, path.read_text())
        report.check(f"nothing is wrong with {path.name}", editor.problems(path) == [])
    editor.request("shutdown")
    editor.send(method="exit")
    report.check("it ends", editor.process.wait(timeout=600) == 0)


def check_editing(binary, folder, report):
    editor = Editor(binary, folder)
    editor.request("initialize", capabilities={})
    path = folder / "r.yaml"
    editor.open(path, "model: {type: mlp, hiden: [3]}\ndata: {train: synthetic/glyphs}\n")
    (wrong,) = editor.problems(path)
    report.check("a mistake is reported", wrong["message"] == "unknown option 'hiden'\nhint: did you mean 'hidden_sizes'?"
                 and wrong["range"] == {"start": {"line": 0, "character": 19}, "end": {"line": 0, "character": 24}}, wrong)
    editor.change(path, "model: {type: mlp, hidden: [3]}\ndata: {train: synthetic/glyphs}\n")
    (old,) = editor.problems(path)
    report.check("a deprecated name is a warning", (old["severity"], old.get("tags")) == (2, [2]) and old["message"]
                 == "'hidden' is called 'hidden_sizes' now\nhint: write 'hidden_sizes: [3]'"
                 and old["range"] == {"start": {"line": 0, "character": 19}, "end": {"line": 0, "character": 25}}, old)
    text = "model: {type: auto, weights: nowhere}\ndata: {train: synthetic/addition}\n"
    editor.change(path, text)
    report.check("also one in what a recipe names", "no file" in editor.problems(path)[0]["message"])

    def labels(text):
        return [item["label"] for item in editor.ask("completion", path, text)]

    rest = "\ndata: {train: synthetic/glyphs}\n"
    report.check("models are offered", {"mlp", "gpt", "auto"} <= set(labels("model: {type: |}" + rest)))
    report.check("and their options", "hidden_sizes" in labels("model:\n  type: mlp\n  h|" + rest))
    report.check("and values", labels("model: mlp\naccelerator: {mixed_precision: |}" + rest)[0] == "no")
    report.check("and folders' models' options", "num_kv_heads" in labels("model: {type: auto, |" + rest))
    shown = editor.ask("hover", path, "model: mlp\noptimizer: {type: adamw, l|r: 0.1}" + rest)
    report.check("what an option means is shown", "**optimizer.lr**: a number" in shown["contents"]["value"], shown)
    shown = editor.ask("hover", path, "model: {type: gpt, wid|th: 64}" + rest)
    report.check("also of one by a deprecated name", shown["contents"]["value"].startswith(
        "**model.width**, which is called `hidden_size` now: a whole number"), shown)
    report.check("which is not offered again", "hidden_size" not in labels("model:\n  type: gpt\n  width: 64\n  h|" + rest))
    led = editor.ask("definition", path, "include: [builtin:quick|start]" + rest)
    report.check("an include leads to its file", led and led["uri"].endswith("/recipes/quickstart.yaml"), led)
    toml = folder / "r.toml"
    editor.open(toml, "model = 'mlp'\n[data]\ntrain = 'synthetic/glyphs'\n[train]\nbatch = 0\n")
    report.check("TOML too", [p["message"] for p in editor.problems(toml)] == ["'batch' must be at least 1, not 0"])
    other = folder / "compose.yaml"
    editor.open(other, "services:\n  web: {image: x}\n")
    report.check("what is no recipe is left alone", editor.problems(other) == [])
    editor.process.stdin.close()
    report.check("it ends with its editor", editor.process.wait(timeout=600) == 1)


def check_noise(binary, report):
    done = subprocess.run([binary, "lsp"], input=b"hello\n", capture_output=True, check=False)
    report.check("a terminal user gets an explanation", done.returncode == 1 and done.stderr ==
                 b"error: 'hello', expected the header of a message\n"
                 b"  hint: 'accel-run lsp' is started by editors: see docs/editors.md\n", done.stderr)


def check_input(binary, folder, report):
    """Input that cannot be read, as that of a folder."""
    unreadable = os.open(folder, os.O_RDONLY)
    done = subprocess.run([binary, "lsp"], stdin=unreadable, capture_output=True, text=True, check=False)
    os.close(unreadable)
    report.check("input that cannot be read is an error", (done.returncode, done.stderr) ==
                 (7, "error: cannot read from the editor: Is a directory\n"), f"{done.returncode} {done.stderr}")


def main():
    binary, recipes = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    report = runs.Report()
    with tempfile.TemporaryDirectory() as folder:
        check_recipes(binary, recipes, report)
        check_editing(binary, pathlib.Path(folder).resolve(), report)
        check_noise(binary, report)
        check_input(binary, folder, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
