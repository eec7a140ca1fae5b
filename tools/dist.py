#!/usr/bin/env python3
"""Packs a finished build: a wheel, two .deb packages, a .tar.xz and the file of their checksums.

    dist.py BUILD OUTPUT [--only wheel deb deb-dev tar] [--level N]

Nothing is compiled. The archives are reproducible: they depend on the build and on SOURCE_DATE_EPOCH
alone, which is the time of the last commit unless it is set.
"""

import argparse
import base64
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPONENTS = ("runtime", "plugin-sdk", "library", "docs")
SUMMARY = "Trains models from recipes: one native executable, no Python at run time"
# The wheel takes these from the Python packages torch and nvidia-*.
OF_TORCH = ("lib/accel-run/libtorch*", "lib/accel-run/libc10*", "lib/accel-run/libcu*")
# GLIBCXX_3.4.N and the glibc of the first distributions that have it.
GLIBC_OF_GLIBCXX = {29: 34, 30: 35, 31: 38, 32: 38, 33: 39}


class Build:
    def __init__(self, path):
        self.path = Path(path).resolve()
        info = json.loads((self.path / "generated/package.json").read_text())
        self.version, self.processor = info["version"], info["processor"]
        self.torch, self.torch_dir = info["torch"], Path(info["torch_dir"])
        self.compiler = info["compiler"]
        epoch = os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "-C", ROOT, "log", "-1", "--format=%ct")
        self.epoch = int(epoch)


def output_of(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True,
                          **options).stdout.strip()


def files_below(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def stage(build, scratch):
    """Installs each component into a folder of its name in `scratch`, without the paths of this machine."""
    for component in COMPONENTS:
        subprocess.run(["cmake", "--install", build.path, "--prefix", scratch / component, "--component", component,
                        "--strip"], check=True, stdout=subprocess.DEVNULL)
        for path in scratch.glob(f"{component}/**/built-with.cmake"):
            path.unlink()
    runtime = scratch / "runtime"
    documents = runtime / "share/doc/accel-run"
    documents.mkdir(parents=True)
    if (ROOT / "LICENSE").exists():
        shutil.copy(ROOT / "LICENSE", documents)
    if (build.torch_dir / "licenses").exists():
        shutil.copytree(build.torch_dir / "licenses", documents / "licenses")
    else:
        print(f"note: there is no '{build.torch_dir}/licenses': the packages lack the license texts of libtorch (delete "
              "the folder above it, and 'make build' unpacks it again)")
    if not (runtime / "lib/accel-run/libaccel_arrow.so").exists():
        print("note: built without Arrow ('tools/bootstrap.sh arrow'): the packages cannot read Parquet")


def unite(scratch, prefix, *components):
    """A tree of links to the staged files of the components; two of them share the CMake package."""
    def link(source, target):
        if not os.path.exists(target):
            os.link(source, target)

    for component in components:
        shutil.copytree(scratch / component, prefix, copy_function=link, dirs_exist_ok=True)


def normalize(build, folder):
    """Modes and times that do not depend on the umask and the clock."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_symlink():
            continue
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
        os.utime(path, (build.epoch, build.epoch))


def platform_tag(build, libraries):
    """The manylinux tag by the newest symbol versions that the ELF files need; 'linux_...' if unknown."""
    needed = "".join(output_of("readelf", "--version-info", "--wide", path) for path in libraries)
    glibc = [int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", needed)]
    glibcxx = max((int(minor) for minor in re.findall(r"Name: GLIBCXX_3\.4\.(\d+)", needed)), default=0)
    if glibcxx > max(GLIBC_OF_GLIBCXX):
        return f"linux_{build.processor}"
    floor = next(floor for minor, floor in GLIBC_OF_GLIBCXX.items() if glibcxx <= minor)
    return f"manylinux_2_{max([floor, *glibc])}_{build.processor}"


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def wheel_entries(build, prefix):
    """Archive name to file, for what pip installs into the environment's bin/, lib/, share/ and include/."""
    data = f"accel_run-{build.version}.data"
    entries = {}
    for path in files_below(prefix):
        name = path.relative_to(prefix).as_posix()
        if any(fnmatch.fnmatch(name, pattern) for pattern in OF_TORCH):
            continue
        if name.startswith(("include/accel-torch/", "lib/cmake/")):
            continue
        entries[f"{data}/scripts/{name[4:]}" if name.startswith("bin/") else f"{data}/data/{name}"] = path
    return entries


def write_wheel(build, output, scratch, _):
    prefix = scratch / "wheel"
    unite(scratch, prefix, "runtime", "plugin-sdk")
    entries = wheel_entries(build, prefix)
    tag = platform_tag(build, [path for path in entries.values() if is_elf(path)])
    minor = ".".join(build.torch.split(".")[:2])
    info = f"accel_run-{build.version}.dist-info"
    texts = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: accel-run\nVersion: {build.version}\nSummary: {SUMMARY}\n"
                            f"Requires-Python: >=3.10\nRequires-Dist: torch=={minor}.*\n"
                            "Description-Content-Type: text/markdown\n\n" + (ROOT / "README.md").read_text(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tools/dist.py\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n",
    }
    path = output / f"accel_run-{build.version}-py3-none-{tag}.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, content, mode):
            entry = zipfile.ZipInfo(name, time.gmtime(max(build.epoch, 315532800))[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            record.append(f"{name},sha256={digest},{len(content)}\n")

        for name, file in sorted(entries.items()):
            add(name, file.read_bytes(), file.stat().st_mode & 0o777)
        for name, text in texts.items():
            add(name, text.encode(), 0o644)
        add(f"{info}/RECORD", ("".join(record) + f"{info}/RECORD,,\n").encode(), 0o644)
    return path


def shared_library_packages(folder, prefix):
    """What the executable depends on, by dpkg-shlibdeps: "libc6 (>= 2.35), libstdc++6 (>= 12)"."""
    (folder / "debian").mkdir(parents=True)
    (folder / "debian/control").write_text("Source: accel-run\n\nPackage: accel-run\nArchitecture: any\n")
    private = [f"-l{prefix}/lib/{name}" for name in ("accel-run-stubs", "accel-run")]
    ours = [prefix / "bin/accel-run", *prefix.glob("lib/accel-run/libaccel_*.so"), prefix / "lib/accel-run/libgomp.so.1"]
    answer = output_of("dpkg-shlibdeps", "-O", "--ignore-missing-info", "-xlibgomp1", *private,
                       *(f"-e{path}" for path in ours if path.exists()), cwd=folder)
    return re.search(r"^shlibs:Depends=(.*)$", answer, re.MULTILINE)[1]


def write_deb(build, output, tree, fields, level):
    """Packs `tree`, which has usr/, with a control file of `fields`."""
    architecture = output_of("dpkg", "--print-architecture")
    size = sum((path.stat().st_size + 1023) // 1024 for path in files_below(tree))
    maintainer = f"{os.environ.get('DEBFULLNAME', 'accel-run developers')} <{os.environ.get('DEBEMAIL', 'none')}>"
    control = {"Package": fields["Package"], "Version": build.version, "Architecture": architecture,
               "Maintainer": maintainer, "Section": "science", "Priority": "optional",
               "Installed-Size": str(size), **fields}
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(tree)}\n"
                   for path in files_below(tree))
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text("".join(f"{name}: {value}\n" for name, value in control.items()))
    (tree / "DEBIAN/md5sums").write_text(sums)
    normalize(build, tree)
    path = output / f"{fields['Package']}_{build.version}_{architecture}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", tree, path], check=True,
                   stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(build.epoch)})
    return path


