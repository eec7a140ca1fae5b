#!/usr/bin/env python3
"""The version is in one place, the changelog has a section for it, and docs/versions.md has the numbers of the code."""

import re

import checkout

SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
# The file and pattern of each number in the first table of docs/versions.md.
NUMBERS = {
    "recipe grammar": ("train/recipe/recipe.cpp", r"recipe\.recipe != (\d+)"),
    "checkpoint format": ("checkpoint/manifest.cpp", r"\bkFormat = (\d+);"),
    "plugin API": ("core/api/plugin_abi.h", r"\bkPluginApi = (\d+);"),
}
# Where the version of the program must not be repeated: sources, build files and tools.
SOURCES = (".cpp", ".h", ".cmake", "CMakeLists.txt", ".py", ".sh", ".toml", ".yml", "Makefile", "Dockerfile")
_EXEMPT = ("tests/", "plugins/")  # tests name versions of plugins and old checkpoints


def project_version(cmake):
    return re.search(r"^project\(\w+ VERSION (\S+)", cmake, re.MULTILINE)[1]


def changelog_problems(text, version):
    """Complaints about the form of Keep a Changelog."""
    found = []
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    if not versions or versions[0] != "[Unreleased]":
        found.append("CHANGELOG.md: the first section must be '## [Unreleased]'")
    for heading in versions[1:]:
        if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", heading):
            found.append(f"CHANGELOG.md: '## {heading}' must be '## [MAJOR.MINOR.PATCH] - YEAR-MONTH-DAY'")
    if not any(heading.startswith(f"[{version}] ") for heading in versions):
        found.append(f"CHANGELOG.md: there is no section '## [{version}] - DATE' of the version in CMakeLists.txt")
    found += [f"CHANGELOG.md: '### {heading}' must be one of {', '.join(SECTIONS)}"
              for heading in re.findall(r"^### (.*)$", text, re.MULTILINE) if heading not in SECTIONS]
    return found


def number_problems(page, read):
    found = []
    for name, (file, pattern) in NUMBERS.items():
        row = re.search(rf"^\| {name} \| (\d+) \|", page, re.MULTILINE)
        (number,) = re.findall(pattern, read(file))
        if not row or row[1] != number:
            found.append(f"docs/versions.md: the number of the {name} is {number} in {file}")
    return found


def repeated(name, text, version):
    return [f"{name}:{line}: the version is in CMakeLists.txt only"
            for line, row in enumerate(text.splitlines(), 1)
            if re.search(rf"(?<![\d.]){re.escape(version)}(?![\d.])", row)
            and not row.startswith("project(") and not row.lstrip().startswith(("#", "//", "description:"))
            and "///" not in row]


def main():
    version = project_version(checkout.read("CMakeLists.txt"))
    problems = changelog_problems(checkout.read("CHANGELOG.md"), version)
    problems += number_problems(checkout.read("docs/versions.md"), checkout.read)
    for name in checkout.files(*SOURCES):
        if not name.startswith(_EXEMPT):
            problems += repeated(name, checkout.read(name), version)
    checkout.finish(problems)


if __name__ == "__main__":
    main()
