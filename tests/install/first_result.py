"""What a reader of the README does first with the installed package: first_result.py [--all PYTHON SECONDS].

--all also uses gradients, constants, the other languages, errors and pickles, measures the import, and prints a line with
these and the time that the installation took."""
import pickle
import subprocess
import sys

import numpy as np

import tilejit as tile

MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"


def import_times():
    """Milliseconds that the import takes in new processes beside what the interpreter takes anyway, sorted."""
    code = "import time; t = time.perf_counter(); import tilejit; print(1000 * (time.perf_counter() - t))"
    return sorted(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
                  for _ in range(7))


def use_all():
    mm = tile.program(MATMUL)
    a, b = np.random.default_rng(0).standard_normal((2, 8, 8)).astype(np.float32)
    _, da, db = mm.grad("O", ["A", "B"])(a, b, np.ones((8, 8), np.float32))
    np.testing.assert_allclose(da, np.ones((8, 8)) @ b.T, rtol=1e-5)
    np.testing.assert_allclose(db, a.T @ np.ones((8, 8)), rtol=1e-5)
    np.testing.assert_allclose(mm.bind(B=b)(a), a @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(mm))(a, b), a @ b, rtol=1e-4, atol=1e-5)
    halved = tile.program("def result_f32 |x, y| { input_f32(x, y)/2.0 }", "mfg")
    np.testing.assert_array_equal(halved(a), a / 2)
    twice = tile.program("val twice = fun(ArrayType(Float, N), input => Map(v => v * 2.0f) $ input)", "lift")
    np.testing.assert_array_equal(twice(a[0]), 2 * a[0])
    try:
        tile.program("function (A[N]) -> (O) { O[i: N] = +(A[i * i]); }")
    except tile.ParseError as error:
        assert "^" in str(error)
    else:
        raise AssertionError("an error is not found")


def main():
    result = tile.program(MATMUL)(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))
    assert (result == 3).all()
    if sys.argv[1:2] == ["--all"]:
        use_all()
        times = import_times()
        print(f"wheel: {sys.argv[2]}: {sys.argv[3]} s from installing to the first result, import {times[0]:.0f} ms "
              f"(median {times[len(times) // 2]:.0f}), NumPy {np.__version__}")


if __name__ == "__main__":
    main()
