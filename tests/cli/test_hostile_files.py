"""Arguments and files that no honest user has: each gives an error that says what was expected, or works, soon and
within little memory: test_hostile_files.py PATH_OF_TILE."""
import glob
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
import unittest

TILE = os.path.abspath(sys.argv.pop(1))
MATMUL = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }\n"
SHAPES = ["--backend", "cpu", "--shape", "A=64x48", "--shape", "B=48x80"]
SECONDS = 100  # on a busy machine
SPACE = 6 << 30  # bytes of address space; the compiler's own take one


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = lambda name: os.path.join(self.folder.name, name)
        self.write("mm.tile", MATMUL)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        with open(self.path(name), "wb" if isinstance(text, bytes) else "w") as file:
            file.write(text)
        os.chmod(self.path(name), 0o600)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run_tile(self, *arguments, stdout=subprocess.PIPE, text=None, space=True, **variables):
        """What a run ends with; a hang, a signal or a fault of the product's own is a failure."""
        environment = dict(os.environ, TILE_CACHE_DIR=self.path("cache"), TILE_THREADS="1") | variables
        limit = (lambda: resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))) if space and not SANITIZED else None
        done = subprocess.run([TILE, *arguments], cwd=self.folder.name, env=environment, stdout=stdout,
                              stderr=subprocess.PIPE, input=text, timeout=SECONDS, preexec_fn=limit)
        told = (done.stdout or b"") + done.stderr
        self.assertGreaterEqual(done.returncode, 0, told)
        self.assertNotIn(b"internal error", told)
        self.assertNotIn(b"[internal]", told)
        return done

    def tile(self, *arguments, **more):
        done = self.run_tile(*arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def refused(self, *arguments, **more):
        """What the error says."""
        done = self.run_tile(*arguments, **more)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        return done.stderr.decode(errors="replace")

    # Options

    def test_numbers_of_threads(self):
        for number in ("-1", "99999999", "1025", "-2147483648"):
            for command in (["tune", "mm.tile", *SHAPES], ["check", "mm.tile", *SHAPES], ["devices"]):
                done = self.run_tile(*command, "--threads", number)
                if command != ["devices"]:
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("1 to 1024", done.stderr.decode())
        self.tile("check", "mm.tile", *SHAPES, "--threads", "1024")
        for number in ("0", "-1", "1e3", "3 threads", "99999999999999999999"):
            self.assertIn("a whole number from 1 to 1024", self.refused("check", "mm.tile", *SHAPES, TILE_THREADS=number))

    def test_empty_values(self):
        for arguments in (["tune", "mm.tile", *SHAPES, "--share", ""], ["explain", "mm.tile", *SHAPES, "--mesh", ""],
                          ["explain", "mm.tile", *SHAPES, "--mesh", "x=2", "--layout", ""],
                          ["run", "mm.tile", "--in", "A=iota:2x2", "--in", "B=iota:2x2", "--trace", ""],
                          ["run", "mm.tile", "--in", "A=iota:2x2", "--in", "B=iota:2x2", "--grad", ""],
                          ["watch", "mm.tile", "--in", "A=iota:2x2", "--in", "B=iota:2x2", "--runs", "1", "--html", ""],
                          ["man", "--shared-files", ""], ["man", ""], ["new", "tile", ""], ["records", "export", ""]):
            self.assertIn("empty", self.refused(*arguments), arguments)
        self.assertEqual(os.listdir(self.folder.name), ["mm.tile"])

    def test_options_of_meshes(self):
        run = ["run", "mm.tile", "--in", "A=iota:4x4", "--in", "B=iota:4x4"]
        for command in (run, ["explain", "mm.tile", *SHAPES], ["emit", "mm.tile", *SHAPES]):
            self.assertIn("--layout requires --mesh", self.refused(*command, "--layout", "A[x,*]"))
        for more in (["--latency", "5"], ["--bandwidth", "5"]):
            self.assertIn("requires --mesh", self.refused("explain", "mm.tile", *SHAPES, *more))
        for command, more in ((run, ["--profile"]), (run, ["--constant", "A"]), (run, ["--time-passes"]),
                              (["explain", "mm.tile", *SHAPES], ["--json"]),
                              (["explain", "mm.tile", *SHAPES], ["--measure"]),
                              (["emit", "mm.tile", *SHAPES], ["--stage", "nest"])):
            self.assertIn("excludes", self.refused(*command, "--mesh", "x=2", *more), more)
        conform = ["conform", "cases.json"]
        for command in (run, conform):
            self.assertIn("--transport requires --mesh", self.refused(*command, "--transport", "mpi"))
            on_mesh = [*command, "--mesh", "x=2"]
            self.assertIn("--rank-timeout requires --transport", self.refused(*on_mesh, "--rank-timeout", "5"))
            self.assertIn("empty", self.refused(*on_mesh, "--transport", ""))
            for seconds in ("nan", "inf", "0", "-1"):
                told = self.refused(*on_mesh, "--transport", "./none.so", "--rank-timeout", seconds)
                self.assertIn("--rank-timeout", told)
            self.assertIn("none.so", self.refused(*on_mesh, "--transport", "./none.so"))
        self.assertIn("excludes", self.refused(*run, "--mesh", "x=2", "--transport", "mpi", "--trace", "t.json"))
        for more in (["--latency", "nan"], ["--latency", "-1"], ["--latency", "inf"], ["--bandwidth", "0"],
                     ["--bandwidth", "nan"]):
            self.refused("explain", "mm.tile", *SHAPES, "--mesh", "x=2", *more)

    def test_numbers_of_runs(self):
        given = ["mm.tile", "--in", "A=iota:2x2", "--in", "B=iota:2x2"]
        for command in (["run", *given, "--repeat", "0"], ["run", *given, "--repeat", "-1"],
                        ["watch", *given, "--runs", "0"], ["watch", *given, "--runs", "-1"]):
            self.refused(*command)

    def test_a_directory_to_share_that_cannot_be(self):
        self.write("file", "")
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        os.symlink(self.path("elsewhere"), self.path("link"))
        for name in ("file", "open", "link", "file/below", "/proc/nothing", "/dev/null"):
            told = self.refused("tune", "mm.tile", *SHAPES, "--share", name)
            self.assertIn(f"--share {name} cannot be used: ", told)
            self.assertNotIn("mm.tile:1:1", told)
            self.assertIn("hint: ", told)

    def test_tuning_without_a_cache(self):
        for variables, why in (({"TILE_CACHE": "off"}, "TILE_CACHE=off"), ({"TILE_CACHE": "ro"}, "TILE_CACHE=ro"),
                               ({"TILE_CACHE_DIR": "/dev/null"}, "cannot be used")):
            if variables.get("TILE_CACHE") == "ro":
                os.makedirs(self.path("cache"), 0o700)
            told = self.tile("tune", "mm.tile", *SHAPES, "--seconds", "0.2", **variables)
            self.assertIn("no record is kept: ", told)
            self.assertIn(why, told)
            self.assertNotIn("  record ", told)
            found = json.loads(self.tile("tune", "mm.tile", *SHAPES, "--seconds", "0.2", "--json", **variables))
            self.assertEqual((found["kept"], [k for k in found["kernels"] if "record" in k]), (False, []))
            self.assertIn(why, found["why"])
        self.assertEqual(glob.glob(self.path("cache/records-*")), [])
        found = json.loads(self.tile("tune", "mm.tile", *SHAPES, "--seconds", "0.2", "--json"))
        self.assertEqual((found["kept"], ["record" in k for k in found["kernels"]]), (True, [True]))

    # Files

    def odd_files(self, suffix):
        """Names of what can stand in a file's place, and words of what is said of it."""
        os.mkdir(self.path("folder" + suffix))
        os.mkfifo(self.path("pipe" + suffix))
        os.symlink("loop" + suffix, self.path("loop" + suffix))
        os.symlink("/dev/zero", self.path("zero" + suffix))
        self.write("sparse" + suffix, "")
        os.truncate(self.path("sparse" + suffix), 1 << 40)
        self.write("shut" + suffix, "")
        os.chmod(self.path("shut" + suffix), 0)
        names = {"folder": "directory", "pipe": "nobody writes", "loop": "symbolic links", "zero": "more than",
                 "sparse": "more than", "none": "No such file"}
        if os.geteuid() != 0:
            names["shut"] = "denied"
        return {name + suffix: words for name, words in names.items()}

    def test_programs(self):
        for name, words in self.odd_files(".tile").items():
            # One of the files for all commands, one command for all of the files.
            others = (["fmt", name], ["watch", name, "--runs", "1"], ["tune", name]) if name == "folder.tile" else ()
            for command in (["check", name], *others):
                told = self.refused(*command)
                self.assertIn(f"cannot read {name}: ", told, command)
                self.assertIn(words, told, command)
        self.assertIn("more than", self.refused("fmt", "-", "--lang", "tile", text=b"/" * (5 << 20)))

    def test_very_many_conditions(self):
        self.write("many.tile", "function (A[N]) -> (O) { O[i: N] = +(A[i])" + ", i < N" * 100_000 + "; }\n")
        self.assertIn("outputs O", self.tile("check", "many.tile", "--shape", "A=3"))

    def test_indices_of_large_numbers(self):
        self.write("large.tile", f"function (A[N]) -> (O) {{ O[i: N] = +(A[i / {2**63 - 1}]); }}\n")
        for command in ("check", "large.tile", "--shape", "A=3"), ("run", "large.tile", "--in", "A=iota:3"):
            self.assertIn("large.tile:1:26: compile error [overflow]: the indices of O", self.refused(*command))

    def test_records(self):
        for name, words in self.odd_files(".jsonl").items():
            others = (["list", name], ["import", name], ["verify", name]) if name == "folder.jsonl" else ()
            for command in (["merge", "to.jsonl", name], *others):
                told = self.refused("records", *command, "--backend", "cpu")
                self.assertIn(f"cannot read {name}: ", told, command)
                self.assertIn(words, told, command)
        self.assertFalse(os.path.exists(self.path("to.jsonl")))

    def test_cases(self):
        for name, words in self.odd_files(".json").items():
            self.assertIn(words, self.refused("conform", name))
        for text in ("", "{", "[]", "7", "{}", '{"cases": 5}', '{"cases": [5]}', '{"cases": [{}]}', "[" * 2_000_000,
                     '{"cases": [{"name": []}]}', '{"cases": ' + '{"a":' * 500_000):
            self.write("cases.json", text)
            self.refused("conform", "cases.json")

    def test_tensors(self):
        self.write("copy.tile", "function (A) -> (O) { O = A; }")
        for suffix in (".npy", ".png", ".jpg"):
            for name, words in self.odd_files(suffix).items():
                told = self.refused("run", "copy.tile", "--in", f"A={name}")
                self.assertIn(words, told)
        for shape in ("9999999999x9999999999", "100000000000", "9223372036854775807:f64", "-1", "1x", "x", "1e3"):
            for kind in ("random", "iota"):
                self.assertIn("hint" if shape == "-1" else "tile: ",
                              self.refused("run", "copy.tile", "--in", f"A={kind}:{shape}"))

    def test_shapes_of_files(self):
        self.write("copy.tile", "function (A) -> (O) { O = A; }")

        def run(shape):
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape})}}\n".encode()
            self.write("a.npy", b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + bytes(4))
            return "run", "copy.tile", "--in", "A=a.npy", "--out", "O=-"

        most = 2**63 - 1
        self.assertEqual(self.tile(*run(f"{most}, {most}, 0")).strip(), "[]")  # and not a pair of brackets for each row
        self.assertEqual(self.tile(*run("2, 0")).split(), ["[[],", "[]]"])
        self.assertIn("A has 20000 dimensions", self.refused(*run("1, " * 20_000)))
        self.tile(*run("1, " * 64))

    def test_pipes_with_a_writer_are_read(self):
        done = subprocess.run(["bash", "-c", f'"$0" check <(printf "%s" "{MATMUL.strip()}") --lang tile', TILE],
                              capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual((done.returncode, "outputs C" in done.stdout), (0, True), done.stderr)
        os.mkfifo(self.path("pipe.tile"))
        writer = subprocess.Popen(["sh", "-c", "cat mm.tile > pipe.tile"], cwd=self.folder.name)
        for _ in range(100):
            done = self.run_tile("check", "pipe.tile")
            if done.returncode == 0:
                break
            time.sleep(0.05)
        self.assertEqual((done.returncode, writer.wait(SECONDS)), (0, 0), done.stderr)

    # Records

    def test_lines_of_anything(self):
        self.tile("tune", "mm.tile", *SHAPES, "--seconds", "0.2")
        good = self.tile("records", "export", "-").splitlines()[0]
        start = good[:good.index('"processor"')]
        earlier = '{"device":"a","identity":"b\\nc","kernel":"k","schedule":"s","ns":%s}'
        lines = [good[:-1], good[:len(good) // 2], good.replace('"ns":', '"ns":-'), good + good, good + "}",
                 good.replace("tuning 2", "tuning 3"), good.replace("tuning 2", "tuning"), start, '{"tile":"tuning ',
                 "[" * 1_000_000, '{"device":"' + "[" * 1_000_000, '{"device":"a","b":' + "[" * 1_000_000,
                 '{"device":"a","b":' + '{"c":' * 500_000, good[:-1] + ',"ns":1,"ns":2}', "\0" * 1000, "é", "\udcff",
                 *[earlier % ns for ns in ("1e999", "NaN", "-1", "0", '"5"', "null", "[5]", "{}", "true", "1e308")]]
        data = b"\n".join(line.encode("utf-8", "surrogateescape") for line in lines)
        for name, whole in (("all.jsonl", data), ("one.jsonl", data.replace(b"\n", b" ")), ("empty.jsonl", b""),
                            ("lines.jsonl", b"\n" * 1_000_000), ("zeros.jsonl", b"\0" * 1_000_000),
                            ("cr.jsonl", b"\r\n" + good.encode() + b"\r\n\r\r\n")):
            self.write(name, whole)
            count = 1 if name == "cr.jsonl" else 0
            listed = json.loads(self.tile("records", "list", name, "--all", "--json", "--backend", "cpu"))
            self.assertEqual(len(listed), count, name)
            self.tile("records", "list", name, "--backend", "cpu")
            done = self.run_tile("records", "import", name, "--backend", "cpu", TILE_CACHE_DIR=self.path("other"))
            self.assertEqual(done.returncode, 0 if count else 1, done.stderr)
            self.assertEqual(len(json.loads(self.tile("records", "list", "--all", "--json", "--backend", "cpu",
                                                      TILE_CACHE_DIR=self.path("other")))), count, name)
            self.run_tile("records", "verify", name, "--backend", "cpu")
            self.tile("records", "merge", "merged.jsonl", name, name, "--backend", "cpu")
            self.assertEqual(self.read("merged.jsonl").count(b"\n"), count)
            for shared in glob.glob(self.path("other/*")):
                os.remove(shared)

    def test_stores_of_anything(self):
        for make, words in ((lambda: self.write("store", "x"), "not a directory"),
                            (lambda: os.mkdir(self.path("store"), 0o755), "chmod 700"),
                            (lambda: os.symlink(self.folder.name, self.path("store")), "not a directory"),
                            (lambda: os.mkfifo(self.path("store")), "not a directory")):
            make()
            for command in (["list"], ["export", "-"], ["verify"], ["import", "mm.tile", "--no-race"]):
                told = self.refused("records", *command, TILE_CACHE_DIR=self.path("store"))
                self.assertIn(words, told, command)
            (os.rmdir if stat.S_ISDIR(os.lstat(self.path("store")).st_mode) else os.remove)(self.path("store"))
        os.mkdir(self.path("store"), 0o700)
        os.mkfifo(self.path("store/records-0000000000000000.jsonl"))
        os.mkdir(self.path("store/records-0000000000000001.jsonl"))
        os.symlink("/dev/zero", self.path("store/records-0000000000000002.jsonl"))
        self.write("store/records-0000000000000003.jsonl", "")
        os.truncate(self.path("store/records-0000000000000003.jsonl"), 1 << 40)
        self.write("store/records-0000000000000004.jsonl", "noise\n")
        done = self.run_tile("records", "list", TILE_CACHE_DIR=self.path("store"))
        self.assertEqual((done.returncode, done.stdout), (0, b"there are no records\n"))
        self.assertIn(b"too long", done.stderr)
        self.assertIn(b"1 damaged lines", done.stderr)
        self.assertEqual(self.tile("records", "list", TILE_CACHE_DIR=self.path("nowhere")), "there are no records\n")

    def test_files_that_are_written_are_whole(self):
        self.tile("tune", "mm.tile", *SHAPES, "--seconds", "0.2")
        self.write("old.jsonl", "old")
        os.symlink("old.jsonl", self.path("link.jsonl"))
        os.chmod(self.path("old.jsonl"), 0o640)
        self.tile("records", "export", "link.jsonl")
        self.assertTrue(os.path.islink(self.path("link.jsonl")))
        self.assertEqual(self.read("old.jsonl"), self.tile("records", "export", "-").encode())
        self.assertEqual(stat.S_IMODE(os.stat(self.path("old.jsonl")).st_mode), 0o640)
        # A merge into one of its own files; a file too large leaves the old one as it was.
        self.tile("records", "merge", "old.jsonl", "old.jsonl", "link.jsonl", "--no-race", "--backend", "cpu")
        before = self.read("old.jsonl")
        self.assertGreater(len(before), 100)
        done = subprocess.run(["bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$0" records export old.jsonl', TILE],
                              cwd=self.folder.name, env=dict(os.environ, TILE_CACHE_DIR=self.path("cache")),
                              capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cannot write old.jsonl", done.stderr)
        self.assertEqual(self.read("old.jsonl"), before)
        self.assertEqual([n for n in os.listdir(self.folder.name) if n.startswith("old.jsonl.")], [])
        os.mkfifo(self.path("pipe"))
        os.mkdir(self.path("folder"))
        for to in ("/dev/full", "pipe", "folder", "no/file", "loop"):
            if to == "loop":
                os.symlink("loop", self.path("loop"))
            self.assertIn(f"cannot write {to}: ", self.refused("records", "export", to))

    def test_standard_output_that_takes_nothing(self):
        for command in (["passes"], ["man"], ["completion", "fish"], ["records", "list"], ["doctor", "--json"],
                        ["check", "mm.tile"], ["emit", "mm.tile"]):
            with open("/dev/full", "wb") as full:
                self.assertIn("standard output cannot be written", self.refused(*command, stdout=full), command)

    # The other commands

    def test_doctor_of_a_sick_machine(self):
        sick = {"TILE_CACHE_DIR": "/dev/null", "TILE_THREADS": "many", "TILE_CACHE": "maybe", "TILE_CACHE_LIMIT": "-1"}
        for name, value in sick.items():
            told = self.run_tile("doctor", **{name: value})
            self.assertEqual(told.returncode, 1, told.stdout)
            self.assertIn(b"fault", told.stdout)
            self.assertEqual(json.loads(self.run_tile("doctor", "--json", **{name: value}).stdout)["faults"] > 0, True)
        told = self.run_tile("doctor", TILE_ODD="\x1b[31mred\x07" + "x" * 5000).stdout
        self.assertNotIn(b"\x1b", told)
        self.assertNotIn(b"x" * 1000, told)

    def test_doctor_without_memory(self):
        if SANITIZED:
            self.skipTest("a sanitizer's own tables do not fit into so little")
        for kilobytes in (300_000, 500_000, 700_000):
            done = subprocess.run(["bash", "-c", f'ulimit -v {kilobytes}; exec "$0" doctor --json', TILE],
                                  cwd=self.folder.name, env=dict(os.environ, TILE_CACHE_DIR=self.path("cache")),
                                  capture_output=True, text=True, timeout=SECONDS)
            self.assertIn(done.returncode, (0, 1, 127), done.stderr)

    def test_watch(self):
        given = ["--in", "A=iota:2x2", "--in", "B=iota:2x2", "--runs", "1"]
        os.symlink("mm.tile", self.path("link.html"))
        for page in ("mm.tile", "./mm.tile", "link.html"):
            self.assertIn("is the program itself", self.refused("watch", "mm.tile", *given, "--html", page))
        self.assertEqual(self.read("mm.tile").decode(), MATMUL)
        # What fails in a run is told, and watching goes on.
        for fault, arguments in (("cannot write no/page.html", [*given, "--html", "no/page.html"]),
                                 ("cannot read none.npy", ["--in", "A=none.npy", *given[2:]])):
            done = self.run_tile("watch", "mm.tile", *arguments)
            self.assertEqual((done.returncode, fault.encode() in done.stdout), (1, True), done.stdout + done.stderr)

    def test_man_and_completion(self):
        self.write("file", "")
        for folder in ("file", "file/below", "/proc/nothing", "/dev/null"):
            self.assertIn("cannot write", self.refused("man", "--shared-files", folder))
        for page in ("../mm", "records list", "-", "a" * 10_000, "\n", "%s%n"):
            self.assertTrue(self.refused("man", page))
        for shell in ("", "BASH", "bash;", "../bash"):
            self.refused("completion", shell)

    def test_fmt_leaves_neighbours_alone(self):
        self.write("a.tile", "function (A) -> (O) { O = A; }\n")
        self.write("a.tile.formatted", "mine")
        os.mkdir(self.path("other"))
        self.write("other/b.tile", "function (A) -> (O) { O = A; }\n")
        os.symlink("other/b.tile", self.path("b.tile"))
        self.tile("fmt", "a.tile", "b.tile")
        self.assertEqual(self.read("a.tile.formatted"), b"mine")
        self.assertEqual(self.read("a.tile"), self.read("other/b.tile"))
        self.assertTrue(os.path.islink(self.path("b.tile")))
        self.assertEqual(os.listdir(self.path("other")), ["b.tile"])
        for text in (b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"/*", b"//", b"(" * 100_000, b"function (" * 10_000):
            for language in ("tile", "mfg", "lift"):
                self.run_tile("fmt", "-", "--lang", language, text=text)

    def test_new_writes_nothing_over(self):
        for name in ("file", "link", "folder", "pipe"):
            {"file": lambda: self.write("file", "mine"), "link": lambda: os.symlink("nowhere", self.path("link")),
             "folder": lambda: os.mkdir(self.path("folder")), "pipe": lambda: os.mkfifo(self.path("pipe"))}[name]()
            self.assertIn("already", self.refused("new", "tile", name))
        self.assertEqual(self.read("file"), b"mine")
        self.assertFalse(os.path.exists(self.path("nowhere")))
        for name in ("no/file.tile", "file/a.tile", "a" * 300, "/proc/a.tile"):
            self.assertIn("cannot write", self.refused("new", "tile", name))


SANITIZED = b"__asan_init" in open(TILE, "rb").read() or b"__tsan_init" in open(TILE, "rb").read()

if __name__ == "__main__":
    unittest.main()
