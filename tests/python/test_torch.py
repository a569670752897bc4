"""Programs as PyTorch operations: gradients of any order, tracing with fixed and with symbolic sizes, transforms."""
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import tilejit as tile  # noqa: E402

warnings.filterwarnings("ignore", message="Guards may run slower")
F64 = torch.float64

# Name, program, shapes of the inputs; what it is of PyTorch's.
PROGRAMS = [
    ("mm", "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }", [(3, 4), (4, 5)],
     lambda a, b: a @ b),
    ("bmm", "function (A[Z, M, L], B[Z, L, N]) -> (O) { O[z, i, j: Z, M, N] = +(A[z, i, k] * B[z, k, j]); }",
     [(2, 3, 4), (2, 4, 3)], torch.bmm),
    ("dot", "function (A[N], B[N]) -> (O) { O[] = +(A[i] * B[i]); }", [(5,), (5,)], torch.dot),
    ("outer", "function (A[M], B[N]) -> (O) { O[i, j: M, N] = =(A[i] * B[j]); }", [(3,), (4,)], torch.outer),
    ("softmax", """function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T); S[m, 0: M, 1] = +(E[m, n]);
     P = E / S; }""", [(3, 5)], lambda x: torch.softmax(x, 1)),
    ("sigmoid", "function (X) -> (Y) { Y = sigmoid(X); }", [(3, 4)], torch.sigmoid),
    ("tanh", "function (X) -> (Y) { Y = tanh(X); }", [(7,)], torch.tanh),
    ("sum_rows", "function (X[M, N]) -> (Y) { Y[m: M] = +(X[m, n]); }", [(3, 4)], lambda x: x.sum(1)),
    ("mean", "function (X[M, N]) -> (Y) { S[] = +(X[m, n]); Y = S / (M * N); }", [(3, 4)], torch.mean),
    ("broadcast", "function (X[M, N], B[N]) -> (Y) { Y = X * B + B; }", [(3, 4), (4,)], lambda x, b: x * b + b),
    ("transpose", "function (X[M, N]) -> (Y) { Y = transpose(X, 1, 0); }", [(3, 4)], lambda x: x.T),
    ("concat", "function (X[M, N], Z[M, L]) -> (Y) { Y = concat(1, X, Z); }", [(3, 4), (3, 2)],
     lambda x, z: torch.cat((x, z), 1)),
    ("cumsum", "function (X[M, N]) -> (Y) { Y = cumsum(X, 1); }", [(3, 4)], lambda x: x.cumsum(1)),
    ("product", "function (X[M, N]) -> (Y) { Y[m: M] = *(X[m, n]); }", [(3, 4)], lambda x: x.prod(1)),
    ("conv1d", "function (X[B, C, W], K[O, C, R]) -> (Y) { Y[b, o, w: B, O, W - R + 1] = +(X[b, c, w + r] * K[o, c, r]); }",
     [(2, 3, 8), (4, 3, 3)], torch.nn.functional.conv1d),
    ("conv2d", """function (X[B, C, H, W], K[O, C, R, S]) -> (Y) {
     Y[b, o, h, w: B, O, (H - R) / 2 + 1, (W - S) / 2 + 1] = +(X[b, c, 2*h + r, 2*w + s] * K[o, c, r, s]); }""",
     [(1, 2, 7, 6), (2, 2, 3, 3)], lambda x, k: torch.nn.functional.conv2d(x, k, stride=2)),
    ("pool", "function (X[B, C, W]) -> (Y) { Y[b, c, w: B, C, W / 2] = >(X[b, c, 2*w + r]), r < 2; }", [(2, 3, 8)],
     lambda x: torch.nn.functional.max_pool1d(x, 2)),
    ("layer_norm", """function (X[M, N]) -> (Y) { S[m, 0: M, 1] = +(X[m, n]); D = X - S / N; V[m, 0: M, 1] = +(D[m, n] * D[m, n]);
     Y = D / sqrt(V / N + 0.00001); }""", [(3, 6)], lambda x: torch.nn.functional.layer_norm(x, x.shape[1:])),
    ("attention", """function (Q[T, D], K[S, D], V[S, D]) -> (O) { L[t, s: T, S] = +(Q[t, d] * K[s, d]); M[t, 0: T, 1] = >(L[t, s]);
     E = exp(L - M); Z[t, 0: T, 1] = +(E[t, s]); P = E / Z; O[t, d: T, D] = +(P[t, s] * V[s, d]); }""",
     [(4, 3), (5, 3), (5, 3)], lambda q, k, v: torch.softmax(q @ k.T, 1) @ v),
    ("three", "function (A[I, J], B[J, K], C[K, L]) -> (O) { O[i, l: I, L] = +(A[i, j] * B[j, k] * C[k, l]); }",
     [(2, 3), (3, 4), (4, 2)], lambda a, b, c: a @ b @ c),
    ("scalar", "function (X[N], S[]) -> (Y) { Y = X * S; }", [(4,), ()], lambda x, s: x * s),
    ("select", "function (X[N]) -> (Y) { Y = X > 0 ? X * X : X * 2; }", [(6,)], lambda x: torch.where(x > 0, x * x, x * 2)),
    ("diagonal", "function (X[N, N]) -> (Y) { Y[i: N] = =(X[i, i]); }", [(4, 4)], torch.diagonal),
    ("log_sum_exp", "function (X[M, N]) -> (Y) { T[m: M] = >(X[m, n]); U[m, 0: M, 1] = >(X[m, n]); E = exp(X - U); "
     "S[m: M] = +(E[m, n]); Y = log(S) + T; }", [(3, 4)], lambda x: torch.logsumexp(x, 1)),
    ("rms", "function (X[M, N], G[N]) -> (Y) { S[m, 0: M, 1] = +(X[m, n] * X[m, n]); Y = X / sqrt(S / N + 0.1) * G; }",
     [(3, 4), (4,)], lambda x, g: x / torch.sqrt((x * x).mean(1, keepdim=True) + 0.1) * g),
    ("upsample", "function (X[N]) -> (Y) { Y[2*i + j: 2*N] = +(X[i]), j < 2; }", [(5,)], lambda x: x.repeat_interleave(2)),
    ("depthwise", "function (X[C, W], K[C, R]) -> (Y) { Y[c, w: C, W - R + 1] = +(X[c, w + r] * K[c, r]); }", [(3, 6), (3, 2)],
     lambda x, k: torch.nn.functional.conv1d(x[None], k[:, None], groups=x.shape[0])[0]),
    ("reshape", "function (X[M, N]) -> (Y) { Y = reshape(X, M * N); }", [(3, 4)], torch.flatten),
    ("square_distance", "function (X[M, D], Y[N, D]) -> (O) { O[i, j: M, N] = +((X[i, d] - Y[j, d]) * (X[i, d] - Y[j, d])); }",
     [(3, 2), (4, 2)], lambda x, y: ((x[:, None] - y[None]) ** 2).sum(2)),
    ("gelu", "function (X) -> (Y) { Y = X * sigmoid(X * 1.702); }", [(5, 2)], lambda x: x * torch.sigmoid(1.702 * x)),
]
IDS = [p[0] for p in PROGRAMS]