def write_main_deb(build, output, scratch, level):
    tree = scratch / "deb"
    unite(scratch, tree / "usr", "runtime", "docs")
    return write_deb(build, output, tree, {
        "Package": "accel-run", "Depends": shared_library_packages(scratch / "shlibdeps", tree / "usr"),
        "Recommends": "ca-certificates, libcurl4", "Suggests": "accel-run-dev",
        "Description": f"{SUMMARY}\n With libtorch for the CPU in /usr/lib/accel-run."}, level)


def write_development_deb(build, output, scratch, level):
    tree = scratch / "deb-dev"
    unite(scratch, tree / "usr", "plugin-sdk", "library")
    family, major = build.compiler.split()
    compiler = f"g++, g++-{major}" if family == "GNU" else f"clang-{major}"
    return write_deb(build, output, tree, {
        "Package": "accel-run-dev",
        "Depends": f"accel-run (= {build.version}), {compiler}, libyaml-cpp-dev, libpcre2-dev, libjpeg-dev, libpng-dev, zlib1g-dev",
        "Description": "Headers and library for plugins of accel-run and for custom training loops\n"
                       " accel-run plugin build, and find_package(accel-run) for CMake."}, level)


def write_tar(build, output, scratch, level):
    name = f"accel-run-{build.version}"
    unite(scratch, scratch / "tar" / name, *COMPONENTS)
    path = output / f"{name}-linux-{build.processor}.tar.xz"
    with path.open("wb") as file, subprocess.Popen(
            ["tar", "--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0", "--numeric-owner",
             f"--mtime=@{build.epoch}", "--directory", scratch / "tar", name], stdout=subprocess.PIPE) as tar:
        # Always threads: a single one would write other bytes than two.
        subprocess.run(["xz", "--threads=2", f"-{level}"], stdin=tar.stdout, stdout=file, check=True)
    if tar.returncode:
        sys.exit(f"tar exited with {tar.returncode}")
    return path


WRITERS = {"wheel": write_wheel, "deb": write_main_deb, "deb-dev": write_development_deb, "tar": write_tar}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("output", type=Path)
    parser.add_argument("--only", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    parser.add_argument("--level", type=int, choices=range(10), default=6, help="of xz; default 6")
    options = parser.parse_args()
    build = Build(options.build)
    os.umask(0o022)
    output = options.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as text:
        scratch = Path(text)
        stage(build, scratch)
        normalize(build, scratch)
        paths = [WRITERS[kind](build, output, scratch, options.level) for kind in options.only]
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    (output / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
    for path in paths:
        print(f"{path.stat().st_size / 1e6:7.1f} MB  {path}")


if __name__ == "__main__":
    main()
