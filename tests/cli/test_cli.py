"""The `tile` program, run as a user runs it: test_cli.py PATH_OF_TILE."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

TILE = os.path.abspath(sys.argv.pop(1))
MATMUL = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }\n"


def png(width, height, pixels):
    """An 8-bit RGB picture as PNG bytes."""
    rows = b"".join(b"\0" + pixels[3 * width * y : 3 * width * (y + 1)] for y in range(height))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


class Cli(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = lambda name: os.path.join(self.folder.name, name)
        self.write("mm.tile", MATMUL)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(self.path(name), mode) as file:
            file.write(text)

    def tile(self, *arguments, fails=False):
        environment = dict(os.environ, TILE_CACHE_DIR=self.path("cache"))
        done = subprocess.run([TILE, *arguments], cwd=self.folder.name, env=environment,
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return done.stderr if fails else done.stdout

    def test_version(self):
        done = self.tile("--version")
        self.assertRegex(done, r"^tile \d+\.\d+\.\d+\n$")

    def test_run_prints_and_writes(self):
        out = self.tile("run", "mm.tile", "--in", "A=iota:2x3", "--in", "B=iota:3x2", "--out", "C=-")
        self.assertEqual(out.split(), "[[10, 13], [28, 40]]".split())
        self.tile("run", "mm.tile", "--in", "A=iota:2x3", "--in", "B=iota:3x2", "--out", "C=c.npy")
        self.write("copy.tile", "function (A) -> (O) { O = A * 1; }")
        again = self.tile("run", "copy.tile", "--in", "A=c.npy", "--out", "O=-")
        self.assertEqual(again.split(), out.split())

    def test_constant_inputs(self):
        given = ["mm.tile", "--in", "A=iota:2x3", "--in", "B=iota:3x2", "--out", "C=-"]
        plain = self.tile("run", *given)
        self.assertEqual(self.tile("run", *given, "--constant", "B", "--repeat", "3"), plain)
        self.assertIn("Q", self.tile("run", *given, "--constant", "Q", fails=True))
        self.write("filter.tile", "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {\n"
                   "  O[n, y, x, co: N, H, W, CO] = +(I[n, y + j - 1, x + i - 1, ci] * K[j, i, ci, co]);\n}\n")
        shapes = ["filter.tile", "--backend", "cpu", "--shape", "I=2x14x14x64", "--shape", "K=3x3x64x96"]
        self.assertIn("K is packed once", self.tile("explain", *shapes, "--all", "--constant", "K"))
        self.assertNotIn("once", self.tile("explain", *shapes, "--all"))

    def test_steps_in_time(self):
        self.write("wave.tile", "function (U[N], V[N]) -> (A, B) { A[i: N] = +(U[i + k - 1]), k < 2; B = U - V; }\n")
        given = ["run", "wave.tile", "--in", "U=iota:4:f64", "--in", "V=iota:4:f64"]
        feeds = ["--feed", "A=U", "--feed", "B=V"]
        u = v = [0, 1, 2, 3]
        for steps in range(6):
            lines = self.tile(*given, *feeds, "--steps", str(steps), "--out", "A=-", "--out", "B=-")
            numbers = [int(n) for n in "".join(c if c in "-0123456789" else " " for c in lines).split()]
            self.assertEqual(numbers, u + v, steps)
            u, v = [a + b for a, b in zip([0] + u, u)], [a - b for a, b in zip(u, v)]
        # An output that is fed need not be written, and one that is written need not be fed.
        together = self.tile(*given, "--feed", "A=U,B=V", "--steps", "3", "--out", "A=-")
        self.assertEqual(together, self.tile(*given, *feeds, "--steps", "3", "--out", "A=-"))
        only = self.tile(*given, "--feed", "A=U", "--steps", "2", "--out", "B=-")
        self.assertEqual(only.split(), "[0, 0, 1, 2]".split())
        self.assertEqual(self.tile(*given, *feeds, "--steps", "3", "--repeat", "2", "--out", "A=-"), together)
        for arguments, message in [
                (["--steps", "2", "--feed", "A=Q"], "Q"), (["--steps", "2", "--feed", "Q=U"], "Q"),
                (["--steps", "2", "--feed", "A"], "OUTPUT=INPUT"), (["--feed", "A=U"], "--steps"),
                (["--steps", "2", "--feed", "A=U", "--feed", "B=U"], "twice"),
                (["--steps", "0", "--feed", "A=U"], "feeds no input"),
                (["--steps", "-1", "--feed", "A=U"], "--steps"), (["--steps", "3"], "--feed"),
                (["--steps", "2.5", "--feed", "A=U"], "--steps: 2.5 is no whole number from 0 to 1"),
                (["--repeat", "1e3"], "1e3 is no whole number"), (["--steps", "9" * 23, "--feed", "A=U"], "--steps"),
                (["--steps", "2", "--feed", "A=U", "--mesh", "x=2"], "mesh")]:
            self.assertIn(message, self.tile(*given, *arguments, fails=True))
        self.write("shape.tile", "function (U[N]) -> (O) {\n  O[i: N - 1] = +(U[i] * 2);\n}\n")
        error = self.tile("run", "shape.tile", "--in", "U=iota:4", "--steps", "2", "--feed", "O=U", fails=True)
        self.assertIn("shape.tile:1:21: ", error)
        self.assertIn("f32[3]", error)

    def test_ranks_compute_while_parts_travel(self):
        self.write("blur.tile", "function (A[M, N]) -> (O) {\n  O[i, j: M - 2, N - 2] = +(A[i + a, j + b]), a < 3, b < 3;\n}\n")
        mesh = ["blur.tile", "--mesh", "x=2,y=2", "--layout", "A[x, y] O[x, y]"]
        run = ["run", *mesh, "--in", "A=iota:17x23", "--out", "O=-"]
        emit, explain = [[word, *mesh, "--shape", "A=17x23"] for word in ("emit", "explain")]
        plain = self.tile("run", "blur.tile", *run[6:])
        for backend in ("reference", "cpu"):
            for overlap in ("auto", "always", "never"):
                self.assertEqual(self.tile(*run, "--overlap", overlap, "--backend", backend), plain)
        self.assertEqual(self.tile(*emit, "--overlap", "always").count(" travels {"), 4)
        self.assertIn("part O.edge of O [", self.tile(*emit, "--overlap", "always"))
        self.assertIn("exchanges that ranks compute beside, or before\n  halo of A, blur.tile:2: on 4 of 4 ranks beside ",
                      self.tile(*explain, "--overlap", "always"))
        for overlap in ("never", "auto"):  # so few cells are not worth it
            self.assertNotIn(" travels", self.tile(*emit, "--overlap", overlap))
            self.assertNotIn("beside", self.tile(*explain, "--overlap", overlap))
        self.assertIn("sometimes", self.tile(*run, "--overlap", "sometimes", fails=True))
        self.assertIn("--mesh", self.tile("run", "blur.tile", *run[6:], "--overlap", "always", fails=True))

    def test_numbers_as_inputs(self):
        self.write("scaled.tile", "function (X[N], T) -> (O) { O = X * T; }")
        run = ["run", "scaled.tile", "--out", "O=-"]
        self.assertEqual(self.tile(*run, "--in", "X=[1, 2.5, -3]", "--in", "T=0.5").strip(), "[0.5, 1.25, -1.5]")
        self.assertEqual(self.tile(*run, "--in", "X=[1, 2]:i32", "--in", "T=3:i32").strip(), "[3, 6]")
        self.assertEqual(self.tile(*run, "--in", "X=[7]:u8", "--in", "T=1:u8").strip(), "[7]")
        for value, message in [("[1, [2]]", "no tensor"), ("[]", "no tensor"), ("[1,", "cannot tell"),
                               ("[300]:u8", "none of u8"), ("[0.5]:i32", "none of i32"), ("[true]", "no tensor"),
                               ("[" * 100000, "cannot tell"), ("[" * 60000 + "1" + "]" * 60000, "nested more than 64")]:
            self.assertIn(message, self.tile(*run, "--in", "X=" + value, "--in", "T=1", fails=True))

    def test_parameters_that_do_not_fit(self):
        self.write("blur.mfg", "@param_i32 radius(SLIDER, label=\"r\", min=1, max=9, init=2)\n"
                   "@bounds(4, 4)\ndef t |x, y| { f32(radius) }\n")
        for value, message in [("4.5", "i32"), ("nan", "i32"), ("10", "more than 9")]:
            self.assertIn(message, self.tile("run", "blur.mfg", "--param", "radius=" + value, fails=True))

    def test_iterate_is_a_loop(self):
        step = "Map(w => (At(0) $ w) * 0.5f + (At(2) $ w) * 0.25f) o Slide(3, 1) o Pad(1, 1, Mirror)"
        text = "val f = fun(ArrayType(Float, N), x => Iterate(%d, " + step + ") $ x)\n"
        self.write("loop.lift", text % 9)
        given = ["loop.lift", "--in", "x=iota:12", "--out", "out=-"]
        plain = self.tile("run", *given)
        self.assertEqual(plain, self.tile("run", *given, "--backend", "reference"))
        # Ranks exchange within the steps.
        self.assertEqual(plain, self.tile("run", *given, "--mesh", "r=2", "--layout", "x[r]"))
        self.write("step.lift", text % 1)
        steps = self.tile("run", "step.lift", *given[1:], "--steps", "9", "--feed", "out=x")
        self.assertEqual(plain, steps)
        shape = ["loop.lift", "--shape", "x=12"]
        self.assertIn("loop of 9 steps", self.tile("explain", *shape))
        self.assertIn('"trips":9', self.tile("explain", *shape, "--json"))
        for stage in ("program", "bound"):
            self.assertEqual(self.tile("emit", *shape, "--stage", stage).count("repeat"), 1)
        self.assertIn("; loop of 9 steps", self.tile("emit", *shape, "--stage", "llvm"))
        self.tile("run", *given, "--profile")
        gradient = self.tile("run", "loop.lift", "--grad", "out:x", "--in", "x=iota:12", "--in", "Dout=iota:12",
                             "--out", "Dx=-")
        self.assertEqual(len(gradient.split()), 12)

    def test_backends_agree(self):
        texts = [self.tile("run", "mm.tile", "--in", "A=random:9x17", "--in", "B=random:17x5",
                           "--out", "C=-", "--backend", backend, "--features", features)
                 for backend, features in [("cpu", ""), ("cpu", "avx2"), ("reference", "")]]
        numbers = [[float(x.strip("[],")) for x in text.split()] for text in texts]
        for other in numbers[1:]:
            for a, b in zip(numbers[0], other):
                self.assertAlmostEqual(a, b, places=5)

    def test_every_element_type_goes_through_npy(self):
        self.write("copy.tile", "function (A) -> (O) { O = ident(A); }")
        for dtype in "i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3 f16 bf16 f32 f64".split():
            self.tile("run", "copy.tile", "--in", f"A=iota:3x4:{dtype}", "--out", "O=a.npy")
            text = self.tile("run", "copy.tile", "--in", "A=a.npy", "--out", "O=-")
            self.assertEqual(text.split()[-1], "11]]", dtype)
        self.tile("run", "copy.tile", "--in", "A=iota:3x4:f8e5m2", "--out", "O=a.npy")
        text = self.tile("run", "copy.tile", "--in", "A=a.npy", "--out", "O=-")
        self.assertEqual(text.split()[-2:], ["10,", "12]]"], "11 is halfway between them")

    def test_pictures(self):
        self.write("in.png", png(3, 2, bytes(range(18))))
        self.write("invert.tile", "function (I) -> (O) { O = as_uint(255 - as_int(I, 32), 8); }")
        self.tile("run", "invert.tile", "--in", "I=in.png", "--out", "O=out.png")
        text = self.tile("run", "invert.tile", "--in", "I=out.png", "--out", "O=-")
        values = [int(x.strip("[],")) for x in text.split()]
        self.assertEqual(values, list(range(18)))

    def test_check_emit_explain_grad(self):
        shapes = ["--shape", "A=8x16", "--shape", "B=16x32"]
        self.assertIn("C: f32 [8, 32]", self.tile("check", "mm.tile", *shapes))
        for stage in "program bound reduced kernels schedule nest llvm asm".split():
            self.assertGreater(len(self.tile("emit", "mm.tile", "--stage", stage, *shapes)), 20)
        explained = self.tile("explain", "mm.tile", *shapes, "--all", "--backend", "cpu")
        for word in ("matrix", "vectors of", "guards"):
            self.assertIn(word, explained)
        gradient = self.tile("grad", "mm.tile", "--of", "C", "--wrt", "A,B")
        self.write("grad.tile", gradient)
        self.assertIn("DA", self.tile("check", "grad.tile"))

    def tile_errors(self, *arguments):
        """What is printed to standard error by a command that succeeds, and its output."""
        environment = dict(os.environ, TILE_CACHE_DIR=self.path("cache"))
        done = subprocess.run([TILE, *arguments], cwd=self.folder.name, env=environment,
                              capture_output=True, text=True, timeout=120, check=True)
        return done.stderr, done.stdout

    def test_passes_are_listed(self):
        rows = [line.split(None, 3) for line in self.tile("passes").splitlines()]
        stages = [row[0] for row in rows]
        order = "front-end tensor fusion lowering nest code".split()
        self.assertEqual(sorted(stages, key=order.index), stages)
        self.assertEqual(set(stages), set(order))
        self.assertEqual(len({row[1] for row in rows}), len(rows))
        states = {row[1]: row[2] for row in rows}
        self.assertEqual((states["reduce"], states["partition"]), ("required", "optional"))
        for row in rows:
            self.assertGreater(len(row[3]), 10)

    def test_times_of_passes(self):
        run = ["run", "mm.tile", "--in", "A=iota:2x3", "--in", "B=iota:3x2", "--out", "C=-"]
        plain = self.tile(*run)
        for _ in range(2):  # nothing is read from the disk cache
            times, out = self.tile_errors(*run, "--time-passes")
            self.assertEqual(out, plain)
            for text in ("front-end: parse", "tensor: reduce", "fusion: make-kernels", "nest: partition", "in all"):
                self.assertIn(text, times)
            self.assertTrue("code: link" in times or "code: print-cuda" in times)
        times = json.loads(self.tile_errors(*run, "--time-passes=json")[0])
        by_name = {row["pass"]: row for row in times["passes"]}
        self.assertEqual(by_name["bind"]["stage"], "front-end")
        self.assertEqual(by_name["reduce"]["runs"], 1)
        serial = sum(row["ms"] for row in times["passes"] if row["stage"] != "code")
        self.assertGreater(times["total_ms"], serial)
        self.assertNotIn("pass", self.tile_errors(*run)[0])

    def test_passes_are_skipped(self):
        self.write("epilogue.tile", "function (A[M, L], B[L, N], D) -> (O) {\n"
                   "  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n  O = C + D;\n}\n")
        shapes = ["--shape", "A=8x16", "--shape", "B=16x32", "--shape", "D=32"]
        kernels = lambda *more: self.tile("emit", "epilogue.tile", "--stage", "kernels", *shapes, *more).count("kernel ")
        self.assertEqual(kernels(), 1)
        self.assertEqual(kernels("--skip-pass", "attach-epilogues", "--skip-pass", "fuse-rows"), 2)
        run = ["run", "epilogue.tile", "--in", "A=iota:8x16", "--in", "B=iota:16x32", "--in", "D=iota:32", "--out", "O=-"]
        self.assertEqual(self.tile(*run, "--skip-pass", "attach-epilogues"), self.tile(*run))
        unknown = self.tile("check", "--skip-pass", "atach-epilogues", "mm.tile", fails=True)
        self.assertIn("there is no pass \"atach-epilogues\"", unknown)
        self.assertIn("did you mean \"attach-epilogues\"?", unknown)
        required = self.tile("check", "--skip-pass", "defract", "mm.tile", fails=True)
        self.assertIn("\"defract\" cannot be left out", required)
        self.assertIn("partition", required)

    def test_texts_of_passes(self):
        shapes = ["mm.tile", "--backend", "cpu", "--shape", "A=8x16", "--shape", "B=16x32"]
        emit = lambda stage: self.tile("emit", *shapes, "--stage", stage)
        self.assertEqual(emit("after:parse"), emit("program"))
        self.assertEqual(emit("after:bind"), emit("bound"))
        self.assertEqual(emit("after:defract"), emit("reduced"))
        self.assertEqual(emit("after:partition"), emit("nest"))
        self.assertEqual(emit("after:emit-llvm"), emit("llvm"))
        self.assertIn("kernel", emit("after:collapse"))
        self.assertIn("nest", emit("after:lower"))
        self.assertIn("did you mean \"collapse\"", self.tile("emit", *shapes, "--stage", "after:colapse", fails=True))
        self.assertIn("was not run", self.tile("emit", *shapes, "--stage", "after:hoist", "--skip-pass", "hoist", fails=True))
        self.assertIn("makes no text", self.tile("emit", *shapes, "--stage", "after:link", fails=True))
        changes, out = self.tile_errors("check", *shapes, "--print-changed")
        self.assertIn("== after front-end: bind\n", changes)
        self.assertIn("\n== after fusion: make-kernels\n", changes)
        self.assertNotIn("tabulate", changes)
        self.assertEqual(out, self.tile("check", *shapes))

    def explained(self, *arguments):
        """The JSON of `tile explain`; every term is what its parts make."""
        told = json.loads(self.tile("explain", *arguments, "--json"))

        def check(term):
            if "parts" not in term:
                return
            parts = [part["ns"] for part in term["parts"]]
            most, total, factor = max(parts), sum(parts), term["factor"]
            made = {"sum": factor * total, "largest": factor * most,
                    "overlap": most + factor * (total - most)}[term["combine"]]
            self.assertAlmostEqual(made, term["ns"], delta=1e-9 * (abs(term["ns"]) + 1), msg=term["name"])
            for part in term["parts"]:
                check(part)

        for kernel in told["kernels"]:
            for which in ("taken", "next"):
                if which in kernel:
                    self.assertGreater(kernel[which]["cost"]["ns"], 0)
                    check(kernel[which]["cost"])
        return told["kernels"]

    def test_explain_tells_the_terms_of_the_estimate(self):
        shapes = ["--shape", "A=300x400", "--shape", "B=400x500", "--backend", "cpu", "--features", "avx2"]
        (kernel,) = self.explained("mm.tile", *shapes)
        self.assertNotEqual(kernel["taken"]["schedule"], kernel["next"]["schedule"])
        self.assertGreaterEqual(kernel["next"]["cost"]["ns"], kernel["taken"]["cost"]["ns"])
        self.assertNotIn("measured_ns", kernel)
        (measured,) = self.explained("mm.tile", *shapes, "--measure")
        self.assertGreater(measured["measured_ns"], 0)
        self.assertEqual(measured["taken"], kernel["taken"])
        text = self.tile("explain", "mm.tile", *shapes, "--measure", "--kernel", "C")
        for word in ("arithmetic", "loads", "from the third cache", "starting the kernel", "measured, ",
                     "the next schedule by the model"):
            self.assertIn(word, text)

    # Two layers with a softmax: more kernels than one, of which one is fused of many statements.
    LAYERS = """function (X[B, I], W[I, J], U[J, O]) -> (R) {
  Y[b, j: B, J] = +(X[b, i] * W[i, j]);
  A = relu(Y);
  Z[b, o: B, O] = +(A[b, j] * U[j, o]);
  Top[b, 0: B, 1] = >(Z[b, o]);
  E = exp(Z - Top);
  Sum[b, 0: B, 1] = +(E[b, o]);
  R = E / Sum;
}
"""
    LAYER_SHAPES = ["--shape", "X=64x300", "--shape", "W=300x200", "--shape", "U=200x100", "--backend", "cpu",
                    "--features", "avx2"]

    def test_explain_has_a_line_for_each_kernel(self):
        self.write("layers.tile", self.LAYERS)
        told = self.explained("layers.tile", *self.LAYER_SHAPES)
        self.assertGreater(len(told), 1)
        heading, *rows, total, memory, hint = self.tile("explain", "layers.tile", *self.LAYER_SHAPES).splitlines()
        self.assertEqual(heading.split(), "# line estimate bound by ceiling schedule makes".split())
        self.assertEqual(len(rows), len(told))
        for number, (row, kernel) in enumerate(zip(rows, told), 1):
            microseconds = kernel["taken"]["cost"]["ns"] / 1e3
            self.assertEqual(row.split()[:4], [str(number), str(kernel["line"]), f"{microseconds:.3f}", "us"])
            self.assertIn(f"us  {kernel['most']}  ", row)
            self.assertTrue(row.endswith(f"  {', '.join(kernel['makes'])} ({', '.join(kernel['classes'])})"), row)
            self.assertIn("  model  ", row)
        self.assertEqual(float(total.split()[0]), round(sum(k["taken"]["cost"]["ns"] for k in told) / 1e3, 3))
        self.assertIn("bytes of temporaries", memory)
        self.assertIn("--kernel NUMBER", hint)
        made = [name for kernel in told for name in kernel["makes"]]
        self.assertEqual([name for name in made if name not in "Y A Z Top E Sum R".split()], [])
        self.assertIn("R", made)
        measured = self.tile("explain", "layers.tile", *self.LAYER_SHAPES, "--measure")
        self.assertIn("measured", measured.splitlines()[0])
        self.assertEqual(self.tile("explain", "layers.tile", *self.LAYER_SHAPES[:6], "--backend", "reference"),
                         "the reference interpreter runs the program as bound\n")

    def test_explain_tells_all_of_the_kernels_that_are_asked_for(self):
        self.write("layers.tile", self.LAYERS)
        explain = ["explain", "layers.tile", *self.LAYER_SHAPES]
        everything = self.tile(*explain, "--all")
        kernels = [line for line in everything.splitlines() if line.startswith("kernel ")]
        first = self.tile(*explain, "--kernel", "1")
        last = self.tile(*explain, "--kernel", "R")
        self.assertTrue(everything.startswith("#  line"))
        for text, heading in ((first, kernels[0]), (last, kernels[-1])):
            self.assertTrue(text.startswith(heading + "\n"))
            self.assertEqual(text.count("estimated time, by its terms"), 1)
            self.assertIn(text, everything)
        # A kernel that is asked for twice is told once, and in the program's order.
        self.assertEqual(self.tile(*explain, "--kernel", "R", "--kernel", "1", "--kernel", "Y"), first + last)
        refused = self.tile(*explain, "--kernel", "99", fails=True)
        self.assertIn('the program has no kernel "99"', refused)
        self.assertIn("there are 1 ", refused)
        self.assertIn("excludes", self.tile(*explain, "--kernel", "1", "--all", fails=True))

    def test_explain_tells_the_steps_of_a_loop(self):
        self.write("smooth.lift", "val f = fun(ArrayType(Float, N), input => Iterate(1000, Map(w => (At(0) $ w) * 0.5f"
                   " + (At(2) $ w) * 0.5f) o Slide(3, 1) o Pad(1, 1, Clamp)) $ input)")
        explain = ["explain", "smooth.lift", "--shape", "input=5000", "--backend", "cpu"]
        heading, loop, step, total, *_ = self.tile(*explain).splitlines()
        self.assertIn("(loop of 1000 steps)", loop)
        self.assertEqual(loop.split()[0], "1")
        self.assertEqual(step.split()[0], "1.1")
        # Both are rounded.
        self.assertAlmostEqual(float(loop.split()[2]), 1000 * float(step.split()[2]), delta=1)
        self.assertEqual(total.split()[0], loop.split()[2])
        self.assertTrue(self.tile(*explain, "--kernel", "1").startswith("loop of 1000 steps"))
        self.assertTrue(self.tile(*explain, "--kernel", "1.1").startswith("  kernel "))
        self.assertEqual(len(self.explained(*explain[1:])), 1)

    def test_explain_on_workloads(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "workloads")
        for name in ("softmax", "convolution", "attention", "cumulative_sum", "sum_columns", "transpose"):
            file = os.path.join(folder, name + ".tile")
            with open(file, encoding="utf-8") as opened:
                case = next(line.split() for line in opened if line.startswith("//: case "))
            shapes = [option for shape in case[3:] if not shape.startswith("seed=") for option in ("--shape", shape)]
            self.assertTrue(self.explained(file, *shapes, "--backend", "cpu", "--features", "avx2"), name)

    def test_explain_reports_windows(self):
        self.write("box.tile", "function (I[M, N]) -> (O) { O[y, x: M - 4, N - 2] = +(I[y + r, x + s]), r < 5, s < 3; }")
        self.assertIn("separable: over r, then over s takes 5 + 3 terms instead of 15",
                      self.tile("explain", "box.tile", "--shape", "I=50x60", "--all"))
        self.write("boxes.tile", "function (I[N]) -> (M, V, B) { M[x: N - 4] = +(I[x + r]), r < 5;"
                   " V[x: N - 4] = +(I[x + t] * I[x + t]), t < 5; B[x: N - 8] = +(M[x + r]), r < 5; }")
        explained = self.tile("explain", "boxes.tile", "--shape", "I=1000", "--all")
        self.assertIn("the same window over the same tensor as stage 0 of kernel M", explained)
        self.assertIn("repeats the window of stage 0 of kernel M on its result", explained)
        self.assertNotIn("separable", explained)

    def test_errors_are_located(self):
        self.write("bad.tile", "function (A[N]) -> (O) {\n  O[i: N] = +(Q[i]);\n}\n")
        text = self.tile("check", "bad.tile", fails=True)
        self.assertIn("bad.tile:2:", text)
        self.assertIn("^", text)
        one = json.loads(self.tile("check", "bad.tile", "--diagnostics=json", fails=True))
        self.assertEqual((one["stage"], one["line"]), ("parse", 2))

    def test_bad_requests(self):
        mm = ["run", "mm.tile", "--in", "A=iota:2x3"]
        self.assertIn("B", self.tile(*mm, fails=True))
        self.assertIn("bind", self.tile(*mm, "--in", "B=iota:4x2", fails=True))
        self.assertIn("Q", self.tile(*mm, "--in", "B=iota:3x2", "--out", "Q=-", fails=True))
        self.assertIn("twice", self.tile(*mm, "--in", "A=iota:2x3", fails=True))
        self.assertIn("shape", self.tile("run", "mm.tile", "--in", "A=iota:2xx3", "--in",
                                         "B=iota:3x2", fails=True))
        self.assertIn("nothing.tile", self.tile("check", "nothing.tile", fails=True))
        self.write("x.txt", "")
        self.assertIn("language", self.tile("check", "x.txt", fails=True))
        for name, content in [("a.npy", b"no"), ("b.npy", b"\x93NUMPY\x01\x00\xff\xff"),
                              ("c.png", b"\x89PNG\r\n"), ("d.jpg", b"\xff\xd8\xff")]:
            self.write(name, content)
            self.assertIn(name, self.tile("run", "mm.tile", "--in", f"A={name}", "--in",
                                          "B=iota:3x2", fails=True))

    def test_cache_and_devices(self):
        self.tile("run", "mm.tile", "--backend", "cpu", "--in", "A=iota:2x3", "--in", "B=iota:3x2")
        # the kernel's object and the executable record
        self.assertIn("2 entries", self.tile("cache", "show"))
        self.assertIn("2 entries removed", self.tile("cache", "clear"))
        self.assertIn("reference", self.tile("devices"))

    def test_conform_counts_and_reproduces(self):
        case = {"name": "sum", "lang": "tile",
                "program": "function (A[N]) -> (O) { O[] = +(A[i]); }",
                "inputs": {"A": {"dtype": "f32", "shape": [2], "data": [1, 2]}},
                "outputs": {"O": {"shape": [], "data": [3]}}}
        wrong = dict(case, name="wrong", outputs={"O": {"shape": [], "data": [4]}})
        self.write("good.json", json.dumps({"format": 1, "cases": [case]}))
        self.write("bad.json", json.dumps({"format": 1, "cases": [case, wrong]}))
        self.assertEqual(self.tile("conform", "good.json").splitlines()[-1],
                         "1 passed, 0 failed, 0 skipped")
        done = subprocess.run([TILE, "conform", "bad.json"], cwd=self.folder.name,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--filter wrong", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "1 passed, 1 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
