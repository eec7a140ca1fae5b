#!/usr/bin/env python3
"""Includes follow the layers: arrows point only downward, and siblings never meet."""

import re

import checkout

COMPONENTS = ("models", "data", "runner/optim", "runner/precision", "runner/tasks",
              "runner/metrics", "runner/callbacks", "runner/dist", "runner/launch",
              "runner/checkpoint", "runner/track", "runner/plugin", "runner/tokenizers",
              "runner/report", "runner/sweep", "runner/editor", "runner/importers", "runner/fetch")
READS_FORMATS = ("data", "models", "runner/checkpoint", "runner/track", "runner/tokenizers",
                 "runner/report", "runner/plugin", "runner/editor", "runner/fetch")

# What each layer may include beside itself and core.
USES = {"core": (), "kernels": (), "plugins": (), "runner/formats": ()}
USES.update({layer: ("runner/formats",) if layer in READS_FORMATS else () for layer in COMPONENTS})
USES["runner/cuda"] = ()
USES["runner/dist"] += ("runner/cuda",)  # the request that its one function takes
USES["runner/arrow"] = ("runner/formats",)  # the reader that its one function makes
USES["data"] += ("runner/tokenizers",)  # texts become ids where they are read
USES["models"] += ("kernels",)
USES["runner/optim"] += ("kernels",)
USES["runner/tasks"] += ("kernels",)
USES["runner/job"] = (*COMPONENTS, "kernels")
USES["runner/loop"] = COMPONENTS + ("runner/job",)  # the loop runs what a job owns
USES["runner/plan"] = (*COMPONENTS, "kernels", "runner/job", "runner/loop")  # it makes steps to measure them
USES["runner/cli"] = COMPONENTS + ("runner/formats", "runner/job", "runner/loop", "runner/plan")
USES["accel"] = COMPONENTS + ("runner/job",)  # for programs with a loop of their own
USES["runner"] = ("runner/cli",)  # main.cpp

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def layer_of(name):
    """The layer that the file belongs to, or None for one outside the layers (tests, bench)."""
    folders = name.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        layer = "/".join(folders[:depth])
        if layer in USES:
            return layer
    return None


def problems_in(name, source):
    layer = layer_of(name)
    if layer is None:
        return []
    allowed = {layer, "core", *USES[layer]}
    found = []
    for include in _INCLUDE.finditer(source):
        target = layer_of(include.group(1))
        if target not in allowed:
            line = checkout.line_of(source, include.start())
            found.append(f"{name}:{line}: '{layer}' must not include '{include.group(1)}'"
                         f" of {target or 'no layer'}")
    return found


if __name__ == "__main__":
    checkout.finish([problem for name in checkout.files(".h", ".cpp")
                     for problem in problems_in(name, checkout.read(name))])