def made(name, text):
    return tile.torch.op(f"tilejit_test::{name}", tile.program(text))


def inputs(shapes, grad=True):
    torch.manual_seed(len(shapes) + sum(map(sum, shapes)))
    return [torch.randn(s, dtype=F64, requires_grad=grad) for s in shapes]


@pytest.mark.parametrize("name, text, shapes, eager", PROGRAMS, ids=IDS)
def test_program(name, text, shapes, eager):
    op = made(name, text)
    args = inputs(shapes)
    torch.testing.assert_close(op(*args), eager(*args))
    assert torch.autograd.gradcheck(op, args)
    assert torch.autograd.gradgradcheck(op, args)
    torch.library.opcheck(op.overload, args)


@pytest.mark.parametrize("name, text, shapes, eager", PROGRAMS, ids=IDS)
def test_rows_and_checkpoints(name, text, shapes, eager):
    op = made(name, text)
    rows = [torch.stack([a.detach(), 0.5 * a.detach(), a.detach() - 1]) for a in inputs(shapes)]
    expected = torch.stack([eager(*(r[i] for r in rows)) for i in range(3)])
    torch.testing.assert_close(torch.vmap(op)(*rows), expected)
    ours, theirs = inputs(shapes), inputs(shapes)
    (checkpoint(op, *ours, use_reentrant=False) ** 2).sum().backward()
    (eager(*theirs) ** 2).sum().backward()
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("name, text, shapes, eager", PROGRAMS, ids=IDS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(name, text, shapes, eager, dynamic):
    op = made(name, text)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a: (op(*a) * 2).sum(), fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for grow in (0, 1, 2):
        sized = [tuple(n + grow for n in s) for s in shapes]
        ours, theirs = inputs(sized), inputs(sized)
        compiled(*ours).backward()
        (eager(*theirs) * 2).sum().backward()
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a.grad, b.grad)


