def convolution(x, filters, stride=1):
    padding = [((size - 1) // 2,) * 2 for size in filters.shape[:2]]
    return lax.conv_general_dilated(x, filters, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def pool(x, window, stride, padding):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), [(0, 0), *[(padding, padding)] * 2, (0, 0)])
