#!/usr/bin/env python3
"""Datasets of Hugging Face in an object store, on a web server and on a hub: the same runs as from the disk.

    streaming_hub.py ACCEL_RUN
"""

import sys

import object_server
import runs
import streaming

TEXT = """model: {{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16, max_seq_len: 64}}
task: causal_lm
data:
  train: {{type: hf, path: '{path}', tokenizer: words, max_length: 32{more}}}
optimizer: {{type: adamw, lr: 0.01}}
train: {{until: 4 steps, batch: 2}}
"""
TOKENS = """model: {{type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16, max_seq_len: 8}}
task: causal_lm
data:
  train: {{type: hf_tokens, path: '{path}', vocab_size: 10{more}}}
optimizer: {{type: adamw, lr: 0.01}}
train: {{until: 4 steps, batch: 3}}
"""
IMAGES = """model: {{type: mlp, hidden_sizes: [8]}}
task: classification
data:
  train: {{type: hf_images, path: '{path}'{more}}}
optimizer: {{type: adamw, lr: 0.01}}
train: {{until: 4 steps, batch: 2}}
"""
README = b"""---
configs:
- config_name: lines
  data_files: {train: lines/a*.jsonl, test: lines/b.jsonl}
---
"""


def lines(first, count, form):
    return "".join(form.format(f"she sells shells {i} by the sea shore") for i in range(first, first + count)).encode()


def folders():
    """Folders of files by name."""
    golden = streaming.GOLDEN / "arrow"
    out = {name: {str(path.relative_to(golden / name)): path.read_bytes()
                  for path in sorted((golden / name).rglob("*")) if path.is_file()}
           for name in ("images", "tokens", "splits", "selected", "saved")}
    out["hub"] = {f"data/{path.name}": path.read_bytes() for path in sorted((golden / "hub").iterdir())}
    out["text"] = {"README.md": README, "lines/a0.jsonl": lines(0, 9, '{{"text": "{}"}}\n'),
                   "lines/a1.jsonl": lines(9, 8, '{{"text": "{}"}}\n'), "lines/b.jsonl": b'{"text": "held out"}\n',
                   ".hidden/c.jsonl": b"x"}
    out["tables"] = {f"train-{i}.csv": "text\n".encode() + lines(i * 9, 9, "{}\n") for i in range(2)}
    out["books"] = {"train.txt": lines(0, 12, "{}\n"), "test.txt": b"held out\n"}
    for name in ("images", "tokens"):
        out[f"{name}_parquet"] = {"data.parquet": (golden / f"{name}.parquet").read_bytes()}
    return out


# recipe, folder, options of the recipe, names of its files for a server without listings
CASES = [
    (TEXT, "hub", ", split: train", "data/train-{00000..00001}-of-00002.parquet"),
    (TEXT, "saved", ", files: ['*.arrow']", "data-{00000..00001}-of-00002.arrow"),
    (TEXT, "text", ", config: lines", "lines/a{0..1}.jsonl"),
    (TEXT, "tables", "", "train-{0..1}.csv"),
    (TEXT, "books", "", "train.txt"),
    (TOKENS, "tokens", "", None),
    (TOKENS, "tokens_parquet", "", "data.parquet"),
    (IMAGES, "images", "", None),
    (IMAGES, "images_parquet", "", "data.parquet"),
]


def check_same(scratch, s3, web, report):
    for recipe, folder, more, names in CASES:
        code, _, errors = scratch.train("disk", recipe.format(path=folder, more=more))
        if "requires the reader of Parquet and Arrow files" in errors:
            continue
        kind = recipe.partition("type: hf")[2].partition(",")[0]
        report.check(f"hf{kind} of '{folder}' trains", code == 0, errors)
        wanted = scratch.results() if code == 0 else None
        named = f", files: ['{names}']" if names else ""  # a saved dataset names its files itself
        for url, options in ((f"s3://bucket/{folder}", more), (f"{web.url}/plain/{folder}", named),
                             (f"{web.url}/datasets/org/{folder}/resolve/main", more)):
            code, output, errors = scratch.train("streamed", recipe.format(path=url, more=options))
            report.check(f"hf{kind} of '{folder}' at '{url.partition('bucket')[0]}' gives the same numbers",
                         code == 0 and scratch.results() == wanted and f"data: streaming '{url}', " in output, errors)


def check_hub_token(scratch, web, report):
    """A private dataset of the hub: the listing and the files are asked for with HF_TOKEN."""
    scratch.environment["HF_TOKEN"] = "hf_secret"
    url = f"{web.url}/datasets/org/text/resolve/main"
    code, output, errors = scratch.train("token", TEXT.format(path=url, more=""))
    recorded = b"".join(path.read_bytes() for path in scratch.run.rglob("*") if path.is_file()) + (output + errors).encode()
    report.check("the hub is sent HF_TOKEN, which is recorded nowhere", code == 0 and b"hf_secret" not in recorded
                 and "Bearer hf_secret" in web.authorizations, (errors, web.authorizations))
    del scratch.environment["HF_TOKEN"]


