#!/usr/bin/env python3
"""The headers that plugins are compiled against stay light: no parser, and of ATen Tensor.h alone."""

import re

import checkout

SYSTEM = re.compile(r"^#include <([^>]+)>", re.MULTILINE)
HEAVY = re.compile(r"^(?:ATen/(?!core/Tensor\.h$)|torch/|c10/|yaml-cpp/|toml\+\+/|nlohmann/|CLI/|spdlog/)")
PARSERS = re.compile(r'^#include "core/recipe/(?:parse|compose|override|interpolate)\.h"', re.MULTILINE)


def problems_in(name, source):
    if not (name.startswith("core/api/") and name.endswith(".h")):
        return []
    found = [(match.start(), match.group(1)) for match in SYSTEM.finditer(source)
             if HEAVY.match(match.group(1))]
    found += [(match.start(), match.group(0)[10:-1]) for match in PARSERS.finditer(source)]
    return [f"{name}:{checkout.line_of(source, offset)}: '{header}' is too heavy for core/api"
            for offset, header in found]


if __name__ == "__main__":
    checkout.finish([problem for name in checkout.files(".h")
                     for problem in problems_in(name, checkout.read(name))])
