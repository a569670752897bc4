"""The example filters on a picture: test_filters.py PATH_OF_TILE SOURCE_FOLDER [--write].

Each filter's picture equals the one kept in expected/ (made by the reference backend), on the reference and on the CPU,
and, for those with a model in models.py, what plain Python computes. --write renews the kept pictures."""
import os
import subprocess
import sys
import tempfile
import unittest

import models
from photograph import photograph
from png import read_png, write_png

WRITE = "--write" in sys.argv
if WRITE:
    sys.argv.remove("--write")
ROOT = os.path.abspath(sys.argv.pop())
TILE = os.path.abspath(sys.argv.pop())
FILTERS = os.path.join(ROOT, "runtime", "examples", "filters")
EXPECTED = os.path.join(ROOT, "tests", "filters", "expected")
WIDTH, HEIGHT = 96, 64
PLANES = {"box_plane", "gaussian_plane"}
# Filters with f32 arithmetic may differ where a value is as good as half way between two numbers.
EXACT = {"blur", "median", "dilate", "mosaic", "dither"}
# Where a comparison decides between colours that differ by more than one.
DECIDED = {"unsharp_mask", "crystallise", "antialias", "swirl"}


def differences(a, b):
    """How many components differ, and the largest difference."""
    pairs = [(p, q) for row, other in zip(a, b) for c, d in zip(row, other) for p, q in zip(c, d)]
    return sum(p != q for p, q in pairs), max(abs(p - q) for p, q in pairs)


class Filters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.picture = photograph(WIDTH, HEIGHT)
        cls.photo = os.path.join(cls.folder.name, "photo.png")
        write_png(cls.photo, cls.picture)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def filtered(self, name, *options, backend="cpu"):
        out = os.path.join(self.folder.name, "out.png")
        plane = name in PLANES
        environment = dict(os.environ, TILE_CACHE="off")
        done = subprocess.run(
            [TILE, "run", os.path.join(FILTERS, name + ".mfg"), "--backend", backend,
             "--in", ("input_f32=" if plane else "input_u8=") + self.photo,
             "--out", ("result_f32=" if plane else "result_u8=") + out, *options],
            env=environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, name + ": " + done.stdout + done.stderr)
        return read_png(out)

    def expect_near(self, name, got, wanted):
        count, largest = differences(got, wanted)
        if name in EXACT:
            self.assertEqual(count, 0, name)
        else:
            self.assertLessEqual(count, WIDTH * HEIGHT * 4 // 200, name)
            self.assertLessEqual(largest, 255 if name in DECIDED else 1, name)

    def test_reader(self):
        self.assertEqual(read_png(self.photo), self.picture)

    def test_every_filter_against_its_picture(self):
        names = sorted(f[:-4] for f in os.listdir(FILTERS) if f.endswith(".mfg"))
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            with self.subTest(name):
                kept = os.path.join(EXPECTED, name + ".png")
                reference = self.filtered(name, backend="reference")
                if WRITE:
                    write_png(kept, reference)
                self.expect_near(name, reference, read_png(kept))
                self.expect_near(name, self.filtered(name), reference)
                # A filter does something.
                self.assertGreater(differences(reference, self.picture)[0], WIDTH * HEIGHT // 50)

    def test_page(self):
        names = ("blur", "box_plane", "sobel")
        out = os.path.join(self.folder.name, "page.html")
        subprocess.run([sys.executable, os.path.join(FILTERS, "page.py"), TILE, self.photo, out, *names], check=True,
                       env=dict(os.environ, TILE_CACHE="off"), timeout=300)
        with open(out) as file:
            text = file.read()
        self.assertEqual(text.count("data:image/png;base64,"), 2 * len(names))
        self.assertEqual([name for name in names if f'id="{name}"' not in text], [])

    def test_models(self):
        for name in ("blur", "median", "dilate", "mosaic", "dither", "sobel", "unsharp_mask", "tone_curve", "bilateral",
                     "stretch"):
            with self.subTest(name):
                self.expect_near(name, self.filtered(name), getattr(models, name)(self.picture))

    def test_parameters(self):
        for radius in (1, 2, 9):
            got = self.filtered("blur", "--param", f"radius={radius}")
            self.expect_near("blur", got, models.blur(self.picture, radius))
        for size in (2, 7, 200):
            got = self.filtered("mosaic", "--param", f"size={size}")
            self.expect_near("mosaic", got, models.mosaic(self.picture, size))
        got = self.filtered("tone_curve", "--param", "exposure=-1.5", "--param", "shoulder=0")
        self.expect_near("tone_curve", got, models.tone_curve(self.picture, -1.5, 0))

    def test_threads_and_vectors_change_nothing(self):
        for features in ("avx2", "sse"):
            self.assertEqual(self.filtered("median", "--features", features), models.median(self.picture))
            self.expect_near("bilateral", self.filtered("bilateral", "--features", features), self.filtered("bilateral"))


if __name__ == "__main__":
    unittest.main()
