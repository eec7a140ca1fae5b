"""The command line: runs the parts in order and writes their results."""

import argparse
import importlib.util
import json
import time
import traceback
from pathlib import Path

from .parts import PARTS
from .session import PartFailed, Session
from .works import PEERS, WORKS


def torch_folder(given):
    if given:
        folder = Path(given).resolve()
    else:
        found = importlib.util.find_spec("torch")
        if not found:
            raise SystemExit("error: this Python has no torch\n  hint: give the folder of the package: --torch DIR")
        folder = Path(found.origin).resolve().parent
    if not (folder / "lib/libtorch_cpu.so").exists():
        raise SystemExit(f"error: '{folder}' has no lib/libtorch_cpu.so\n  hint: --torch takes the folder of the package torch")
    return folder


def page(results, device):
    """The results in Markdown."""
    lines = [f"# accel-run on {device}", ""]
    lines += ["| part | result | seconds |", "| --- | --- | --- |"]
    lines += [f"| {name} | {part['result']} | {part['seconds']:.0f} |" for name, part in results.items()]
    for name, part in results.items():
        lines += ["", f"## {name}", "", PARTS[name].__doc__.strip(), ""]
        if part["error"]:
            lines += ["```text", part["error"], "```", ""]
        numbers = {key: value for key, value in part["numbers"].items() if key != "lines"}
        if numbers:
            lines += ["| | |", "| --- | --- |"]
            lines += [f"| {key} | {value:.4g} |" if isinstance(value, float) else f"| {key} | {value} |"
                      for key, value in numbers.items()]
        if part["numbers"].get("lines"):
            lines += ["", "```text", *part["numbers"]["lines"], "```"]
    return "\n".join(lines) + "\n"


def run_part(part, session):
    start, numbers, error = time.monotonic(), {}, ""
    if session.left() < 10:
        return {"result": "no time left", "seconds": 0, "numbers": {}, "error": ""}
    try:
        numbers = part(session)
    except PartFailed as failure:
        error, numbers = str(failure.args[0]), failure.args[1] if len(failure.args) > 1 else {}
    except Exception:  # of the kit itself: the other parts still run
        error = traceback.format_exc()
    result = "failed" if error else "skipped" if "skipped" in numbers else "passed"
    return {"result": result, "seconds": time.monotonic() - start, "numbers": numbers, "error": error}


def main():
    parser = argparse.ArgumentParser(prog="gpu-kit/run")
    parser.add_argument("--out", required=True)
    parser.add_argument("--torch")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--device", choices=["cuda", "fake", "cpu"], default="cuda")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--works", nargs="+", choices=list(WORKS), default=list(WORKS), help="of the part speed, in order")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, help="of the part speed")
    words = parser.parse_args()
    out = Path(words.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    session = Session(out, torch_folder(words.torch), words.device, words.minutes)
    session.works, session.peers = words.works, words.peers
    session.prepare()
    results, device = {}, "no GPU" if words.device != "cuda" else "a GPU"
    for name in words.parts:
        results[name] = run_part(PARTS[name], session)
        if name == "environment":
            device = results[name]["numbers"].get("name", device)
        print(f"{results[name]['result']:12} {results[name]['seconds']:5.0f} s  {name}", flush=True)
        if results[name]["error"]:
            print("  " + results[name]["error"][-600:].replace("\n", "\n  "), flush=True)
        # After each part, so that a session that is cut short leaves what it has.
        (out / "kit.json").write_text(json.dumps({"device": device, "parts": results}, indent=1) + "\n")
        (out / "kit.md").write_text(page(results, device))
    print(f"GPU: {'none' if words.device != 'cuda' else device}; results in {out}/kit.md")
    return 1 if any(part["result"] == "failed" for part in results.values()) else 0
