"""A transformer block in Tile, with generated gradients, learns to continue a text character by character, beside the same
block in PyTorch from the same start.

    python train_characters.py [--text FILE] [--steps 100] [--length 64] [--width 32] [--svg loss.svg]
"""
import argparse
import pathlib
import time

import torch

import tilejit as tile

# Causal attention of one head and a hidden layer, each after a norm, each added to what came in.
BLOCK = """function (X[B, T, D], Wq[D, D], Wk[D, D], Wv[D, D], Wu[D, F], Wd[F, D]) -> (Y) {
  S1[b, t, 0: B, T, 1] = +(X[b, t, d] * X[b, t, d]);
  N1 = X / sqrt(S1 / D + 0.00001);
  Q[b, t, e: B, T, D] = +(N1[b, t, d] * Wq[d, e]);
  K[b, t, e: B, T, D] = +(N1[b, t, d] * Wk[d, e]);
  V[b, t, e: B, T, D] = +(N1[b, t, d] * Wv[d, e]);
  L[b, t, s: B, T, T] = +(Q[b, t, e] * K[b, s, e]);
  M = index(L, 1) >= index(L, 2) ? L / sqrt(D) : -1e30;
  Top[b, t, 0: B, T, 1] = >(M[b, t, s]);
  E = exp(M - Top);
  Sum[b, t, 0: B, T, 1] = +(E[b, t, s]);
  P = E / Sum;
  A[b, t, e: B, T, D] = +(P[b, t, s] * V[b, s, e]);
  R = X + A;
  S2[b, t, 0: B, T, 1] = +(R[b, t, d] * R[b, t, d]);
  N2 = R / sqrt(S2 / D + 0.00001);
  U[b, t, f: B, T, F] = +(N2[b, t, d] * Wu[d, f]);
  G = U * sigmoid(U);
  H[b, t, d: B, T, D] = +(G[b, t, f] * Wd[f, d]);
  Y = R + H;
}"""


def norm(x):
    return x / torch.sqrt((x * x).mean(2, keepdim=True) + 1e-5)


def block_in_torch(x, wq, wk, wv, wu, wd):
    n = norm(x)
    scores = (n @ wq) @ (n @ wk).transpose(1, 2) / x.shape[2] ** 0.5
    above = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    r = x + torch.softmax(scores.masked_fill(above, -1e30), 2) @ (n @ wv)
    return r + torch.nn.functional.silu(norm(r) @ wu) @ wd


def parameters(symbols, width):
    """Embedding, the block's five matrices, the head: the same for every call."""
    made = torch.Generator().manual_seed(1)
    shapes = [(symbols, width)] + 3 * [(width, width)] + [(width, 4 * width), (4 * width, width), (width, symbols)]
    return [(torch.randn(s, generator=made) / (1 if i == 0 else s[0] ** 0.5)).requires_grad_() for i, s in enumerate(shapes)]


class Learner:
    """A model around a block, its losses so far, and the seconds that its steps took, but for the first, which compiles."""

    def __init__(self, block, symbols, width):
        self.block, self.losses, self.seconds = block, [], 0.0
        self.embedding, *self.matrices, self.head = weights = parameters(symbols, width)
        self.optimiser = torch.optim.Adam(weights, 3e-3)

    def step(self, batch):
        begin = time.perf_counter()
        logits = self.block(self.embedding[batch[:, :-1]], *self.matrices) @ self.head
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        if self.losses:
            self.seconds += time.perf_counter() - begin
        self.losses.append(loss.item())


def train(learners, text, options):
    """All learn from the same batches in turns, so that other work on the machine slows all of them."""
    drawn = torch.Generator().manual_seed(2)
    for _ in range(options.steps):
        starts = torch.randint(len(text) - options.length - 1, (8,), generator=drawn)
        batch = torch.stack([text[s:s + options.length + 1] for s in starts])
        for learner in learners:
            learner.step(batch)


def picture(curves, steps):
    """The losses as SVG: {name: (losses, colour, width of its line)}."""
    width, height, edge = 640, 320, 48
    top = max(max(losses) for losses, _, _ in curves.values())

    def x(step):
        return edge + (width - 2 * edge) * step / max(1, steps - 1)

    def y(loss):
        return height - edge - (height - 2 * edge) * loss / top

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<path d="M{edge} {edge}V{height - edge}H{width - edge}" fill="none" stroke="black"/>',
             f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">step</text>',
             f'<text x="12" y="{edge - 16}">loss, nats per character</text>']
    for loss in range(int(top) + 1):
        parts.append(f'<text x="{edge - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    for step in (0, steps // 2, steps - 1):
        parts.append(f'<text x="{x(step):.1f}" y="{height - edge + 16}" text-anchor="middle">{step}</text>')
    for line, (name, (losses, colour, thickness)) in enumerate(curves.items()):
        points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in enumerate(losses))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{thickness}"/>')
        parts.append(f'<text x="{width - edge}" y="{edge + 16 * line}" text-anchor="end" fill="{colour}">{name}</text>')
    return "\n".join(parts + ["</svg>\n"])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--text", type=pathlib.Path, default=pathlib.Path(__file__))
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--length", type=int, default=64)
    options.add_argument("--width", type=int, default=32)
    options.add_argument("--svg", type=pathlib.Path, help="where the losses are drawn")
    options = options.parse_args()

    letters = options.text.read_text(encoding="utf-8")
    known = sorted(set(letters))
    text = torch.tensor([known.index(c) for c in letters])
    block = tile.torch.op("examples::block", tile.program(BLOCK, name="block.tile"))
    ours, theirs = (Learner(b, len(known), options.width) for b in (block, block_in_torch))
    train((ours, theirs), text, options)
    print("step  Tile    PyTorch")
    for step in range(0, options.steps, max(1, options.steps // 10)):
        print(f"{step:4}  {ours.losses[step]:.4f}  {theirs.losses[step]:.4f}")
    print(f"all {options.steps} steps but the first: Tile {ours.seconds:.2f} s, PyTorch {theirs.seconds:.2f} s")
    if options.svg:
        curves = {f"PyTorch, {theirs.seconds:.2f} s": (theirs.losses, "#d08000", 5),
                  f"Tile, {ours.seconds:.2f} s": (ours.losses, "#0050a0", 2)}
        options.svg.write_text(picture(curves, options.steps), encoding="utf-8")


if __name__ == "__main__":
    main()
