"""Programs as JAX operations: jit, gradients of any order, vmap."""
import os
import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp  # noqa: E402

import tilejit as tile  # noqa: E402

MATMUL = "function (A[M, L], B[L, N]) -> (O) { O[i, j: M, N] = +(A[i, k] * B[k, j]); }"
SOFTMAX = """function (X[M, N]) -> (P) { T[m, 0: M, 1] = >(X[m, n]); E = exp(X - T); S[m, 0: M, 1] = +(E[m, n]);
  P = E / S; }"""
PROGRAMS = [
    ("mm", MATMUL, [(3, 4), (4, 5)], lambda a, b: a @ b),
    ("softmax", SOFTMAX, [(3, 5)], lambda x: jax.nn.softmax(x, 1)),
    ("tanh", "function (X) -> (Y) { Y = tanh(X); }", [(7,)], jnp.tanh),
    ("dot", "function (A[N], B[N]) -> (O) { O[] = +(A[i] * B[i]); }", [(5,), (5,)], jnp.dot),
    ("conv", "function (X[B, C, W], K[O, C, R]) -> (Y) { Y[b, o, w: B, O, W - R + 1] = +(X[b, c, w + r] * K[o, c, r]); }",
     [(2, 3, 8), (4, 3, 3)], lambda x, k: jax.lax.conv(x, k, (1,), "VALID")),
    ("cumsum", "function (X[M, N]) -> (Y) { Y = cumsum(X, 1); }", [(3, 4)], lambda x: jnp.cumsum(x, 1)),
    ("product", "function (X[M, N]) -> (Y) { Y[m: M] = *(X[m, n]); }", [(3, 4)], lambda x: x.prod(1)),
    ("broadcast", "function (X[M, N], B[N]) -> (Y) { Y = X * B + B; }", [(3, 4), (4,)], lambda x, b: x * b + b),
]
IDS = [p[0] for p in PROGRAMS]


def arrays(shapes):
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [jnp.asarray(rng.standard_normal(s)) for s in shapes]


@pytest.mark.parametrize("name, text, shapes, theirs", PROGRAMS, ids=IDS)
def test_program(name, text, shapes, theirs):
    op, args = tile.jax.op(tile.program(text)), arrays(shapes)
    everything = tuple(range(len(args)))
    np.testing.assert_allclose(op(*args), theirs(*args), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(jax.jit(op)(*args), theirs(*args), rtol=1e-12, atol=1e-12)

    def loss(f):
        return lambda *a: (f(*a) ** 3).sum()

    for ours, wanted in zip(jax.jit(jax.grad(loss(op), everything))(*args), jax.grad(loss(theirs), everything)(*args)):
        np.testing.assert_allclose(ours, wanted, rtol=1e-9, atol=1e-9)

    def twice(f):
        return jax.grad(lambda *a: sum((g ** 2).sum() for g in jax.grad(loss(f), everything)(*a)), everything)

    for ours, wanted in zip(jax.jit(twice(op))(*args), twice(theirs)(*args)):
        np.testing.assert_allclose(ours, wanted, rtol=1e-8, atol=1e-8)


def test_vmap_and_jacobian():
    mm = tile.jax.op(tile.program(MATMUL))
    a, b = arrays([(6, 3, 4), (4, 5)])
    np.testing.assert_allclose(jax.vmap(mm, (0, None))(a, b), a @ b)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(lambda x, y: mm(x, y).sum()), (0, None)))(a, b),
                               jnp.broadcast_to(b.sum(1), (6, 3, 4)))
    np.testing.assert_allclose(jax.jacrev(mm)(a[0], b), jax.jacrev(jnp.matmul)(a[0], b), atol=1e-12)


def test_only_the_gradients_that_are_wanted():
    mm = tile.jax.op(tile.program(MATMUL))
    a, b = arrays([(3, 4), (4, 5)])
    jax.grad(lambda x: mm(x, b).sum())(a)
    assert list(mm.vjps) == [("O", (0,))]


def test_types():
    mm = tile.jax.op(tile.program(MATMUL))
    half, single = jnp.ones((2, 3), jnp.bfloat16), jnp.ones((3, 2), jnp.float32)
    assert mm(half, single).dtype == jnp.float32 and mm(half, half.T).dtype == jnp.bfloat16
    assert jax.grad(lambda x: mm(x, single).sum())(half).dtype == jnp.bfloat16
    both = tile.jax.op(tile.program("function (X[M, N]) -> (I, Y) { I = argmax(X, 1); Y = X * 2; }"))
    index, twice = jax.jit(both)(jnp.asarray([[1.0, 3.0, 2.0]]))
    assert index.tolist() == [1] and twice.tolist() == [[2, 6, 4]]
    np.testing.assert_array_equal(jax.grad(lambda x: both(x)[1].sum())(jnp.ones((2, 3))), jnp.full((2, 3), 2.0))
    taken = tile.jax.op(tile.program("function (X[M, N], I[K]) -> (Y) { Y = gather(X, I); }"))
    rows = jnp.asarray([1, 1, 0])
    assert jax.grad(lambda x: taken(x, rows).sum())(jnp.ones((3, 2))).tolist() == [[1, 1], [2, 2], [0, 0]]


def test_constants_and_parameters():
    b = arrays([(4, 5)])[0]
    held = tile.jax.op(tile.program(MATMUL).bind(B=np.asarray(b)))
    a = jnp.ones((3, 4))
    np.testing.assert_allclose(jax.jit(held)(a), a @ b)
    np.testing.assert_allclose(jax.grad(lambda x: held(x).sum())(a), jnp.broadcast_to(b.sum(1), (3, 4)))
    gain = tile.jax.op(tile.program("""@param_f32 gain(SLIDER, label="Gain", min=0.0, max=9.0, init=2.0)
@bounds(input_f32.extent(0), input_f32.extent(1))
def result |x, y| { input_f32(x, y) * gain }
""", "mfg"))
    x = jnp.ones((2, 3), jnp.float32)
    assert gain(x)[0, 0] == 2 and jax.jit(lambda v, g: gain(v, g))(x, 5.0)[0, 0] == 5
    assert jax.grad(lambda v: gain(v, 3.0).sum())(x)[0, 0] == 3


def test_errors():
    mm = tile.jax.op(tile.program(MATMUL))
    with pytest.raises(tile.BindError, match="dimension"):
        jax.jit(mm)(jnp.ones((2, 3)), jnp.ones((4, 5)))
    with pytest.raises(TypeError, match="is missing"):
        mm(jnp.ones((2, 3)))
    with pytest.raises(TypeError, match="3 inputs"):
        mm(1, 2, 3)
    # What only a run finds comes with its text.
    twice = tile.jax.op(tile.program("function (A[N]) -> (O) { O[0 * i: N] = =(A[i]); }"))
    with pytest.raises(Exception, match="<text>:1:"):
        jax.block_until_ready(jax.jit(twice)(jnp.ones(3)))


def test_without_64_bits():
    code = f"""
import jax, tilejit
mm = tilejit.jax.op(tilejit.program({MATMUL!r}))
assert jax.jit(mm)(jax.numpy.ones((2, 2)), jax.numpy.ones((2, 2))).dtype == "float32"
try: tilejit.jax.op(tilejit.program("function (X[N]) -> (I) {{ I = argmax(X, 0); }}"))(jax.numpy.ones(3))
except TypeError as error: print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100,
                            env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "0"})
    assert (result.returncode, result.stdout) == (0, "output I holds i64, which JAX has with jax_enable_x64 alone\n"), \
        result.stderr
