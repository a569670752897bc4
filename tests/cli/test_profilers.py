"""What profilers are told, and `tile doctor`: test_profilers.py PATH_OF_TILE."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

TILE = os.path.abspath(sys.argv.pop(1))
PROGRAM = """function (A[M, L], B[L, N]) -> (P) {
  C[i, j: M, N] = +(A[i, k] * B[k, j]);
  S[i: M] = >(C[i, j]);
  P = sort(S, 0);
}
"""
INPUTS = ["--in", "A=random:200x300", "--in", "B=random:300x400"]


class Profilers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = lambda name: os.path.join(self.folder.name, name)
        with open(self.path("p.tile"), "w") as file:
            file.write(PROGRAM)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("TILE_")}
        self.environment["TILE_CACHE_DIR"] = self.path("cache")

    def tearDown(self):
        self.folder.cleanup()

    def tile(self, *arguments, status=0, **environment):
        self.process = subprocess.Popen([TILE, *arguments], cwd=self.folder.name, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=dict(self.environment, **environment))
        out, errors = self.process.communicate(timeout=120)
        self.assertEqual(self.process.returncode, status, out + errors)
        return out if status == 0 else out + errors

    def events(self, name):
        with open(self.path(name)) as file:
            trace = json.load(file)
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        for event in spans:
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            self.assertIsInstance(event["pid"], int)
            self.assertIsInstance(event["tid"], int)
        return spans

    def check_trace(self, spans):
        by_kind = {}
        for event in spans:
            by_kind.setdefault(event["cat"], []).append(event)
        self.assertLessEqual({"parse", "bind", "reduce", "emit-llvm"}, {event["name"] for event in by_kind["pass"]})
        self.assertIn("compile", {event["name"] for event in by_kind["compile"]})
        self.assertTrue(by_kind["cache"])
        names = [event["name"] for event in by_kind["launch"]]
        self.assertTrue(any(re.match(r"p\.tile:2 .", name) for name in names), names)
        self.assertIn("p.tile:4 sort", names)
        self.assertTrue(by_kind["chunk"])
        # A chunk runs within a launch.
        for chunk in by_kind["chunk"]:
            self.assertTrue(any(launch["ts"] <= chunk["ts"] and
                                chunk["ts"] + chunk["dur"] <= launch["ts"] + launch["dur"] + 1e3
                                for launch in by_kind["launch"]))

    def test_traces(self):
        self.tile("run", "p.tile", *INPUTS, "--backend", "cpu", "--trace", "t.json")
        self.check_trace(self.events("t.json"))
        self.tile("run", "p.tile", *INPUTS, "--backend", "cpu", TILE_TRACE=self.path("e.json"), TILE_CACHE="off")
        spans = self.events("e.json")
        self.assertIn("launch", {event["cat"] for event in spans})
        # What comes from the disk cache has its names, too.
        self.tile("run", "p.tile", *INPUTS, "--backend", "cpu", "--trace", "again.json", "--repeat", "3")
        launches = [event["name"] for event in self.events("again.json") if event["cat"] == "launch"]
        self.assertEqual(launches.count("p.tile:4 sort"), 3)
        self.assertIn("cannot write", self.tile("run", "p.tile", *INPUTS, "--trace", "no/t.json", status=1))
        # A path with nothing to be written at does not disturb the run.
        self.tile("run", "p.tile", *INPUTS, TILE_TRACE=self.path("no/t.json"))

    def test_a_trace_of_names_in_need_of_escapes(self):
        odd = 'quo"te\\.tile'
        shutil.copy(self.path("p.tile"), self.path(odd))
        self.tile("run", odd, *INPUTS, "--trace", "t.json")
        self.assertIn(f"{odd}:4 sort", {event["name"] for event in self.events("t.json")})

    def test_a_trace_has_the_small_kernels(self):
        with open(self.path("small.tile"), "w") as file:
            file.write("function (A[N]) -> (O) { O = A + 1; }")
        self.tile("run", "small.tile", "--in", "A=iota:4", "--backend", "cpu", "--trace", "t.json")
        self.assertIn("launch", {event["cat"] for event in self.events("t.json")})

    def test_perf_map(self):
        self.tile("run", "p.tile", *INPUTS, "--backend", "cpu", TILE_PERF="map")
        name = f"/tmp/perf-{self.process.pid}.map"
        try:
            with open(name) as file:
                lines = file.read().splitlines()
        finally:
            os.remove(name)
        self.assertTrue(lines)
        for line in lines:
            address, size, what = line.split(" ", 2)
            self.assertGreater(int(address, 16), 0)
            self.assertGreater(int(size, 16), 0)
            self.assertRegex(what, r"^p\.tile:\d+ ")
        self.tile("run", "p.tile", *INPUTS, "--backend", "cpu")
        self.assertFalse(os.path.exists(f"/tmp/perf-{self.process.pid}.map"))

    def records(self, data):
        """(kind, body) of a jitdump's records, by the specification in Linux's tools/perf/Documentation."""
        magic, version, size = struct.unpack_from("<III", data)
        self.assertEqual((magic, version), (0x4A695444, 1))
        at = size
        while at < len(data):
            kind, length, _ = struct.unpack_from("<IIQ", data, at)
            yield kind, data[at + 16:at + length]
            at += length
        self.assertEqual(at, len(data))

    def test_perf_dump(self):
        self.tile("run", "p.tile", *INPUTS, "--backend", "cpu", TILE_PERF="dump", JITDUMPDIR=self.folder.name)
        with open(self.path(f"jit-{self.process.pid}.dump"), "rb") as file:
            records = list(self.records(file.read()))
        self.assertEqual({kind for kind, _ in records}, {0, 2})
        lines = {}
        for kind, body in records:
            if kind == 2:
                address, count = struct.unpack_from("<QQ", body)
                _, line, _ = struct.unpack_from("<Qii", body, 16)
                lines[address] = (body[32:-1].decode(), line)
                self.assertEqual(count, 1)
            else:
                pid, _, _, address, size, _ = struct.unpack_from("<IIQQQQ", body)
                end = body.index(b"\0", 40)
                self.assertEqual(pid, self.process.pid)
                self.assertEqual(len(body), end + 1 + size)
                file, line = lines[address]
                self.assertTrue(body[40:end].decode().startswith(f"{file}:{line} "))
        self.assertIn(("p.tile", 2), lines.values())

    def test_nvtx_ranges(self):
        if not shutil.which("cc"):
            self.skipTest("no C compiler")
        with open(self.path("nvtx.c"), "w") as file:
            file.write('#include <stdio.h>\n'
                       'int nvtxRangePushA(const char* name) { return fprintf(stderr, "push %s\\n", name); }\n'
                       'int nvtxRangePop(void) { return fprintf(stderr, "pop\\n"); }\n')
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.path("libnvToolsExt.so.1"), self.path("nvtx.c")], check=True)
        run = ["run", "p.tile", *INPUTS, "--backend", "cpu", "--threads", "1"]
        for on in ("1", "0"):
            done = subprocess.run([TILE, *run], cwd=self.folder.name, capture_output=True, text=True, timeout=120,
                                  env=dict(self.environment, TILE_NVTX=on, LD_LIBRARY_PATH=self.folder.name))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("push p.tile:4 sort\npop\n" in done.stderr, on == "1")
            self.assertEqual(done.stderr.count("push"), done.stderr.count("pop"))
        self.tile(*run, TILE_NVTX="1")  # without the library

    def gdb(self, commands, *run, program=TILE, **environment):
        """What gdb tells in such a session; each command's answer stands behind its own line "> COMMAND"."""
        if not shutil.which("gdb"):
            self.skipTest("no gdb")
        settings = ["set breakpoint pending on", "set debuginfod enabled off", "set confirm off", "set width 0"]
        asked = [part for command in commands for part in ("-ex", f"echo > {command}\\n", "-ex", command)]
        done = subprocess.run(["gdb", "-nx", "-batch", *(part for s in settings for part in ("-iex", s)), *asked,
                               "--args", program, "run", *run, "--backend", "cpu"],
                              cwd=self.folder.name, capture_output=True, text=True, timeout=300,
                              env=dict(self.environment, TILE_GDB="1", **environment))
        told = done.stdout + done.stderr
        if "ptrace" in told and "not permitted" in told:
            self.skipTest("no debugging here")
        return told

    def cached(self):
        """The disk cache's entries and their sizes."""
        return {os.path.join(folder, file): os.path.getsize(os.path.join(folder, file))
                for folder, _, names in os.walk(self.path("cache")) for file in names if ".lock" not in file}

    def answers(self, told):
        """(command, answer) in order."""
        return [part.partition("\n")[::2] for part in ("\n" + told).split("\n> ")[1:]]

    def rows(self, name="rows.tile", before=100):
        """A softmax, whose statements are one kernel, on lines that no other program of a test has; their numbers."""
        with open(self.path(name), "w") as file:
            file.write("function (X[M, N]) -> (P) {\n" + "\n" * before + "  T[m, 0: M, 1] = >(X[m, n]);\n  E = exp(X - T);\n"
                       "  S[m, 0: M, 1] = +(E[m, n]);\n  P = E / S;\n}\n")
        return [before + 2 + i for i in range(4)]

    def test_gdb_names_kernels(self):
        told = self.gdb(["break p.tile:2", "run", "backtrace 1"], "p.tile", *INPUTS)
        self.assertRegex(told, r"#0 .*p\.tile:2 ")
        self.assertRegex(told, r"at \.?/?p\.tile:2")

    def test_gdb_names_kernels_of_a_program_without_symbols(self):  # as packages install it
        if not shutil.which("strip"):
            self.skipTest("no strip")
        subprocess.run(["strip", "-o", self.path("tile"), TILE], check=True)
        told = self.gdb(["break p.tile:2", "run", "backtrace 1"], "p.tile", *INPUTS, program=self.path("tile"))
        self.assertRegex(told, r"#0 .*p\.tile:2 .* at \.?/?p\.tile:2")

    def test_gdb_stops_at_every_statement_of_a_kernel(self):
        lines = self.rows()
        for threads in ("1", "2"):
            for line in lines:
                told = self.gdb([f"break rows.tile:{line}", "run", "backtrace", "info line", "delete", "finish"], "rows.tile",
                                "--in", "X=random:512x512", "--threads", threads)
                self.assertRegex(told, rf"#0 .*rows\.tile:{lines[0]} .* at \.?/?rows\.tile:{line}\n", threads)
                # The frames around a kernel are known in the middle of it, too.
                answer = dict(self.answers(told))
                self.assertRegex(answer["backtrace"], r"#[3-9] ")
                self.assertNotIn("corrupt", answer["backtrace"])
                self.assertRegex(answer["info line"], rf'Line {line} of "\.?/?rows\.tile"')
                self.assertRegex(answer["finish"], r"(?m)^0x[0-9a-f]+ in |\) at ")
                self.assertNotRegex(answer["finish"], r"at \.?/?rows\.tile")

    def steps(self, command, name, line, *run):
        """The lines at which steps from a line of a program stop, up to the end of its kernel."""
        told = self.gdb(["break " + f"{name}:{line}", "run", "delete", *[command] * 60], name, *run, "--threads", "1")
        stops = []
        for asked, answer in self.answers(told):
            at = re.search(r"^(\d+)\t", answer, re.M)
            if asked != command:
                continue
            if not at or re.search(r"\) at |[^\n]* at .*\.(cpp|h):", answer):
                break
            stops.append(int(at[1]))
        return stops

    def test_gdb_steps_from_statement_to_statement(self):
        lines = self.rows()
        for command in ("next", "step"):
            stops = self.steps(command, "rows.tile", lines[0], "--in", "X=random:2x16")
            self.assertEqual(set(stops) - set(lines), set(), command)
            # In the order of the text, around the loops' own line.
            self.assertEqual([line for line in dict.fromkeys(stops) if line != lines[0]], lines[1:], stops)

    def test_gdb_steps_from_operation_to_operation(self):
        with open(self.path("long.tile"), "w") as file:
            file.write("function (A[N], B[N]) -> (O) {\n  O = sqrt(A)\n    + exp(B);\n}\n")
        stops = self.steps("next", "long.tile", 2, "--in", "A=ones:16", "--in", "B=ones:16")
        self.assertIn(3, stops)

    def test_gdb_has_lines_of_code_from_the_cache(self):
        lines = self.rows()
        kept = []
        for _ in range(2):
            told = self.gdb([f"break rows.tile:{lines[2]}", "run", "backtrace 1"], "rows.tile", "--in", "X=random:64x64")
            self.assertRegex(told, rf"#0 .* at \.?/?rows\.tile:{lines[2]}\n")
            kept.append(self.cached())
        self.assertTrue(kept[0])
        self.assertEqual(kept[1], kept[0])

    def test_gdb_tells_programs_with_the_same_kernel_apart(self):
        for name, before in (("rows.tile", 100), ("more.tile", 200)):
            line = self.rows(name, before)[2]
            told = self.gdb([f"break {name}:{line}", "run", "backtrace 1"], name, "--in", "X=random:64x64")
            self.assertRegex(told, rf"#0 .*{name}:.* at \.?/?{name}:{line}\n")

    def test_gdb_has_a_gradients_forward_lines(self):
        lines = self.rows()
        told = self.gdb([f"break rows.tile:{lines[2]}", "run", "backtrace 1", "continue", "backtrace 1"], "rows.tile",
                        "--in", "X=random:64x64", "--in", "DP=random:64x64", "--grad", "P:X")
        self.assertRegex(told, rf"#0 .* at \.?/?rows\.tile:{lines[2]}\n")

    def test_code_without_lines_is_apart(self):
        lines = self.rows()
        run = ["run", "rows.tile", "--in", "X=random:64x64", "--backend", "cpu"]
        self.tile(*run)
        without = self.cached()
        self.tile(*run, TILE_GDB="1")
        with_lines = self.cached()
        self.assertEqual({name: with_lines.get(name) for name in without}, without)
        self.assertGreater(len(with_lines), len(without))
        self.tile(*run)
        self.assertEqual(self.cached(), with_lines)

    def test_doctor(self):
        told = json.loads(self.tile("doctor", "--json"))
        findings = {row["subject"]: row for row in told["findings"]}
        self.assertEqual(told["faults"], 0)
        for subject in ("build", "cpu", "rates", "threads", "memory", "stack", "cache", "gpu", "computing on cpu"):
            self.assertIn(subject, findings)
        self.assertEqual(findings["computing on cpu"]["status"], "ok")
        self.assertIn("faults", self.tile("doctor").splitlines()[-1])
        self.assertIn("0 faults", self.tile("doctor", TILE_CACHE_DIR=self.path("none")))

    def test_doctor_finds_faults(self):
        os.makedirs(self.path("open"), mode=0o755)
        told = self.tile("doctor", status=1, TILE_CACHE_DIR=self.path("open"))
        self.assertRegex(told, r"fault +cache: ")
        off = json.loads(self.tile("doctor", "--json", TILE_CACHE="off", TILE_THREAD="4"))
        findings = {row["subject"]: row for row in off["findings"]}
        self.assertEqual(findings["cache"]["status"], "slow")
        self.assertTrue(any(row["found"] == "TILE_THREAD=4" and row["status"] == "note" for row in off["findings"]))
        self.assertRegex(self.tile("doctor", status=1, TILE_THREADS="none"), r"fault +cpu: .*TILE_THREADS")
        self.assertRegex(self.tile("doctor", status=1, TILE_CACHE="sometimes"), r"fault +computing on cpu: ")


if __name__ == "__main__":
    unittest.main()
