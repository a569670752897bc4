"""Programs as PyTorch and JAX operations on an NVIDIA GPU: values, gradients, streams, CUDA graphs, whose memory. Left out,
saying so, where there is no GPU. Run alone: JAX takes memory as it needs it, not most of it at once."""
import os
import shutil

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU that PyTorch can use", allow_module_level=True)

import tilejit as tile  # noqa: E402
from test_torch import IDS, PROGRAMS, made  # noqa: E402

GPU = torch.device("cuda", 0)
MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"
# Two kernels with a temporary between them.
COLUMNS = "function (A[M, N]) -> (T) { S[j: N] = +(A[i, j]); T[i: M] = +(A[i, j] * S[j] * S[j]); }"
LAYER_NORM = """function (X[M, N], G[N], B[N]) -> (Y) { S[m, 0: M, 1] = +(X[m, n]); D = X - S / N;
  V[m, 0: M, 1] = +(D[m, n] * D[m, n]); Y = D / sqrt(V / N + 0.00001) * G + B; }"""


def drawn(*shapes, dtype=torch.float32, grad=False):
    torch.manual_seed(sum(map(sum, shapes)))
    return [torch.randn(s, dtype=dtype, device=GPU, requires_grad=grad) for s in shapes]


def columns(a):
    s = a.sum(0)
    return (a * s * s).sum(1)


