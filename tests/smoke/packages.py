#!/usr/bin/env python3
"""The packages of tools/dist.py, each installed and run: wheel, .deb, .tar.xz, image, GitHub Action.

    packages.py BUILD_FOLDER [--full]

With --full the wheel is installed beside the torch wheel of tools/libtorch.txt from PyPI (545 MB), instead of
a package of the same layout with the build's libtorch, and the .deb into a new Debian. Parts that need what
this machine lacks are skipped, with the reason. `make test-dist` runs it; it is no part of `make test`.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import runs

ROOT = pathlib.Path(__file__).resolve().parents[2]
BARE = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent"}


def call(*words, env=None, **options):
    """(exit code, standard output and error)."""
    done = subprocess.run([str(word) for word in words], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=BARE if env is None else env, **options)
    return done.returncode, done.stdout


def skip(what, reason):
    print(f"skipped {what}: {reason}")


def pack(build, output, *words):
    code, text = call(sys.executable, ROOT / "tools/dist.py", build, output, "--level", "0", *words, env=os.environ)
    if code:
        sys.exit(f"tools/dist.py exited with {code}\n{text}")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in output.iterdir()}


def check_archives(build, dist, folder, report):
    files = pack(build, dist)
    sums = dict(reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines())
    report.check("SHA256SUMS has the digest of each package",
                 len(sums) == 4 and {**sums, "SHA256SUMS": files["SHA256SUMS"]} == files, f"{sums}\n{files}")
    again = pack(build, folder / "again", "--only", "wheel", "deb-dev")
    report.check("a second run writes the same bytes",
                 len(again) == 3 and all(files[name] == digest for name, digest in again.items() if name != "SHA256SUMS"),
                 f"{files}\n{again}")


def put_torch(build, packages):
    """A package torch as pip installs it, with links to the libtorch of the build."""
    info = json.loads((build / "generated/package.json").read_text())
    (packages / "torch/lib").mkdir(parents=True)
    for path in (pathlib.Path(info["torch_dir"]) / "lib").iterdir():
        (packages / "torch/lib" / path.name).symlink_to(path)
    (packages / "torch/include").symlink_to(pathlib.Path(info["torch_dir"]) / "include")
    (packages / "torch/version.py").write_text(f"__version__ = '{info['torch']}+cpu'\n")
    metadata = packages / f"torch-{info['torch']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {info['torch']}\n")
    (metadata / "INSTALLER").write_text("pip\n")
    (metadata / "RECORD").write_text("")


def reaches_pypi(python, folder):
    code, _ = call(python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "filelock", env=os.environ)
    return code == 0


def check_wheel(build, dist, folder, report, from_pypi):
    environment = folder / "venv"
    code, text = call(sys.executable, "-m", "venv", environment, env=os.environ)
    if code:
        return skip("the wheel", f"python3 has no venv: {text.splitlines()[-1]}")
    python, program = environment / "bin/python", environment / "bin/accel-run"
    (wheel,) = dist.glob("*.whl")
    report.check("the wheel's tag is a manylinux tag",
                 re.search(r"^accel_run-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl$", wheel.name), wheel.name)
    code, text = call(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel, env=os.environ)
    report.check("pip installs the wheel", code == 0, text)
    code, text = call(program, "--version", cwd=folder)
    report.check("the wheel's executable starts without torch", code == 0 and text.startswith("accel-run "), text)
    code, text = call(program, "builtin:quickstart", cwd=folder)
    report.check("and asks for torch where it computes", code == 1 and "hint: reinstall accel-run with its 'lib' folder; "
                 "beside the wheel: pip install 'torch==" in text and not (folder / "runs").exists(), text)
    packages = next(environment.glob("lib/python3*/site-packages"))
    if from_pypi and not reaches_pypi(python, folder / "probe"):
        return skip("the wheel beside torch", "PyPI cannot be reached")
    if from_pypi:
        code, text = call(python, "-m", "pip", "install", "--no-deps", "-r", ROOT / "tools/libtorch.txt", env=os.environ)
        report.check("pip installs torch", code == 0, text)
    else:
        put_torch(build, packages)
    code, text = call(python, "-m", "pip", "install", "--no-index", "--no-deps" if from_pypi else "--no-cache-dir", wheel,
                      env=os.environ)
    report.check("its requirement is met", code == 0, text)
    code, text = call(program, "builtin:quickstart", "train.until=60 steps", "~expect", cwd=folder)
    report.check("the wheel trains the quickstart", code == 0 and "\ndone at step " in text, text)
    code, text = call(program, "plugin", "new", "scheduler", "acme/steps", cwd=folder)
    code, text = call(program, "plugin", "build", "steps", cwd=folder)
    report.check("the wheel builds a plugin", code == 0 and "built steps/steps.so in " in text, text)
    version = packages / "torch/version.py"
    version.write_text(version.read_text().replace("'2.", "'1."))
    code, text = call(program, "builtin:quickstart", cwd=folder)
    report.check("another torch is refused", code == 1 and f"error: libtorch in '{packages}/torch/lib' is version 1."
                 in text and "\n  hint: install it: pip install 'torch==" in text, text)
    return None


def missing_packages(folder, depends):
    """Shared libraries of the executable that no package of `depends` has."""
    _, text = call("ldd", folder / "usr/bin/accel-run")
    paths = [line.split("=> ")[1].split(" (")[0] for line in text.splitlines() if "=> /" in line]
    missing = []
    for path in paths:
        if path.startswith(str(folder)):
            continue
        owners = ""
        for name in {path, os.path.realpath(path), path.removeprefix("/usr")}:  # /lib may be a link to /usr/lib
            owners += call("dpkg-query", "--search", name)[1]
        if not set(re.findall(r"^([\w.+-]+):", owners, re.MULTILINE)) & set(depends):
            missing.append(f"{path} of {owners}")
    return missing if paths else ["ldd found nothing"]


def check_debs(dist, folder, report):
    if not shutil.which("dpkg-deb"):
        return skip("the .deb packages", "there is no dpkg-deb")
    (main,), (development,) = dist.glob("accel-run_*.deb"), dist.glob("accel-run-dev_*.deb")
    for path in (main, development):
        code, text = call("dpkg-deb", "--extract", path, folder / "root")
        report.check(f"{path.name} unpacks", code == 0, text)
    _, depends = call("dpkg-deb", "--field", main, "Depends")
    names = re.findall(r"([a-z][\w.+-]*)(?: \([^)]*\))?", depends)
    missing = missing_packages(folder / "root", names)
    report.check(f"the .deb names all that it needs: {depends.strip()}", not missing, missing)
    code, text = call(folder / "root/usr/bin/accel-run", "smoke", "builtin:quickstart", cwd=folder)
    report.check("the .deb runs", code == 0, text)
    found = [path for path in (folder / "root/usr").rglob("*.cmake") if "/tmp/" in path.read_text()
             or str(pathlib.Path.home()) in path.read_text()]
    report.check("no path of this machine is in the packages", not found, found)
    return None


def check_fresh_debian(dist, folder, report):
    """apt installs the .deb into a new Debian, as in the Dockerfile."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        return skip("the .deb in a fresh Debian", "this takes root and debootstrap")
    root = folder / "debian"
    code, text = call("debootstrap", "--variant=minbase", "bookworm", root, env=os.environ)
    if code:
        return skip("the .deb in a fresh Debian", f"debootstrap failed: {text.splitlines()[-1]}")
    (main,) = dist.glob("accel-run_*.deb")
    shutil.copy(main, root / main.name)
    for name in ("/etc/resolv.conf", "/etc/hosts"):
        shutil.copy(name, root / name[1:])
    code, text = call("chroot", root, "apt-get", "install", "-y", "--no-install-recommends", f"/{main.name}",
                      env={**os.environ, **BARE, "DEBIAN_FRONTEND": "noninteractive"})
    report.check("apt installs the .deb in a fresh Debian", code == 0, text[-2000:])
    # The loader finds libraries relative to /proc/self/exe.
    code, text = call("unshare", "--mount", "sh", "-c", f"mount -t proc proc '{root}/proc' && chroot '{root}' "
                      "accel-run smoke builtin:quickstart", env={**BARE, "HOME": "/root"})
    report.check("which runs there", code == 0, text[-2000:])
    return None


