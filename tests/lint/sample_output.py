"""Sample output in the documents: what a block says it is, and how it is compared with what a command prints.

The words after `text` on the first line of a block say what it is:

    text output of: COMMAND   what the command prints; a COMMAND of an earlier ```sh block is not run again,
                              and `the commands above` are all of the last block
    text numbers of: COMMAND  the same, but all numbers, durations, bars and predicted classes may differ
    text tested in: FILE...   messages that these tests assert, separated by ', '
    text diagram              no output

A line `...` stands for any number of lines, and ` ...` at the end of a line for the rest of it. In `output of`
blocks times, rates, process ids and hosts are masked, and results of training may differ a little, because they
depend on the processor; all else is compared as it is.
"""

import re

KINDS = ("output of", "numbers of", "tested in")
ELISION = "..."
# What each machine and each run has its own of.
_DURATION = (re.compile(r"\b\d+(?::\d\d)+\b|\b[\d.,]+ (?:ms|s|min|h)\b"), "TIME")
_MASKS = (
    _DURATION,
    (re.compile(r"\b[\d.,]+(?= (?:samples/s|steps/s|tokens/s|a second)\b)"), "N"),
    (re.compile(r"\b[\d.]+ [KMGT]iB(?= of memory available)"), "SIZE"),
    (re.compile(r"\bprocess \d+"), "process N"),
    (re.compile(r"\bhost '[^']*'"), "host 'HOST'"),
)
_NUMBERS = (
    _DURATION,
    (re.compile(r"[\u2580-\u259f]+"), "BAR"),
    (re.compile(r'("class":)"[^"]*"'), r"\1CLASS"),
    (re.compile(r"\d[\d.,:]*(?:e[+-]?\d+)?"), "N"),
    (re.compile(r"[ \t]+"), " "),
)
_RESULT = re.compile(r"(\b(?:loss|grad|accuracy|f1|it is|perplexity|eval/\w+) +)(\d+\.\d+)")


def kind_of(info):
    """(kind, subject) of the words after ``` on a block's first line; kind is None for what is no output."""
    language, _, rest = info.strip().partition(" ")
    kind, colon, subject = rest.partition(": ")
    if language == "text" and colon and kind in KINDS:
        return kind, subject.strip()
    return None, rest.strip()


def file_of(info):
    """The file name on a block's first line, as in ```yaml digits.yaml; None without one."""
    words = info.split()
    return words[1] if len(words) == 2 and re.fullmatch(r"[\w./-]*\.[\w./-]*", words[1]) else None


def is_classified(info):
    """Whether a block's first line says what it is."""
    language, _, rest = info.strip().partition(" ")
    return bool(language) and (language != "text" or rest == "diagram" or kind_of(info)[0] is not None
                               or file_of(info) is not None)


def masked(line, all_numbers):
    for pattern, mask in _NUMBERS if all_numbers else _MASKS:
        line = pattern.sub(mask, line)
    return line.rstrip()


def close(expected, actual):
    return abs(expected - actual) <= 0.02 + 0.1 * abs(expected)


def same_line(expected, actual, all_numbers=False):
    if expected.endswith(" " + ELISION):
        expected = expected[:-len(ELISION)].rstrip()
        actual = actual[:len(expected)]
    expected, actual = masked(expected, all_numbers), masked(actual, all_numbers)
    if all_numbers:
        return expected == actual
    results = [[float(number) for _, number in _RESULT.findall(line)] for line in (expected, actual)]
    return (_RESULT.sub(r"\1R", expected) == _RESULT.sub(r"\1R", actual)
            and all(close(*pair) for pair in zip(*results)))


def sections(block):
    """The lines between elisions; the first and the last list are empty where the block starts or ends with one."""
    parts = [[]]
    for line in block.splitlines():
        if line.strip() == ELISION:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def find_section(part, lines, start, same):
    """Where all lines of `part` stand in `lines`, from `start` on; None if nowhere."""
    for at in range(start, len(lines) - len(part) + 1):
        if all(same(*pair) for pair in zip(part, lines[at:])):
            return at
    return None


def place_sections(block, output, same):
    """(section, place in the output) of each section of the block; a place is None where it does not fit."""
    lines = output.splitlines()
    parts = sections(block)
    places, start = [], 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if last and part:
            start = max(start, len(lines) - len(part))
        at = find_section(part, lines, start, same)
        if number == 0 and at != 0 and part:
            at = None
        if last and part and at is not None and at + len(part) != len(lines):
            at = None
        places.append((part, at))
        start = start if at is None else at + len(part)
    return places


def differs(kind, block, output):
    """The first line of the block that the output does not have; None if it has all."""
    def same(expected, actual):
        return same_line(expected, actual, kind == "numbers of")

    if len(sections(block)) == 1 and len(block.splitlines()) != len(output.splitlines()):
        lines = zip(block.splitlines(), output.splitlines())
        return next((mine for mine, theirs in lines if not same(mine, theirs)),
                    f"{len(block.splitlines())} lines, of {len(output.splitlines())}")
    for part, at in place_sections(block, output, same):
        if at is None:
            printed = output.splitlines()
            return next((line for line in part if not any(same(line, other) for other in printed)), part[0])
    return None


def updated(block, output):
    """The block with the lines of `output`, elisions kept; None where the two have other lines."""
    if len(sections(block)) == 1:
        return output

    def same(expected, actual):
        elided = expected.endswith(" " + ELISION)
        expected = masked(expected[:-len(ELISION)] if elided else expected, True)
        actual = masked(actual, True)
        return actual.startswith(expected) if elided else actual == expected

    pieces = []
    for part, at in place_sections(block, output, same):
        if at is None:
            return None
        fresh = output.splitlines()[at:at + len(part)]
        pieces.append("".join(f"{old if old.endswith(' ' + ELISION) else new.rstrip()}\n"
                              for old, new in zip(part, fresh)))
    return f"{ELISION}\n".join(pieces)


def untested(block, test):
    """Pieces of the block's lines, between numbers and quoted names, that the text of a test lacks."""
    lines = [re.sub(r"^(?:error| *hint): ", "", line) for line in block.splitlines()]
    pieces = [piece for line in lines
              for piece in re.split(r"(?<!\w)'[^']*'|\d+|\S*/\S*|\[[^]]*\]|\.\.\.", line) if len(piece.strip()) >= 8]
    return [piece.strip() for piece in pieces if piece.strip(" ,;") not in test]
