#!/usr/bin/env python3
"""Each check finds the mistake it is for, and is silent about code that is right."""

import tempfile
import unittest
from pathlib import Path

import calls
import components
import documents
import examples
import headers
import layers
import messages
import reference
import replacements
import sample_output
import sizes
import tidy
import units
import versions
import words


def body(lines):
    return "".join(f"  step({n});\n" for n in range(lines))


class CallsTest(unittest.TestCase):
    def complaints(self, code, name="train/loop/run.cpp"):
        return calls.problems_in(name, code)

    def test_a_wrapped_call_is_named_with_its_wrapper(self):
        self.assertEqual(self.complaints("\nint fd = ::open(path.c_str(), O_RDONLY);\n"),
                         ["train/loop/run.cpp:2: 'open' is called in 'core/base/owned_fd.cpp' only: use open_fd()"])
        for call in ("fs::rename(a, b);", "std::getenv(name);", "x = dlopen(name, RTLD_NOW);",
                     "if (fdatasync(fd) != 0) {", "fd = open(name,\n  O_RDWR | O_CLOEXEC);"):
            self.assertEqual(len(self.complaints(call)), 1, call)

    def test_methods_texts_and_the_wrappers_themselves_are_not(self):
        for code in ("files.rename(a, b);", "file->open();", "// fsync()\n", 'warn("getenv()");',
                     "Writer out = Writer::open(path);", "std::unique_ptr<Reader> open(const Names&);"):
            self.assertEqual(self.complaints(code), [], code)
        self.assertEqual(self.complaints("std::getenv(name);", "core/base/environment.cpp"), [])
        self.assertEqual(self.complaints("std::getenv(name);", "tests/unit/core/log_test.cpp"), [])


