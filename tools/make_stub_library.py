#!/usr/bin/env python3
"""Writes the assembly of a stub for libraries that are slow to load.

It defines each symbol of theirs that an executable refers to: data as zeros of the same size,
functions as one that ends the process. With it in their place the executable starts at once and
may do all that needs none of them.
"""

import argparse
import subprocess
from pathlib import Path

# Called instead of any of their functions: a verb that uses them did not ask for them.
CALLED = "accel_stub_called"


def listing_of(path, cache=None):
    """The dynamic symbol table as text. That of a large library takes seconds: kept in `cache`."""
    state = path.stat()
    stamp = f"of {path.resolve()}, {state.st_size} bytes, {state.st_mtime_ns}\n"
    if cache and cache.exists() and (kept := cache.read_text()).startswith(stamp):
        return kept
    text = subprocess.run(["readelf", "--dyn-syms", "--wide", str(path)], check=True,
                          capture_output=True, text=True).stdout
    if cache:
        cache.write_text(stamp + text)
    return text


def symbols(listing):
    """Name to (type, size, whether it is defined there)."""
    found = {}
    for line in listing.splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit() and words[4] != "LOCAL":
            name = words[7].split("@")[0]
            found[name] = (words[3], int(words[2], 0), words[6] != "UND")
    return found


def assembly(name, kind, size):
    if kind in ("FUNC", "IFUNC", "NOTYPE"):
        return f".globl {name}\n.type {name}, %function\n.set {name}, {CALLED}\n"
    section = '.tbss,"awT",%nobits' if kind == "TLS" else '.bss,"aw",%nobits'
    elf_type = "%tls_object" if kind == "TLS" else "%object"
    return (f".pushsection {section}\n.balign 64\n.globl {name}\n.type {name}, {elf_type}\n"
            f".size {name}, {size}\n{name}:\n.zero {max(size, 1)}\n"
            ".popsection\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("executable", type=Path)
    parser.add_argument("library", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("runtime", type=Path, nargs="*",
                        help="libraries that stay: what they define is theirs")
    options = parser.parse_args()
    used = symbols(listing_of(options.executable)).keys()
    for runtime in options.runtime:
        used -= {name for name, (_, _, defined) in symbols(listing_of(runtime)).items() if defined}
    theirs = symbols(listing_of(options.library, options.output.with_suffix(".symbols")))
    text = "".join(assembly(name, kind, size) for name, (kind, size, defined) in sorted(theirs.items())
                   if defined and name in used)
    options.output.write_text(text)


if __name__ == "__main__":
    main()
