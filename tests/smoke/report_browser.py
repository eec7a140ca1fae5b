#!/usr/bin/env python3
"""Reports in a real browser: no error, nothing fetched, no wider than a phone, no broken number.

    report_browser.py BINARY

Skipped without Chromium.
"""

import re
import shutil
import subprocess
import sys

import runs

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-extensions",
         "--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=2000")
# A page around the report that measures it: the report itself allows no script.
FRAME = """<!DOCTYPE html><iframe id="it" src="{page}" style="width:{width}px;height:900px"></iframe>
<script>onload = () => {{
  const page = document.getElementById("it").contentDocument;
  const wide = [...page.querySelectorAll("svg")].filter(
    (drawing) => drawing.getBoundingClientRect().height < 20).length;
  const broken = [...page.querySelectorAll("td:not(.text), th, .card b")].filter((cell) => {{
    const text = cell.firstChild;
    if (text?.nodeType != Node.TEXT_NODE || cell.closest(".about td")) return false;
    return [...text.data.matchAll(/\S+/g)].some((word) => {{
      const range = page.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      return new Set([...range.getClientRects()].map((line) => line.top)).size > 1;
    }});
  }}).length;
  const scrolling = [...page.querySelectorAll(".wide, pre")].filter(
    (box) => box.scrollWidth > box.clientWidth + 1).length;
  document.title = "scrolling " + scrolling + " broken " + broken + " width " + page.documentElement.scrollWidth + " drawings " +
    page.querySelectorAll("svg").length + " flat " + wide +
    " fetched " + page.defaultView.performance.getEntriesByType("resource").length;
}}</script>"""


def browser():
    return next(filter(None, map(shutil.which, NAMES)), None)


def measured(chromium, folder, page, width):
    """({what: number}, lines of the console)."""
    frame = folder / f"frame_{width}.html"
    frame.write_text(FRAME.format(page=page.name, width=width))
    done = subprocess.run([chromium, *FLAGS, f"--user-data-dir={folder / 'browser'}", "--dump-dom",
                           frame.as_uri()], text=True, capture_output=True, timeout=300)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    numbers = re.findall(r"(\w+) (\d+)", title.group(1)) if title else []
    return ({name: int(number) for name, number in numbers},
            [line for line in done.stderr.splitlines() if "CONSOLE" in line])


def check(chromium, report, folder, name, page):
    shutil.copy(page, folder / f"{name}.html")
    for width in (320, 400, 1280):
        found, console = measured(chromium, folder, folder / f"{name}.html", width)
        report.check(f"{name} fits {width} pixels", 0 < found.get("width", 0) <= width, f"{found}")
        report.check("scrolls no table on a phone", width > 400 or found.get("scrolling") == 0, f"{found}")
        report.check("breaks no word or number of a table", found.get("broken") == 0, f"{found}")
        report.check("draws all its curves", found.get("drawings", 0) > 4 and found.get("flat") == 0
                     or name == "both" and found.get("drawings", 0) > 2, f"{found}")
        report.check("fetches nothing and complains of nothing",
                     found.get("fetched") == 0 and not console, f"{found} {console}")


def main():
    chromium = browser()
    if not chromium:
        print("skipped: there is no Chromium")
        return 77
    report = runs.Report()
    with runs.Scratch(sys.argv[1]) as scratch:
        for name in ("one", "two"):
            code, errors = scratch.call("job.yaml", f"name={name}", "log.images=2", "log.every=2 steps")
            report.check("a run ends", code == 0, errors)
        scratch.call("report", "runs/one", "runs/two", "--output", "both.html")
        folder = scratch.path / "pages"
        folder.mkdir()
        check(chromium, report, folder, "one", scratch.path / "runs" / "one" / "report.html")
        check(chromium, report, folder, "both", scratch.path / "both.html")
    return report.failed


if __name__ == "__main__":
    sys.exit(main())
