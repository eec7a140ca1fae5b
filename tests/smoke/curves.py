"""The curves of trackers in a run folder, without values that depend on time.

Each reader returns the points as its tracker's program shows them, sorted: [(step, metric, value)]. A point
that was written twice is there twice.
"""

import csv
import re

TIMED = re.compile(r"per_second|^time/|^system/|memory_mib|seconds")  # metrics that no two runs share


def fields(message):
    """(number, value) of each field of a protocol buffer message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            length = {1: 8, 5: 4}.get(tag & 7) or varint()
            yield tag >> 3, message[at:at + length]
            at += length


def of_csv(run):
    with open(run / "metrics.csv", newline="") as table:
        return sorted((int(row["step"]), name, value) for row in csv.DictReader(table) for name, value in row.items()
                      if name != "step" and value and not TIMED.search(name))


def of_tensorboard(run):
    """The start of a process drops its step and later ones of the files before it."""
    found = []
    for path in sorted((run / "tensorboard").rglob("events.out.tfevents.*")):
        data, at = path.read_bytes(), 0
        while at + 12 <= len(data):
            length = int.from_bytes(data[at:at + 8], "little")
            event = list(fields(data[at + 12:at + 12 + length]))
            at += length + 16
            step = next((value for number, value in event if number == 2), 0)
            if any(number == 7 for number, _ in event):
                found = [point for point in found if point[0] < step]
            for value in [dict(fields(value)) for number, summary in event if number == 5
                          for field, value in fields(summary) if field == 1]:
                tag = value.get(1, b"").decode()
                if 2 in value and not TIMED.search(tag):
                    found.append((step, tag, value[2].hex()))
    return sorted(found)


def of_dvclive(run):
    folder = run / "dvclive/plots/metrics"
    return sorted((int(line.split("\t")[0]), str(path.relative_to(folder))[:-4], line.split("\t")[-1])
                  for path in folder.rglob("*.tsv") if not TIMED.search(str(path.relative_to(folder)))
                  for line in path.read_text().splitlines()[1:])


def of_mlflow(run):
    return sorted((int(line.split()[2]), name, line.split()[1])
                  for path in run.glob("mlruns/*/*/metrics/**/*") if path.is_file()
                  for name in [str(path).partition("/metrics/")[2]] if not TIMED.search(name)
                  for line in path.read_text().splitlines())


READERS = {"metrics.csv": of_csv, "tensorboard": of_tensorboard, "dvclive": of_dvclive, "mlruns": of_mlflow}


def of(run):
    """{file or folder of a tracker: its points}."""
    return {name: points_of(run) for name, points_of in READERS.items() if (run / name).exists()}


def difference(wanted, found):
    """The first point that is missing or too many; "" for equal curves."""
    for tracker in sorted(wanted.keys() | found.keys()):
        points = [side.get(tracker, []) for side in (wanted, found)]
        if points[0] == points[1]:
            continue
        for name, more, less in (("missing", *points), ("too many", *reversed(points))):
            for point in sorted(set(more)):
                if more.count(point) > less.count(point):
                    return f"{tracker}: {point[1]} {point[2]} of step {point[0]} is {name}"
    return ""
