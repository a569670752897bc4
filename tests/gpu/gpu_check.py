#!/usr/bin/env python3
"""Everything that must be right on a GPU, from an unpacked portable tarball or a build tree.

    gpu_check.py BIN --cases DIR [--networks DIR] [--digits FILE] [--json FILE] [--resume] [--only CLASS,...]
                 [--budget SECONDS]

BIN holds tile, digits, tile-gpu-check and tile-program-check. Classes: devices, several (two GPUs in one process, where
there are two), ranks (programs divided among GPUs over NCCL, where there are two; alone: status 77 where there are
not), rank_times (of divided products; reported), conformance, differential, gradients, reals, large, programs (random
whole programs of the three languages, gradients included), networks (forward, first and second derivatives at three
sizes), digits, cancellation (how late calls return that are cancelled), memcheck, synccheck, initcheck and racecheck
(the last two reported, not required). After each class its result is printed as one
JSON line and kept in the file of --json; with --resume classes in that file that passed are not run again. A class that
would begin after the budget is left for the next call, and programs goes on where the budget ended it. Exit status: 0 all required classes passed, 1 one failed, 2 some are left, 77 no GPU."""
import argparse
import concurrent.futures
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

NO_GPU = 77
CONTEXT_LOST = 3
SANITIZED = {
    "pointwise": ("function (A[M, N], B[N]) -> (C) { C = exp(A) * B; }", "A=random:67x129 B=random:129"),
    "reduction": ("function (A[M, N]) -> (C) { C[i: M] = +(A[i, j]); }", "A=random:67x1029"),
    "columns": ("function (A[M, N]) -> (C) { C[j: N] = >(A[i, j]); }", "A=random:1067x29"),
    "softmax": ("function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T); S[m, 0: M, 1] = +(E[m, n]);"
                " P = E / S; }", "X=random:33x130"),
    "cluster": ("function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T); S[m, 0: M, 1] = +(E[m, n]);"
                " P = E / S; }", "X=random:4x131072"),
    "matrix": ("function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
               "A=random:130x70 B=random:70x132"),
    "matrix_bf16": ("function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
                    "A=random:256x128:bf16 B=random:128x256:bf16"),
    "convolution": ("function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) { O[n, y, x, co: N, H - 2, W - 2, CO] = "
                    "+(I[n, y + i, x + j, ci] * K[i, j, ci, co]); }", "I=random:2x14x14x8 K=random:3x3x8x16"),
    "scores_again": ("function (Q[S, D], K[T, D], V[T, C], W[S, C]) -> (O, R) { L[s, t: S, T] = +(Q[s, d] * K[t, d]);"
                     " P = tanh(L); O[s, c: S, C] = +(P[s, t] * V[t, c]), s - t < S;"
                     " R[t, c: T, C] = +(P[s, t] * W[s, c]), s - t < S; }",
                     "Q=random:300x64:bf16 K=random:300x64:bf16 V=random:300x72:bf16 W=random:300x72:bf16"),
    "scan": ("function (A[N]) -> (C) { C[i: N] = +(A[k]), i - k < N; }", "A=random:1000"),
    "sort": ("function (A[M, N]) -> (S) { S = sort(A, 1); }", "A=random:5x3000"),
}


# Networks of several stages, whose kernels hand values on.
SANITIZED_NETWORKS = ["attention", "attention_causal_bf16", "batch_norm", "convolution_batch_norm", "cross_entropy",
                      "layer_norm", "transformer_block"]
# initcheck (CUDA 13.0) sees no bulk stores: a result that they wrote whole, and that the other classes find right,
# has never been written for it.
STORED_IN_BOXES = ["matrix_bf16"]
PROGRAMS_AT_A_TIME = 4000


def report(text):
    """The beginning and the end of what a sanitizer says."""
    lines = [line for line in text.splitlines() if line.strip() and "Host Frame" not in line]
    return lines[:8] + lines[-3:]