@pytest.mark.parametrize("name, text, shapes, eager", PROGRAMS, ids=IDS)
def test_program(name, text, shapes, eager):
    op = made(name, text)
    args = drawn(*shapes, dtype=torch.float64, grad=True)
    torch.testing.assert_close(op(*args), eager(*args))
    assert torch.autograd.gradcheck(op, args)
    torch.library.opcheck(op.overload, args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_layer_norm_and_its_gradients(dtype):
    op = made("layer_norm3", LAYER_NORM)
    args = drawn((67, 250), (250,), (250,), dtype=dtype, grad=True)
    exact = [a.detach().double().requires_grad_() for a in args]
    ours, wanted = op(*args), torch.nn.functional.layer_norm(exact[0], (250,), *exact[1:])
    seed = torch.randn_like(wanted)
    tolerance = {torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 1e-1}[dtype]
    torch.testing.assert_close(ours.double(), wanted, rtol=tolerance, atol=tolerance)
    ours.backward(seed.to(ours.dtype))
    wanted.backward(seed.to(ours.dtype).double())
    for a, e in zip(args, exact):
        torch.testing.assert_close(a.grad.double(), e.grad, rtol=10 * tolerance, atol=10 * tolerance)


def test_strides():
    op = made("mm", MATMUL)
    a, b = drawn((300, 70), (130, 300))
    torch.testing.assert_close(op(a.T, b.T), a.T @ b.T, rtol=1e-4, atol=1e-3)
    base = torch.randn(40, 90, device=GPU)
    cut, wide = base[1:38:3, 5:61:2], torch.randn(28, 1, device=GPU).expand(28, 17)
    torch.testing.assert_close(op(cut, wide), cut @ wide, rtol=1e-4, atol=1e-3)


def test_the_current_stream():
    op = made("columns", COLUMNS)
    side = torch.cuda.Stream()
    for _ in range(20):
        a = torch.randn(2048, 2048, device=GPU)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            late = a
            for _ in range(8):  # what the stream still works on when the operation is called
                late = torch.tanh(late @ a * 0.01)
            ours = op(late)
            wanted = columns(late)
        torch.cuda.current_stream().wait_stream(side)
        torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("shape", [(64, 48), (1000, 777)])
def test_cuda_graphs(shape):
    """A captured operation runs again on new values, also while the same operation runs in another stream."""
    op = made("columns", COLUMNS)
    a, other = drawn(shape, shape)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            op(a), op(other)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = op(a) + op(other)
    for turn in range(30):
        a.copy_(torch.randn(shape, device=GPU))
        torch.cuda.synchronize()
        graph.replay()
        with torch.cuda.stream(side):
            beside = op(other)
        torch.cuda.synchronize()
        torch.testing.assert_close(result, columns(a) + columns(other), rtol=1e-3, atol=1e-2)
        torch.testing.assert_close(beside, columns(other), rtol=1e-3, atol=1e-2)


def test_a_training_step_in_a_cuda_graph():
    op = made("layer_norm3", LAYER_NORM)
    x, g, b = drawn((128, 96), (96,), (96,), grad=True)
    seed = torch.randn(128, 96, device=GPU)

    def step():
        for t in (x, g, b):
            t.grad = None
        op(x, g, b).backward(seed)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    exact = [t.detach().clone().requires_grad_() for t in (x, g, b)]
    torch.nn.functional.layer_norm(exact[0], (96,), *exact[1:]).backward(seed)
    for t, e in zip((x, g, b), exact):
        torch.testing.assert_close(t.grad, e.grad, rtol=1e-3, atol=1e-3)


def test_memory_is_pytorchs():
    """Results, temporaries and constants are in the statistics of PyTorch's allocator."""
    program = tile.program("function (A[M, N], W[N, N]) -> (T) { H[i, j: M, N] = +(A[i, k] * W[k, j]);"
                           " S[j: N] = +(H[i, j]); T[i: M] = +(H[i, j] * S[j]); }")
    rows, columns_of_w = 6000, 3000
    weights = torch.randn(columns_of_w, columns_of_w)
    op = tile.torch.op("tilejit_test::constant", program.bind(W=weights))
    a = torch.randn(rows, columns_of_w, device=GPU)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = op(a)
    torch.cuda.synchronize()
    most = torch.cuda.max_memory_allocated() - before
    h = a @ weights.to(GPU)
    torch.testing.assert_close(result, (h * h.sum(0)).sum(1), rtol=2e-2, atol=2e-2 * float((h * h.sum(0)).sum(1).abs().max()))
    assert most >= 4 * rows * columns_of_w + weights.nbytes


def test_no_memory_is_beside_pytorchs():
    """The driver has given no more than PyTorch's allocator has taken, but for what the kernels' code takes."""
    op = made("columns", COLUMNS)
    warm = torch.randn(64, 64, device=GPU)
    op(warm), columns(warm)
    torch.cuda.synchronize()
    free, reserved = torch.cuda.mem_get_info(GPU)[0], torch.cuda.memory_reserved(GPU)
    a = torch.randn(16384, 16384, device=GPU)  # 1 GiB
    ours, wanted = op(a), columns(a)
    torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
    torch.cuda.synchronize()
    taken, by_pytorch = free - torch.cuda.mem_get_info(GPU)[0], torch.cuda.memory_reserved(GPU) - reserved
    assert by_pytorch >= a.nbytes and taken - by_pytorch < 64 << 20, (taken, by_pytorch)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_torch_compile(backend):
    if backend == "inductor" and not (shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("no C compiler, which PyTorch's own code generator needs")
    op = made("mm", MATMUL)
    torch._dynamo.reset()

    def model(a, b):
        return torch.relu(op(a, b)).sum()

    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    for n in (16, 33, 70):
        a, b = drawn((n, 24), (24, 40), grad=True)
        expected = [t.detach().clone().requires_grad_() for t in (a, b)]
        torch.relu(expected[0] @ expected[1]).sum().backward()
        compiled(a, b).backward()
        for t, e in zip((a, b), expected):
            torch.testing.assert_close(t.grad, e.grad, rtol=1e-4, atol=1e-4)


def test_vmap():
    op = made("mm", MATMUL)
    a, b = drawn((5, 8, 6), (6, 7))
    torch.testing.assert_close(torch.vmap(op, (0, None))(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_the_second_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    op = made("columns", COLUMNS)
    for gpu in (1, 0, 1):
        a = torch.randn(100, 60, device=torch.device("cuda", gpu))
        torch.testing.assert_close(op(a), columns(a), rtol=1e-3, atol=1e-2)


def test_what_does_not_fit_is_an_error():
    op = made("mm", MATMUL)
    with pytest.raises(Exception, match="L|dimension"):
        op(*drawn((3, 4), (5, 6)))
    a, b = drawn((3, 4), (4, 5))
    torch.testing.assert_close(op(a, b), a @ b)


def test_a_tensor_in_host_memory_is_copied():
    a, b = drawn((3, 4), (4, 5))
    op = made("mm", MATMUL)
    torch.testing.assert_close(op(a, b.cpu()), a @ b)
    torch.testing.assert_close(op(a.cpu(), b), (a @ b).cpu())  # where the first input is


class TestJax:
    @pytest.fixture(autouse=True)
    def gpu(self):
        jax = pytest.importorskip("jax")
        try:
            self.device = jax.local_devices(backend="cuda")[0]
        except RuntimeError:
            pytest.skip("no GPU that JAX can use")
        self.jax, self.jnp = jax, jax.numpy

    def arrays(self, *shapes):
        rng = np.random.default_rng(sum(map(sum, shapes)))
        return [self.jax.device_put(rng.standard_normal(s).astype(np.float32), self.device) for s in shapes]

    def test_product(self):
        op = tile.jax.op(tile.program(MATMUL))
        a, b = self.arrays((67, 130), (130, 33))
        ours = self.jax.jit(op)(a, b)
        assert ours.devices() == {self.device}
        np.testing.assert_allclose(ours, np.asarray(a, np.float64) @ np.asarray(b, np.float64), rtol=1e-4, atol=1e-3)

    def test_gradients_of_both_orders(self):
        jnp = self.jnp
        op = tile.jax.op(tile.program(LAYER_NORM))

        def theirs(x, g, b):
            d = x - x.mean(1, keepdims=True)
            return d / jnp.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b

        def loss(f):
            return lambda *args: (f(*args) ** 3).sum()

        def twice(f):
            return self.jax.grad(lambda *a: (self.jax.grad(loss(f))(*a) ** 2).sum())

        args = self.arrays((19, 50), (50,), (50,))
        for ours, wanted in zip(self.jax.jit(self.jax.grad(loss(op), (0, 1, 2)))(*args),
                                self.jax.grad(loss(theirs), (0, 1, 2))(*args)):
            np.testing.assert_allclose(ours, wanted, rtol=1e-3, atol=1e-2)
        ours, wanted = self.jax.jit(twice(op))(*args), twice(theirs)(*args)
        np.testing.assert_allclose(ours, wanted, rtol=1e-2, atol=1e-2 * float(np.abs(wanted).max()))

    def test_temporaries_beside_other_work(self):
        jnp = self.jnp
        op = tile.jax.op(tile.program(COLUMNS))

        @self.jax.jit
        def both(a):
            late = jnp.tanh(a @ a * 0.01)
            return op(late), columns_of_jax(late), op(a)

        def columns_of_jax(a):
            s = a.sum(0)
            return (a * s * s).sum(1)

        (a,) = self.arrays((1500, 1500))
        for _ in range(5):
            ours, wanted, first = both(a)
            np.testing.assert_allclose(ours, wanted, rtol=1e-2, atol=1e-1)
            np.testing.assert_allclose(first, columns_of_jax(a), rtol=1e-2, atol=float(np.abs(first).max()) * 1e-3)

    def test_vmap(self):
        op = tile.jax.op(tile.program(MATMUL))
        a, b = self.arrays((4, 8, 6), (6, 7))
        # JAX's own product rounds its factors to 10 fraction bits there.
        exact = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
        np.testing.assert_allclose(self.jax.vmap(op, (0, None))(a, b), exact, rtol=1e-4, atol=1e-4)

    def test_errors(self):
        op = tile.jax.op(tile.program(MATMUL))
        with pytest.raises(Exception, match="L|dimension"):
            op(*self.arrays((3, 4), (5, 6)))