class LayersTest(unittest.TestCase):
    def complaints(self, name, include):
        return layers.problems_in(name, f'#include <vector>\n#include "{include}"\n')

    def test_rooms_include_lower_rooms(self):
        self.assertEqual(self.complaints("train/loop/train_loop.cpp", "data/loader/loader.h"), [])
        self.assertEqual(self.complaints("data/datasets/idx.cpp", "formats/records/idx.h"), [])
        self.assertEqual(self.complaints("tests/unit/data/idx_test.cpp", "runner/cli/cli.h"), [])

    def test_a_higher_room_is_named_with_its_line(self):
        self.assertEqual(self.complaints("core/recipe/node.cpp", "data/loader/loader.h"),
                         ["core/recipe/node.cpp:2: 'core' must not include 'data/loader/loader.h' of data"])

    def test_rooms_of_one_height_do_not_include_each_other(self):
        self.assertEqual(self.complaints("models/mlp.cpp", "data/loader/loader.h"),
                         ["models/mlp.cpp:2: 'models' must not include 'data/loader/loader.h' of data"])

    def test_files_outside_the_rooms_are_not_included(self):
        self.assertEqual(self.complaints("core/base/files.cpp", "bench/timer.h"),
                         ["core/base/files.cpp:2: 'core' must not include 'bench/timer.h' of no room"])

    def test_folders_of_a_room_include_lower_levels_only(self):
        self.assertEqual(self.complaints("train/loop/train_loop.cpp", "train/job/job.h"), [])
        self.assertEqual(self.complaints("train/job/job.cpp", "train/job/device.h"), [])
        self.assertEqual(self.complaints("train/job/job.cpp", "train/loop/run.h"),
                         ["train/job/job.cpp:2: 'train/job' must not include 'train/loop/run.h'"
                          " of train/loop"])
        self.assertEqual(self.complaints("train/optim/sgd.cpp", "train/tasks/losses.h"),
                         ["train/optim/sgd.cpp:2: 'train/optim' must not include 'train/tasks/losses.h'"
                          " of train/tasks"])

    def test_arrows_are_counted_between_rooms_only(self):
        self.assertEqual(layers.arrows({"data/a.cpp": '#include "core/b.h"\n#include "data/c.h"\n',
                                        "data/d.cpp": '#include "core/b.h"\n',
                                        "tests/e.cpp": '#include "core/b.h"\n'}),
                         {("data", "core")})

    def test_units_that_include_each_other_are_named(self):
        # Neither header includes the other: the circle goes through a source file.
        sources = {"data/a.h": "", "data/a.cpp": '#include "data/a.h"\n#include "data/b.h"\n',
                   "data/b.h": '#include "data/a.h"\n', "data/c.h": '#include "data/a.h"\n'}
        self.assertEqual(layers.cycles(sources),
                         ["these include each other: data/a -> data/b -> data/a"])
        sources["data/a.cpp"] = '#include "data/a.h"\n'
        self.assertEqual(layers.cycles(sources), [])

    def test_a_header_that_is_part_of_another_makes_no_circle(self):
        part = '// B.\n// Included by data/a.h; never include it alone.\n#include "data/a.h"\n'
        self.assertEqual(layers.cycles({"data/a.h": '#include "data/b.h"\n', "data/b.h": part}), [])

    def test_crowded_folders_are_named(self):
        units = {f"data/loader/{n}{ending}": "" for n in range(layers.MAX_UNITS) for ending in (".h", ".cpp")}
        self.assertEqual(layers.crowded(units), [])
        units["data/loader/more.h"] = "\n"
        self.assertEqual(layers.crowded(units),
                         ["data/loader: 41 units of 1 lines, at most 40 and 8000 are allowed:"
                          " make folders by subject"])
        self.assertEqual(len(layers.crowded({"data/loader/a.cpp": "\n" * (layers.MAX_LINES + 1)})), 1)


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
        self.assertEqual(sizes.problems_in("a.cpp", "\n" * 500), [])
        self.assertEqual(sizes.problems_in("a.cpp", "\n" * 501),
                         ["a.cpp: 501 lines, at most 500 are allowed"])
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
        self.assertEqual(len(headers.includes_problems("train/loop/a.cpp", include)), 1)

    def test_a_source_opens_with_its_own_header(self):
        sources = {"a.h": "", "a.cpp": '// A.\n#include <map>\n#include "a.h"\n'}
        self.assertEqual(headers.own_header_problems(sources),
                         ["a.cpp:2: the first include must be 'a.h'"])

    def test_headers_that_include_a_changed_one_follow_it_the_nearest_first(self):
        sources = {"a.h": '#include "b.h"\n', "b.h": '#include "c.h"\n', "c.h": "", "d.h": '#include "c.h"\n',
                   "e.h": "// Included by a.cpp; never include it alone.\n", "f.h": ""}
        self.assertEqual(headers.headers_of(sources), ["a.h", "b.h", "c.h", "d.h", "f.h"])
        self.assertEqual(headers.with_includers(["c.h", "gone.h"], sources), ["c.h", "b.h", "d.h", "a.h"])
        self.assertEqual(headers.with_includers([], sources), [])