class Checks:
    def __init__(self, options):
        self.options = options
        self.jobs = os.cpu_count() or 1
        self.environment = dict(os.environ, TILE_CACHE="off")
        self.begin = time.monotonic()

    def time_is_left(self):
        return time.monotonic() - self.begin < self.options.budget

    def program(self, name):
        return os.path.join(self.options.bin, name)

    def run(self, command, **more):
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, **more)

    def devices(self):
        done = self.run([self.program("tile"), "devices"])
        lines = [line for line in done.stdout.splitlines() if line.startswith("cuda:")]
        if not lines or "not available" in lines[0]:
            print(f"gpu_check: no GPU: {lines[0] if lines else done.stderr}")
            sys.exit(NO_GPU)
        return {"passed": True, "device": lines[0]}

    def several(self):
        """Each GPU by its number, and two at once in one process."""
        gpus = self.gpus()
        if len(gpus) < 2:
            return {"passed": None, "why": f"{len(gpus)} GPU"}
        text, inputs = SANITIZED["softmax"]
        with tempfile.NamedTemporaryFile("w", suffix=".tile") as file:
            file.write(text)
            file.flush()
            command = [self.program("tile"), "run", file.name, "--in", inputs, "--out", "P=-", "--backend"]
            runs = [self.run(command + [f"cuda:{n}"]) for n in range(len(gpus))]
        beyond = self.run(command + [f"cuda:{len(gpus)}"])
        both = self.run([self.program("tile-gpu-check"), "several"])
        same = all(r.returncode == 0 and r.stdout and r.stdout == runs[0].stdout for r in runs)
        return {"passed": same and both.returncode == 0 and beyond.returncode != 0, "devices": gpus,
                "same_result": same, "one_too_many": beyond.stderr.splitlines()[:2],
                "process": both.stdout.splitlines() + both.stderr.splitlines()[-5:]}

    def gpus(self):
        listed = self.run([self.program("tile"), "devices"]).stdout.splitlines()
        return [line for line in listed if line.startswith("cuda") and "not available" not in line]

    def ranks(self):
        """Conformance cases on two ranks, then random programs, products and stencils; how parts travel."""
        gpus = self.gpus()
        if len(gpus) < 2:
            print(f"gpu_check: skipped: {len(gpus)} GPUs, and two are needed for ranks")
            if self.options.only == "ranks":
                sys.exit(NO_GPU)
            return {"passed": None, "why": f"{len(gpus)} GPUs"}
        cases = sorted(glob.glob(os.path.join(self.options.cases, "*.json")))
        conform = self.run([self.program("tile"), "conform", "--backend", "cuda", "--mesh", "x=2", "--layout", "follow", *cases])
        lines = conform.stdout.strip().splitlines()
        done = self.run([self.program("tile-gpu-check"), "ranks", "1", str(self.options.programs // 5)])
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        counts = found[-1] if found else {"error": done.stderr[-400:]}
        linked = " over NCCL " in counts.get("transport", "")
        return {"passed": conform.returncode == 0 and done.returncode == 0 and linked, "conformance": lines[-1:],
                "conformance_failures": lines[:-1][:40] + conform.stderr.splitlines()[-10:], **counts}

    def rank_times(self):
        done = self.run([self.program("tile-gpu-check"), "rank-times"])
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {"passed": None if done.returncode == NO_GPU else done.returncode == 0, "times": rows,
                "stderr": done.stderr.splitlines()[-5:]}

    def conformance(self):
        files = sorted(glob.glob(os.path.join(self.options.cases, "*.json")))

        def one(file):
            done = self.run([self.program("tile"), "conform", "--backend", "cuda", file])
            lines = done.stdout.strip().splitlines()
            return {"status": done.returncode, "summary": lines[-1] if lines else "",
                    "failures": [line for line in lines[:-1] if not line.startswith("  ")][:100]
                    + done.stderr.splitlines()[-10:]}

        # A folder without cases would pass whatever the backend does.
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            results = dict(zip(map(os.path.basename, files), pool.map(one, files)))
        return {"passed": bool(files) and all(result["status"] == 0 for result in results.values()), "files": results}

    def shard(self, kind, first, count):
        """Results of one range of seeds; a lost context goes on in a new process."""
        end, compared, failures = first + count, 0, []
        while first < end:
            done = self.run([self.program("tile-gpu-check"), kind, str(first), str(end - first)])
            rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            failures += [row for row in rows if "wrong" in row]
            last = rows[-1] if rows and "next" in rows[-1] else None
            compared += last["compared"] if last else 0
            if done.returncode != CONTEXT_LOST and last:
                break
            seen = max([row["seed"] for row in rows if "seed" in row], default=first)
            if not last:
                failures.append({"seed": seen, "wrong": f"status {done.returncode}: {done.stderr[-400:]}"})
            first = last["next"] if last else seen + 1
        return compared, failures

    def random(self, kind, count):
        size = max(1, count // (4 * self.jobs))
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            shards = list(pool.map(lambda first: self.shard(kind, first, min(size, count - first)),
                                   range(0, count, size)))
        failures = [failure for shard in shards for failure in shard[1]]
        return {"passed": not failures, "compared": sum(shard[0] for shard in shards), "programs": count,
                "failed": len(failures), "failures": failures[:40]}

    def differential(self):
        return self.random("differential", self.options.programs)

    def gradients(self):
        return self.random("gradients", self.options.programs * 2 // 5)

    def reals(self):
        return self.random("reals", self.options.programs // 5)

    def large(self):
        return self.random("large", self.options.programs * 3 // 50)

    def program_check(self, arguments):
        """The last line of tile-program-check, and what it found."""
        done = self.run([self.program("tile-program-check"), *arguments, "--backend", "cuda"])
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        failures = [row for row in rows if "wrong" in row]
        if not rows or "programs" not in rows[-1]:
            failures.append({"wrong": f"status {done.returncode}: {done.stderr[-400:]}"})
            return {"programs": 0, "runs": 0}, failures
        return rows[-1], failures

    def programs(self, before):
        """Random whole programs by language, as many as the budget allows: the rest is for the next call."""
        wanted = {"tile": self.options.whole, "mfg": self.options.whole // 20, "lift": self.options.whole // 20}
        result = {"passed": None, "next": {}, "compared": 0, "failed": 0, "failures": [], **(before or {})}
        for language, count in wanted.items():
            first = result["next"].get(language, 0)
            while first < count and self.time_is_left():
                some = min(PROGRAMS_AT_A_TIME, count - first)
                last, failures = self.program_check(["run", str(first), str(some), "--language", language, "--jobs",
                                                     str(self.jobs)])
                first += some
                result["next"][language] = first
                result["compared"] += last["runs"]
                result["failed"] += len(failures)
                result["failures"] = (result["failures"] + [dict(row, language=language) for row in failures])[:40]
        done = all(result["next"].get(language, 0) >= count for language, count in wanted.items())
        result["passed"] = False if result["failed"] else True if done else None
        return result

    def networks(self):
        if not self.options.networks:
            return {"passed": None, "why": "no --networks"}
        last, failures = self.program_check(["networks", self.options.networks, "--jobs", str(self.jobs), "--seconds",
                                             "300"])
        return {"passed": not failures, "compared": last["runs"], "programs": last["programs"],
                "failed": len(failures), "failures": failures[:60]}

    def digits(self):
        if not self.options.digits:
            return {"passed": None, "why": "no --digits"}
        data = subprocess.run(["gzip", "-dc", self.options.digits], capture_output=True, check=True).stdout
        done = subprocess.run([self.program("digits"), "--backend", "cuda"], input=data, capture_output=True,
                              env=self.environment)
        return {"passed": done.returncode == 0,
                "output": (done.stdout + done.stderr).decode(errors="replace").splitlines()[-3:]}

    def cancellation(self):
        done = self.run([self.program("tile-gpu-check"), "cancel"])
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {"passed": done.returncode == 0, "calls": rows, "stderr": done.stderr[-400:]}

    def sanitized(self, tool):
        sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.path.exists(sanitizer):
            return {"passed": None, "why": "no compute-sanitizer"}
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
            chosen = [item for item in SANITIZED.items() if tool != "initcheck" or item[0] not in STORED_IN_BOXES]
            results = dict(pool.map(lambda item: self.sanitize(sanitizer, tool, folder, *item), chosen))
            if self.options.networks and tool in ("memcheck", "racecheck"):
                results.update(pool.map(lambda name: self.sanitize_network(sanitizer, tool, name), SANITIZED_NETWORKS))
        return {"passed": all(result["clean"] for result in results.values()), "kernels": results}

    def sanitize(self, sanitizer, tool, folder, name, case):
        text, inputs = case
        path = os.path.join(folder, f"{name}.tile")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", self.program("tile"), "run", path, "--backend",
                   "cuda"]
        for given in inputs.split():
            command += ["--in", given]
        return self.watched(name, command, 150)

    def sanitize_network(self, sanitizer, tool, name):
        """Forward, first and second derivative at the smallest size, in one process."""
        return self.watched(name, [sanitizer, "--tool", tool, "--error-exitcode", "9",
                                   self.program("tile-program-check"), "networks", self.options.networks, "--only", name,
                                   "--backend", "cuda", "--jobs", "0", "--sizes", "1"], 400)

    def watched(self, name, command, seconds):
        try:
            done = self.run(command, timeout=seconds)
        except subprocess.TimeoutExpired:
            return name, {"clean": False, "output": ["timeout"]}
        clean = done.returncode == 0
        return name, {"clean": clean, "output": [] if clean else report(done.stdout + done.stderr)}

    def memcheck(self):
        return self.sanitized("memcheck")

    def initcheck(self):
        return self.sanitized("initcheck")

    def synccheck(self):
        return self.sanitized("synccheck")

    def racecheck(self):
        return self.sanitized("racecheck")


CLASSES = ["devices", "several", "ranks", "conformance", "differential", "gradients", "reals", "large", "networks", "digits",
           "cancellation", "memcheck", "synccheck", "initcheck", "racecheck", "programs"]
# initcheck does not see what bulk copies store, and takes the results for uninitialised: it reports a kernel written by
# hand whose block fills shared memory and stores it by cp.async.bulk.global.shared::cta, or by the tensor variant, waits
# for the copy and is then read by cudaMemcpy, although every value is right; with plain stores it reports nothing
# (H200, CUDA 13.0).
REPORTED_ONLY = {"racecheck", "initcheck"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--cases", required=True)
    parser.add_argument("--networks", help="the folder of networks")
    parser.add_argument("--digits")
    parser.add_argument("--json")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--only", help="classes, separated by commas")
    parser.add_argument("--budget", type=float, default=520, help="seconds after which no class begins")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--whole", type=int, default=20000, help="random whole programs")
    options = parser.parse_args()
    results = {}
    if options.resume and options.json and os.path.exists(options.json):
        with open(options.json, encoding="utf-8") as file:
            results = json.load(file)
    before = {name: result for name, result in results.items() if "next" in result and result["passed"] is None}
    results = {name: result for name, result in results.items() if result.get("passed")}
    checks = Checks(options)
    wanted = options.only.split(",") if options.only else CLASSES
    left = []
    for name in wanted:
        if name in results:
            continue
        if not checks.time_is_left():
            left.append(name)
            continue
        start = time.monotonic()
        results[name] = checks.programs(before.get(name)) if name == "programs" else getattr(checks, name)()
        results[name]["seconds"] = round(time.monotonic() - start, 1)
        print(json.dumps({name: results[name]}), flush=True)
        if "next" in results[name] and results[name]["passed"] is None:
            left.append(name)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    failed = [name for name in wanted if name in results and results[name].get("passed") is False
              and name not in REPORTED_ONLY]
    print(f"gpu_check: failed: {', '.join(failed) or 'none'}; left for --resume: {', '.join(left) or 'none'}")
    return 1 if failed else 2 if left else 0


if __name__ == "__main__":
    sys.exit(main())
