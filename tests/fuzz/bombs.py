#!/usr/bin/env python3
"""Hands fuzz targets large inputs made to grow in memory.   bombs.py BUILD

What fuzzers find is small; these have from a hundred kilobytes to megabytes, in sizes below and above
what readers take. A target stops when reading takes a minute, or far more memory than its input.
"""

import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BATCH = 8  # inputs of one process
COUNTS = [10**5 * n for n in (3, 5, 8, 20)]


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def shared(item, copies):
    """A tuple that holds one value many times over."""
    return item + b"q\0(" + b"h\0" * copies + b"t\x86"


def pickles():
    """Bodies, without the two bytes of the protocol."""
    for n in COUNTS:
        yield f"list{n}", b"]" + b"Na" * n
        yield f"dict{n}", b"}" + b"NNs" * n
        yield f"tuples{n}", b"]" + b")a" * n
        yield f"wrapped{n}", b"N" + b"\x85" * n
        yield f"memo{n}", b"N" + b"".join(b"r" + struct.pack("<I", i) for i in range(n))
        yield f"texts{n}", b"]" + (text(b"x" * 20) + b"a") * n
        yield f"globals{n}", b"]" + b"cm\nn\na" * n
        yield f"calls{n}", b"]" + b"cm\nn\n)Ra" * n
        yield f"ids{n}", b"]" + b")Qa" * n
        yield f"unfolded{n}", shared(b"](" + b"N" * 50_000 + b"e", n // 50_000)
        yield f"unfolded_texts{n}", shared(b"](" + text(b"x" * 20) * 1000 + b"e", n // 1000)
        yield f"unfolded_long{n}", shared(text(b"x" * n), 60)


def zips(folder):
    for n in (1000, 100_000, 262_144, 300_000):
        path = folder / "zip"
        with zipfile.ZipFile(path, "w") as archive:
            for i in range(n):
                archive.writestr(zipfile.ZipInfo(f"{i:x}"), b"")
        yield f"entries{n}", path.read_bytes()


def torch_files(folder):
    for name, body in pickles():
        path = folder / "zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/data.pkl", b"\x80\x02" + body.replace(b"cm\nn\n", b"ctorch\nSize\n") + b".")
            archive.writestr("x/version", "3\n")
        yield name, path.read_bytes()


def programs(folder):
    """Archives of torch.export's with too much in one place."""
    many = {}
    for n in COUNTS:
        argument = b'{"name":"","arg":{"as_ints":[0' + b",0" * (n // 2) + b"]}}"
        many[f"numbers{n}"] = node(b"[" + argument + b"]", b"[]")
        many[f"arguments{n}"] = node(b"[" + b",".join([b'{"name":"","arg":{"as_none":true}}'] * (n // 10)) + b"]", b"[]")
        many[f"values{n}"] = node(b"[]", b"[" + b",".join(
            b'{"as_tensor":{"name":"%x"}}' % i for i in range(n // 10)) + b"]")
        many[f"nodes{n}"] = b",".join([node(b"[]", b"[]")] * (n // 20))
        many[f"plain{n}"] = b"0" + b",0" * n
    for name, nodes in many.items():
        path = folder / "zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/models/model.json", b'{"graph_module":{"graph":{"inputs":[],"outputs":[],"nodes":['
                             + nodes + b']},"signature":{"input_specs":[],"output_specs":[]}}}')
        yield name, path.read_bytes()


def node(inputs, outputs):
    return b'{"target":"","metadata":{},"inputs":' + inputs + b',"outputs":' + outputs + b"}"


def jsons():
    for n in COUNTS:
        yield f"numbers{n}", b'{"a":[0' + b",0" * n + b"]}"
        yield f"lists{n}", b'{"a":[[]' + b",[]" * n + b"]}"
        yield f"objects{n}", b'{"a":[{}' + b",{}" * n + b"]}"
        yield f"texts{n}", b'{"a":["x"' + b',"0123456789abcdef"' * (n // 4) + b"]}"
        yield f"keys{n}", b'{"":0' + b"".join(b',"%x":0' % i for i in range(n // 4)) + b"}"
        yield f"metadata{n}", (b'{"__metadata__":{"":""' + b"".join(b',"%x":""' % i for i in range(n // 4))
                               + b"}}")
        yield f"tensors{n}", b"{" + b",".join(
            b'"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(n // 20)) + b"}"
        yield f"files{n}", b'{"weight_map":{' + b",".join(
            b'"%x":"a"' % i for i in range(n // 10)) + b"}}"


def inputs(folder):
    """Yields (target, name, bytes)."""
    for name, body in pickles():
        yield "fuzz_pickle", name, b"2\x80\x02" + body + b"."
        metadata = b"\x80\x04" + body + b"."
        yield "fuzz_dcp", name, struct.pack("<I", len(metadata)) + metadata
    for name, data in zips(folder):
        yield "fuzz_zip", name, data
        yield "fuzz_torch_file", name, b"z" + data
    for name, data in torch_files(folder):
        yield "fuzz_torch_file", f"pickle_{name}", b"z" + data
    for name, data in programs(folder):
        yield "fuzz_pt2", name, data
    for name, data in jsons():
        yield "fuzz_safetensors", name, struct.pack("<Q", len(data)) + data
        yield "fuzz_weight_index", name, data


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main():
    targets = Path(sys.argv[1]) / "fuzzers"
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        made = {}
        for target, name, data in inputs(Path(scratch)):
            path = Path(scratch) / target / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
            made.setdefault(target, []).append(path)
        runs = {}
        for target, paths in made.items():
            command = [targets / target, "-rss_limit_mb=0", "-timeout=60", f"-artifact_prefix={scratch}/"]
            runs[target] = [pool.submit(run, command + paths[i:i + BATCH]) for i in range(0, len(paths), BATCH)]
        failed = 0
        for target, batches in runs.items():
            faults = [batch.result() for batch in batches if batch.result().returncode]
            print(f"bombs: {target}: {len(made[target])} inputs, {'FAILED' if faults else 'clean'}")
            for fault in faults:
                failed = 1
                lines = fault.stderr.splitlines()
                print(*[line for line in lines if line.startswith("Running:")][-1:],
                      *[line for line in lines if "an input led to" in line or "SUMMARY" in line], sep="\n")
    return failed


if __name__ == "__main__":
    sys.exit(main())