def test_one_graph_for_all_sizes():
    op = made("mm", PROGRAMS[0][1])
    torch._dynamo.reset()
    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda a, b: op(a, b) + 1, fullgraph=True, dynamic=True, backend=count)
    for m, k, n in ((3, 4, 5), (6, 7, 8), (9, 4, 11)):
        compiled(torch.ones(m, k), torch.ones(k, n))
    assert len(graphs) == 1


def test_vmap():
    op = made("mm", PROGRAMS[0][1])
    a, b = torch.randn(6, 3, 4, dtype=F64), torch.randn(4, 5, dtype=F64)
    torch.testing.assert_close(torch.vmap(op, (0, None))(a, b), a @ b)
    torch.testing.assert_close(torch.vmap(op, (2, None), 1)(a.permute(1, 2, 0), b), (a @ b).transpose(0, 1))
    # The gradient of each row by itself.
    rows = torch.vmap(torch.func.grad(lambda x, y: op(x, y).pow(2).sum()), (0, None))(a, b)
    torch.testing.assert_close(rows, 2 * (a @ b) @ b.T)


def test_checkpoint_and_hessian():
    op = made("softmax", PROGRAMS[4][1])
    x, y = inputs([(3, 5)])[0], inputs([(3, 5)])[0]
    (checkpoint(op, x, use_reentrant=False) ** 2).sum().backward()
    (torch.softmax(y, 1) ** 2).sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    f, g = (lambda v: (op(v) ** 2).sum()), (lambda v: (torch.softmax(v, 1) ** 2).sum())
    torch.testing.assert_close(torch.autograd.functional.hessian(f, x.detach()),
                               torch.autograd.functional.hessian(g, x.detach()))


def test_only_the_gradients_that_are_wanted():
    op = made("mm", PROGRAMS[0][1])
    a, b = inputs([(3, 4), (4, 5)])
    op(a, b.detach()).sum().backward()
    assert list(op.vjps) == [("O", (0,))]
    assert a.grad is not None and b.grad is None


def test_types_and_layouts():
    op = made("mm", PROGRAMS[0][1])
    half = torch.ones(3, 4, dtype=torch.float16, requires_grad=True)
    result = op(half, torch.ones(4, 2, dtype=torch.bfloat16).to(torch.float32))
    assert result.dtype == torch.float32
    result.sum().backward()
    assert half.grad.dtype == torch.float16 and half.grad[0, 0] == 2
    a, b = inputs([(4, 3), (5, 4)])
    torch.testing.assert_close(op(a.T, b.T), a.T @ b.T)
    assert op(a.T, b.T).is_contiguous()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert op(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32
    counted = made("largest", "function (X[M, N]) -> (I, Y) { I = argmax(X, 1); Y = X * 2; }")
    x = inputs([(3, 4)])[0]
    index, twice = counted(x)
    assert index.dtype == torch.int64 and not index.requires_grad
    twice.sum().backward()
    assert torch.equal(x.grad, torch.full((3, 4), 2.0, dtype=F64))


def test_parameters():
    text = """@param_f32 gain(SLIDER, label="Gain", min=0.0, max=9.0, init=2.0)
@bounds(input_f32.extent(0), input_f32.extent(1))
def result |x, y| { input_f32(x, y) * gain }
"""
    bright = tile.program(text, "mfg")
    op = tile.torch.op("tilejit_test::bright", bright)
    x = torch.rand(3, 4, requires_grad=True)
    torch.testing.assert_close(op(x), x * 2)
    torch.testing.assert_close(op(x, 3.0), x * 3)
    op(x, 3.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3, 4), 3.0))
    compiled = torch.compile(lambda v: op(v, 4.0), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), x * 4)


