#!/usr/bin/env python3
"""Links of the documents have a target, docs/index.md lists every page, and messages that
docs/troubleshooting.md quotes are messages of the product."""

import posixpath
import re

import checkout
import layers

INDEX = "docs/index.md"
QUOTING = "docs/troubleshooting.md"
LEAST_QUOTED = 10  # characters; shorter literals fit anything

_CODE_BLOCK = re.compile(r"^(```+).*?^\1", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)
_FIRST_CELL = re.compile(r"^\| ([^|]*) \|", re.MULTILINE)
_LITERALS = re.compile(r'(?:"(?:\\.|[^"\\\n])*"\s*)+')
_QUOTED = re.compile(r'"((?:\\.|[^"\\\n])*)"')


def anchors(document):
    """The anchors that GitHub gives to headings."""
    seen = []
    for heading in _HEADING.findall(_CODE_BLOCK.sub("", document)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        seen.append(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return {f"{anchor}-{seen[:i].count(anchor)}" if anchor in seen[:i] else anchor
            for i, anchor in enumerate(seen)}


def links(document):
    """Yields (line, target) of each link to another document or place."""
    text = _CODE_SPAN.sub(checkout.blank, _CODE_BLOCK.sub(checkout.blank, document))
    for link in _LINK.finditer(text):
        if not re.match(r"[a-z]+:", link.group(1)):
            yield checkout.line_of(text, link.start()), link.group(1)


def dead_links(name, documents, exists):
    found = []
    for line, target in links(documents[name]):
        path, _, anchor = target.partition("#")
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        if not exists(goal):
            found.append(f"{name}:{line}: the link '{target}' has no target")
        elif anchor and anchor not in anchors(documents.get(goal, "")):
            found.append(f"{name}:{line}: '{goal}' has no heading '#{anchor}'")
    return found


def unlisted(documents):
    listed = {posixpath.normpath(posixpath.join("docs", target.partition("#")[0]))
              for _, target in links(documents[INDEX])}
    return [f"{INDEX}: does not list {name}" for name in sorted(documents)
            if name.startswith("docs/") and name != INDEX and name not in listed]


def message_patterns(sources):
    """A pattern for each string literal of the sources, with placeholders as wildcards."""
    found = set()
    for source in sources:
        for run in _LITERALS.findall(source):
            literal = "".join(_QUOTED.findall(run)).replace('\\"', '"')
            pieces = literal.split("{}")
            if sum(map(len, pieces)) >= LEAST_QUOTED:
                found.add(".*".join(map(re.escape, pieces)))
    return [re.compile(pattern) for pattern in found]


def unknown_messages(document, patterns, scripts):
    """Quoted messages of the first column of tables that neither the sources nor the scripts have."""
    found = []
    for cell in _FIRST_CELL.finditer(document):
        for quoted in filter(lambda span: " " in span, re.findall(r"`([^`]+)`", cell.group(1))):
            pieces = [piece for piece in quoted.split("...") if len(piece) > 3]
            known = (any(pattern.search(quoted) for pattern in patterns)
                     or all(piece.split(": ")[-1] in scripts for piece in pieces))
            if not known:
                line = checkout.line_of(document, cell.start())
                found.append(f"{QUOTING}:{line}: the product has no message '{quoted}'")
    return found


def main():
    documents = {name: checkout.read(name) for name in checkout.files(".md")}
    problems = [problem for name in documents
                for problem in dead_links(name, documents, lambda path: (checkout.ROOT / path).exists())]
    problems += unlisted(documents)
    sources = (checkout.read(name) for name in checkout.files(".h", ".cpp") if layers.room_of(name))
    scripts = "\n".join(checkout.read(name) for name in checkout.files(".sh"))
    problems += unknown_messages(documents[QUOTING], message_patterns(sources), scripts)
    checkout.finish(problems)


if __name__ == "__main__":
    main()
