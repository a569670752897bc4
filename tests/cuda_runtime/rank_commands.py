#!/usr/bin/env python3
"""`tile run` and `tile explain` of programs on a mesh of GPUs: values, and how parts travel.

Usage: rank_commands.py TILE, with a driver of the tests and an NCCL of them in the environment."""
import os
import subprocess
import sys
import tempfile
import unittest

TILE = sys.argv.pop(1)
PRODUCT = "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n"
VALUES = "[[10, 13],\n [28, 40]]\n"
INPUTS = ["--in", "A=iota:2x3", "--in", "B=iota:3x2", "--out", "C=-"]
LINKED = "ranks exchange between GPUs over NCCL 2.28.9"
STAGED = "ranks exchange through the host's memory: "
CACHE = tempfile.TemporaryDirectory()


class RankCommands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "mm.tile")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(PRODUCT)

    def tearDown(self):
        self.folder.cleanup()

    def tile(self, command, *arguments, gpus=2, nccl=None):
        # What one run compiles the others find.
        environment = dict(os.environ, TILE_FAKE_GPUS=str(gpus), TILE_CACHE="rw", TILE_CACHE_DIR=CACHE.name)
        if nccl:
            environment["TILE_NCCL"] = nccl
        return subprocess.run([TILE, command, self.file, *arguments], capture_output=True, text=True,
                              env=environment, check=False)

    def run_on(self, mesh, backend="cuda", **more):
        done = self.tile("run", "--backend", backend, "--mesh", mesh, "--verbose", *INPUTS, **more)
        self.assertEqual((done.returncode, done.stdout), (0, VALUES), done.stderr)
        return done.stderr

    def test_each_rank_has_a_gpu(self):
        for mesh, gpus in (("x=2", 2), ("x=2", 4), ("x=2,y=2", 4)):
            said = self.run_on(mesh, gpus=gpus)
            self.assertIn(f"tile: {LINKED}\n", said)
            self.assertEqual(said.count("exchange"), 1, said)

    def test_ranks_that_share_gpus(self):
        self.assertIn(STAGED + "ranks 0 and 2 share a GPU", self.run_on("x=3"))
        self.assertIn(STAGED + "ranks 0 and 1 share a GPU", self.run_on("x=2", gpus=1))
        self.assertIn(STAGED + "ranks 0 and 1 share a GPU", self.run_on("x=2", backend="cuda:1"))

    def test_without_nccl(self):
        self.assertIn(STAGED + "rank 0 has no NCCL: TILE_NCCL is off", self.run_on("x=2", nccl="off"))
        self.assertIn(STAGED + "rank 0 has no NCCL: no NCCL is found", self.run_on("x=2", nccl="/no/libnccl.so.2"))

    def test_explain_says_how_parts_travel(self):
        shapes = ["--backend", "cuda", "--shape", "A=4x4", "--shape", "B=4x4", "--mesh", "x=2"]
        self.assertIn(LINKED, self.tile("explain", *shapes).stdout)
        self.assertIn(STAGED, self.tile("explain", *shapes, gpus=1).stdout)
        self.assertNotIn("exchange through", self.tile("explain", "--backend", "cpu", *shapes[2:]).stdout)


if __name__ == "__main__":
    unittest.main()