class MessagesTest(unittest.TestCase):
    CODE = 'throw Error(text("batch {} cannot be shared by "\n             "{} ranks", a, b));\n'

    def complaints(self, test, allowed=()):
        return messages.problems_in({"train/a.cpp": self.CODE}, messages.test_text([test]), list(allowed))

    def test_a_message_without_a_test_is_named(self):
        self.assertEqual(self.complaints("batch 3 cannot be split"),
                         ["train/a.cpp:1: no test has the message 'batch {} cannot be shared by {} ranks'"])

    def test_all_pieces_are_sought_in_joined_literals(self):
        self.assertEqual(self.complaints("error: batch 3 cannot be shared by 2 ranks\n"), [])
        self.assertEqual(self.complaints('"batch 3 cannot be "\n    "shared by 2 ranks"'), [])
        self.assertEqual(self.complaints("f'batch {n} cannot be'\n  f' shared by {m} ranks'"), [])
        self.assertEqual(len(self.complaints("cannot be shared by 2 ranks")), 1)
        self.assertEqual(len(self.complaints("batch 3\n cannot be shared by 2 ranks")), 1)

    def test_only_calls_of_text_are_messages(self):
        code = '// text("a")\nnode.text("b");\nwriter->text("c");\nstd::string text(size, 0);\ntext("\\"d\\"");\n'
        self.assertEqual([literal for _, literal in messages.literals(code)], ['\\"d\\"'])
        self.assertTrue(messages.is_tested('is {}: \\"no\\" {}', 'is 3: "no" 4'))

    def test_the_list_of_exceptions_only_shrinks(self):
        literal = "batch {} cannot be shared by {} ranks"
        self.assertEqual(self.complaints("", [literal]), [])
        self.assertEqual(self.complaints("batch 1 cannot be shared by 2 ranks", [literal]),
                         [f"tests/lint/untested_messages.txt: '{literal}' is tested or gone:"
                          " run tests/lint/messages.py --update"])
        self.assertEqual(len(self.complaints("", [literal, literal])), 1)


class ReplacementsTest(unittest.TestCase):
    GUIDE = ("# Architecture\n\n## Process-wide replacements\n\n| replaced | file | reason |\n| --- | --- | --- |\n"
             "| SIGBUS | `checkpoint/bus_guard.cpp`, `cmake/Stub.cmake` | reads of `a/b.cpp` |\n\n## Next\n"
             "| x | `core/other.cpp` | y |\n")

    def test_the_files_are_those_of_the_second_column(self):
        self.assertEqual(replacements.named_files(self.GUIDE), {"checkpoint/bus_guard.cpp", "cmake/Stub.cmake"})

    def test_a_change_of_the_process_is_named_with_its_line(self):
        named = replacements.named_files(self.GUIDE)
        code = "\nsigaction(SIGBUS, &action, nullptr);\n"
        self.assertEqual(replacements.problems_in("core/base/a.cpp", code, named),
                         ["core/base/a.cpp:2: 'sigaction(' changes a signal handler or mask for the whole process:"
                          " name the file in the table of docs/architecture.md"])
        self.assertEqual(replacements.problems_in("checkpoint/bus_guard.cpp", code, named), [])
        self.assertEqual(replacements.problems_in("checkpoint/bus_guard.h", code, named), [])
        for code in ("c10::SetCPUAllocator(heap, 1);", "TORCH_LIBRARY_IMPL(aten, CPU, m) {", "std::signal(SIGHUP, f);",
                     "new torch::Library(torch::Library::IMPL, ns);", 'setenv("A", "b", 1);', "execv(path, words);",
                     "void* operator new(size_t bytes) {", "std::set_terminate(&f);", "::dup2(a, b);",
                     "extern \"C\" int mkl_serv_intel_cpu_true() {", "FLAGS_caffe2_log_level = 2;"):
            self.assertEqual(len(replacements.problems_in("core/base/a.cpp", code, named)), 1, code)

    def test_texts_declarations_and_other_objects_are_not(self):
        for code in ("// setenv()\n", 'warn("sigaction()");', "struct sigaction old = {};", "return ::operator new(n);",
                     "board.signal(3);", "loop->chdir(x);", "handler.atexit_;"):
            self.assertEqual(replacements.problems_in("core/base/a.cpp", code, set()), [], code)


class TidyTest(unittest.TestCase):
    def test_changed_units_come_by_their_changed_lines(self):
        rows = ("3\t1\tmodels/mlp.cpp\n2\t0\tmodels/gpt.h\n9\t9\tmodels/gpt.cpp\n-\t-\tdata/a.png\n"
                "70\t0\ttests/unit/a_test.cpp\n4\t0\tcore/api/task.h\n")
        self.assertEqual(tidy.changed(rows), ["models/gpt.cpp", "core/api/task.cpp", "models/mlp.cpp"])


