#!/usr/bin/env python3
"""`cmake --install`, as a whole and by component, and the CMake packages of what it copied.

    install.py BUILD_FOLDER

Nothing of the product is compiled: the build must be complete.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import runs

COMPONENTS = {
    "plugin-sdk": {"include/accel/accel_sdk.h", "include/accel-torch/ATen/ATen.h",
                   "lib/cmake/accel-run/AddPlugin.cmake", "lib/cmake/accel-run/accel-run-config.cmake",
                   "share/accel-run/plugins/model/plugin.toml"},
    "library": {"lib/libaccel.a", "include/accel-run/accel/accelerator.h", "include/accel-run/core/api/ranks.h",
                "lib/cmake/accel/accel-config.cmake"},
    "runtime": {"bin/accel-run", "lib/accel-run/libtorch_cpu.so", "lib/accel-run-stubs/libtorch_cpu.so",
                "share/accel-run/recipes/quickstart.yaml"},
    "docs": {"share/doc/accel-run/README.md", "share/doc/accel-run/CHANGELOG.md",
             "share/doc/accel-run/docs/plugins.md"},
}


def install(build, prefix, *words):
    return subprocess.run(["cmake", "--install", build, "--prefix", prefix, *words], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def files_in(prefix):
    return {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}


def check_component(build, prefix, component, report):
    """Adds the component to what is in `prefix`."""
    before = files_in(prefix)
    done = install(build, prefix, "--component", component)
    added = files_in(prefix) - before
    missing = sorted(COMPONENTS[component] - added)
    report.check(f"component {component} is installed", done.returncode == 0 and not missing,
                 f"{done.stdout[-500:]}\nmissing: {missing}")
    others = set().union(*(COMPONENTS[name] for name in COMPONENTS if name != component))
    report.check(f"and no other with {component}", not added & others, added & others)


def check_names(build, report):
    """`cmake --install` without a component copies these; CUDA's libraries, 3 GB, are not copied here."""
    scripts = "".join(path.read_text() for path in build.rglob("cmake_install.cmake"))
    names = set(re.findall(r'CMAKE_INSTALL_COMPONENT STREQUAL "([^"]*)"', scripts))
    report.check("the components are all that is installed", names - {"cuda"} == set(COMPONENTS), names)


def check_moved(prefix, folder, report):
    """In an empty environment."""
    moved = folder / "a new place"
    prefix.rename(moved)
    ran = subprocess.run([moved / "bin/accel-run", "smoke", "builtin:quickstart"], cwd=folder, env={},
                         check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    report.check("a moved installation runs", ran.returncode == 0, ran.stdout)
    return moved


def configure(folder, name, code, prefix, compiler):
    """Configures a project of this code; (exit code, output)."""
    project = folder / name
    project.mkdir()
    (project / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.22)\nproject({name} CXX)\n{code}\n")
    done = subprocess.run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
                           f"-DCMAKE_CXX_COMPILER={compiler}"], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, " ".join(done.stdout.split())


def compiler_of(build):
    cache = (build / "CMakeCache.txt").read_text()
    return next(line.split("=", 1)[1] for line in cache.splitlines() if line.startswith("CMAKE_CXX_COMPILER:"))


def check_refusals(folder, prefix, compiler, report):
    """`prefix` has no component but plugin-sdk."""
    for name, component, message in (
            ("partial", "library", f"the component 'library' is not installed in '{prefix}'"),
            ("headless", "plugin-sdk", f"no executable accel-run in '{prefix}/bin'")):
        code, output = configure(folder, name, f"find_package(accel-run REQUIRED COMPONENTS {component})", prefix, compiler)
        report.check(f"CMake: {message}", code != 0 and message in output, output)


def check_packages(folder, places, compiler, report):
    both = ("if(NOT TARGET accel::accel OR NOT COMMAND accel_add_plugin)\n  message(FATAL_ERROR incomplete)\nendif()\n"
            "get_target_property(links accel::accel INTERFACE_LINK_LIBRARIES)\nmessage(\"links ${links}\")\n"
            "message(\"sdk ${ACCEL_SDK_DIR}, ${ACCEL_TORCH_INCLUDE}, ${ACCEL_RUN}\")")
    for name, place in places.items():
        code, output = configure(folder, name, f"find_package(accel-run REQUIRED)\n{both}", place, compiler)
        report.check(f"find_package(accel-run) has the plugins and the library ({name})",
                     code == 0 and f"{place}/lib/libaccel.a" in output
                     and f"{place}/lib/accel-run/libtorch_cpu.so" in output
                     and f"sdk {place}/include/accel, {place}/include/accel-torch;" in output, output)
    prefix = places["installed"]
    code, output = configure(folder, "former", "find_package(accel REQUIRED)\nmessage(\"old ${accel_FOUND}\")\n"
                             "get_target_property(links accel::accel INTERFACE_LINK_LIBRARIES)", prefix, compiler)
    report.check("find_package(accel), the former name, works", code == 0 and "old 1" in output, output)
    code, output = configure(
        folder, "bare", f"set(TORCH_DIR {folder})\nfind_package(accel-run REQUIRED COMPONENTS library)", prefix, compiler)
    report.check("the library needs libtorch", code != 0 and f"no libtorch in '{folder}/lib': pass "
                 "TORCH_DIR=<unpacked libtorch>" in output, output)


def main():
    build = pathlib.Path(os.path.abspath(sys.argv[1]))
    report = runs.Report()
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text).resolve()
        prefix, compiler = folder / "first", compiler_of(build)
        for component in COMPONENTS:
            check_component(build, prefix, component, report)
            if component == "plugin-sdk":
                check_refusals(folder, prefix, compiler, report)
        check_names(build, report)
        moved = check_moved(prefix, folder, report)
        check_packages(folder, {"installed": moved, "build": build}, compiler, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
