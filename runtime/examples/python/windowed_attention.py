"""Attention over a window with a bias for each distance: written in Tile, registered as a PyTorch operation, compiled into
a model; beside the eager formula.

    python windowed_attention.py [--length 256] [--window 32] [--width 32] [--backend inductor]
"""
import argparse
import time

import torch

import tilejit as tile

# Row t looks at the W positions before it and at its own; nothing holds T x T numbers.
ATTENTION = """function (Q[H, T, D], K[H, T, D], V[H, T, D], Bias[H, W]) -> (O) {
  L[h, t, w: H, T, W] = +(Q[h, t, d] * K[h, t - w, d]);
  S = index(L, 1) >= index(L, 2) ? L / sqrt(D) + reshape(Bias, H, 1, W) : -1e30;
  Top[h, t, 0: H, T, 1] = >(S[h, t, w]);
  E = exp(S - Top);
  Sum[h, t, 0: H, T, 1] = +(E[h, t, w]);
  P = E / Sum;
  O[h, t, d: H, T, D] = +(P[h, t, w] * V[h, t - w, d]);
}"""


def eager(q, k, v, bias):
    """The same formula on all pairs of positions, with what is outside of the window masked."""
    length, window = q.shape[1], bias.shape[1]
    distance = torch.arange(length)[:, None] - torch.arange(length)[None]
    inside = (distance >= 0) & (distance < window)
    scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5 + bias[:, distance.clamp(0, window - 1)]
    return torch.softmax(scores.masked_fill(~inside, -1e30), 2) @ v


def seconds(work, repeat=5):
    work()
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--length", type=int, default=256)
    options.add_argument("--window", type=int, default=32)
    options.add_argument("--width", type=int, default=32)
    options.add_argument("--backend", default="inductor", help="of torch.compile; aot_eager needs no C++ compiler")
    options = options.parse_args()

    attention = tile.torch.op("examples::windowed_attention", tile.program(ATTENTION, name="attention.tile"))
    torch.manual_seed(0)
    heads = 4
    inputs = [torch.randn(heads, options.length, options.width, requires_grad=True) for _ in range(3)]
    inputs.append(torch.randn(heads, options.window, requires_grad=True))

    def model(function):
        return lambda *tensors: (torch.relu(function(*tensors)) ** 2).sum()

    def gradients(function):
        return torch.autograd.grad(function(*inputs), inputs)

    models = {"Tile": model(attention), "Tile, compiled": torch.compile(model(attention), fullgraph=True,
                                                                        backend=options.backend)}
    wanted = gradients(model(eager))
    for name, function in models.items():
        worst = max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(gradients(function), wanted))
        print(f"{name}: gradients differ by at most {worst:.0e} of the largest")
        assert worst < 1e-4
    for name, function in {**models, "eager formula": model(eager)}.items():
        print(f"{name}: forward and backward in {1e3 * seconds(lambda: gradients(function)):.2f} ms")


if __name__ == "__main__":
    main()
