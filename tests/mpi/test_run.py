#!/usr/bin/env python3
"""`tile run` on processes: boxes of files, what is printed, and errors told once."""
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

MM = "function (A[M, L], B[L, N]) -> (C) {\n  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n"
COPY = "function (A[M, N]) -> (C) {\n  C[i, j: M, N] = =(A[i, j]);\n}\n"
SUM = "function (A[N]) -> (S) {\n  S[] = +(A[i]);\n}\n"


def npy(path, shape, values, columns=False, code="f"):
    names = {"f": "<f4", "i": "<i4"}
    head = f"{{'descr': '{names[code]}', 'fortran_order': {columns}, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                                   struct.pack(f"<{len(values)}{code}", *values))


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write("mm.tile", MM)
        self.write("sum.tile", SUM)
        npy(self.path("a.npy"), (7, 4), [float(i % 5) for i in range(28)])
        npy(self.path("b.npy"), (4, 5), [float(i % 7) for i in range(20)], columns=True)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text)

    def run_(self, ranks, *arguments, program="mm.tile", wrap=()):
        command = ["tile", "run", program, "--threads", "1", *arguments]
        if ranks:
            command = ["mpirun", "-n", str(ranks), *wrap, *command, "--transport", "mpi"]
        return subprocess.run(command, cwd=self.folder.name, text=True, capture_output=True, timeout=120)

    def product(self, ranks, *arguments):
        return self.run_(ranks, "--in", "A=a.npy", "--in", "B=b.npy", *arguments)

    def test_boxes_of_files(self):
        alone = self.product(0, "--out", "C=alone.npy")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        expected = pathlib.Path(self.path("alone.npy")).read_bytes()
        for ranks, mesh, layout in ((2, "x=2", "A[x,*] B[x,*] C[x,*]"), (4, "x=2,y=2", "A[x,*] B[*,y] C[x,y]"),
                                    (4, "x=4", "A[*,x] B[*,x] C[*,x]"), (8, "x=8", "A[x,*] B[*,*] C[x,*]"),
                                    (3, "x=3", "A[x(0,6,1),*] B[*,*] C[*,*]")):
            with self.subTest(mesh=mesh, layout=layout):
                done = self.product(ranks, "--mesh", mesh, "--layout", layout, "--out", "C=c.npy")
                self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
                self.assertEqual(pathlib.Path(self.path("c.npy")).read_bytes(), expected)

    def test_no_rank_reads_all(self):
        """Of a file of 64 MB each of four ranks reads a quarter and no more."""
        rows, columns = 4096, 4096
        path = pathlib.Path(self.path("big.npy"))
        npy(path, (rows, columns), [])
        with path.open("r+b") as file:
            file.truncate(128 + rows * columns * 4)
        self.write("copy.tile", COPY)
        # Each rank leaves its peak in a file of its own: what several ranks print may run together.
        script = ('import os, pathlib, resource, subprocess, sys\n'
                  'status = subprocess.run(["tile", *sys.argv[1:]]).returncode\n'
                  'peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n'
                  'pathlib.Path(f"peak-{os.getpid()}").write_text(str(peak))\n'
                  'sys.exit(status)\n')
        self.write("counted.py", script)
        small = self.peaks("--in", "A=random:8x8", "--out", "C=small.npy")
        large = self.peaks("--in", "A=big.npy", "--out", "C=big-c.npy")
        # A quarter of input and output are 32 MB; whole tensors would be 128.
        self.assertLess(max(large) - min(small), 64 * 1024)
        self.assertEqual(pathlib.Path(self.path("big-c.npy")).stat().st_size, path.stat().st_size)

    def peaks(self, *arguments):
        """The largest memory of each rank, in KB."""
        done = subprocess.run(["mpirun", "-n", "4", "python3", "counted.py", "run", "copy.tile", "--threads", "1", "--mesh",
                               "x=4", "--transport", "mpi", "--layout", "A[x,*] C[x,*]", *arguments],
                              cwd=self.folder.name, text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        peaks = list(pathlib.Path(self.folder.name).glob("peak-*"))
        self.assertEqual(len(peaks), 4)
        sizes = [int(peak.read_text()) for peak in peaks]
        for peak in peaks:
            peak.unlink()
        return sizes

    def test_only_rank_0_prints(self):
        done = self.product(4, "--mesh", "x=4", "--repeat", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("C: f32 [7, 5]"), 1)
        self.assertEqual(done.stderr.count("median"), 1)
        text = self.product(3, "--mesh", "x=3", "--out", "C=-").stdout
        self.assertEqual(text, self.product(0, "--out", "C=-").stdout)

    def test_partial_sums_are_added(self):
        for out in ("S=-", "S=s.npy"):
            done = self.run_(3, "--mesh", "x=3", "--layout", "A[x] S[] + x  S: i=x", "--in", "A=iota:100", "--out", out,
                             program="sum.tile")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(struct.unpack("<f", pathlib.Path(self.path("s.npy")).read_bytes()[-4:]), (4950.0,))

    def test_errors_are_told_once(self):
        self.write("wrong.tile", MM.replace("A[i, k]", "Q[i, k]"))
        done = self.run_(4, "--in", "A=a.npy", "--in", "B=b.npy", "--mesh", "x=4", program="wrong.tile")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("wrong.tile:2:"), 1, done.stderr)
        done = self.product(4, "--mesh", "x=4", "--layout", "A[x, q]")
        self.assertEqual(done.stderr.count("--layout:1:6: parse error [mesh]"), 1, done.stderr)
        done = self.product(4, "--mesh", "x=3")
        self.assertEqual(done.stderr.count("the mesh x=3 has 3 ranks, its transport 4"), 1, done.stderr)

    def test_an_error_of_one_rank_reaches_all(self):
        """Only one rank's input is missing: rank 0 tells it, and all end."""
        self.write("own.sh", 'cd "rank$OMPI_COMM_WORLD_RANK" && exec tile "$@"\n')
        for rank in range(4):
            folder = pathlib.Path(self.path(f"rank{rank}"))
            folder.mkdir()
            (folder / "mm.tile").write_text(MM if rank != 1 else MM.replace("*", "-"))
            npy(folder / "b.npy", (4, 5), [0.0] * 20)
            if rank != 2:
                npy(folder / "a.npy", (7, 4), [0.0] * 28)

        def run(ranks):
            return subprocess.run(["mpirun", "-n", str(ranks), "sh", "own.sh", "run", "mm.tile", "--mesh", f"x={ranks}",
                                   "--transport", "mpi", "--in", "A=a.npy", "--in", "B=b.npy"], cwd=self.folder.name,
                                  text=True, capture_output=True, timeout=60)
        done = run(2)
        self.assertEqual(done.stderr.count("[agreement]: rank 1 of 2 was given another program than rank 0"), 1, done.stderr)
        (pathlib.Path(self.path("rank1")) / "mm.tile").write_text(MM)
        done = run(4)
        self.assertEqual(done.stderr.count("a.npy: No such file"), 1, done.stderr)
        self.assertIn("rank 2 of 4 failed before", done.stderr)

    def odd_files(self):
        os.mkdir(self.path("folder.npy"))
        os.mkfifo(self.path("pipe.npy"))
        os.symlink("loop.npy", self.path("loop.npy"))
        os.symlink("/dev/zero", self.path("zero.npy"))
        os.symlink("/dev/full", self.path("full.npy"))
        self.write("sparse.npy", "")
        os.truncate(self.path("sparse.npy"), 1 << 40)
        npy(self.path("huge.npy"), (1 << 13, 1 << 28), [])
        os.truncate(self.path("huge.npy"), (1 << 43) + 128)

    def copies_at_once(self, pairs):
        """What each copy of a source to a target ends with; launchers mostly wait."""
        self.write("copy.tile", COPY)
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda pair: self.copy(*pair), pairs))

    def copy(self, source, target, wrap=()):
        if not os.path.exists(self.path("copy.tile")):
            self.write("copy.tile", COPY)
        return self.run_(2, "--mesh", "x=2", "--layout", "A[x,*] C[x,*]", "--in", f"A={source}", "--out", f"C={target}",
                         program="copy.tile", wrap=wrap)

    def told_once(self, done, words):
        self.assertNotEqual(done.returncode, 0, words)
        self.assertEqual(done.stderr.count(words), 1, done.stderr)

    def test_inputs_that_are_no_files(self):
        """Each is refused by its name, soon, and nobody waits for a pipe."""
        self.odd_files()
        names = {"folder.npy": "cannot read folder.npy: it is a directory",
                 "pipe.npy": "cannot read pipe.npy: it is no regular file",
                 "loop.npy": "cannot read loop.npy: Too many levels of symbolic links",
                 "zero.npy": "cannot read zero.npy: it is no regular file",
                 "none.npy": "cannot read none.npy: No such file",
                 "sparse.npy": "sparse.npy: not a .npy file",
                 "huge.npy": '"huge.npy" takes 4398046511104 bytes',
                 "random:1048576x268435456": "268435456\" takes 562949953421312 bytes"}
        for (name, words), done in zip(names.items(), self.copies_at_once((name, "c.npy") for name in names)):
            with self.subTest(name=name):
                self.told_once(done, words)
        self.assertFalse(os.path.exists(self.path("c.npy")))

    def test_outputs_that_are_no_files(self):
        self.odd_files()
        names = {"folder.npy": "it is a directory", "pipe.npy": "it is no regular file",
                 "loop.npy": "Too many levels of symbolic links", "full.npy": "it is no regular file",
                 "no/c.npy": "No such file"}
        for (name, words), done in zip(names.items(), self.copies_at_once(("a.npy", name) for name in names)):
            with self.subTest(name=name):
                self.told_once(done, f"cannot write {name}: {words}")
        # 256 MB where 100 are allowed.
        limited = ("bash", "-c", 'ulimit -f 100000; trap "" XFSZ; exec "$0" "$@"')
        self.told_once(self.copy("random:8192x8192", "c.npy", wrap=limited), "cannot write c.npy: File too large")

    def test_an_output_in_the_place_of_an_input(self):
        before = pathlib.Path(self.path("a.npy")).read_bytes()
        os.symlink("a.npy", self.path("link.npy"))
        for _ in range(2):
            done = self.copy("a.npy", "link.npy")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(os.path.islink(self.path("link.npy")))
        self.assertEqual(pathlib.Path(self.path("a.npy")).read_bytes()[-4 * 28:], before[-4 * 28:])


if __name__ == "__main__":
    unittest.main()