def test_constants():
    held = tile.program(PROGRAMS[0][1]).bind(B=torch.eye(4, dtype=F64) * 3)
    op = tile.torch.op("tilejit_test::held", held)
    a = inputs([(3, 4)])[0]
    torch.testing.assert_close(op(a), a * 3)
    assert torch.autograd.gradcheck(op, (a,))
    torch.library.opcheck(op.overload, (a,))


def test_errors():
    op = made("mm", PROGRAMS[0][1])
    with pytest.raises(tile.BindError, match="dimension"):
        op(torch.ones(2, 3), torch.ones(4, 5))
    with pytest.raises(ValueError, match="namespace"):
        tile.torch.op("mm", tile.program(PROGRAMS[0][1]))
    with pytest.raises(Exception, match="dimension|same"):
        torch.compile(lambda a, b: op(a, b), fullgraph=True, backend="aot_eager")(torch.ones(2, 3), torch.ones(4, 5))
    again = made("mm", "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j] * 2); }")
    assert again(torch.ones(2, 2), torch.ones(2, 2))[0, 0] == 4


@pytest.mark.skipif(torch.compiler.list_backends() == [], reason="no inductor")
def test_inductor():
    op = made("mm", PROGRAMS[0][1])
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, b: torch.relu(op(a, b) - 1).sum(), fullgraph=True)
    a, b = inputs([(8, 8), (8, 8)])
    compiled(a, b).backward()
    c = a.detach().requires_grad_()
    torch.relu(c @ b - 1).sum().backward()
    torch.testing.assert_close(a.grad, c.grad)


def test_tensors_that_are_not_plain_memory():
    op = made("mm", PROGRAMS[0][1])
    shape_only = op(torch.ones(3, 4, device="meta"), torch.ones(4, 5, device="meta"))
    assert shape_only.device.type == "meta" and shape_only.shape == (3, 5)
    number = torch.complex(torch.ones(4, 4), torch.arange(16.0).reshape(4, 4)).conj()
    b = torch.randn(4, 5)
    torch.testing.assert_close(op(number.imag, b), number.imag.resolve_neg() @ b)  # stored with the other sign
    for wrong in (torch.eye(4).to_sparse(), torch.ones(4, 4, dtype=torch.complex64)):
        with pytest.raises((tile.Error, RuntimeError, TypeError)):
            op(wrong, b)
    kept = []
    torch.vmap(lambda row: kept.append(row) or row)(torch.ones(2, 4, 4))
    with pytest.raises((AssertionError, RuntimeError)):  # a row of a transform that has ended
        op(kept[0], b)


def test_gradients_beside_numbers_and_several_outputs():
    """One output and several, with and without parameters: nothing is lost between the forward and the backward call."""
    both = made("both", "function (A[N], B[N]) -> (S, P) { S = A + B; P = A * B; }")
    a, b = inputs([(5,), (5,)])
    s, p = both(a, b)
    (s * 2 + p).sum().backward()
    torch.testing.assert_close(a.grad, 2 + b.detach())
    torch.testing.assert_close(b.grad, 2 + a.detach())
    a.grad = None
    both(a, b)[1].sum().backward()  # the other output has no gradient
    torch.testing.assert_close(a.grad, b.detach())
