#!/usr/bin/env python3
"""No unfinished work, nothing of one machine, and no retired term in the repository."""

import re

import checkout

# Split, so that this file does not name what it forbids.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE = re.compile(r"(?<![\w.])/(?:home|Users|work|root|mnt)/\w")
CREDENTIAL = re.compile(r"\b(?:ghp_|hf_|AKIA|sk-)[A-Za-z0-9]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY")
# Identifiers and phrases that docs/glossary.md has a term for. Old recipes and the glossary name them.
RETIRED = re.compile(
    r"\b(?:carry_over|stand_in|put_before_aten|DryScope|dry_(?!run)\w+|WindowParts|RowsOfPart|TrainedPart|StepRun|"
    r"StepAsk|StepWork|tell_each_other|OnlyTrains|is_local|before_sums|Travelling|UndrawnWeights|KeepsTextsApart|"
    r"hidden_apart|TextsApart|at_places|FittedModel|check_samples|want_tokens|FixedModel|computed_wide|squares_cpu|"
    r"windows_cpu|keep_freed_memory|BlockHeap|bytes_to_come|SaveStall|told_|spent_|asked_|ordered_|Steering|"
    r"steer_back|EpochDraws|LeavesOut|TextFill|TextCut|CutShare|RankPlace|RankLink|MeetingPoint|ForeignWord|"
    r"WordLayer|Uplink|left_over|do_at_once|on_all_cores|several_optimizers|late_characters|plane15|"
    r"odd_characters|\w+_facts)\b"
    r"|\bcarr(?:y|ied|ying) over\b|\bstand-ins?\b|\bgo(?:es)? on with\b|\bof its own kin\b",
    re.IGNORECASE)
RETIRED_EXEMPT = ("docs/glossary.md", "tests/lint/words.py", "tests/smoke/checkpoints_0_1_0/")
GOLDEN = ("tests/",)  # a golden file may hold such a path as data


def problems_in(name, text):
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            found.append(f"{name}:{number}: unfinished work: {line.strip()}")
        if MACHINE.search(line) and not name.startswith(GOLDEN):
            found.append(f"{name}:{number}: a path of one machine: {line.strip()}")
        if not name.startswith(RETIRED_EXEMPT) and "/golden/" not in name and RETIRED.search(line):
            found.append(f"{name}:{number}: a retired term, see docs/glossary.md: {line.strip()}")
        if CREDENTIAL.search(line):
            found.append(f"{name}:{number}: this looks like a credential")
    return found


if __name__ == "__main__":
    checkout.finish([problem for name in checkout.files() if not checkout.is_binary(name)
                     for problem in problems_in(name, checkout.read(name))])
