#!/usr/bin/env python3
"""Downloads from a hub of our own that plays tricks.   downloads.py ACCEL_RUN RECIPES_FOLDER"""

import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

import runs

COMMIT = "c" * 40
TOKEN = "hf_secret"


class Server(http.server.ThreadingHTTPServer):
    """A hub, or the place that a hub sends its readers to."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages, self.log, self.breaks = {}, [], {}
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):  # noqa: N802
        """What huggingface_hub asks for before each file."""
        status, headers, body = self.server.pages.get(self.path.split("?")[0], (404, {}, b""))
        self.send_response(status)
        etag = hashlib.sha256(body).hexdigest()
        for name, value in {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, **headers,
                            "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self):  # noqa: N802
        hub = self.server
        hub.log.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        status, headers, body = hub.pages.get(self.path.split("?")[0], (404, {"X-Error-Code": "EntryNotFound"}, b""))
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if status == 200 and asked:
            begin = int(asked[1])
            headers = {**headers, "Content-Range": f"bytes {begin}-{len(body) - 1}/{len(body)}"}
            status, body = 206, body[begin:]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        cut = hub.breaks.get(self.path, [])
        if cut:
            self.wfile.write(body[:cut.pop(0)])
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
        else:
            self.wfile.write(body)


def listing(files):
    siblings = []
    for name, body in files.items():
        blob = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
        entry = {"rfilename": name, "size": len(body), "blobId": blob}
        if name.endswith(".safetensors"):
            entry["lfs"] = {"sha256": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 120}
        siblings.append(entry)
    return (200, {}, json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": siblings}).encode())


def tree(files):
    """The page of huggingface_hub's list_repo_tree()."""
    return (200, {}, json.dumps([{"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
                                 for name, body in files.items()]).encode())


def publish(hub, cdn, files, place="models/org/tiny"):
    hub.pages[f"/api/{place}/revision/main"] = listing(files)
    hub.pages[f"/api/{place}/tree/{COMMIT}"] = tree(files)
    for name, body in files.items():
        path = f"/{place.removeprefix('models/')}/resolve/{COMMIT}/{name}"
        if name.endswith(".safetensors"):  # as the hub does with large files
            linked = {"X-Linked-Size": str(len(body)), "X-Linked-Etag": f'"{hashlib.sha256(body).hexdigest()}"'}
            hub.pages[path] = (302, {"Location": f"{cdn.url}/blob?signature=1", **linked}, b"")
            cdn.pages["/blob"] = (200, {}, body)
        else:
            hub.pages[path] = (200, {}, body)


class User:
    def __init__(self, binary, folder, hub):
        self.binary, self.folder = binary, folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        self.environment.update(HF_HOME=str(folder / "hf"), XDG_CACHE_HOME=str(folder / "cache"), HF_ENDPOINT=hub.url, HF_TOKEN=TOKEN, NO_PROXY="127.0.0.1",
                                no_proxy="127.0.0.1", OMP_NUM_THREADS="1")

    def call(self, *words, **variables):
        done = subprocess.run([self.binary, *words], cwd=self.folder, env={**self.environment, **variables},
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def check_model(user, hub, cdn, files, report):
    cdn.breaks["/blob?signature=1"] = [1000, 0, 500]
    code, output = user.call("download", "hf:org/tiny")
    place = user.folder / "hf/hub/models--org--tiny/snapshots" / COMMIT
    report.check("a model is downloaded over a bad line", code == 0 and output.endswith(
        f"all files of 'org/tiny' are in {place}\n"), output)
    ranges = [asked for _, asked, _ in cdn.log]
    report.check("by ranges", ranges == [None, "bytes=1000-", "bytes=1000-", "bytes=1500-"], ranges)
    report.check("the token is for the hub only", {token for _, _, token in cdn.log} == {None}
                 and {token for _, _, token in hub.log} == {f"Bearer {TOKEN}"})
    report.check("and is never printed", TOKEN not in output)
    model = user.folder / "hf/hub/models--org--tiny"
    snapshot = model / "snapshots" / COMMIT
    report.check("it is in the hub's cache", (model / "refs/main").read_text() == COMMIT
                 and (snapshot / "model.safetensors").read_bytes() == files["model.safetensors"]
                 and (snapshot / "config.json").is_symlink())
    recipe = user.folder / "r.yaml"
    recipe.write_text("model: {type: auto, weights: 'hf:org/tiny'}\n"
                      "data: {train: {type: synthetic/addition, length: 64}}\ntrain: {until: 1 step, batch: 4}\n")
    asked = len(hub.log)
    code, output = user.call("r.yaml")
    report.check("a recipe trains from it", code == 0, output)
    report.check("and asks no server", len(hub.log) == asked)
    recipe.write_text(recipe.read_text().replace("org/tiny", "org/other"))
    code, output = user.call("validate", "r.yaml")
    report.check("one that is not here is reported", code == 2 and "'weights' is 'hf:org/other', which is not on this machine"
                 in output and "hint: fetch it first: 'accel-run download hf:org/other'" in output, output)


def dataset_files():
    def rows(count):
        return "".join(json.dumps({"review": ("good", "bad")[i % 2], "stars": i % 2}) + "\n" for i in range(count))

    return {"README.md": b"---\nconfigs:\n- config_name: en\n  default: true\n  data_files:\n  - split: train\n"
                         b"    path: en/train-*\n  - split: test\n    path: en/test.jsonl\n---\n# Reviews\n",
            "en/train-1.jsonl": rows(20).encode(), "en/train-2.jsonl": rows(12).encode(),
            "en/test.jsonl": rows(8).encode(), "de/train.jsonl": rows(2).encode(), "script.py": b"import os"}


def check_dataset(user, hub, cdn, tokenizer, report):
    """One of the hub's datasets is fetched, found and trained on; its files lie in folders."""
    files = dataset_files()
    publish(hub, cdn, files, "datasets/org/reviews")
    data = f"{{type: hf, path: 'hf:datasets/org/reviews', text: review, target: stars, tokenizer: {tokenizer}}}"
    recipe = user.folder / "reviews.yaml"
    recipe.write_text(f"model: {{type: bert, num_layers: 1, num_heads: 2, hidden_size: 8}}\ndata: {{train: {data}, eval: {data}}}\n"
                      "train: {until: 2 steps, batch: 4}\neval: {every: 2 steps}\n")
    code, output = user.call("reviews.yaml")
    report.check("a dataset that is not here is reported", code == 2
                 and "hint: fetch it first: 'accel-run download hf:datasets/org/reviews'" in output, output)
    report.check("and nothing is written", not (user.folder / "runs/reviews").exists())
    code, output = user.call("download", "hf:datasets/org/reviews", "--files", "en/*")
    snapshot = user.folder / "hf/hub/datasets--org--reviews/snapshots" / COMMIT
    here = sorted(str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file())
    report.check("some files of a dataset are downloaded", code == 0 and here == [
        "README.md", "en/test.jsonl", "en/train-1.jsonl", "en/train-2.jsonl"]
        and output.endswith(f"those files of 'org/reviews' are in {snapshot}\n"), (output, here))
    code, output = user.call("download", "hf:datasets/org/reviews")
    report.check("and all that are data", code == 0 and (snapshot / "de/train.jsonl").read_bytes()
                 == files["de/train.jsonl"] and not (snapshot / "script.py").exists(), output)
    asked = len(hub.log)
    code, output = user.call("reviews.yaml")
    report.check("a recipe trains on it, by its splits", code == 0 and "32 samples" in output and "eval 8" in output, output)
    report.check("and asks no server", len(hub.log) == asked)
    code, output = user.call("reviews.yaml", "data.train.config=fr", "name=other")
    report.check("a config that it has not is reported", code == 3 and "has the configs 'en', not 'fr'" in output, output)
    code, output = user.call("download", "mnist", "--files", "x")
    report.check("other sets come whole", code == 2 and "'--files' selects files of a hub repository" in output, output)


def check_refusals(user, hub, cdn, files, report):
    def refused(name, result, code, text):
        report.check(name, result[0] == code and text in result[1] and TOKEN not in result[1], result)

    refused("another model", user.call("download", "hf:org/none"), 2, "the hub has no model 'org/none'")
    hub.pages["/api/models/org/gated/revision/main"] = (403, {"X-Error-Code": "GatedRepo"}, b"")
    refused("a gated model", user.call("download", "hf:org/gated"), 3, "'org/gated' is a gated repository")
    hub.pages["/api/models/org/unknown/revision/main"] = (401, {}, b"")
    refused("without a good token", user.call("download", "hf:org/unknown"), 3, "the hub rejects the token for 'org/unknown'")
    refused("offline", user.call("download", "hf:org/tiny", HF_HUB_OFFLINE="1"), 7, "HF_HUB_OFFLINE is set")
    refused("a name that is none", user.call("download", "hf:../x"), 2, "is not a model or dataset of the hub")
    refused("something else", user.call("download", "mnits"), 2, "did you mean 'mnist'?")
    hub.pages["/api/models/org/evil/revision/main"] = listing({"config.json": b"{}", "../../x.json": b"{}"})
    refused("names that lead elsewhere", user.call("download", "hf:org/evil"), 3, "which escapes the folder")
    cdn.pages["/blob"] = (200, {}, files["model.safetensors"][:-1] + b"!")
    to = user.folder / "mine"
    refused("other bytes", user.call("download", "hf:org/tiny", "--to", str(to)), 3, "has the checksum")
    report.check("of which nothing stays", not list(to.glob("model.safetensors*")))
    closed = user.call("download", "hf:org/tiny", HF_ENDPOINT="http://127.0.0.1:9")
    refused("no server", closed, 7, "cannot download")
    cdn.pages["/mnist/train-images-idx3-ubyte.gz"] = (200, {}, b"x" * 9912422)
    refused("data that is not what it was", user.call("download", "mnist", ACCEL_RUN_MIRROR=cdn.url + "/mnist"), 3,
            "has the checksum")


def photographs(count, label):
    return bytes([label, *[20 * label] * 3072]) * count


def archive():
    """CIFAR-10's, but for the number of photographs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
            content = b"".join(photographs(2, label) for label in range(10))
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def digits(part, count):
    images = struct.pack(">4i", 0x803, count, 28, 28) + bytes(range(28)) * 28 * count
    labels = struct.pack(">2i", 0x801, count) + bytes(i % 10 for i in range(count))
    return {f"{part}-images-idx3-ubyte.gz": gzip.compress(images),
            f"{part}-labels-idx1-ubyte.gz": gzip.compress(labels)}


def sentences():
    """SST-2's archive, but for the number of sentences."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train", "dev"):
            archive.writestr(f"SST-2/{name}.tsv", "sentence\tlabel\n" + "a good film \t1\na bad one \t0\n" * 10)
    return packed.getvalue()


def check_sets(user, hub, tokenizer, report):
    """What a download leaves in the cache is found there, and what is not there is reported first."""
    contents = {"mnist": {**digits("train", 40), **digits("t10k", 20)}, "cifar10": {"cifar-10-binary.tar.gz": archive()},
                "sst2": {"SST-2.zip": sentences()}}
    asked = len(hub.log)
    for name, files in contents.items():
        recipe = user.folder / f"{name}.yaml"
        text = name == "sst2"
        model = "{type: bert, num_layers: 1, num_heads: 2, hidden_size: 8}\ntask: classification" if text else "{type: mlp, hidden_sizes: [8]}"
        data = f"{{type: {name}, tokenizer: {tokenizer}}}" if text else name
        recipe.write_text(f"model: {model}\ndata: {{train: {data}, eval: {data}}}\n"
                          "train: {until: 2 steps, batch: 4}\neval: {every: 2 steps}\n")
        for verb in ("run", "validate"):
            code, output = user.call(verb, recipe.name)
            report.check(f"{name} that is not here is reported by {verb}",
                         code == 2 and f"{name}.yaml:{3 if text else 2}:" in output and f"'{name}' is not on this machine" in output
                         and f"hint: fetch it first: 'accel-run download {name}'" in output, output)
        report.check("but not by show", user.call("show", recipe.name)[0] == 0)
        report.check("and nothing is written", not (user.folder / "runs" / name).exists())
        folder = user.folder / "cache/accel-run/sets" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        code, output = user.call(recipe.name)
        report.check(f"{name} is trained on and evaluated", code == 0 and (user.folder / "runs" / name).exists(), output)
        code, output = user.call("download", name)
        wanted = "all files of NAME are in FOLDER; in a recipe they are {type: NAME}\n"
        report.check("and is not downloaded again", code == 0 and output.endswith(
            wanted.replace("NAME", name).replace("FOLDER", str(folder))), output)
    report.check("nobody was asked", len(hub.log) == asked)


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    data = pathlib.Path(sys.argv[2]).resolve() / "tiny/data"
    source = data / "gpt2"
    files = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    files |= {"README.md": b"words", ".gitattributes": b"x"}
    report = runs.Report()
    hub, cdn = Server(), Server()
    publish(hub, cdn, files)
    with tempfile.TemporaryDirectory() as folder:
        user = User(binary, pathlib.Path(folder).resolve(), hub)
        check_model(user, hub, cdn, files, report)
        check_refusals(user, hub, cdn, files, report)
        check_dataset(user, hub, cdn, data / "reviews_tokenizer.json", report)
        check_sets(user, hub, data / "reviews_tokenizer.json", report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
