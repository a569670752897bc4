"""What calls of the package cost, on arrays of 16 elements: least and median of rounds in which all take turns, so that other
work on the machine meets all of them. No test: python time_calls.py [ROUNDS]

The aims are those of bench/RESULTS.md; of PyTorch's own addition the same is measured beside."""
import sys
import timeit

import numpy as np
import tilejit as tile

try:
    import torch
except ImportError:
    torch = None

ADD = "function (A[N], B[N]) -> (O) { O = A + B; }"
SUM = "function (A[N], B[N], C[N]) -> (O) { O = A + B + C; }"
MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"


def numpy_calls():
    add, three, mm = tile.program(ADD), tile.program(SUM), tile.program(MATMUL)
    a, b, out = (np.ones(16, np.float32) for _ in range(3))
    m, result = np.ones((4, 4), np.float32), np.empty((4, 4), np.float32)
    wide = tile.Spec((512, 512), "f32")
    return {"two NumPy arrays and out=": (lambda: add(a, b, out=out), 20000),
            "three NumPy arrays and out=": (lambda: three(a, b, b, out=out), 20000),
            "a product of two NumPy arrays and out=": (lambda: mm(m, m, out=result), 20000),
            "numpy.add with out=": (lambda: np.add(a, b, out=out), 20000),
            "two NumPy arrays, a new result": (lambda: add(a, b), 20000),
            "inference": (lambda: mm.infer(wide, wide), 2000)}


def torch_calls():
    torch.set_num_threads(1)
    op = tile.torch.op("time_calls::add", tile.program(ADD))
    a, b, g = torch.ones(16), torch.ones(16), torch.ones(16, requires_grad=True)
    seed = torch.ones(16)

    def both(f):
        f(g, b).backward(seed)
        g.grad = None

    return {"eager operation": (lambda: op(a, b), 20000),
            "torch.add": (lambda: torch.add(a, b), 20000),
            "operation on a tensor that wants a gradient": (lambda: op(g, b), 20000),
            "torch.add on such a tensor": (lambda: torch.add(g, b), 20000),
            "operation and its gradient": (lambda: both(op), 3000),
            "torch.add and its gradient": (lambda: both(torch.add), 3000)}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    calls = numpy_calls() | (torch_calls() if torch else {})
    times = {name: [] for name in calls}
    for call, _ in calls.values():
        call()
    for _ in range(rounds):
        for name, (call, number) in calls.items():
            times[name].append(timeit.timeit(call, number=number) / number * 1e6)
    print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}" + (f", PyTorch {torch.__version__}" if torch else ""))
    for name, took in times.items():
        print(f"{name:45} least {min(took):7.2f} us, median {sorted(took)[len(took) // 2]:7.2f} us")


if __name__ == "__main__":
    main()
