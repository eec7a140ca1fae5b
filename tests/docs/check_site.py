#!/usr/bin/env python3
"""The documentation site of `make docs`: its links, navigation, and, in Chromium, search, narrow screens
and dark mode.   check_site.py SITE

The checks in a browser are skipped with a message if there is no Chromium.
"""

import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-extensions",
         "--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=120000")
SECTIONS = ["Start", "Guides", "Reference", "Project"]
# Terms of a guide, of the tutorial and of the generated reference.
SEARCHES = {"safetensors": "Checkpoints", "churned": "2. Your own CSV file", "nesterov": "Optimizers"}
NARROW = 400
# A page around the site that visits its pages in turn and writes what it finds into its title.
FRAME = """<!DOCTYPE html><iframe id="frame" style="border:0;width:{width}px;height:800px"></iframe>
<script>
const frame = document.getElementById("frame");
const visit = (url) => new Promise((done) => {{
  frame.onload = () => done(frame.contentDocument);
  frame.src = url;
}});
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {{
  const found = {{}};
  for (const url of {urls}) {{
    const page = await visit(url);
    for (let i = 0; url.includes("?q=") && i < 100; ++i) {{
      if (/found \\d|found one|did not match/.test(page.body.textContent)) break;
      await pause(100);
    }}
    await pause(20);
    const view = page.defaultView, style = view.getComputedStyle(page.body);
    const scrolls = (element) => element && element.tagName != "ARTICLE" &&
      (/auto|scroll/.test(view.getComputedStyle(element).overflowX) || scrolls(element.parentElement));
    const wide = [...page.querySelectorAll("article *")].filter((element) =>
      element.getBoundingClientRect().right > {width} + 1 && !scrolls(element));
    found[url] = {{width: page.documentElement.scrollWidth,
      wide: wide.map((element) => element.outerHTML.slice(0, 60)), color: style.color,
      background: style.backgroundColor,
      results: [...page.querySelectorAll("#search-results li > a")].map((link) => link.textContent),
      fetched: view.performance.getEntriesByType("resource").map((entry) => entry.name)
        .filter((name) => !name.startsWith("file:"))}};
  }}
  document.title = JSON.stringify(found);
}})();
</script>"""


class Page(html.parser.HTMLParser):
    """Links, anchors, loaded files and captions of the navigation of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors, self.captions = [], [], set(), []
        self._in_caption, self._last = False, None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in ("script", "img") and values.get("src"):
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") == "stylesheet":
            self.loads.append(values["href"])
        # Captions of files are in another element.
        self._in_caption = (tag == "span" and self._last == ("p", "caption")
                            and values.get("class") == "caption-text")
        self._last = tag, values.get("class")

    def handle_data(self, data):
        if self._in_caption:
            self.captions.append(data)
            self._in_caption = False


def broken(site, pages):
    """Links and files of the pages that lead nowhere, and files loaded from other hosts."""
    found = []
    for path, page in pages.items():
        for target in page.links + page.loads:
            parts = urllib.parse.urlsplit(target)
            if parts.scheme or parts.netloc:
                if target in page.loads:
                    found.append(f"{path.relative_to(site)}: loads {target}")
                continue
            goal = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not goal.is_file():
                found.append(f"{path.relative_to(site)}: no file for {target}")
            elif parts.fragment and goal in pages and parts.fragment not in pages[goal].anchors:
                found.append(f"{path.relative_to(site)}: no anchor for {target}")
    return found


def visited(browser, folder, urls, width, *flags):
    """What the browser finds of each page: {url: {...}}, and the lines of its console."""
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(width=width, urls=json.dumps(urls)))
    done = subprocess.run([browser, *FLAGS, *flags, f"--user-data-dir={folder / 'browser'}", "--dump-dom",
                           frame.as_uri()], text=True, capture_output=True, timeout=300)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    found = json.loads(html.unescape(title.group(1))) if title else {}
    return found, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def brightness(color):
    return sum(map(float, re.findall(r"[\d.]+", color)[:3])) / 3


class Report:
    passed = failed = skipped = 0

    def check(self, what, ok, why=""):
        self.passed += bool(ok)
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what}" + ("" if ok else f": {why}"))


def check_pages(site, report):
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    found = broken(site.resolve(), pages)
    report.check(f"links of {len(pages)} pages have a target", not found, "\n  " + "\n  ".join(found))
    source = Path(__file__).resolve().parents[2]
    missing = [path.name for path in (source / "docs").rglob("*.md")
               if not (site / path.relative_to(source)).with_suffix(".html").is_file()]
    report.check("every document is a page", not missing, missing)
    captions = {tuple(page.captions) for path, page in pages.items() if "docs" in path.relative_to(site).parts}
    report.check("the navigation of every page is grouped", captions == {tuple(SECTIONS)}, captions)
    return [path.as_uri() for path in pages if path.name != "index.html" or path.parent != site.resolve()]


def check_in_browser(browser, site, urls, report):
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        found, console = visited(browser, folder, urls, NARROW)
        # The theme hides what is too wide, so the elements count too.
        wide = [f"{url}: {page['width']} {page['wide'][:3]}" for url, page in found.items()
                if page["width"] > NARROW or page["wide"]]
        report.check(f"{len(found)} pages fit {NARROW} pixels", len(found) == len(urls) and not wide, wide)
        fetched = [page["fetched"] for page in found.values() if page["fetched"]]
        report.check("nothing is fetched and the console is empty", not fetched and not console,
                     f"{fetched} {console[:5]}")
        searches = {f"{(site / 'search.html').resolve().as_uri()}?q={term}": title
                    for term, title in SEARCHES.items()}
        nothing = (site / "search.html").resolve().as_uri() + "?q=zzqqxx"
        found, _ = visited(browser, folder, [*searches, nothing], 1200)
        for url, title in searches.items():
            results = found.get(url, {}).get("results", [])
            report.check(f"a search for '{url.partition('=')[2]}' finds '{title}'", title in results, results)
        report.check("a search for a word of no page finds nothing",
                     found.get(nothing, {}).get("results") == [], found.get(nothing))
        for name, flags in (("light", ()), ("dark", ("--force-dark-mode",))):
            found, _ = visited(browser, folder, urls[:1], 1200, *flags)
            page = next(iter(found.values()))
            back, ink = brightness(page["background"]), brightness(page["color"])
            ok = back > 200 and ink < 80 if name == "light" else back < 60 and ink > 150
            report.check(f"a {name} browser has a {name} page", ok, page)


def main(site):
    report = Report()
    urls = check_pages(site.resolve(), report)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser:
        check_in_browser(browser, site, urls, report)
    else:
        report.skipped = 1
        print("skipped: no Chromium for search, narrow screens and dark mode")
    print(f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(os.path.abspath(sys.argv[1]))))
