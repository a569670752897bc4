"""`tile tune` and `tile records`, run as a user runs them: test_tuning.py PATH_OF_TILE."""
import collections
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TILE = os.path.abspath(sys.argv.pop(1))
MATMUL = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }\n"
SHAPES = ["--backend", "cpu", "--shape", "A=64x48", "--shape", "B=48x80"]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = lambda name: os.path.join(self.folder.name, name)
        self.write("mm.tile", MATMUL)
        self.write("other.tile", MATMUL.replace("A", "X").replace("B", "Y").replace("C", "Z"))
        self.write("two.tile", "function (A[M, L], B[L, N]) -> (C, S) {\n"
                   "  C[i, j: M, N] = +(A[i, k] * B[k, j]);\n  S[j: N] = +(B[k, j]);\n}\n")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def environment(self, cache):
        return dict(os.environ, TILE_CACHE_DIR=self.path(cache), TILE_THREADS="1")

    def run_tile(self, arguments, cache):
        return subprocess.run([TILE, *arguments], cwd=self.folder.name, env=self.environment(cache),
                              capture_output=True, text=True, timeout=300)

    def tile(self, *arguments, cache="cache", status=0):
        done = self.run_tile(arguments, cache)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + (done.stderr if status else "")

    def tune(self, cache="cache", seconds="0.5", *more):
        return json.loads(self.tile("tune", "mm.tile", *SHAPES, "--seconds", seconds, "--json", *more, cache=cache))

    def records(self, cache="cache"):
        return json.loads(self.tile("records", "list", "--json", cache=cache))


class Tuning(Case):
    def test_tune_leaves_a_record_that_explain_names(self):
        self.assertNotIn("record", self.tile("explain", "mm.tile", *SHAPES))
        tuned = self.tune()["kernels"]
        self.assertEqual(len(tuned), 1)
        name = tuned[0]["record"]
        self.assertIn(f"tuned, record {name}: ", self.tile("explain", "mm.tile", *SHAPES, "--all"))
        self.assertIn(f"  record {name}  ", self.tile("explain", "mm.tile", *SHAPES))
        # Whatever the program calls its tensors.
        renamed = [s.replace("A=", "X=").replace("B=", "Y=") for s in SHAPES]
        explained = json.loads(self.tile("explain", "other.tile", *renamed, "--json"))
        self.assertEqual(explained["kernels"][0]["record"], name)
        self.assertIn(name, self.tile("records", "list"))
        listed = self.records()
        self.assertEqual([r["record"] for r in listed], [name])
        self.assertEqual(listed[0]["kernel"], "C")
        self.assertGreaterEqual(listed[0]["samples"], 1)
        self.assertGreaterEqual(len(json.loads(self.tile("records", "list", "--all", "--json"))), 1)

    def test_records_travel(self):
        name = self.tune()["kernels"][0]["record"]
        self.tile("records", "export", "mine.jsonl")
        self.tile("records", "import", "mine.jsonl", "--no-race", "--backend", "cpu", cache="fresh")
        self.assertIn(f"record {name}", self.tile("explain", "mm.tile", *SHAPES, cache="fresh"))
        again = self.tile("records", "import", "mine.jsonl", "--backend", "cpu", cache="fresh")
        self.assertIn("0 records are new", again)
        # Merging with cat, and with the command, which leaves each once.
        self.write("twice.jsonl", self.read("mine.jsonl") * 2)
        self.tile("records", "merge", "merged.jsonl", "twice.jsonl", "mine.jsonl", "--no-race", "--backend", "cpu")
        self.assertEqual(sorted(self.read("merged.jsonl").splitlines()), sorted(self.read("mine.jsonl").splitlines()))
        self.assertEqual(self.tile("records", "export", "-"), self.read("mine.jsonl"))

    def test_damaged_files_are_passed_over(self):
        self.tune()
        self.tile("records", "export", "mine.jsonl")
        mine = self.read("mine.jsonl")  # one record where the machine had time for no more
        self.write("bad.jsonl", "noise\n" + mine + mine[:-40] + "\n{\"tile\":\"tuning 9\"}\n\0\n")
        done = self.run_tile(["records", "import", "bad.jsonl", "--no-race", "--backend", "cpu"], "fresh")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("damaged lines passed over", done.stderr)
        self.assertIn("later format", done.stderr)
        store = glob.glob(self.path("cache/records-*.jsonl"))
        self.assertEqual(len(store), 1)
        with open(store[0], "a", encoding="utf-8") as file:
            file.write("half a line")
        self.assertIn("tuned, record", self.tile("explain", "mm.tile", *SHAPES, "--threads", "1", "--all"))
        self.assertIn("cannot read", self.tile("records", "import", "none.jsonl", status=1))

    def test_files_of_the_first_format_are_named(self):
        self.tune()
        self.write("cache/tuning-0123456789abcdef.jsonl", "{\"device\":\"0\"}\n")
        os.chmod(self.path("cache/tuning-0123456789abcdef.jsonl"), 0o600)
        done = self.run_tile(["records", "list"], "cache")
        self.assertIn("1 files of an earlier format", done.stderr)

    def test_verify_races_what_is_on_record(self):
        self.tune()
        done = self.run_tile(["records", "verify", "--json", "--backend", "cpu"], "cache")
        # A busy machine may refute its own times.
        self.assertIn(done.returncode, (0, 1), done.stderr)
        kernels = json.loads(done.stdout)
        self.assertEqual(len(kernels), 1)
        self.assertGreater(kernels[0]["pick_ns"], 0)
        self.assertTrue(all(s["ns"] > 0 and s["claimed_ns"] > 0 for s in kernels[0]["schedules"]))
        self.assertIn("kernels raced", self.run_tile(["records", "verify", "--backend", "cpu"], "cache").stdout)
        self.assertIn("0 kernels raced, 0 claims", self.tile("records", "verify", "--backend", "cpu", cache="none"))

    def test_bad_arguments(self):
        for arguments in (["tune", "mm.tile", *SHAPES, "--seconds", "-1"], ["tune", "mm.tile", *SHAPES, "--seconds", "0"], ["tune", "mm.tile", *SHAPES, "--seconds", "nan"],
                          ["tune", "mm.tile", *SHAPES, "--share", "mm.tile"],
                          ["tune", "mm.tile", "--shape", "A=2x3", "--shape", "B=4x5"],
                          ["tune", "mm.tile", *SHAPES, "--share", "s", "--candidates", "0"],
                          ["tune", "mm.tile", "--backend", "reference", "--shape", "A=2x3", "--shape", "B=3x5", "--share", "s"],
                          ["records", "import", "mm.tile.none"], ["records", "verify", "--backend", "reference"]):
            self.tile(*arguments, status=1)
        self.assertIn("there are no records", self.tile("records", "list", cache="none"))


