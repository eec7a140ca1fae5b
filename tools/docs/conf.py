"""Configuration of the documentation site: Sphinx over the repository's Markdown files.

The pages are docs/ and the Markdown files beside it, as they are on disk. The navigation is read from the
sections and lists of docs/index.md.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INDEX = "docs/index"

project = "accel-run"
version = re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
release = version
copyright = "the accel-run authors"

extensions = ["myst_parser"]
root_doc = INDEX
include_patterns = ["docs/**", "*.md"]
exclude_patterns = [path.name for path in ROOT.iterdir()
                    if path.is_dir() and path.name != "docs"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # shortened output is no valid JSON or YAML

smartquotes = False  # quotes in the text are those of messages

html_theme = "furo"
html_title = f"accel-run {version}"
html_static_path = [str(ROOT / "tools/docs/static")]
html_extra_path = [str(ROOT / "tools/docs/extra")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)*)", re.MULTILINE)
_ENTRY = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)\.md\)", re.MULTILINE)
_FILE = re.compile(r"^```(\w+) ([\w./-]+)$", re.MULTILINE)


def navigation(text):
    """A hidden toctree with a caption for each section of the index."""
    trees = []
    for title, body in _SECTION.findall(text):
        entries = "\n".join(f"{name} <{page}>" for name, page in _ENTRY.findall(body))
        if entries:
            trees.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n")
    return "\n".join(trees)


def read_source(_app, page, source):
    # The name of a file is shown above its content.
    text = _FILE.sub(r"```{code-block} \1\n:caption: \2\n", source[0])
    source[0] = text + "\n" + navigation(text) if page == INDEX else text


def setup(app):
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True}
