#!/usr/bin/env python3
"""Data of an object store: the same run as from the disk, over a bad network, killed and resumed, in a small cache.

    streaming.py ACCEL_RUN [rates]

With `rates`, prints samples per second from the disk and from a server with 50 ms latency, 5 % failures and stalls: of
training, of the loader alone if `make bench` has built it, and of a whole shuffle beyond the cache.
"""

import array
import io
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import sys
import tarfile
import threading
import time

import object_server
import runs

GOLDEN = pathlib.Path(os.environ.get("ACCEL_SOURCE_DIR", ".")) / "tests/unit/data/golden"
JOB = """model: {{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}}
task: causal_lm
data:
  train: {{type: tokens, path: '{path}', max_seq_len: 32{more}}}
  loader: {{workers: 2{loader}}}
optimizer: {{type: adamw, lr: 0.01}}
train: {{until: {steps} steps, batch: 16}}
checkpoint: {{every: 20 steps}}
"""
RATE_JOB = """model: {{type: gpt, num_layers: 4, num_heads: 4, hidden_size: 128}}
task: causal_lm
data:
  train: {{type: tokens, path: '{path}', max_seq_len: 64{more}}}
  loader: {{workers: 2{loader}}}
optimizer: {{type: adamw, lr: 0.002}}
train: {{until: {steps} steps, batch: 12}}
checkpoint: {{every: never}}
log: {{every: 10 steps}}
"""
TEXT_JOB = """model: {{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16, max_seq_len: 64}}
task: causal_lm
data:
  train: {{type: {type}, path: '{path}', text: {text}, tokenizer: words, max_length: 32{more}}}
optimizer: {{type: adamw, lr: 0.01}}
train: {{until: 4 steps, batch: 2}}
"""