class UnitsTest(unittest.TestCase):
    SOURCES = {"core/a.h": "", "core/a.cpp": '#include "core/a.h"\n', "data/b.cpp": '#include "core/a.h"\n',
               "core/c.h": "", "data/b.h": '#include "core/c.h"\n', "data/d.cpp": '#include "data/b.h"\n#include "core/c.h"\n'}

    def test_a_unit_is_one_user_and_not_of_itself(self):
        self.assertEqual(units.single_user_headers(self.SOURCES),
                         ({"core/a.h": "data/b", "data/b.h": "data/d"}, 3))

    def test_a_tested_header_is_no_candidate(self):
        tested = dict(self.SOURCES, **{"tests/unit/core/a_test.cpp": '#include "core/a.h"\n'})
        self.assertEqual(units.single_user_headers(tested), ({"data/b.h": "data/d"}, 3))

    def test_too_many_are_named_with_their_user(self):
        self.assertEqual(units.problems_in(self.SOURCES),
                         ["core/a.h: only 'data/b' includes it: fold it into that unit or test it",
                          "data/b.h: only 'data/d' includes it: fold it into that unit or test it",
                          "2 of 3 headers have a single user, 15% or more"])
        many = {f"core/{n}.cpp": "\n" * (units.MIN_MEAN_LINES - 12) for n in range(units.MIN_FILES)}
        self.assertEqual(units.problems_in(many),
                         ["product files have 100 lines on average, at least 112 are wanted: merge small units"])


class VersionsTest(unittest.TestCase):
    GOOD = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n## [0.1.0] - 2026-01-31\n"

    def test_the_form_of_the_changelog(self):
        self.assertEqual(versions.changelog_problems(self.GOOD, "0.1.0"), [])
        for old, new, complaint in (("[Unreleased]", "[Next]", "the first section must be"),
                                    (" - 2026-01-31", "", "must be '## [MAJOR.MINOR.PATCH]"),
                                    ("### Added", "### News", "'### News' must be one of Added"),
                                    ("[0.1.0]", "[0.1.1]", "there is no section '## [0.1.0] - DATE'")):
            found = versions.changelog_problems(self.GOOD.replace(old, new), "0.1.0")
            self.assertTrue(found and complaint in "".join(found), found)

    def test_the_numbers_of_the_page_are_those_of_the_code(self):
        sources = {"train/recipe/recipe.cpp": "if (recipe.recipe != 1) {", "checkpoint/manifest.cpp": "kFormat = 2;",
                   "core/api/plugin_abi.h": "int kPluginApi = 3;"}
        page = "| recipe grammar | 1 | a |\n| checkpoint format | 2 | b |\n| plugin API | 3 | c |\n"
        self.assertEqual(versions.number_problems(page, sources.get), [])
        self.assertEqual(versions.number_problems(page.replace("| 2 |", "| 1 |"), sources.get),
                         ["docs/versions.md: the number of the checkpoint format is 2 in checkpoint/manifest.cpp"])

    def test_the_version_is_not_repeated(self):
        self.assertEqual(versions.repeated("a.cpp", 'x\nf("0.1.0");\n', "0.1.0"),
                         ["a.cpp:2: the version is in CMakeLists.txt only"])
        self.assertEqual(versions.repeated("a.cpp", '// of 0.1.0\nf("10.1.0", "0.1.01");\n', "0.1.0"), [])


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
        self.assertEqual(components.wrong_counts("12 optimizers, 3 schedulers, 2 ranks", {"optimizer": 12, "scheduler": 2}),
                         ["README.md says '3 schedulers', but there are 2"])
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


