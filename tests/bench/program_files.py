#!/usr/bin/env python3
"""tile-bench run on a program's file: program_files.py TILE-BENCH"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.abspath(sys.argv.pop(1))
PROGRAMS = {
    "p.tile": "function (A[M, L], B[L, N]) -> (P) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n  P = sort(C, 0);\n}\n",
    "q.tile": "function (A[M, L], B[L, N]) -> (P) {\n  C[i, j: M, N] = +(B[k, j] * A[i, k]);\n  P = sort(C, 0);\n}\n",
    "other.tile": "function (A[M, L], B[L, N]) -> (P) {\n  C[i, j: M, N] = +(A[i, k]), j < N;\n  P = sort(C, 0);\n}\n",
    "fewer.tile": "function (A[M, L], B[L, N]) -> (P) { P[i: M] = +(A[i, k] * B[k, j]); }\n",
    "sum.lift": "val f = fun(\n  ArrayType(Float, N), A => Reduce(add, 0.0f) $ A)\n",
    "bad.tile": "function (A) -> (P) { P = ; }\n",
}
SHAPES = ["--shape", "A=30x40", "--shape", "B=40x50"]


class ProgramFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for name, text in PROGRAMS.items():
            with open(os.path.join(self.folder.name, name), "w") as file:
                file.write(text)

    def tearDown(self):
        self.folder.cleanup()

    def bench(self, *arguments, status=0):
        done = subprocess.run([BENCH, "run", *arguments, "--quick", "--backend", "cpu"], cwd=self.folder.name, text=True,
                              capture_output=True, timeout=120,
                              env=dict(os.environ, TILE_CACHE_DIR=os.path.join(self.folder.name, "cache")))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_program(self):
        told = self.bench("p.tile", *SHAPES)
        for pattern in (r"^p\.tile: [\d.]+ us at least, [\d.]+ us in the median of \d+ runs$",
                        r"^  compiled in [\d.]+ ms; 18.8 kB of inputs and outputs, [\d.]+ k?B of temporaries$",
                        r"^  kernel C: [\d.]+ us, \d+ % of all, 18\.8 kB, 120 kFLOP, [\d.]+ % of its ceiling$",
                        r"^  kernel sort: ", r"^    \S.*tile|^    \w+ "):
            self.assertRegex(told, re.compile(pattern, re.M))
        self.assertIn("kernel out", self.bench("sum.lift", "--shape", "A=1000"))

    def test_two_programs_in_turns(self):
        told = self.bench("p.tile", *SHAPES, "--against", "q.tile")
        self.assertRegex(told, r"\nq\.tile takes [\d.]+ times as long \([\d.]+ to [\d.]+[^)]*\); largest difference of results 0\n")
        self.assertIn("other.tile takes", self.bench("p.tile", *SHAPES, "--against", "other.tile", status=1))
        self.assertIn("type or shape", self.bench("p.tile", *SHAPES, "--against", "fewer.tile", status=1))

    def test_results_as_files(self):
        told = self.bench("p.tile", *SHAPES, "--against", "q.tile", "--json", "r.json", "--html", "r.html")
        with open(os.path.join(self.folder.name, "r.json")) as file:
            kept = json.load(file)["benchmarks"]
        self.assertEqual([b["name"] for b in kept], ["p.tile", "q.tile"])
        for entry in kept:  # what was printed, not another measurement
            runs = re.search(rf"^{entry['name']}: ([\d.]+) us at least, .* of (\d+) runs$", told, re.M)
            self.assertEqual((f"{min(entry['rounds']['tile']) / 1e3:.3f}", str(entry["iterations"])), runs.groups())
            kernels = re.findall(r"^  kernel (\S+): ([\d.]+) us,", told.split(entry["name"] + ": ")[1], re.M)[:2]
            self.assertEqual([(k["name"], f"{k['time'] / 1e3:.3f}") for k in entry["launches"]], kernels)
            self.assertIn("schedule {", entry["launches"][0]["schedule"])
        self.assertNotIn("beside", kept[0])
        self.assertRegex(kept[1]["beside"], r"^takes [\d.]+ times as long \(.*\); .*, beside p\.tile$")
        with open(os.path.join(self.folder.name, "r.html")) as file:
            page = file.read()
        self.assertIn("<h2>Kernels</h2>", page)
        for shown in ("18.8 kB</td><td>120 kFLOP", "schedule {", "compiled in ", " of temporaries", kept[1]["beside"]):
            self.assertIn(shown, page)
        self.assertIn("p.tile", page)
        self.assertIn("<h1>tile-bench: p.tile, q.tile</h1>", page)
        for word in ("Classes", "rings", "peer<"):  # programs of one's own have neither classes nor peers
            self.assertNotIn(word, page)
        roof = page.split('aria-label="roofline"')[-1].split("</svg>")[0]
        self.assertEqual([roof.count(f">{name}</text>") for name in ("p.tile", "q.tile")], [1, 1])

    def test_a_page_alone(self):
        self.bench("p.tile", *SHAPES, "--html", "alone.html")
        with open(os.path.join(self.folder.name, "alone.html")) as file:
            page = file.read()
        self.assertIn("p.tile", page)
        lead = re.search(r'<p class="lead">(.*?)</p>', page).group(1)
        self.assertEqual(lead.count(" thread"), 1, lead)

    def test_progress_on_a_terminal(self):
        ours, theirs = os.openpty()
        with subprocess.Popen([BENCH, "run", "p.tile", *SHAPES, "--quick", "--backend", "cpu", "--json", "r.json"],
                              cwd=self.folder.name, stdout=subprocess.DEVNULL, stderr=theirs,
                              env=dict(os.environ, TILE_CACHE_DIR=os.path.join(self.folder.name, "cache"))) as running:
            os.close(theirs)
            told = b""
            try:
                while piece := os.read(ours, 4096):
                    told += piece
            except OSError:  # the program has ended
                pass
        os.close(ours)
        self.assertEqual(running.returncode, 0)
        for part in (b"p.tile: compiling", b"p.tile: round 1", b"p.tile: timing its kernels", b"measuring the ceilings"):
            self.assertIn(part, told)

    def test_the_label_of_a_roof_stands_beside_it(self):
        self.bench("p.tile", *SHAPES, "--html", "roof.html")
        with open(os.path.join(self.folder.name, "roof.html")) as file:
            page = file.read()
        number = r'="([\d.]+)"'
        x1, y1, x2, y2 = (float(v) for v in re.search(
            f'<line x1{number} y1{number} x2{number} y2{number} class="roof"', page).groups())
        x, y = (float(v) for v in re.search(
            f'<text x{number} y{number} text-anchor="end"[^>]*>[\\d.]+ GB/s copied<', page).groups())
        # The text ends above the slope, so that all of it is.
        self.assertLess(y, y1 + (y2 - y1) * (x - x1) / (x2 - x1))
        self.assertEqual([f for f in os.listdir(self.folder.name) if f.endswith((".json", ".partial"))], [])

    def test_wrong_requests(self):
        self.assertIn("--against", self.bench("p.tile", *SHAPES, "--peers", status=1))
        self.assertIn("the file of a program", self.bench("--shape", "A=2x2", status=1))
        told = self.bench("p.tile", "--shape", "A=2x2", status=1)
        self.assertIn("no shape of B", told)
        self.assertIn("hint: add --shape B=", told)
        self.assertIn("no input Q", self.bench("p.tile", *SHAPES, "--shape", "Q=1", status=1))
        self.assertIn("there is no file none.tile", self.bench("none.tile", *SHAPES, status=1))
        self.assertIn("alone", self.bench("p.tile", "q.tile", *SHAPES, status=1))
        self.assertIn("bad.tile:1:", self.bench("bad.tile", "--shape", "A=1", status=1))
        self.assertIn("bind error", self.bench("p.tile", "--shape", "A=2x3", "--shape", "B=4x5", status=1))


if __name__ == "__main__":
    unittest.main()