def check_resume(scratch, s3, report):
    """A run resumes from its URL, and not after a change of the data."""
    recipe = TEXT.format(path="s3://bucket/text", more=", config: lines").replace("4 steps", "6 steps")
    code, _, errors = scratch.train("whole", recipe)
    wanted = scratch.results()
    code, _, errors = scratch.train("part", recipe, "train.until=3 steps")
    code, _, errors = scratch.finish("resume", "runs/part", "train.until=6 steps")
    report.check("a run resumes to the same bits", code == 0 and scratch.results() == wanted, errors)
    name = "bucket/text/lines/a1.jsonl"
    s3.objects[name] = s3.objects[name].replace(b"shells", b"shelfs")
    code, _, errors = scratch.finish("resume", "runs/part", "train.until=9 steps")
    report.check("and not with other data", code != 0, errors)


def check_refusals(scratch, web, report):
    base = f"{web.url}/plain"
    small = ", streaming: {cache_limit: 1 KiB}"
    cases = [
        (TEXT, f"{base}/hub", "", 3, f"the server of '{base}/hub' lists no files, among which to choose"),
        (TEXT, "s3://bucket/text", ", config: french", 3, "'s3://bucket/text' has the configs 'lines', not 'french'"),
        (TEXT, "s3://bucket/nothing", "", 3, "'s3://bucket/nothing' has no files of a supported format"),
        (TEXT, "s3://bucket/books/train.txt", ", split: train", 3,
         "'s3://bucket/books/train.txt' is a file, and 'config', 'split' and 'files' choose in a folder"),
        (TEXT, f"{base}/hub", ", files: ['data/none.parquet']", 3, f"'{base}/hub/data/none.parquet' does not exist"),
        (TOKENS, "s3://bucket/splits", ", split: dev", 3, "'s3://bucket/splits' holds the splits 'test', 'train', not 'dev'"),
        (TOKENS, "s3://bucket/tokens", ", split: train", 3, "'s3://bucket/tokens' is one dataset without splits"),
        (TOKENS, "s3://bucket/tokens", small, 7, "cannot hold the"),
        (TOKENS, "s3://bucket/text", ", config: lines", 3, "'s3://bucket/text/lines/a0.jsonl' is neither a Parquet nor an Arrow file"),
        (TOKENS, "tokens", ", streaming: {connections: 2}", 2, "'connections' has no effect: 'path' is not a URL"),
    ]
    for recipe, path, more, wanted, text in cases:
        scratch.empty_cache()
        code, _, errors = scratch.train("wrong", recipe.format(path=path, more=more))
        if "requires the reader of Parquet and Arrow files" not in errors:
            report.check(f"'{path}'{more} is refused", code == wanted and text in errors, (code, errors))


def check_bad_server(scratch, files, report):
    """Failures, stalls and cuts; and a file that changes between its readings."""
    server = object_server.Server({f"bucket/{folder}/{name}": body for folder, of in files.items()
                                   for name, body in of.items()}, failures=0.1, stalls=0.05, cuts=0.2)
    scratch.environment.update(server.environment)
    more = ", config: lines, streaming: {download_timeout: 1, cache_limit: 64 KiB}"
    code, _, errors = scratch.train("disk", TEXT.format(path="text", more=", config: lines"))
    wanted = scratch.results()
    scratch.empty_cache()
    with streaming.Watch(scratch) as watch:
        code, _, errors = scratch.train("bad", TEXT.format(path="s3://bucket/text", more=more))
    report.check("a bad network changes no number", code == 0 and scratch.results() == wanted, errors)
    report.check("the cache keeps its limit", 0 < watch.most <= 64 << 10, watch.most)


def main():
    report = runs.Report()
    with streaming.Scratch(sys.argv[1]) as scratch:
        (scratch.path / "texts.txt").write_text("she sells sea shells by the shore 0 1 2 3 4 5 6 7 8 9\n" * 20)
        scratch.finish("tokenizer", "train", "texts.txt", "--vocab-size", "280", "--out", "words")
        files = folders()
        for folder, of in files.items():
            for name, body in of.items():
                path = scratch.path / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(body)
        objects = {f"{start}/{folder}{end}/{name}": body for folder, of in files.items() for name, body in of.items()
                   for start, end in (("bucket", ""), ("plain", ""), ("datasets/org", "/resolve/main"))}
        s3, web = object_server.Server(objects), object_server.Server(objects, signed=False)
        scratch.environment.update(s3.environment, HF_ENDPOINT=web.url)
        check_same(scratch, s3, web, report)
        check_hub_token(scratch, web, report)
        check_refusals(scratch, web, report)
        check_resume(scratch, s3, report)
        check_bad_server(scratch, files, report)
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