class DocumentsTest(unittest.TestCase):
    PAGES = {"docs/index.md": "# Start\n\n[a](a.md#b-c) [b](sub/b.md) `[x](no.md)`\n",
             "docs/a.md": "# `B` & c\n\n# Two\n\n# Two\n\n# Two\n\n```\n# Three\n[x](no.md)\n```\n[web](https://a.b/c)\n",
             "docs/sub/b.md": "[up](../a.md#two-1) [here](#none) [gone](c.md) [no](../a.md#three)\n"}

    def dead(self, name):
        return documents.dead_links(name, self.PAGES, lambda path: path in self.PAGES)

    def test_links_lead_to_files_and_headings(self):
        self.assertEqual(self.dead("docs/index.md"), ["docs/index.md:3: 'docs/a.md' has no heading '#b-c'"])
        self.assertEqual(documents.anchors(self.PAGES["docs/a.md"]), {"b--c", "two", "two-1", "two-2"})
        self.assertEqual(self.dead("docs/sub/b.md"), [
            "docs/sub/b.md:1: 'docs/sub/b.md' has no heading '#none'",
            "docs/sub/b.md:1: the link 'c.md' has no target",
            "docs/sub/b.md:1: 'docs/a.md' has no heading '#three'"])

    def test_the_index_lists_every_page(self):
        self.assertEqual(documents.unlisted(self.PAGES), [])
        self.assertEqual(documents.unlisted({**self.PAGES, "docs/c.md": "", "README.md": ""}),
                         ["docs/index.md: does not list docs/c.md"])

    def test_quoted_messages_are_messages_of_the_product(self):
        patterns = documents.message_patterns(['throw E(text("the file \'{}\' "\n   "is too large", path));'])
        page = "| `the file 'a.txt' is too large` | |\n| `the file ... is too small` | |\n| `boot: no pip` or a word | |\n"
        self.assertEqual(documents.unknown_messages(page, patterns, 'die "no pip here"'),
                         ["docs/troubleshooting.md:2: the product has no message 'the file ... is too small'"])


class ExamplesTest(unittest.TestCase):
    def test_commands_have_their_comments_cut_and_their_lines_joined(self):
        block = "make run  # first\n\n# a comment\naccel-run a \\\n  b\n"
        self.assertEqual(list(examples.commands(block)), ["make run", "accel-run a    b"])

    def test_blocks_are_found_with_their_first_line(self):
        document = "```sh\na\n```\n\n```text output of: a\nb\n\nc\n```\n"
        self.assertEqual([(block[1], block[2]) for block in examples._BLOCK.finditer(document)],
                         [("sh", "a\n"), ("text output of: a", "b\n\nc\n")])

    def test_a_block_that_does_not_say_what_it_is_is_named(self):
        self.assertEqual(len(examples.unclassified("a.md", "\n```\nstep 1\n```\n\n```text\nb\n```\n")), 2)
        self.assertEqual(examples.unclassified("a.md", "```text diagram\na\n```\n```yaml\na: 1\n```\n"), [])

    def test_a_block_with_a_file_name_is_that_file(self):
        self.assertEqual(sample_output.file_of("yaml a/b.yaml"), "a/b.yaml")
        self.assertEqual(sample_output.file_of("text notes.txt"), "notes.txt")
        for info in ("yaml", "text diagram", "text output of: a.sh", "text tested in: a.cpp"):
            self.assertIsNone(sample_output.file_of(info), info)

    def test_a_file_of_a_document_stays_in_its_folder(self):
        with tempfile.TemporaryDirectory() as text:
            outside, folder = Path(text).resolve() / "checkout", Path(text).resolve() / "folder"
            for path in (outside, folder):
                path.mkdir()
            (outside / "README.md").write_text("kept")
            (folder / "recipes").symlink_to(outside)
            (folder / "README.md").symlink_to(outside / "README.md")
            self.assertEqual(examples.write_file(folder, "recipes/a.yaml", "x"),
                             "'recipes/a.yaml' is a file of the checkout")
            self.assertEqual(examples.write_file(folder, "../a.yaml", "x"),
                             "'../a.yaml' is a file of the checkout")
            for name in ("a.yaml", "new/deep/a.yaml", "README.md"):
                self.assertIsNone(examples.write_file(folder, name, "x"))
                self.assertEqual((folder / name).read_text(), "x")
            self.assertEqual([path.name for path in outside.iterdir()], ["README.md"])
            self.assertEqual((outside / "README.md").read_text(), "kept")

    def test_a_make_line_must_name_a_target(self):
        self.assertEqual(examples.unknown_targets("make -j2 run JOBS=2 bogus"), ["bogus"])


