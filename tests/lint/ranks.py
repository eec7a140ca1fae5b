#!/usr/bin/env python3
"""Only a few places ask a communicator which rank this is or how many there are; elsewhere a job's
mesh and fields say it."""

import re

import checkout

# parallel/ is the ranks; accel/ hands the questions to its callers; the two files of runner/cli meet
# the other ranks and test the collectives.
ALLOWED = ("parallel/", "runner/launch/", "train/job/", "accel/", "core/api/ranks.h", "core/api/tensor_parallel.h",
           "core/api/context_parallel.h", "models/layers/tensor_parallel.", "tests/", "bench/",
           "plugins/", "runner/cli/world.cpp", "runner/cli/self_test.cpp")
QUESTION = re.compile(r"(?:->|\.)(?:rank|world|is_main)\(\)")


def problems_in(name, source):
    if name.startswith(ALLOWED):
        return []
    code = checkout.without_text(source)
    return [f"{name}:{checkout.line_of(code, match.start())}: '{match.group(0)}' is asked of a"
            " communicator: use the job's mesh, rank, num_ranks or is_main"
            for match in QUESTION.finditer(code)]


if __name__ == "__main__":
    checkout.finish([problem for name in checkout.files(".h", ".cpp")
                     for problem in problems_in(name, checkout.read(name))])
