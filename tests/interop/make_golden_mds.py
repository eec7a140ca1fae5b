"""Writes small MDS folders as MosaicML's streaming writes them.

    python tests/interop/make_golden_mds.py tests/unit/data/golden/mds

Takes mosaicml-streaming with zstd and torch; what else it imports, for clouds, may be missing.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import shutil
import sys
import types
from unittest import mock

TEXTS = ["good film", "bad film", "good", "bad", "film good good", "bad bad film", "good film film", "bad"]
COLUMNS = {"text": "str", "label": "int", "score": "float32", "wide": "float64", "tiny": "uint8",
           "told": "str_int", "raw": "bytes", "more": "json"}


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for modules that are not installed and not used here."""

    def find_spec(self, name, path, target=None):
        package = name.partition(".")[0]
        if package in sys.stdlib_module_names or package in ("numpy", "torch", "streaming"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return mock.MagicMock(__path__=[], __spec__=spec, __name__=spec.name)

    def exec_module(self, module):
        pass


def main():
    # Its packages without what they import: the writer alone takes little.
    home = pathlib.Path(importlib.util.find_spec("streaming").origin).parent
    for package in ("streaming", "streaming.base"):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(home.joinpath(*package.split(".")[1:]))]
    sys.meta_path.append(Missing())
    from streaming.base.format.mds.writer import MDSWriter

    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for name, compression in {"plain": None, "zstd": "zstd", "gzip": "gz"}.items():
        out = folder / name
        with MDSWriter(columns=COLUMNS, out=str(out), compression=compression, size_limit=700) as writer:
            for i, text in enumerate(TEXTS):
                writer.write({"text": text, "label": (i + 1) % 2, "score": 0.1 * i, "wide": 0.1 * i, "tiny": i,
                              "told": -i, "raw": bytes([i, 255]), "more": {"a": [i]}})


if __name__ == "__main__":
    main()
