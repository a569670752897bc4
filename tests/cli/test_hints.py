"""What people type who know other languages is told how it is written here, and what they misspell in a command line is
named: test_hints.py PATH_OF_TILE."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from foreign_words import (LETTER, LIFT_BODIES, LIFT_PROGRAMS, MFG_BLOCKS, MFG_PROGRAMS, NUMPY, TILE_BOUND, TILE_PROGRAMS,
                           TILE_STATEMENTS)

TILE = os.path.abspath(sys.argv.pop(1))
BENCH = os.path.join(os.path.dirname(TILE), "tile-bench")


class Hints(unittest.TestCase):
    def hint_of(self, suffix, text, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"program.{suffix}"
            path.write_text(text)
            done = subprocess.run([TILE, "check", path, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, text)
        return "".join(line for line in done.stderr.splitlines() if line.startswith(" hint: "))

    def test_of_tile(self):
        for statement, hint in TILE_STATEMENTS.items():
            with self.subTest(statement):
                self.assertIn(hint, self.hint_of("tile", f"function (A[M, N]) -> (O) {{ {statement}\n}}\n"))
        for statement, hint in TILE_BOUND.items():
            with self.subTest(statement):
                text = f"function (A[M, N]) -> (O) {{ {statement}\n}}\n"
                self.assertIn(hint, self.hint_of("tile", text, "--shape", "A=2x3"))

    def test_of_whole_programs(self):
        for suffix, programs in (("tile", TILE_PROGRAMS), ("mfg", MFG_PROGRAMS), ("lift", LIFT_PROGRAMS)):
            for text, hint in programs.items():
                with self.subTest(text):
                    self.assertIn(hint, self.hint_of(suffix, text + "\n"))

    def test_of_mfg(self):
        for block, hint in MFG_BLOCKS.items():
            with self.subTest(block):
                self.assertIn(hint, self.hint_of("mfg", f"def result_f32 |x, y| {{\n  {block}\n}}\n"))

    def test_of_lift(self):
        for body, hint in LIFT_BODIES.items():
            with self.subTest(body):
                self.assertIn(hint, self.hint_of("lift", f"val f = fun(ArrayType(Float, N), a => {body})\n"))
        self.assertIn("ArrayType(Float, N)", self.hint_of("lift", "val f = fun([Float]N, a => a)\n"))
        for name, own in (("f32", "f32 is written Float"), ("float32", "f32 is written Float"), ("int", "i32 is written Int")):
            self.assertIn(own, self.hint_of("lift", f"val f = fun(ArrayType({name}, N), a => a)\n"))

    def test_of_types(self):
        filter = "fn f |x: float32| {\n  x\n}\ndef result_f32 |x, y| {\n  f(input_f32(x, y))\n}\n"
        self.assertIn("float32 is written f32 here", self.hint_of("mfg", filter))
        power = "function (A[M, N]) -> (O) { O = A ^ 2.0; }\n"
        self.assertIn("a power is pow(A, 2.0)", self.hint_of("tile", power, "--shape", "A=2x3"))

    def test_of_shapes(self):
        kept = "a sum over the last one that keeps its place is S[i, 0: M, 1] = +(A[i, j])"
        for lines in ("S[i: M] = +(A[i, j]); O = A / S;", "S[i: M] = +(A[i, j]); O = S - A;"):
            self.assertIn(kept, self.hint_of("tile", f"function (A[M, N]) -> (O) {{ {lines} }}\n", "--shape", "A=3x4"))
        other = "function (A[M, N], B[K]) -> (O) { O = A + B; }\n"
        self.assertEqual(self.hint_of("tile", other, "--shape", "A=3x4", "--shape", "B=5"), "")

    def test_hints_that_are_taken_are_programs(self):
        """The conditions that the hints propose keep the points that the comparisons mean."""
        for name, program, expected in NUMPY:
            with self.subTest(name):
                self.assertIn(program, self.hint_of("tile", f"function (A[M, N]) -> (O) {{ O = {name}(A); }}\n"))
                statement = program if "] = " in program else f"O = {program};"
                text = f"function (A[M, N], I[B], W[K]) -> (O) {{ {statement.replace(LETTER.get(name, 'O') + '[', 'O[', 1)}; }}\n"
                text = text.replace(";;", ";")
                with tempfile.TemporaryDirectory() as folder:
                    path = pathlib.Path(folder) / "program.tile"
                    path.write_text(text)
                    done = subprocess.run([TILE, "run", path, "--no-warnings", "--in", "A=iota:3x4", "--in", "I=[2, 0]:i32",
                                           "--in", "W=zeros:3", "--out", "O=-"], capture_output=True, text=True, timeout=60)
                self.assertEqual("".join(done.stdout.split()), expected, done.stderr)
        text = "function (A[M, M]) -> (O) { O[s: M] = +(A[s, t]), %s; }\n"
        for condition, expected in (("s - t < M", "[1, 2, 3]"), ("s - t - 1 < M", "[0, 1, 2]")):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "program.tile"
                path.write_text(text.replace("A[s, t]", "A[s, t] * 0 + 1") % condition)
                done = subprocess.run([TILE, "run", path, "--in", "A=random:3x3", "--out", "O=-"],
                                      capture_output=True, text=True, timeout=60)
            self.assertEqual(done.stdout.strip(), expected)


MATMUL = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }\n"
WAVE = "function (U[N], V[N]) -> (A, B) { A[i: N] = +(U[i + k - 1]), k < 2; B = U - V; }\n"
TWO_FILTERS = """@bounds(8, 8)
def curved |x, y| {
  f32(x)
}
def result_u8 |x, y| {
  input_u8(x, y)
}
"""
GIVEN = ["--in", "A=iota:2x3", "--in", "B=iota:3x2"]


class CommandLines(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for name, text in (("mm.tile", MATMUL), ("wave.tile", WAVE), ("two.mfg", TWO_FILTERS), ("bad.tile", "function"),
                           ("twice.tile", MATMUL.replace("B[k, j]", "B[k, j] * 2")), ("empty.jsonl", "")):
            pathlib.Path(self.folder.name, name).write_text(text)

    def tearDown(self):
        self.folder.cleanup()

    def told(self, *arguments, status=1, program=TILE, **environment):
        """Standard output and errors together."""
        environment = dict(os.environ, TILE_CACHE_DIR=os.path.join(self.folder.name, "cache"), **environment)
        done = subprocess.run([program, *arguments], cwd=self.folder.name, env=environment, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def test_commands(self):
        self.assertIn('unknown command "rnu"; did you mean run?', self.told("rnu"))
        self.assertIn('unknown command "rnu"', self.told("rnu", "mm.tile", *GIVEN))
        self.assertIn('unknown command "lsit"; did you mean list?', self.told("records", "lsit"))
        for line in (["xyzzy"], []):
            self.assertIn("the commands are check, run, emit", self.told(*line))

    def test_options(self):
        unknown = "unknown option --inn of tile run; did you mean --in?"
        self.assertIn(unknown, self.told("run", "mm.tile", "--inn", "A=iota:3"))
        one = json.loads(self.told("run", "mm.tile", "--inn=A=iota:3", "--diagnostics", "json"))
        self.assertEqual((one["code"], one["message"]), ("argument", unknown))
        self.assertIn("unknown option --off of tile grad; did you mean --of?",
                      self.told("grad", "mm.tile", "--off", "C", "--wrt", "A"))
        self.assertIn('tile run does not expect "more"', self.told("run", "mm.tile", "more"))
        self.assertIn("it may be meant for an option such as --in A=iota:2x3", self.told("run", "mm.tile", "A=iota:2x3"))
        self.assertIn("lists have commas, as in --wrt A,B", self.told("grad", "mm.tile", "--of", "C", "--wrt", "A", "B"))
        self.assertIn("behind its name", self.told("--backend", "cpu", "run", "mm.tile"))

    def test_names(self):
        self.assertIn("no input a; did you mean A?", self.told("run", "mm.tile", "--in", "a=iota:3"))
        self.assertIn("no input b; did you mean B?", self.told("check", "mm.tile", "--shape", "b=3x3"))
        self.assertIn("each has its own --shape", self.told("check", "mm.tile", "--shape", "A=2x3,B=3x3"))
        self.assertIn("unknown language foo\n hint: tile, mfg or lift", self.told("check", "mm.tile", "--lang", "foo"))
        self.assertIn('unknown stage "foo"\n hint: one of program, bound', self.told("emit", "mm.tile", "--stage", "foo"))

    def test_blanks_in_lists(self):
        plain = self.told("grad", "wave.tile", "--of", "A", "--wrt", "U,V", status=0)
        self.assertEqual(self.told("grad", "wave.tile", "--of", "A", "--wrt", "U, V", status=0), plain)
        run = ["run", "wave.tile", "--in", "U=iota:3", "--in", "V=iota:3"]
        self.assertIn("DV:", self.told(*run, "--in", "DA=iota:3", "--grad", "A:U, V", status=0))
        steps = [*run, "--steps", "2", "--feed", "A=U, B=V"]
        # Texts come in the order of the command.
        self.assertEqual(self.told(*steps, "--out", "B=-", "--out", "A=-", status=0),
                         "B:\n[0, 1, 3]\nA:\n[0, 1, 4]\n")

    def test_repeated_options_are_as_good_as_commas(self):
        grad = ["grad", "wave.tile", "--of", "A"]
        self.assertEqual(self.told(*grad, "--wrt", "U", "--wrt", "V", status=0), self.told(*grad, "--wrt", "U,V", status=0))
        run = ["run", "wave.tile", "--in", "U=iota:3", "--in", "V=iota:3", "--in", "DA=iota:3"]
        plain = self.told(*run, "--grad", "A:U,V", status=0)
        self.assertIn("DV:", plain)
        self.assertEqual(self.told(*run, "--grad", "A:U", "--grad", "A: V", status=0), plain)
        self.assertIn("of A and of B: one call has those of one output", self.told(*run, "--grad", "A:U", "--grad", "B:V"))
        given = ["mm.tile", "--shape", "A=2x3", "--shape", "B=3x2"]
        for option, one, other in (("--skip-pass", "hoist", "partition"), ("--constant", "A", "B")):
            repeated = self.told("emit", *given, "--stage", "nest", option, one, option, other, status=0)
            self.assertEqual(self.told("emit", *given, "--stage", "nest", option, f"{one},{other}", status=0), repeated)
        mesh = ["explain", *given, "--mesh", "x=2"]
        self.assertEqual(self.told(*mesh, "--layout", "A[x,*]", "--layout", "B[*,*]", status=0),
                         self.told(*mesh, "--layout", "A[x,*] B[*,*]", status=0))
        self.assertIn("--of has one value, but is given 2: A, B\n hint: leave all but one out",
                      self.told(*grad, "--of", "B", "--wrt", "U"))

    def test_outputs_are_refused_before_the_run(self):
        for target, message in (("c.foo", 'cannot write "c.foo"'), ("no/c.npy", "cannot write no/c.npy: No such file")):
            told = self.told("run", "mm.tile", "--in", "A=none.npy", "--in", "B=none.npy", "--out", f"C={target}")
            self.assertIn(message, told)
        self.assertIn("a picture has shape", self.told("run", "wave.tile", "--in", "U=iota:3", "--in", "V=iota:3",
                                                       "--out", "A=-", "--out", "B=b.png"))
        # Of ranks in one process, too; no rank is compiled before.
        told = self.told("run", "wave.tile", "--in", "U=iota:4", "--in", "V=iota:4", "--mesh", "x=2", "--out", "A=-",
                         "--out", "B=b.png")
        self.assertEqual(told, "tile: b.png: a picture has shape [H, W] or [H, W, 1 to 4]\n")
        for target in ("-", "c.npy"):
            for given in ("0:1", "C=0:1"):
                told = self.told("run", "mm.tile", *GIVEN, "--out", f"C={target}", "--range", given)
                self.assertIn("--range is of pictures", told)

    def test_types_and_rows(self):
        for given, message in (("iota:2x3:float32", "float32 is written f32 here"), ("[1, 2]:int32", "int32 is written i32"),
                               ("iota:3:F32", "F32 is written f32 here"), ("random:3:real", "types are bool, i8 to i64"),
                               ("[[1, 2], [3]]", "[1] has 1 entry, but [0] has 2 entries"),
                               ("[[[1], [2]], [[1]]]", "[1] has 1 entry, but [0] has 2 entries"),
                               ("[[[1], [2]], [[1], [2, 3]]]", "[1, 1] has 2 entries, but [0, 0] has 1 entry"),
                               ("[1, [2]]", "[1] has 1 entry, but [0] is a number"),
                               ("[[1, 2], 3]", "[1] is a number, but [0] has 2 entries"),
                               ("[[1, 2], [3, null]]", "[1, 1] is no number"), ("[[]]", "[0] is empty"),
                               ("[]", "it is empty")):
            self.assertIn(message, self.told("run", "mm.tile", "--in", f"A={given}", "--in", "B=iota:3x2"))
        self.assertIn("float is written f32 here", self.told("check", "mm.tile", "--shape", "A=2x3:float", "--shape", "B=3x3"))

    def test_seeds(self):
        run = ["run", "mm.tile", *GIVEN, "--grad", "C:A"]
        what = "the gradient of the final result with respect to each cell of C"
        for told in (self.told(*run), self.told(*run, "--in", "DC=iota:3x2")):
            self.assertIn(what, told)
        self.assertIn("input DC, the seed, is not given", self.told(*run))
        told = self.told(*run, "--in", "DC=iota:3x2")
        self.assertIn("the seed DC has shape [3, 2], but C has shape [2, 2]", told)
        self.assertIn("--in DC=ones:2x2", told)
        self.assertIn("L is 4 in A, but dimension 0 of B is 3",
                      self.told("run", "mm.tile", "--in", "A=iota:3x4", "--in", "B=iota:3x4", "--grad", "C:A",
                                "--in", "DC=ones:3x4"))
        # Of the sum of the cells of C.
        self.assertEqual(self.told(*run, "--in", "DC=ones:2x2", "--out", "DA=-", status=0), "[[1, 5, 9],\n [1, 5, 9]]\n")
        self.assertIn("final result", self.told("grad", "--help", status=0))

    def test_random_inputs_differ_by_name(self):
        run = ["run", "wave.tile", "--out", "B=-", "--in", "V=[0, 0, 0, 0]", "--in"]
        other = ["run", "wave.tile", "--out", "B=-", "--in", "U=[0, 0, 0, 0]", "--in"]
        of_u, again = (self.told(*run, "U=random:4", status=0) for _ in range(2))
        of_v = self.told(*other, "V=random:4", status=0)
        self.assertEqual(of_u, again)
        self.assertNotEqual(of_u, str([-number for number in json.loads(of_v)]) + "\n")
        difference = json.loads(self.told("run", "wave.tile", "--out", "B=-", "--in", "U=random:4", "--in", "V=random:4",
                                          status=0))
        self.assertNotIn(0, difference)
        ranks = self.told("run", "wave.tile", "--out", "B=-", "--in", "U=random:4", "--in", "V=random:4", "--mesh", "x=2",
                          status=0)
        self.assertEqual(json.loads(ranks), difference)

    def test_what_an_input_that_is_not_given_may_be(self):
        path = pathlib.Path(self.folder.name, "given.tile")
        path.write_text("function (A[M, 3], S[], T) -> (O) { O = A * S + T; }\n")
        for shapes, hint in ((["T=3"], "add --shape A=Mx3, with numbers for M"), (["A=2x3"], "add --shape S=scalar"),
                             (["A=2x3", "S=scalar"], "add --shape T=...")):
            options = [part for shape in shapes for part in ("--shape", shape)]
            self.assertIn(hint, self.told("check", "given.tile", *options))
        self.assertIn("add --in A=FILE.npy or =random:Mx3, with numbers for M", self.told("run", "given.tile"))
        self.assertIn("add --in S=0.5, a number", self.told("run", "given.tile", "--in", "A=ones:2x3"))

    def test_values_that_options_do_not_take(self):
        self.assertIn('--threads is a number, not "two"', self.told("run", "mm.tile", *GIVEN, "--threads", "two"))
        self.assertIn('shell: "bahs" is none of bash, zsh, fish; did you mean bash?', self.told("completion", "bahs"))
        self.assertIn('--diagnostics: "xml" is none of text, json', self.told("check", "mm.tile", "--diagnostics", "xml"))

    def test_code_for_a_gpu_that_is_elsewhere(self):
        emit = ["emit", "mm.tile", "--stage", "cuda", "--shape", "A=2x3", "--shape", "B=3x2"]
        told = self.told(*emit, TILE_CUDA_DRIVER="/nowhere/libcuda.so")
        if "driver" not in told:
            self.skipTest("built without CUDA")
        self.assertIn("say which: --features sm_90a", told)

    def test_values_of_other_kinds(self):
        header = "{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }"
        header += " " * (-len(header) - 11 & 63) + "\n"
        big_endian = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(12)
        pathlib.Path(self.folder.name, "big.npy").write_bytes(big_endian)
        for given, hint in (("A=big.npy", 'a.astype("float32")'), ("A=a.npz", 'numpy.save("a.npy", a)'),
                            ("A", "as in --in A=iota:2x3")):
            self.assertIn(hint, self.told("run", "mm.tile", "--in", given, "--in", "B=iota:3x2"))
        self.assertIn("as in --grad O:A,B", self.told("run", "mm.tile", *GIVEN, "--grad", "C"))
        self.assertIn("tile --help describes them", self.told("help"))

    def test_generated_inputs(self):
        run = ["run", "wave.tile", "--out", "B=-", "--in", "U=ones:3:i32", "--in"]
        for given, expected in (("zeros:3:i32", "[1, 1, 1]"), ("ones:3:i32", "[0, 0, 0]"), ("iota:3:i32", "[1, 0, -1]")):
            self.assertEqual(self.told(*run, f"V={given}", status=0).strip(), expected)
        self.assertIn("zeros:SHAPE", self.told("run", "wave.tile", "--in", "U=empty:3", "--in", "V=zeros:3"))

    def test_extensions_in_capital_letters(self):
        copy = pathlib.Path(self.folder.name, "copy.tile")
        copy.write_text("function (A[H, W, C]) -> (O) { O = A; }\n")
        for name in ("p.PNG", "p.Jpg", "p.JPEG"):
            self.told("run", "copy.tile", "--in", "A=picture:8x8", "--out", f"O={name}", status=0)
            begins = pathlib.Path(self.folder.name, name).read_bytes()[:3]
            self.assertEqual(begins, b"\x89PN" if name == "p.PNG" else b"\xff\xd8\xff")
            self.assertIn("u8 [8, 8, 3]", self.told("run", "copy.tile", "--in", f"A={name}", status=0))

    def test_warnings_are_of_the_text_and_not_of_the_outputs_that_are_asked_for(self):
        run = ["run", "two.mfg", "--in", "input_u8=picture:8x8"]
        self.assertEqual(self.told(*run, "--out", "curved=c.npy", status=0), "")
        self.assertIn("no output needs curved", self.told(*run, "--out", "result_u8=r.png", status=0))

    def test_status_of_what_failed(self):
        watch = ["watch", "mm.tile", "--runs", "1"]
        self.told(*watch, *GIVEN, status=0)
        self.told("watch", "bad.tile", "--runs", "1")
        self.assertEqual(self.told(*watch, *GIVEN, "--html", "no/p.html").count("no/p.html"), 1)
        self.assertIn("cannot read none.npy", self.told(*watch, "--in", "A=none.npy", *GIVEN[2:]))
        self.assertIn("no record to import", self.told("records", "import", "empty.jsonl", "--backend", "cpu"))
        told = self.told("run", "mm.tile", *GIVEN, status=0, TILE_TRACE="no/x.json")
        self.assertEqual(told.count("no trace can be written to no/x.json"), 1)

    @unittest.skipUnless(os.path.exists(BENCH), "there is no tile-bench beside tile")
    def test_tile_bench(self):
        bench = lambda *arguments, **more: self.told(*arguments, program=BENCH, **more)
        self.assertIn('unknown command "rnu"; did you mean run?', bench("rnu"))
        shapes = ["--shape", "A=8x8", "--shape", "B=8x8", "--backend", "cpu"]
        for rounds in ("0", "-3"):
            self.assertIn(f"--rounds is {rounds}", bench("run", "mm.tile", *shapes, "--rounds", rounds))
        for option in ("--json", "--html"):
            self.assertIn("cannot write no/x", bench("run", "mm.tile", *shapes, option, "no/x"))
        self.assertIn('"A=8x8,B=8x8" is of several inputs: each has its own --shape\n hint: --shape A=... --shape B=...',
                      bench("run", "mm.tile", "--shape", "A=8x8,B=8x8"))
        self.assertIn("float32 is written f32 here", bench("run", "mm.tile", "--shape", "A=8x8:float32", "--shape", "B=8x8"))
        self.assertIn("unknown peer torhc; did you mean torch?", bench("run", "matmul_64", "--peer", "torhc"))
        self.assertIn("the results differ by more than the tolerance, 0.001",
                      bench("run", "mm.tile", *shapes, "--quick", "--against", "twice.tile"))
        bench("steps", "wave.tile", "--shape", "U=8", "--shape", "V=8", "--feed", "A=U, B=V", "--rounds", "3", status=0)


if __name__ == "__main__":
    unittest.main()