def check_tar(dist, folder, report):
    (archive,) = dist.glob("*.tar.xz")
    place = folder / "a place"
    place.mkdir()
    code, text = call("tar", "--extract", "--file", archive, "--directory", place)
    report.check("the archive unpacks", code == 0, text)
    (tree,) = place.iterdir()
    code, text = call(tree / "bin/accel-run", "smoke", "builtin:quickstart", cwd=folder, env={})
    report.check("the archive runs where it was unpacked", code == 0, text)
    _, listing = call("tar", "--list", "--verbose", "--numeric-owner", "--full-time", "--file", archive)
    marks = {tuple(line.split()[1:2] + line.split()[3:5]) for line in listing.splitlines()}
    report.check("its entries are root's and of one time", len(marks) == 1 and "0/0" in str(marks), list(marks)[:5])
    writable = [path for path in tree.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    report.check("nothing in it is writable by others", not writable, writable[:5])


def check_image(dist, folder, report):
    if not shutil.which("docker"):
        return skip("the image", "there is no docker")
    code, text = call("docker", "info", env=os.environ)
    if code:
        return skip("the image", text.strip().splitlines()[-1])
    context = folder / "context"
    context.mkdir()
    shutil.copy(ROOT / "Dockerfile", context)
    shutil.copytree(dist, context / "dist")
    code, text = call("docker", "build", "--quiet", "--tag", "accel-run-test", context,
                      env={**os.environ, "DOCKER_BUILDKIT": "1"})
    report.check("the image is built", code == 0, text[-2000:])
    code, text = call("docker", "run", "--rm", "accel-run-test", "smoke", "builtin:quickstart", env=os.environ)
    report.check("the image runs", code == 0, text[-2000:])
    return None


def check_action(dist, folder, report):
    """What action.yml runs, with a release in a folder."""
    (archive,) = dist.glob("*.tar.xz")
    version = archive.name.split("-")[2]
    checkout = folder / "checkout"
    checkout.mkdir()
    (checkout / "good.yaml").write_text(runs.JOB)
    environment = {**BARE, "RUNNER_TEMP": str(folder / "runner"), "GITHUB_PATH": str(folder / "path"),
                   "ACCEL_RELEASES": dist.as_uri(), "ACCEL_VERSION": version, "ACCEL_RECIPES": "*.yaml"}
    code, text = call(ROOT / "tools/action.sh", cwd=checkout, env=environment)
    report.check("the action tries the recipes of a repository", code == 0 and "good.yaml" in text, text)
    report.check("and adds accel-run to the path",
                 os.access(pathlib.Path((folder / "path").read_text().strip()) / "accel-run", os.X_OK), text)
    (checkout / "bad.yaml").write_text(runs.JOB.replace("mlp", "mlq"))
    code, text = call(ROOT / "tools/action.sh", cwd=checkout, env=environment)
    report.check("it fails and names the recipe that does not work",
                 code == 1 and "1 of 2 recipes failed: bad.yaml" in text and "did you mean 'mlp'" in text, text)
    code, text = call(ROOT / "tools/action.sh", cwd=checkout, env={**environment, "ACCEL_RECIPES": "none/*.yaml"})
    report.check("no recipe is a failure", code == 1 and "no file matches 'none/*.yaml'" in text, text)
    forged = folder / "forged"
    forged.mkdir()
    shutil.copy(dist / "SHA256SUMS", forged)
    (forged / archive.name).write_bytes(b"other bytes")
    code, text = call(ROOT / "tools/action.sh", cwd=checkout, env={
        **environment, "ACCEL_RELEASES": forged.as_uri(), "RUNNER_TEMP": str(folder / "other")})
    report.check("an archive with another digest is refused", code == 1 and "FAILED" in text, text)


def main():
    build, full = pathlib.Path(os.path.abspath(sys.argv[1])), "--full" in sys.argv[2:]
    report = runs.Report()
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text).resolve()
        dist = folder / "dist"
        check_archives(build, dist, folder, report)
        for check in (check_debs, check_tar, check_image, check_action, check_wheel, check_fresh_debian):
            part = folder / check.__name__
            part.mkdir()
            if check is check_wheel:
                check_wheel(build, dist, part, report, full)
            elif full or check is not check_fresh_debian:
                check(dist, part, report)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
