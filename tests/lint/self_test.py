#!/usr/bin/env python3
"""Each check finds the mistake it is for, and is silent about code that is right."""

import tempfile
import unittest
from pathlib import Path

import components
import examples
import headers
import layers
import reference
import sizes
import words


def body(lines):
    return "".join(f"  step({n});\n" for n in range(lines))


class LayersTest(unittest.TestCase):
    def complaints(self, name, include):
        return layers.problems_in(name, f'#include <vector>\n#include "{include}"\n')

    def test_arrows_downward_are_allowed(self):
        self.assertEqual(self.complaints("runner/loop/train_loop.cpp", "runner/job/job.h"), [])
        self.assertEqual(self.complaints("data/idx.cpp", "runner/formats/idx.h"), [])
        self.assertEqual(self.complaints("tests/unit/data/idx_test.cpp", "data/idx.h"), [])

    def test_arrows_upward_are_named_with_their_line(self):
        self.assertEqual(self.complaints("core/node.cpp", "data/idx.h"),
                         ["core/node.cpp:2: 'core' must not include 'data/idx.h' of data"])

    def test_siblings_never_meet(self):
        self.assertEqual(self.complaints("models/mlp.cpp", "runner/optim/sgd.h"),
                         ["models/mlp.cpp:2: 'models' must not include 'runner/optim/sgd.h'"
                          " of runner/optim"])

    def test_optimizers_read_no_formats(self):
        self.assertEqual(len(self.complaints("runner/optim/sgd.cpp", "runner/formats/npy.h")), 1)


class SizesTest(unittest.TestCase):
    def test_a_function_of_sixty_lines_passes_and_one_more_does_not(self):
        self.assertEqual(sizes.problems_in("a.cpp", f"void f() {{\n{body(58)}}}\n"), [])
        self.assertEqual(sizes.problems_in("a.cpp", f"\nvoid f() {{\n{body(59)}}}\n"),
                         ["a.cpp:2: a function of 61 lines, at most 60 are allowed"])

    def test_members_of_classes_and_namespaces_are_functions_too(self):
        source = f"namespace a {{\nclass B {{\n public:\n  void f() const {{\n{body(70)}  }}\n}};\n}}\n"
        self.assertEqual(len(sizes.problems_in("a.cpp", source)), 1)

    def test_tables_are_no_functions(self):
        self.assertEqual(sizes.problems_in("a.cpp", "int t[] = {\n" + "  1,\n" * 100 + "};\n"), [])

    def test_parameters_are_counted_outside_brackets_only(self):
        five = "void f(std::map<int, int> a, int (*b)(int, int), int c, int d, int e) {}\n"
        self.assertEqual(sizes.problems_in("a.cpp", five), [])
        self.assertEqual(sizes.problems_in("a.cpp", five.replace("int e", "int e, int f")),
                         ["a.cpp:1: a function of 6 parameters, at most 5 are allowed"])

    def test_braces_in_text_do_not_confuse(self):
        source = f'void f() {{ g("}}}}{{"); }}\n// }}\nvoid h() {{\n{body(60)}}}\n'
        self.assertEqual(sizes.problems_in("a.cpp", source),
                         ["a.cpp:3: a function of 62 lines, at most 60 are allowed"])

    def test_long_files_and_wide_interfaces_are_named(self):
        self.assertEqual(sizes.problems_in("a.h", "\n" * 201),
                         ["a.h: 201 lines, at most 200 are allowed"])
        wide = "class A {\n" + "  virtual void f() const = 0;\n" * 9 + "};\n"
        self.assertEqual(sizes.problems_in("a.cpp", wide),
                         ["a.cpp: 'A' has 9 pure virtual functions, at most 8 are allowed"])


class HeadersTest(unittest.TestCase):
    def test_the_whole_of_torch_is_never_included(self):
        self.assertEqual(headers.includes_problems("models/a.cpp", "#include <torch/torch.h>\n"),
                         ["models/a.cpp:1: 'torch/torch.h' is too heavy:"
                          " include the operators or layers used"])

    def test_modules_stay_out_of_light_layers(self):
        include = "#include <torch/nn/module.h>\n"
        self.assertEqual(headers.includes_problems("models/a.cpp", include), [])
        self.assertEqual(len(headers.includes_problems("runner/loop/a.cpp", include)), 1)

    def test_a_source_opens_with_its_own_header(self):
        sources = {"a.h": "", "a.cpp": '// A.\n#include <map>\n#include "a.h"\n'}
        self.assertEqual(headers.own_header_problems(sources),
                         ["a.cpp:2: the first include must be 'a.h'"])

    def test_a_header_without_a_source_is_compiled_alone(self):
        sources = {"a.h": "", "a.cpp": "", "b.h": "",
                   "c.h": "// C.\n// Included by a.h; never include it alone.\n"}
        self.assertEqual(headers.headers_to_compile(sources, every=False), ["b.h"])
        self.assertEqual(headers.headers_to_compile(sources, every=True), ["a.h", "b.h"])


class WordsTest(unittest.TestCase):
    def test_unfinished_work_is_named(self):
        note = "TO" "DO"
        self.assertEqual(words.problems_in("a.cpp", f"\n// {note}: later\n"),
                         [f"a.cpp:2: unfinished work: // {note}: later"])

    def test_paths_of_one_machine_and_credentials_are_named(self):
        self.assertEqual(len(words.problems_in("a.md", "see /ho" "me/me/data\n")), 1)
        self.assertEqual(len(words.problems_in("a.md", "token hf" "_abcdefghijklmnopqrstu\n")), 1)
        self.assertEqual(words.problems_in("a.md", "see ~/data and https://example.org/home/x\n"), [])


class ComponentsTest(unittest.TestCase):
    def test_a_recipe_names_a_component_as_a_value_only(self):
        used = components.named_as_value("sgd")
        for recipe in ("optimizer: sgd", "optimizer: {type: sgd, lr: 1}", "- sgd", "[adam, sgd]"):
            self.assertTrue(used.search(recipe), recipe)
        for recipe in ("# sgd", "sgd_like: 1", "optimizer: sgd2", "type: my/sgd"):
            self.assertFalse(used.search(recipe), recipe)


class ReferenceTest(unittest.TestCase):
    def test_changed_missing_and_left_over_pages_are_named(self):
        with tempfile.TemporaryDirectory() as text:
            written, committed = Path(text) / "new", Path(text) / "old"
            for folder, pages in ((written, "ab"), (committed, "bc")):
                folder.mkdir()
                for page in pages:
                    (folder / f"{page}.md").write_text(folder.name)
            self.assertEqual(reference.difference(written, committed), [
                f"docs/reference/a.md: out of date: {reference.REMEDY}",
                f"docs/reference/b.md: out of date: {reference.REMEDY}",
                "docs/reference/c.md: nothing writes this page any more"])


class ExamplesTest(unittest.TestCase):
    def test_commands_are_read_from_shell_blocks_only(self):
        document = "```sh\nmake run  # first\n\naccel-run a \\\n  b\n```\n```text\nno\n```\n"
        self.assertEqual([command for _, command in examples.commands(document)],
                         ["make run", "accel-run a    b"])

    def test_a_make_line_must_name_a_target(self):
        self.assertEqual(examples.unknown_targets("make -j2 run JOBS=2 bogus"), ["bogus"])


if __name__ == "__main__":
    unittest.main()
