#!/usr/bin/env python3
"""Every message of the product occurs in a test: of each literal of text("..."), the pieces between
placeholders, in one line.   messages.py [--update]

untested_messages.txt lists the exceptions, one literal per line. It only shrinks: an entry whose
message is tested or gone is an error, and --update removes such entries.
"""

import re
import sys

import checkout
import layers

ALLOWED = "tests/lint/untested_messages.txt"
# Files that hold messages without asserting them.
NO_TESTS = ("tests/lint/", "tests/fuzz/corpus/")

_LITERAL = r'"(?:\\.|[^"\\\n])*"'
_CALL = re.compile(r'(?<![\w.:>])text\(\s*((?:' + _LITERAL + r'\s*)+)[,)]')
_QUOTED = re.compile(_LITERAL)
# Between the pieces of one text in C++ and in Python.
_JOINT = re.compile(r'''(["'])\s*\n\s*[rf]?\1''')


def literals(source):
    """Yields (offset, literal) of each call of text(), with adjacent literals joined."""
    code = re.sub(r"^[ \t]*//[^\n]*", checkout.blank, source, flags=re.MULTILINE)
    for match in _CALL.finditer(code):
        yield match.start(), "".join(part[1:-1] for part in _QUOTED.findall(match.group(1)))


def is_tested(literal, tests):
    """Whether the pieces of the literal stand in one line; those of three characters or less may be missing."""
    pieces = literal.replace('\\"', '"').split("{}")
    longest = max(pieces, key=len)
    wanted = re.compile(r"[^\n]{0,160}?".join(re.escape(piece) for piece in pieces if len(piece) > 3 or piece == longest))
    start = tests.find(longest)
    while start >= 0:
        line = tests.rfind("\n", 0, start) + 1, tests.find("\n", start)
        if wanted.search(tests, line[0], line[1] if line[1] >= 0 else len(tests)):
            return True
        start = tests.find(longest, start + 1)
    return False


def test_text(sources):
    """All test files as one text in which pieces of literals are joined."""
    return "\n".join(_JOINT.sub("", source).replace('\\"', '"') for source in sources)


def untested(product, tests):
    """(file, line, literal) of each message that `tests` does not have."""
    return [(name, checkout.line_of(source, offset), literal)
            for name, source in product.items() for offset, literal in literals(source)
            if not is_tested(literal, tests)]


def problems_in(product, tests, allowed):
    missing = untested(product, tests)
    found = [f"{name}:{line}: no test has the message '{literal}'"
             for name, line, literal in missing if literal not in allowed]
    needed = {literal for _, _, literal in missing}
    found += [f"{ALLOWED}: '{literal}' is tested or gone: run tests/lint/messages.py --update"
              for literal in allowed if literal not in needed]
    found += [f"{ALLOWED}: '{literal}' is listed twice"
              for literal in sorted(set(allowed)) if allowed.count(literal) > 1]
    return found


def main():
    product = {name: checkout.read(name) for name in checkout.files(".h", ".cpp") if layers.room_of(name)}
    tests = test_text(checkout.read(name) for name in checkout.files()
                      if name.startswith("tests/") and not name.startswith(NO_TESTS)
                      and not checkout.is_binary(name))
    allowed = checkout.read(ALLOWED).splitlines()
    if "--update" in sys.argv:
        needed = {literal for _, _, literal in untested(product, tests)}
        kept = sorted(set(allowed) & needed)
        (checkout.ROOT / ALLOWED).write_text("".join(literal + "\n" for literal in kept), encoding="utf-8")
        allowed = kept
    print(f"{sum(len(list(literals(source))) for source in product.values())} messages,"
          f" {len(allowed)} without a test")
    checkout.finish(problems_in(product, tests, allowed))


if __name__ == "__main__":
    main()