class Fleet(Case):
    """Workers that share a directory."""

    def start(self, number, *more):
        return subprocess.Popen([TILE, "tune", "two.tile", *SHAPES, "--share", "shared", "--candidates", "24", "--json",
                                 *more], cwd=self.folder.name, env=self.environment(f"cache{number}"),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def timed(self):
        """How often each candidate of each kernel was timed, by all workers."""
        times = collections.Counter()
        for name in glob.glob(self.path("shared/*.times")):
            with open(name, encoding="utf-8") as file:
                for line in file:
                    if line.endswith("\n"):
                        entry = json.loads(line)
                        times[entry["kernel"], entry["schedule"]] += 1
        return times

    def planned(self):
        count = 0
        for name in glob.glob(self.path("shared/*.plan")):
            with open(name, encoding="utf-8") as file:
                count += len(json.load(file)["schedules"])
        return count

    def finish(self, workers):
        reports = []
        for worker in workers:
            out, err = worker.communicate(timeout=300)
            self.assertEqual(worker.returncode, 0, out + err)
            reports.append(json.loads(out))
        return reports

    def test_workers_share_the_work(self):
        reports = self.finish([self.start(i) for i in range(3)])
        self.assertTrue(all(r["complete"] for r in reports), reports)
        self.assertEqual(len(self.timed()), self.planned())
        self.assertEqual(set(self.timed().values()), {1}, "no candidate is timed twice")
        self.assertEqual(sum(r["timed"] for r in reports), self.planned())
        self.assertGreater(sum(r["timed"] > 0 for r in reports), 1, "more than one worker had work")
        # Every worker knows all that was decided.
        lists = [sorted(r["record"] for r in self.records(f"cache{i}")) for i in range(3)]
        self.assertEqual(len(lists[0]), 2)
        self.assertEqual(lists[1:], lists[:1] * 2)
        self.assertEqual(self.finish([self.start(9)])[0]["timed"], 0, "nothing is left")
        self.assertEqual(sorted(r["record"] for r in self.records("cache9")), lists[0])

    def test_killed_workers_are_resumed(self):
        for i in range(3):
            worker = self.start(i)
            before = sum(self.timed().values())
            deadline = time.monotonic() + 60
            while sum(self.timed().values()) < before + 3 and worker.poll() is None:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.002)
            worker.send_signal(signal.SIGKILL)
            worker.communicate()
        partly = sum(self.timed().values())
        report = self.finish([self.start(7)])[0]
        self.assertTrue(report["complete"])
        self.assertEqual(len(self.timed()), self.planned())
        self.assertEqual(set(self.timed().values()), {1}, "what was timed is not timed again")
        self.assertEqual(report["timed"], self.planned() - partly)

    def test_a_time_limit_can_be_resumed(self):
        self.finish([self.start(0, "--seconds", "0.01")])
        report = self.finish([self.start(1)])[0]
        self.assertTrue(report["complete"])
        self.assertEqual(set(self.timed().values()), {1})

    def test_damaged_files_of_a_fleet(self):
        self.finish([self.start(0, "--seconds", "0.01")])
        for name in glob.glob(self.path("shared/*")):
            with open(name, "w", encoding="utf-8") as file:
                file.write("noise {\n[")
        report = self.finish([self.start(1)])[0]
        self.assertTrue(report["complete"])


if __name__ == "__main__":
    unittest.main()