class SampleOutputTest(unittest.TestCase):
    PRINTED = ("banner 0.1.0\nstep 25/126  loss 1.7392  lr 0.00188  1,518 samples/s\nstep 50/126\n"
               "done at step 126, in 0:13\n")

    def differs(self, block, kind="output of"):
        return sample_output.differs(kind, block, self.PRINTED)

    def test_what_depends_on_the_machine_may_differ(self):
        self.assertIsNone(self.differs(self.PRINTED))
        self.assertIsNone(self.differs(self.PRINTED.replace("0:13", "1:02:07").replace("1,518", "9")))
        self.assertIsNone(self.differs(self.PRINTED.replace("1.7392", "1.7401")))

    def test_durations_are_alike_in_all_units(self):
        for kind in ("output of", "numbers of"):
            for duration in ("9.2 s", "1:02:07", "840 ms"):
                self.assertIsNone(self.differs(self.PRINTED.replace("0:13", duration), kind), (kind, duration))
            self.assertIsNotNone(self.differs(self.PRINTED.replace("0:13", "9 steps"), kind))

    def test_all_else_is_compared(self):
        for old, new in (("0.1.0", "0.2.0"), ("0.00188", "0.00193"), ("1.7392", "1.4514"), ("126,", "127,"),
                         ("banner", "Banner"), ("step 50/126\n", "")):
            self.assertIsNotNone(self.differs(self.PRINTED.replace(old, new)), old)
        self.assertIsNotNone(self.differs(self.PRINTED + "more\n"))

    def test_an_elision_stands_for_lines_and_for_the_rest_of_one(self):
        self.assertIsNone(self.differs("banner 0.1.0\n...\ndone at step 126, in 0:13\n"))
        self.assertIsNone(self.differs("...\nstep 25/126  loss ...\n  ...\n"))
        self.assertEqual(self.differs("...\nstep 26/126\n...\n"), "step 26/126")
        self.assertEqual(self.differs("banner 0.1.0\n...\nstep 50/126\n"), "step 50/126")
        self.assertEqual(self.differs("step 25/126  loss ...\n...\n"), "step 25/126  loss ...")

    def test_where_all_numbers_differ_only_words_are_compared(self):
        other = "banner 7\nstep 1/2  loss 3e-05   lr 9  2 samples/s\nstep 1/1\ndone at step 3, in 9:00\n"
        self.assertIsNone(self.differs(other, "numbers of"))
        self.assertIsNotNone(self.differs(other.replace("loss", "lost"), "numbers of"))

    def test_an_update_keeps_elisions(self):
        old = "banner 0.0.9\n...\ndone at step 63, in 9:59\n"
        self.assertEqual(sample_output.updated(old, self.PRINTED),
                         "banner 0.1.0\n...\ndone at step 126, in 0:13\n")
        self.assertEqual(sample_output.updated("step 1\n", self.PRINTED), self.PRINTED)
        self.assertIsNone(sample_output.updated("start\n...\n", self.PRINTED))

    def test_messages_must_be_in_the_test_that_is_named(self):
        block = "error: rank 1 was killed by signal 9 (SIGKILL)\n"
        self.assertEqual(sample_output.untested(block, "f'error: rank {r} was killed by signal {s} (SIGKILL)'"), [])
        self.assertEqual(sample_output.untested(block, "rank {r} stopped by signal {s} (SIGKILL)"),
                         ["was killed by signal"])


if __name__ == "__main__":
    unittest.main()
