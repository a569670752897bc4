"""The commands of `tile` for those who write programs: test_tools.py PATH_OF_TILE."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TILE = os.path.abspath(sys.argv.pop(1))
SHELLS = ("bash", "zsh", "fish")


class Tools(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = lambda name: os.path.join(self.folder.name, name)
        self.environment = dict(os.environ, TILE_CACHE_DIR=self.path("cache"))

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name, mode="r"):
        with open(self.path(name), mode) as file:
            return file.read()

    def run_tile(self, *arguments, **more):
        return subprocess.run([TILE, *arguments], cwd=self.folder.name, env=self.environment, capture_output=True,
                              text=True, timeout=120, **more)

    def tile(self, *arguments, fails=False, **more):
        done = self.run_tile(*arguments, **more)
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return done.stderr if fails else done.stdout

    # tile run

    def test_a_run_without_out_says_what_it_computed(self):
        self.write("p.tile", "function (A[M, N]) -> (B, S, T) { B = A - 2; S[] = +(A[i, j]); T = A < 3; }")
        told = self.tile("run", "p.tile", "--in", "A=iota:2x3")
        self.assertEqual(told, "B: f32 [2, 3], from -2 to 3\nS: f32 scalar, 15\nT: bool [2, 3], from 0 to 1\n")
        self.assertEqual(self.tile("run", "p.tile", "--in", "A=iota:2x3", "--out", "B=b.npy"), "")
        self.write("n.tile", "function (A[N]) -> (B) { B = log(A - 1); }")
        self.assertEqual(self.tile("run", "n.tile", "--in", "A=iota:2"), "B: f32 [2], from -inf to -inf, 1 is NaN\n")
        self.assertEqual(self.tile("run", "n.tile", "--in", "A=iota:0"), "B: f32 [0], no elements\n")

    def picture(self, *arguments):
        """The bytes of a picture of A = 0, 1 … 5 in two rows, as `tile` reads it back."""
        self.write("a.tile", "function (A[M, N]) -> (O) { O = A * 1; }")
        self.write("copy.tile", "function (I) -> (O) { O = I; }")
        out = arguments[0]
        self.tile("run", "a.tile", "--in", "A=iota:2x3", "--out", f"O={out}", *arguments[1:])
        text = self.tile("run", "copy.tile", "--in", f"I={out}", "--out", "O=-")
        return [int(number) for number in re.findall(r"\d+", text)]

    def test_ranges_of_pictures(self):
        self.assertEqual(self.picture("o.png"), [0, 255, 255, 255, 255, 255])
        self.assertEqual(self.picture("o.png", "--range", "0:255"), [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.picture("o.png", "--range", "O=1:3"), [0, 0, 128, 255, 255, 255])
        self.assertEqual(self.picture("o.png", "--range", "auto"), [0, 51, 102, 153, 204, 255])
        self.assertEqual(self.picture("o.png", "--range", "O=auto", "--range", "0:1"), [0, 51, 102, 153, 204, 255])
        self.assertEqual(self.picture("o.png", "--range", "5:0"), [255, 204, 153, 102, 51, 0])
        for bad in ("1", "1:1", "a:b", "0:1:2", "nan:1", "0:inf", ":", "O=2:2", "Q=0:1"):
            self.tile("run", "a.tile", "--in", "A=iota:2x3", "--out", "O=o.png", "--range", bad, fails=True)

    def test_a_picture_that_is_mostly_cut_off_is_warned_about(self):
        self.write("a.tile", "function (A[M, N]) -> (O) { O = A * 1; }")
        run = ["run", "a.tile", "--in", "A=iota:2x10", "--out", "O=o.png"]
        self.assertIn("90 % of the values of O lie outside 0 to 1", self.run_tile(*run).stderr)
        self.assertIn("--range 0:255", self.run_tile(*run).stderr)
        for quiet in (["--range", "0:1"], ["--range", "auto"], ["--no-warnings"]):
            self.assertEqual(self.run_tile(*run, *quiet).stderr, "")
        self.assertEqual(self.run_tile("run", "a.tile", "--in", "A=iota:1x2", "--out", "O=o.png").stderr, "")

    def test_a_black_picture_of_bytes_is_warned_about(self):
        self.write("dark.mfg", "def result_u8 |x, y| {\n  u8(to_ncolor(input_u8(x, y)))\n}\n")
        run = ["run", "dark.mfg", "--in", "input_u8=picture:9x12", "--out", "result_u8=o.png"]
        self.assertIn("to_u8color", self.run_tile(*run).stderr)
        self.assertIn("all colours of result_u8 are 0 or 1 of 255", self.run_tile(*run).stderr)
        for quiet in (["--range", "0:1"], ["--range", "auto"], ["--no-warnings"]):
            self.assertEqual(self.run_tile(*run, *quiet).stderr, "")
        self.write("light.mfg", "def result_u8 |x, y| {\n  to_u8color(to_ncolor(input_u8(x, y)))\n}\n")
        self.assertEqual(self.run_tile("run", "light.mfg", *run[2:]).stderr, "")

    def test_pictures_are_drawn(self):
        self.write("invert.mfg", "def result_u8 |x, y| {\n  let [b, g, r, a] = input_u8(x, y)\n  u8[255-b, 255-g, 255-r, a]\n}\n")
        told = self.tile("run", "invert.mfg", "--in", "input_u8=picture:9x12", "--out", "result_u8=-")
        pixels = [[tuple(pixel) for pixel in row] for row in json.loads(told)]
        self.assertEqual((len(pixels), len(pixels[0])), (9, 12))
        self.assertEqual(pixels[0][0], (255, 255, 255, 255))   # black, inverted; opaque
        self.assertEqual(pixels[8][11], (255, 0, 0, 255))      # red and green; the squares' diagonal is black
        self.assertEqual(pixels[0][11], (0, 255, 0, 255))      # red and blue
        self.write("plane.tile", "function (A[H, W, C]) -> (O) {\n  O = A;\n}\n")
        self.assertIn("u8 [1, 1, 3]", self.tile("run", "plane.tile", "--in", "A=picture:1x1"))
        for wrong in ("4", "4x4x3", "0x4", "4x4:f32", "", "-1x4", "9999999999x9999999999"):
            told = self.tile("run", "plane.tile", "--in", f"A=picture:{wrong}", fails=True)
            self.assertIn("tile: ", told, wrong)
        self.assertIn("cannot write", self.tile("run", "plane.tile", "--in", "A=picture:4x4", "--out", "O=picture:4x4", fails=True))

    def test_pictures_as_jpeg(self):
        for got, want in zip(self.picture("o.jpg", "--range", "auto"), [0, 51, 102, 153, 204, 255]):
            self.assertAlmostEqual(got, want, delta=12)
        self.assertEqual(self.read("o.jpg", "rb")[:3], b"\xff\xd8\xff")
        self.write("c.tile", "function (A[M, N, C]) -> (O) { O = A; }")
        for channels in (1, 2, 3, 4):
            self.tile("run", "c.tile", "--in", f"A=iota:8x8x{channels}:u8", "--out", "O=c.jpeg")
        for shape in ("8", "8x8x5", "0x8", "8x8x0"):
            self.write("d.tile", "function (A) -> (O) { O = A; }")
            for suffix in ("jpg", "png"):
                self.assertIn("picture", self.tile("run", "d.tile", "--in", f"A=iota:{shape}:u8", "--out",
                                                   f"O=d.{suffix}", fails=True))
        self.assertIn("at most", self.tile("run", "d.tile", "--in", "A=iota:1x70000:u8", "--out", "O=d.jpg", fails=True))
        self.assertIn("cannot", self.tile("run", "d.tile", "--in", "A=iota:2x2:u8", "--out", "O=no/d.jpg", fails=True))

    def test_tables_of_bytes_stand_where_their_function_does(self):
        self.write("curve.mfg", "def result_u8 |x, y| {\n  let c = f32(input_u8(x, y))\n"
                   "  let bright = 255.0*(c.xyz/255.0)^2.2\n  u8[*bright, 255.0 - c.w]\n}\n")
        rows = self.tile("explain", "curve.mfg", "--backend", "cpu", "--shape", "input_u8=640x480x4:u8").splitlines()
        self.assertEqual([(row.split()[1], "table" in row) for row in rows[1:3]], [("3", True), ("1", False)])

    def test_values_outside_of_a_parameters_range_are_warned_about(self):
        self.write("gain.mfg", "@param_f32 gain(SLIDER, min=0.0, max=4.0, init=2.0)\n"
                   "def result_f32 |x, y| { input_f32(x, y)*gain }\n")
        run = ["run", "gain.mfg", "--in", "input_f32=ones:1x1", "--in"]
        for value, used in ("7", "4"), ("-1", "0"):
            self.assertIn(f"1:12: run warning [range]: the parameter gain is {value}, outside of its range, 0 to 4: {used} is used",
                          self.run_tile(*run, f"gain={value}").stderr)
        self.assertEqual(self.run_tile(*run, "gain=4").stderr, "")

    def test_outputs_that_no_machine_holds_are_named(self):
        self.write("big.tile", "function (A[N]) -> (O) {\n  O[i, j, k: N, N, N] = +(A[i] * A[j] * A[k]);\n}\n")
        for backend in "cpu", "reference":
            text = self.tile("run", "big.tile", "--backend", backend, "--in", "A=ones:131072", fails=True)
            self.assertIn("big.tile:2:3: run error [memory]: the output O is f32[131072, 131072, 131072], 8 PiB; this machine has", text)

    def test_a_profile_has_each_kernel(self):
        self.write("p.tile", "function (A[M, N]) -> (S) { R[i: M] = +(A[i, j]); S = sort(R, 0); }")
        done = self.run_tile("run", "p.tile", "--in", "A=random:64x64", "--profile", "--backend", "cpu")
        self.assertRegex(done.stderr, "of the ceiling|from the caches")
        self.assertIn("in 2 launches", done.stderr)

    def test_a_profile_counts_loops_inside_kernels(self):
        text = ('@param_i32 radius(SLIDER, label="Radius", min=1, max=16, init=2)\n'
                "def result_f32 |x, y| { reduce(init=1.0, 0..<%s) |i, m| { m*sin(m + input_f32(x, y)) } }\n")
        told = {}
        for length in ("100", "radius"):
            self.write("p.mfg", text % length)
            told[length] = self.run_tile("run", "p.mfg", "--in", "input_f32=random:64x64", "--profile", "--no-warnings",
                                         "--backend", "cpu").stderr
        self.assertIn("operations not counted", told["radius"])
        time, rate = re.search(r"([\d.]+) us .* ([\d.]+) GFLOP/s", told["100"]).groups()
        each = float(time) * 1000 * float(rate) / 64**2  # operations of a pixel, within what is printed of the rate
        self.assertGreater(each, 150)
        self.assertLess(each, 600)

    # JSON for tools

    def test_explanations_tell_what_less_memory_costs(self):
        """Gradients of attention without a mask store scores, unless these do not fit."""
        self.write("a.tile", """function (Q[S, D], K[S, D], V[S, D]) -> (O) {
  L[s, t: S, S] = +(Q[s, d] * K[t, d]);
  Top[s, 0: S, 1] = >(L[s, t]);
  E = exp(L - Top);
  Sum[s, 0: S, 1] = +(E[s, t]);
  P = E / Sum;
  O[s, d: S, D] = +(P[s, t] * V[t, d]);
}
""")
        self.write("g.tile", self.tile("grad", "a.tile", "--of", "O", "--wrt", "Q,K,V"))
        given = ["explain", "g.tile", "--backend", "cpu", "--threads", "1"]
        for name in ("Q", "K", "V", "DO"):
            given += ["--shape", f"{name}=640x16"]
        told = self.tile(*given)
        least = int(re.search(r"\n(\d+) bytes and .* where less is stored", told).group(1))
        self.assertLess(least, 640 * 640)
        self.assertEqual(json.loads(self.tile(*given, "--json"))["least_stored"]["temporary_bytes"], least)
        limited = self.tile(*given, "--memory-limit", str(4 * 640 * 640))
        self.assertIn(f"\n{least} bytes of temporaries", limited)
        self.assertNotIn("less is stored", limited)
        self.assertIn("memory_limit", self.tile(*given, "--memory-limit", "1000", fails=True))

    def test_json(self):
        devices = json.loads(self.tile("devices", "--json"))["devices"]
        by_name = {device["backend"]: device for device in devices}
        self.assertTrue(by_name["cpu"]["available"])
        self.assertGreaterEqual(by_name["cpu"]["threads"], 1)
        self.assertIn(by_name["cpu"]["vector_bits"], (128, 256, 512))
        self.assertIn(by_name["cpu"]["features"], by_name["cpu"]["target"])
        told = self.tile("devices")
        self.assertRegex(told, r"\n  caches: \d+ [KM]iB, ")
        self.assertNotIn(by_name["cpu"]["features"].split()[-1], told)  # a page of them is for tools
        self.assertTrue(by_name["cuda"]["available"] or by_name["cuda"]["why"])
        self.write("p.tile", "function (A[M, N]) -> (B) { B = A - 2; }")
        self.tile("run", "p.tile", "--in", "A=iota:2x3", "--backend", "cpu")
        cache = json.loads(self.tile("cache", "--json"))
        self.assertEqual((cache["usable"], cache["entries"], cache["directory"]), (True, 2, self.path("cache")))
        self.assertEqual(json.loads(self.tile("cache", "clear", "--json"))["entries"], 0)
        os.chmod(self.path("cache"), 0o755)
        done = self.run_tile("cache", "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["usable"]), (1, False))
        self.assertTrue(json.loads(done.stdout)["why"])

    # tile fmt

    def format(self, text, language):
        return self.tile("fmt", "-", "--lang", language, input=text)

    def test_formatting(self):
        for language, before, after in (
            ("tile", "function(A [N],B[ N ])->(O){O=A*1;  C[i:N]=+(A[i]*B[ i ]),i<3 ; // remark\n\n\n\n /* b */ P=A<B?-A:B;}",
             "function (A[N], B[N]) -> (O) {\n  O = A*1;\n  C[i: N] = +(A[i]*B[i]), i<3; // remark\n\n"
             "  /* b */ P = A<B ? -A : B;\n}\n"),
            ("tile", "function (A[N],\nB[N]) -> (O) {\nO = let v=A in(v)\n+ v;\n}",
             "function (A[N],\n  B[N]) -> (O) {\n  O = let v = A in (v)\n    + v;\n}\n"),
            ("mfg", "let a=1\n\n\n\n#c  \ndef result_u8|x,y|{\nlet [b,c]=f( x,y=1 )\nu8[*b.xyz*2,-c]\n}\n",
             "let a = 1\n\n#c\ndef result_u8 |x, y| {\n  let [b, c] = f(x, y=1)\n  u8[*b.xyz*2, -c]\n}\n"),
            ("mfg", "let a = 1 \\\n   +2\nlet b = a\n|> f(1,...)\n\n\n\n", "let a = 1 \\\n  + 2\nlet b = a\n  |> f(1, ...)\n"),
            ("lift", "val f=fun(\nArrayType( Float,N ),A=>\nMap(x=>x*2.0f)o Slide(3,1)$A)",
             "val f = fun(\n  ArrayType(Float, N), A =>\n  Map(x => x*2.0f) o Slide(3, 1) $ A)\n"),
        ):
            with self.subTest(before):
                done = self.run_tile("fmt", "-", "--lang", language, input=before)
                if done.returncode != 0:
                    self.assertIn("error", done.stderr)
                    self.fail(done.stderr)
                self.assertEqual(done.stdout, after)

    def test_files_are_formatted_in_place(self):
        self.write("a.tile", "function (A) -> (O) { O = A; }\n")
        os.chmod(self.path("a.tile"), 0o640)
        os.symlink("a.tile", self.path("link.tile"))
        self.assertEqual(self.run_tile("fmt", "--check", "a.tile").stdout, "a.tile\n")
        self.assertEqual(self.run_tile("fmt", "--check", "a.tile").returncode, 1)
        self.tile("fmt", "link.tile")
        self.assertEqual(self.read("a.tile"), "function (A) -> (O) {\n  O = A;\n}\n")
        self.assertTrue(os.path.islink(self.path("link.tile")))
        self.assertEqual(os.stat(self.path("a.tile")).st_mode & 0o777, 0o640)
        self.assertEqual(self.tile("fmt", "--check", "a.tile"), "")
        self.assertIn("nothing.tile", self.tile("fmt", "nothing.tile", fails=True))
        self.assertIn("language", self.tile("fmt", "-", fails=True, input=""))
        self.write("bad.tile", "function (A) -> (O) { O = ; }\n")
        self.assertIn("bad.tile:1:", self.tile("fmt", "bad.tile", fails=True))
        self.assertEqual(self.read("bad.tile"), "function (A) -> (O) { O = ; }\n")
        self.assertEqual(os.listdir(self.folder.name).count("a.tile.formatted"), 0)

    # tile new

    def test_new_programs_run_as_they_say(self):
        for language, suffix in (("tile", "tile"), ("mfg", "mfg"), ("lift", "lift")):
            told = self.tile("new", language)
            command = told.splitlines()[1].split()
            self.assertEqual(command[:3], ["tile", "run", f"start.{suffix}"])
            self.tile(*command[1:])
            self.assertEqual(self.tile("fmt", "--check", f"start.{suffix}"), "")
            self.assertIn("already", self.tile("new", language, fails=True))
        # A picture to look at: opaque, and of dark and bright places.
        self.tile("run", "start.mfg", "--in", "input_u8=soft.png", "--out", "result_u8=soft.npy")
        numbers = self.read("soft.npy", "rb")[-48 * 64 * 4:]  # blue, green, red, opacity
        self.assertEqual(set(numbers[3::4]), {255})
        self.assertGreater(max(numbers[2::4]) - min(numbers[2::4]), 200)
        other = self.tile("new", "tile", "layer.txt").splitlines()[1].split()
        self.tile(*other[1:])
        self.assertIn("cannot write", self.tile("new", "tile", "no/a.tile", fails=True))
        self.tile("new", "fortran", fails=True)

    # Completions and manual pages

    told = {}

    def tell(self, *arguments):
        """What the program says of itself, always the same: a process for each question is enough."""
        if arguments not in Tools.told:
            Tools.told[arguments] = self.tile(*arguments)
        return Tools.told[arguments]

    def commands(self):
        """The names of all commands, by --help."""
        rows = self.tell("--help").split("Subcommands:\n")[1].splitlines()
        return [row.split()[0] for row in rows if row.startswith("  ") and not row.startswith("   ")]

    def parts(self, command):
        """The names of the commands in a command, by --help."""
        told = self.tell(command, "--help").split("Subcommands:\n")
        return re.findall(r"^  (\w+)", told[1], re.M) if len(told) > 1 else []

    def options(self, *command):
        return set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", self.tell(*command, "--help"), re.M))

    def all_options(self, command):
        return self.options(command).union(*(self.options(command, part) for part in self.parts(command)))

    def test_help_shows_options_as_they_are_typed(self):
        told = self.tell("run", "--help")
        self.assertRegex(told, r"(?m)^  --no-warnings +\S")
        self.assertRegex(told, r"(?m)^  --time-passes \[=text\|json\]")

    def test_manual_pages_agree_with_help(self):
        commands = self.commands()
        self.assertIn("run", commands)
        self.tile("man", "--shared-files", self.path("share"))
        pages = pathlib.Path(self.path("share"), "man", "man1")
        self.assertEqual({page.name for page in pages.iterdir()}, {"tile.1"} | {f"tile-{c}.1" for c in commands})
        whole = (pages / "tile.1").read_text()
        self.assertEqual(whole, self.tile("man"))
        for command in commands:
            text = (pages / f"tile-{command}.1").read_text()
            self.assertEqual(text, self.tile("man", command))
            self.assertIn(f"tile\\-{command}", whole)
            told = {option.replace("\\-", "-") for option in re.findall(r"\\fB(\\-\\-[a-z\\-]+)\\fR", text)}
            self.assertEqual(told, self.all_options(command), command)
            for part in self.parts(command):
                self.assertIn(f'.SS "{command} {part}"', text)
        self.assertIn("no command", self.tile("man", "walk", fails=True))
        if shutil.which("groff"):
            for page in pages.iterdir():
                done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", str(page)], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def completed(self, *words):
        """What bash offers for the last word."""
        self.write("completion", self.tell("completion", "bash"))
        script = ('. ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tile; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.folder.name, capture_output=True,
                              text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_gradients_say_what_they_are(self):
        self.tile("new", "tile")
        self.tile("new", "lift")
        self.tile("new", "mfg")
        text = self.tile("grad", "start.tile", "--of", "O", "--wrt", "A")
        self.write("gradient.tile", text)
        self.assertIn("outputs O, DA", self.tile("check", "gradient.tile"))
        text = self.tile("grad", "start.lift", "--of", "out", "--wrt", "A")
        self.assertTrue(text.startswith("// To be read"), text)
        self.assertIn("tile run --grad out:A", text)
        told = self.tile("grad", "start.mfg", "--of", "result_u8", "--wrt", "input_u8", fails=True)
        self.assertIn("input_u8 is u8: only floating-point inputs have gradients", told)
        self.assertIn("hint: ", told)

    def test_bash_completes(self):
        self.assertEqual(set(self.commands()) - set(self.completed("tile", "")), set())
        self.assertEqual(self.completed("tile", "exp"), ["explain"])
        self.assertEqual(set(self.completed("tile", "run", "--")), self.options("run"))
        self.assertEqual(self.completed("tile", "check", "--diagnostics", "j"), ["json"])
        self.assertEqual(self.completed("tile", "run", "--backend", "c"), ["cpu", "cuda"])
        self.assertEqual(self.completed("tile", "run", "--lang", ""), ["tile", "mfg", "lift"])
        self.assertIn("dead-code", self.completed("tile", "run", "--skip-pass", "d"))
        self.write("p.tile", "function (A) -> (O) { O = A; }")
        for option in ("--lang", "--skip-pass", "--stage", "--precision"):
            values = self.completed("tile", "emit", option, "")
            for value in values if option != "--skip-pass" else [",".join(values)]:  # of passes several may be given
                if value not in ("mfg", "lift", "cuda", "ptx", "sass", "views"):
                    self.tile("emit", "p.tile", "--shape", "A=3", "--backend", "cpu", option, value)
        self.assertEqual(set(self.completed("tile", "new", "")), {"tile", "mfg", "lift"})
        self.write("some.tile", "")
        self.assertEqual(self.completed("tile", "check", "some"), ["some.tile"])
        self.assertEqual(self.completed("tile", "records", ""), self.parts("records"))
        self.assertEqual(self.completed("tile", "records", "ver"), ["verify"])
        self.assertEqual(set(self.completed("tile", "records", "merge", "--")), self.options("records", "merge"))
        self.assertEqual(self.completed("tile", "records", "list", "--diagnostics", "t"), ["text"])
        self.assertEqual(self.completed("tile", "records", "import", "some"), ["some.tile"])

    def test_completions_have_every_option_and_are_scripts(self):
        for shell in SHELLS:
            text = self.tile("completion", shell)
            for command in self.commands():
                self.assertIn(command, text)
                for option in self.all_options(command):
                    self.assertIn(option if shell != "fish" else f"-l {option[2:]}", text)
            if shutil.which(shell):
                check = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True)
                self.assertEqual((check.returncode, check.stderr), (0, ""), shell)
        self.tile("completion", "csh", fails=True)

    # tile watch

    def wait_for(self, what):
        for _ in range(600):
            if what():
                return
            time.sleep(0.05)
        self.fail("nothing happened within half a minute")

    def test_watch_runs_again(self):
        self.write("w.tile", "function (A[N]) -> (O) { O = A + 1; }\n")
        log = open(self.path("log"), "w")
        process = subprocess.Popen([TILE, "watch", "w.tile", "--in", "A=iota:3", "--runs", "4"], cwd=self.folder.name,
                                   env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            self.wait_for(lambda: self.read("log").count("watching") == 1)
            self.write("w.tile", "function (A[N]) -> (O) { O = A + 10; }\n")
            self.wait_for(lambda: self.read("log").count("watching") == 2)
            self.write("w.tile", "function (A[N]) -> (O) { O = A + ; }\n")
            self.wait_for(lambda: self.read("log").count("watching") == 3)
            self.write("other", "function (A[N]) -> (O) { O = A + 100; }\n")
            os.replace(self.path("other"), self.path("w.tile"))  # as editors save
            self.assertEqual(process.wait(30), 0)
        finally:
            process.kill()
            process.wait()
            log.close()
        told = self.read("log")
        for text in ("from 1 to 3", "from 10 to 12", "w.tile:1:", "from 100 to 102"):
            self.assertIn(text, told)

    def test_watch_makes_a_page(self):
        self.tile("new", "mfg", "f.mfg")
        self.tile("watch", "f.mfg", "--in", "input_u8=random:20x30x4:u8", "--runs", "1", "--html", "page.html")
        page = self.read("page.html")
        pictures = re.findall(r'src="data:image/png;base64,([A-Za-z0-9+/=]+)"', page)
        self.assertEqual(len(pictures), 4)  # the pair and each alone
        self.assertNotIn("http:", page.replace("http-equiv", ""))
        import base64
        for picture in pictures:
            data = base64.b64decode(picture, validate=True)
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(struct.unpack(">II", data[16:24]), (30, 20))
        self.write("f.mfg", "let a = <b>\n")
        self.tile("watch", "f.mfg", "--in", "input_u8=random:20x30x4:u8", "--runs", "1", "--html", "page.html", fails=True)
        self.assertIn("&lt;b&gt;", self.read("page.html"))
        self.assertIn("nothing.mfg", self.tile("watch", "nothing.mfg", fails=True))


if __name__ == "__main__":
    unittest.main()