def corpus(shards=3, tokens=5 << 20, seed=3):
    """Files of a folder as `accel-run prepare` writes it."""
    draw = random.Random(seed)
    files, entries = {}, []
    for i in range(shards):
        block = array.array("H", (draw.randrange(200) for _ in range(4099)))
        body = (block * (tokens // len(block) + 1))[:tokens - i].tobytes()
        files[f"shard_{i:05}.bin"] = body
        entries.append({"file": f"shard_{i:05}.bin", "tokens": tokens - i})
    files["tokens.json"] = json.dumps({
        "format": "accel-run token shards", "version": 1, "dtype": "uint16", "vocab_size": 200,
        "tokens": sum(entry["tokens"] for entry in entries), "documents": 1, "empty_documents": 0,
        "unreadable_documents": 0, "tokenizer": "t", "identity": "i", "part": 0, "parts": 1, "shards": entries}).encode()
    return files


def write_folder(folder, files):
    folder.mkdir(parents=True)
    for name, body in files.items():
        (folder / name).write_bytes(body)


class Scratch(runs.Scratch):
    """Runs with one cache folder and the credentials of a server."""

    def __init__(self, binary):
        super().__init__(binary)
        self.environment = dict(runs.ENVIRONMENT, XDG_CACHE_HOME=str(self.path / "cache"), HOME=str(self.path))
        for name in [name for name in self.environment if name.startswith(("AWS_", "HF_"))]:
            del self.environment[name]

    def start(self, *words):
        return runs.subprocess.Popen([self.binary, *words], cwd=self.path, text=True, env=self.environment,
                                     stdout=runs.subprocess.PIPE, stderr=runs.subprocess.PIPE)

    def finish(self, *words):
        process = self.start(*words)
        output, errors = process.communicate()
        return process.returncode, output, errors

    def train(self, name, recipe, *words):
        """(exit code, output, errors) of a new run."""
        (self.path / f"{name}.yaml").write_text(recipe)
        self.run = self.path / "runs" / name
        shutil.rmtree(self.run, ignore_errors=True)
        return self.finish(f"{name}.yaml", *words)

    def results(self):
        return self.exact_lines(), self.weights()

    def empty_cache(self):
        shutil.rmtree(self.path / "cache", ignore_errors=True)

    def cached_bytes(self):
        total = 0
        for path in (self.path / "cache/accel-run/objects").glob("*.object*"):
            try:
                total += path.stat().st_size
            except OSError:
                pass  # removed
        return total


class Watch:
    """The largest size of the cache while it runs."""

    def __init__(self, scratch):
        self.scratch, self.most, self.done = scratch, 0, False
        self.thread = threading.Thread(target=self.work)

    def work(self):
        while not self.done:
            self.most = max(self.most, self.scratch.cached_bytes())
            time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done = True
        self.thread.join()


def check_tokens(scratch, files, report):
    """A run over a bad network repeats that from the disk, whatever the cache holds, also after a kill."""
    limit = 24 << 20
    server = object_server.Server({f"bucket/corpora/{name}": body for name, body in files.items()}, latency=0.02,
                                  failures=0.05, stalls=0.02, cuts=0.05)
    scratch.environment.update(server.environment)
    more = f", streaming: {{cache_limit: {limit}, download_timeout: 1}}"
    orders = {"a whole shuffle": "", "a shuffle of blocks": ", shuffle_block_size: 262144", "no shuffle": ", shuffle: false"}
    for name, loader in orders.items():
        code, _, errors = scratch.train("disk", JOB.format(path="corpus", more="", loader=loader, steps=60))
        wanted = scratch.results() if code == 0 else errors
        scratch.empty_cache()
        with Watch(scratch) as watch:
            code, output, errors = scratch.train(
                "streamed", JOB.format(path="s3://bucket/corpora", more=more, loader=loader, steps=60))
        report.check(f"the numbers are those from the disk with {name}", code == 0 and scratch.results() == wanted, errors)
        report.check(f"the cache keeps its limit with {name}", 0 < watch.most <= limit, watch.most)
        text = "the data exceed 'streaming.cache_limit' and are shuffled as a whole"
        report.check(f"a whole shuffle beyond the cache is said with {name}", (text in errors) == (loader == ""), errors)
        if loader != "":
            continue
        report.check("the screen says what is streamed", f"data: streaming 's3://bucket/corpora', 3 objects, 0.03 GiB, "
                     f"through the cache '{scratch.path}/cache/accel-run/objects' of at most 0.02 GiB\n" in output, output)
        recorded = b"".join(path.read_bytes() for path in scratch.run.rglob("*") if path.is_file())
        report.check("the secret key is recorded nowhere", object_server.SECRET.encode() not in recorded
                     and object_server.SECRET not in output + errors)
    report.check("all requests are signed", server.refused == 0 and server.stalled > 0, (server.refused, server.stalled))
    process = scratch.start("streamed.yaml")
    shutil.rmtree(scratch.run)
    while process.poll() is None and 20 not in scratch.checkpoints():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    code, _, errors = scratch.finish("resume", str(scratch.run))
    report.check("a killed run resumes to the same bits", code == 0 and scratch.results() == wanted, errors)
    return server


def check_ranks(scratch, files, report):
    """Ranks share the cache: each block is fetched once."""
    server = object_server.Server({f"web/{name}": body for name, body in files.items()}, signed=False)
    recipe = JOB.format(path=f"{server.url}/web", more="", loader="", steps=60)
    scratch.empty_cache()
    code, _, errors = scratch.train("ranks", recipe, "accelerator.num_processes=2")
    asked = [entry for entry in server.log if entry[1] not in (None, "bytes=0-0")]
    report.check("two ranks fetch each block once", code == 0 and len(asked) - len(set(asked)) <= 1
                 and len(set(asked)) == 30 + 1, (errors, len(asked), len(set(asked))))
    code, _, errors = scratch.train("ranks", recipe)
    later = [entry for entry in server.log if entry[1] not in (None, "bytes=0-0")][len(asked):]
    report.check("a later run fetches the index only", code == 0 and len(later) == 1, (errors, later))


def check_errors(scratch, files, server, report):
    """What is wrong names the object, and ends a run with the exit code of data."""
    server.failures = server.stalls = server.cuts = server.latency = 0
    recipe = JOB.format(path="s3://bucket/corpora", more="", loader="", steps=12000)
    scratch.empty_cache()
    (scratch.path / "changed.yaml").write_text(recipe.replace("{workers", "{shuffle: false, workers")
                                               .replace("max_seq_len: 32", "max_seq_len: 32, streaming: {cache_limit: 16 MiB}"))
    scratch.run = scratch.path / "runs/changed"
    process = scratch.start("changed.yaml")
    while process.poll() is None and 20 not in scratch.checkpoints():
        time.sleep(0.01)
    # Blocks of this shard are still to be read: those fetched ahead last for 4,000 steps.
    changed = bytearray(files["shard_00000.bin"])
    changed[5] ^= 1
    server.objects["bucket/corpora/shard_00000.bin"] = bytes(changed)
    _, errors = process.communicate()
    report.check("a changed object ends the run", process.returncode == 3 and
                 "'s3://bucket/corpora/shard_00000.bin' changed while it was read: the server answered 412" in errors, errors)
    code, _, errors = scratch.finish("resume", "runs/changed")
    report.check("and its run does not resume with other data", code != 0, errors)
    small = corpus(shards=1, tokens=4000)
    part = small["tokens.json"].replace(b'"part": 0, "parts": 1', b'"part": 1, "parts": 2')
    server.objects.update({f"bucket/part/{name}": body for name, body in {**small, "tokens.json": part}.items()})
    code, output, errors = scratch.train("part", JOB.format(path="s3://bucket/part", more="", loader="", steps=4))
    report.check("a part of a corpus is said", code == 0 and "data: 's3://bucket/part' is part 2 of 2 of a corpus\n" in output,
                 output + errors)
    cases = {
        "s3://bucket/none": "'s3://bucket/none' is neither a file of tokens nor a folder with 'tokens.json'",
        "s3://bucket/corpora/shard_00000.bin": "'vocab_size' is auto, for which all of "
                                               "'s3://bucket/corpora/shard_00000.bin' would be read",
        "https://user:pass@h/x": "'path' is the URL 'https://h/x' with a user name or password",
    }
    for path, text in cases.items():
        code, _, errors = scratch.train("wrong", JOB.format(path=path, more="", loader="", steps=4))
        report.check(f"'{path}' is refused", code in (2, 3) and text in errors, errors)
    scratch.environment["AWS_SECRET_ACCESS_KEY"] = "wrong"
    code, _, errors = scratch.train("wrong", JOB.format(path="s3://bucket/corpora", more="", loader="", steps=4))
    report.check("wrong credentials are an error", code == 3 and "'s3://bucket/corpora/tokens.json' is refused: the server "
                 "answered 403 (SignatureDoesNotMatch)" in errors and "wrong" not in errors.replace("wrong.yaml", ""), errors)
    scratch.environment["AWS_SECRET_ACCESS_KEY"] = object_server.SECRET
    code, _, errors = scratch.train("wrong", JOB.format(path="corpus", more=", streaming: {connections: 2}", loader="", steps=4))
    report.check("options of streaming need a URL", code == 2 and "'connections' has no effect: 'path' is not a URL" in errors,
                 errors)
    code, _, errors = scratch.train("wrong", TEXT_JOB.format(type="jsonl", path="s3://b/x.jsonl", text="text", more=""))
    report.check("other datasets refuse URLs", code == 2 and "'path' takes a path, not the URL 's3://b/x.jsonl'" in errors,
                 errors)


def archive(first, count):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(first, first + count):
            body = f"she sells shells {i} by the sea shore".encode()
            info = tarfile.TarInfo(f"{i:06}.txt")
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return out.getvalue()


def check_parquet_errors(scratch, server, report):
    """Splits, damage and changes of Parquet files, which the messages name."""
    file = "s3://bucket/hub/train-00000-of-00002.parquet"
    server.objects["bucket/torn/a.parquet"] = server.objects["bucket/hub/train-00000-of-00002.parquet"][:-20]
    cases = {
        "s3://bucket/hub": "'s3://bucket/hub' holds the splits 'test', 'train'",
        f"{file}, split: train": f"'split' requires an S3 prefix, and '{file}' names its files",
        "s3://bucket/mds": "no '*.parquet' files in 's3://bucket/mds'",
        "s3://bucket/hub/none.parquet": "'s3://bucket/hub/none.parquet' does not exist",
        "s3://bucket/torn/a.parquet": "'s3://bucket/torn/a.parquet' cannot be read: ",
    }
    for url, text in cases.items():
        path, _, more = url.partition(", ")
        code, _, errors = scratch.train("wrong", TEXT_JOB.format(type="parquet", path=path, text="text",
                                                                 more=more and f", {more}"))
        if "requires the reader of Parquet and Arrow files" not in errors:
            report.check(f"parquet of '{url}' is refused", code == 3 and text in errors, errors)


def check_texts(scratch, report):
    """WebDataset's archives and Parquet files by listing and by braces, and MDS."""
    (scratch.path / "texts.txt").write_text("she sells sea shells by the shore 0 1 2 3 4 5 6 7 8 9\n" * 20)
    scratch.finish("tokenizer", "train", "texts.txt", "--vocab-size", "280", "--out", "words")
    archives = {f"shard-{i:03}.tar": archive(i * 10, 10) for i in range(5)}
    write_folder(scratch.path / "tars", archives)
    mds = {path.name: path.read_bytes() for path in sorted((GOLDEN / "mds/zstd").iterdir())}
    hub = {path.name: path.read_bytes() for path in sorted((GOLDEN / "arrow/hub").iterdir())}
    objects = {f"bucket/{folder}/{name}": body for folder, files in {"tars": archives, "mds": mds, "hub": hub}.items()
               for name, body in files.items()}
    s3 = object_server.Server(objects, failures=0.05, cuts=0.1)
    web = object_server.Server(objects, signed=False)
    scratch.environment.update(s3.environment)
    kinds = {"webdataset": ("txt", str(scratch.path / "tars"), ["s3://bucket/tars", f"{web.url}/bucket/tars/shard-{{000..004}}.tar"]),
             "mds": ("text", str(GOLDEN / "mds/zstd"), ["s3://bucket/mds", f"{web.url}/bucket/mds/"]),
             "parquet": ("text", str(scratch.path / "hub"), ["s3://bucket/hub, split: train",
                                                             f"{web.url}/bucket/hub/train-{{00000..00001}}-of-00002.parquet"])}
    (scratch.path / "hub").mkdir()
    for name in hub:
        if name.startswith("train"):
            (scratch.path / "hub" / name).write_bytes(hub[name])
    for kind, (text, folder, urls) in kinds.items():
        code, _, errors = scratch.train("disk", TEXT_JOB.format(type=kind, path=folder, text=text, more=""))
        if "requires the reader of Parquet and Arrow files" in errors:
            continue
        report.check(f"{kind} of a folder trains", code == 0, errors)
        wanted = scratch.results() if code == 0 else None
        for url in urls:
            path, _, more = url.partition(", ")
            code, _, errors = scratch.train("streamed", TEXT_JOB.format(type=kind, path=path, text=text,
                                                                        more=more and f", {more}"))
            report.check(f"{kind} of '{url.partition(':')[0]}' gives the same numbers", code == 0 and
                         scratch.results() == wanted, errors)
    check_parquet_errors(scratch, s3, report)
    code, _, errors = scratch.train("wrong", TEXT_JOB.format(type="webdataset", path=f"{web.url}/bucket/tars", text="txt", more=""))
    report.check("a web server has no listing", code == 3 and f"the server of '{web.url}/bucket/tars' lists no files" in errors,
                 errors)


def check_recipe(scratch, report):
    """The recipe of recipes/, small."""
    files = {folder: corpus(shards=1, tokens=40000, seed=seed) for seed, folder in enumerate(("train", "heldout"))}
    server = object_server.Server({f"corpora/{folder}/{name}": body for folder, shards in files.items()
                                   for name, body in shards.items()})
    scratch.environment.update(server.environment)
    recipe = (pathlib.Path(os.environ.get("ACCEL_SOURCE_DIR", ".")) / "recipes/streamed_corpus.yaml").read_text()
    code, _, errors = scratch.train("recipe", recipe, "model.hidden_size=16", "model.num_layers=1", "train.until=4 steps")
    report.check("recipes/streamed_corpus.yaml trains and evaluates", code == 0 and errors == "" and server.refused == 0, errors)


def check_instance_metadata(scratch, report):
    """The keys of a machine of EC2: they sign the requests and are printed and recorded nowhere."""
    files = corpus(shards=1, tokens=40000)
    server = object_server.Server({f"bucket/small/{name}": body for name, body in files.items()})
    for name in [name for name in scratch.environment if name.startswith("AWS_")]:
        del scratch.environment[name]
    scratch.environment.update(server.metadata_environment)
    code, output, errors = scratch.train("metadata", JOB.format(path="s3://bucket/small", more="", loader="", steps=4))
    report.check("requests are signed with the keys of the instance metadata", code == 0 and server.refused == 0 and
                 server.session_tokens == {None, object_server.SESSION_TOKEN}, (errors, server.session_tokens))
    recorded = b"".join(path.read_bytes() for path in scratch.run.rglob("*") if path.is_file()) + (output + errors).encode()
    report.check("which are recorded nowhere", object_server.SECRET.encode() not in recorded and
                 object_server.SESSION_TOKEN.encode() not in recorded)


def check_single_sign_on(scratch, report):
    """An expired token of an sso-session is renewed, once for all ranks, and written back."""
    files = corpus(shards=1, tokens=40000)
    server = object_server.Server({f"bucket/small/{name}": body for name, body in files.items()})
    for name in [name for name in scratch.environment if name.startswith("AWS_")]:
        del scratch.environment[name]
    scratch.environment.update(server.sso_environment, HOME=str(scratch.path / "home"))
    token = object_server.write_sso_home(scratch.path / "home")
    recipe = JOB.format(path="s3://bucket/small", more="", loader="", steps=4)
    code, output, errors = scratch.train("sso", recipe, "accelerator.num_processes=2")
    written = json.loads(token.read_text())
    report.check("ranks renew the token of single sign-on once", code == 0 and server.refused == 0
                 and len(server.tokens_created) == 1, (errors, server.tokens_created))
    report.check("the renewed token is written back", written["accessToken"] == object_server.SSO_TOKEN
                 and written["refreshToken"] == "refresh 1" and token.stat().st_mode & 0o777 == 0o600
                 and [path.name for path in token.parent.iterdir()] == [token.name], written)
    recorded = b"".join(path.read_bytes() for path in scratch.run.rglob("*") if path.is_file()) + (output + errors).encode()
    secrets = (object_server.SSO_TOKEN, object_server.SSO_REFRESH, object_server.SSO_SECRET, object_server.SECRET)
    report.check("tokens are recorded nowhere", not any(secret.encode() in recorded for secret in secrets))
    token.write_text(json.dumps(dict(written, expiresAt="2020-01-01T00:00:00Z", refreshToken="stolen")))
    code, _, errors = scratch.train("sso", recipe)
    report.check("a refused renewal is an error", code == 3 and f"in '{token}' has expired and cannot be renewed: cannot fetch "
                 "the credentials of S3 from the OIDC server of single sign-on: the server answered 400 (invalid_grant)"
                 in errors and "log in with: aws sso login --profile default" in errors, errors)
    scratch.environment["HOME"] = str(scratch.path)


def training_rate(scratch, recipe):
    """Samples per second; the median of the later half of a run's log."""
    code, _, errors = scratch.train("rate", recipe)
    if code != 0:
        sys.exit(errors)
    lines = [json.loads(line) for line in (scratch.run / "metrics.jsonl").read_text().splitlines()]
    rates = [line["log"]["train/samples_per_second"] for line in lines if "log" in line]
    return statistics.median(rates[len(rates) // 2:])


def loader_rate(scratch, recipe):
    (scratch.path / "loader.yaml").write_text(recipe)
    program = pathlib.Path(scratch.binary).resolve().parent / "bench/loader_speed"
    if not program.exists():
        return None
    done = runs.subprocess.run([program, "loader.yaml", "20000"], cwd=scratch.path, env=scratch.environment, text=True,
                               stdout=runs.subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])["samples_per_second"]


def print_rates(scratch):
    """The sides in turn, so that both have the machine as it is; the first run of the server fills the cache."""
    files = corpus(shards=2, tokens=8 << 20)
    write_folder(scratch.path / "corpus", files)
    server = object_server.Server({f"bucket/corpora/{name}": body for name, body in files.items()}, latency=0.05,
                                  failures=0.05, stalls=0.01)
    scratch.environment.update(server.environment)
    for name, measure, recipe in (("training", training_rate, RATE_JOB), ("loader", loader_rate, JOB)):
        rates = {"corpus": [], "s3://bucket/corpora": []}
        for _ in range(5):
            for path, found in rates.items():
                found.append(measure(scratch, recipe.format(path=path, more="", loader="", steps=120)))
        if rates["corpus"][0] is None:
            print(f"{name}: no bench/loader_speed beside {scratch.binary}")
            continue
        disk, streamed = (statistics.median(found[1:]) for found in rates.values())
        print(f"{name}: {disk:.0f} samples/s from the disk, {streamed:.0f} streamed: {100 * streamed / disk:.1f} %", rates,
              flush=True)
    scratch.empty_cache()
    more = ", streaming: {cache_limit: 16 MiB}"
    for steps in (30, 300):
        begin = time.monotonic()
        recipe = JOB.format(path="s3://bucket/corpora", more=more, loader="", steps=steps)
        code, _, _ = scratch.train("whole", recipe.replace("every: 20 steps", "every: never"))
        print(f"a whole shuffle of data twice the cache, {steps * 16} samples, code {code}: {time.monotonic() - begin:.1f} s")


def main():
    report = runs.Report()
    with Scratch(sys.argv[1]) as scratch:
        if sys.argv[2:] == ["rates"]:
            print_rates(scratch)
            return
        files = corpus()
        write_folder(scratch.path / "corpus", files)
        server = check_tokens(scratch, files, report)
        check_ranks(scratch, files, report)
        check_errors(scratch, files, server, report)
        check_texts(scratch, report)
        check_recipe(scratch, report)
        check_instance_metadata(scratch, report)
        check_single_sign_on(scratch, report)
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
