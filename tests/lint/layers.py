#!/usr/bin/env python3
"""Rooms: includes point only downward, their number is bounded, and no two files include each other."""

import re

import checkout

# The rooms from bottom to top, and what each may include besides itself. docs/architecture.md has
# the same order with a line on each.
USES = {
    "core": (),
    "formats": ("core",),
    "kernels": ("core",),
    "text": ("core", "formats"),
    "parallel": ("core", "kernels"),
    "checkpoint": ("core", "formats"),
    "track": ("core", "formats"),
    "models": ("core", "formats", "kernels"),
    "data": ("core", "formats", "text"),
    "train": ("core", "kernels", "text", "parallel", "checkpoint", "track", "models", "data"),
    "infer": ("core", "kernels", "text", "checkpoint", "models", "data", "train"),
    "compat": ("core", "checkpoint", "train"),
    "accel": ("core", "parallel", "checkpoint", "train"),
    "runner": ("core", "formats", "kernels", "text", "parallel", "checkpoint", "track", "models", "data",
               "train", "infer", "compat"),
}
# Folders of a room from bottom to top: a file includes those of its own folder and of lower ones.
# Folders on one line do not include each other.
INSIDE = {
    "core": (("base",), ("recipe",), ("api",)),
    "train": (("recipe",), ("optim", "precision", "metrics", "tasks", "callbacks"), ("rewards",), ("job",), ("control",),
              ("step",), ("loop",)),
}
MAX_ROOMS = 18
MAX_ARROWS = 55
MAX_UNITS = 40     # a .h and .cpp of one name are one
MAX_LINES = 8000

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def room_of(name):
    """The room that the file belongs to, or None for one outside the rooms (tests, bench, plugins)."""
    room = name.split("/")[0]
    return room if "/" in name and room in USES else None


def unit_of(name):
    return name.rsplit(".", 1)[0]


def level_of(name):
    """The level of a file's folder inside its room, or None where the room has no levels."""
    room, folder = name.split("/")[0], name.split("/")[1]
    for level, folders in enumerate(INSIDE.get(room, ())):
        if folder in folders:
            return level, folder
    return None


def includes(source):
    return [(match.start(), match.group(1)) for match in _INCLUDE.finditer(source)]


def problems_in(name, source):
    room = room_of(name)
    if room is None:
        return []
    found = []
    for offset, target in includes(source):
        line = checkout.line_of(source, offset)
        other = room_of(target)
        if other != room:
            if other not in USES[room]:
                found.append(f"{name}:{line}: '{room}' must not include '{target}' of {other or 'no room'}")
            continue
        here, there = level_of(name), level_of(target)
        if here and there and here[1] != there[1] and there[0] >= here[0]:
            found.append(f"{name}:{line}: '{room}/{here[1]}' must not include '{target}' of {room}/{there[1]}")
    return found


def arrows(sources):
    """Pairs of different rooms of which the first includes the second."""
    found = set()
    for name, source in sources.items():
        room = room_of(name)
        found |= {(room, room_of(target)) for _, target in includes(source)
                  if room and room_of(target) not in (None, room)}
    return found


def cycles(sources):
    """Units that include each other, each circle once."""
    # A header that is part of another says so in its second line.
    graph = {}
    for name, source in sources.items():
        if room_of(name) and "; never include it alone." not in source:
            graph.setdefault(unit_of(name), set()).update(
                unit_of(target) for _, target in includes(source)
                if "; never include it alone." not in sources.get(target, ""))
    done, path, found = set(), [], []

    def visit(unit):
        if unit in path:
            found.append(" -> ".join(path[path.index(unit):] + [unit]))
            return
        if unit in done or unit not in graph:
            return
        path.append(unit)
        for target in sorted(graph[unit] - {unit}):
            visit(target)
        path.pop()
        done.add(unit)

    for unit in sorted(graph):
        visit(unit)
    return [f"these include each other: {circle}" for circle in found]


def crowded(sources):
    """Folders that hold more than is read in one go."""
    folders = {}
    for name, source in sources.items():
        if room_of(name):
            units, lines = folders.setdefault(name.rsplit("/", 1)[0], (set(), []))
            units.add(unit_of(name))
            lines.append(source.count("\n"))
    found = []
    for folder, (units, lines) in sorted(folders.items()):
        if len(units) > MAX_UNITS or sum(lines) > MAX_LINES:
            found.append(f"{folder}: {len(units)} units of {sum(lines)} lines, at most {MAX_UNITS} and"
                         f" {MAX_LINES} are allowed: make folders by subject")
    return found


def main():
    sources = {name: checkout.read(name) for name in checkout.files(".h", ".cpp")}
    problems = [problem for name, source in sources.items() for problem in problems_in(name, source)]
    problems += cycles(sources) + crowded(sources)
    drawn = len(arrows(sources))
    if len(USES) > MAX_ROOMS or drawn > MAX_ARROWS:
        problems.append(f"{len(USES)} rooms with {drawn} arrows, at most {MAX_ROOMS} with {MAX_ARROWS}")
    guide = checkout.read("docs/architecture.md")
    problems += [f"docs/architecture.md: no line on '{room}/'" for room in USES if f"| `{room}/" not in guide]
    print(f"{len(USES)} rooms, {drawn} arrows")
    checkout.finish(problems)


if __name__ == "__main__":
    main()
