"""PyTorch's CPU kernels of linear layers sum in float32 and round once, as `lockstep diff` assumes; gradients of a table and of a layer norm
are summed in their own type. Every result must be within the resulting bounds.
"""
import sys

import torch
from torch import nn

ROUNDOFF = {torch.bfloat16: 2**-8, torch.float16: 2**-11}
SMALLEST = {torch.bfloat16: 2.0**-133, torch.float16: 2.0**-24}
SIZES = ((1, 64, 8), (1, 1024, 16), (7, 1000, 5), (2048, 64, 32), (4096, 33, 7), (256, 2048, 128), (3, 8192, 1), (512, 512, 512))


def within(got, exact, magnitudes, terms, dtype):
    """(k + 1) roundings of float32, then one of the type."""
    wide = (terms + 1) * 2.0**-24 * magnitudes
    bound = wide + ROUNDOFF[dtype] * (exact.abs() + wide) + SMALLEST[dtype]
    return bool(((got.double() - exact).abs() <= bound).all())


def inputs(rows, width, layout, dtype):
    if layout == "transposed":
        return torch.randn(width, rows).to(dtype).t()
    if layout == "offset":
        return torch.randn(rows + 1, width + 3).to(dtype)[1:, 2:-1]
    return torch.randn(*((2, rows, width) if layout == "batched" else (rows, width))).to(dtype)


def linear(rows, width, features, layout, dtype):
    x, layer = inputs(rows, width, layout, dtype), nn.Linear(width, features).to(dtype)
    y = layer(x)
    g = torch.randn(*y.shape).to(dtype)
    y.backward(g)
    x, g, w, b = x.reshape(-1, width).double(), g.reshape(-1, features).double(), layer.weight.detach().double(), layer.bias.detach().double()
    what = f"{dtype} {rows} x {width} to {features}, {layout}, {torch.get_num_threads()} threads"
    assert within(y.detach().reshape(-1, features), x @ w.t() + b, x.abs() @ w.abs().t() + b.abs(), width + 1, dtype), f"{what}: forward"
    assert within(layer.weight.grad, g.t() @ x, g.abs().t() @ x.abs(), len(x), dtype), f"{what}: gradient of the weight"
    assert within(layer.bias.grad, g.sum(0), g.abs().sum(0), len(x), dtype), f"{what}: gradient of the bias"


def table(rows, ids, width, dtype):
    layer, at = nn.Embedding(rows, width).to(dtype), torch.randint(0, rows, (ids,))
    g = torch.randn(ids, width).to(dtype)
    layer(at).backward(g)
    exact, magnitudes, counts = [torch.zeros(rows, width).double() for _ in range(3)]
    for out, values in ((exact, g.double()), (magnitudes, g.double().abs()), (counts, torch.ones(ids, width).double())):
        out.index_add_(0, at, values)
    bound = counts * ROUNDOFF[dtype] * magnitudes + counts * SMALLEST[dtype]
    off = (layer.weight.grad.double() - exact).abs()
    assert bool((off <= bound).all()), f"{dtype} table of {rows}, {ids} ids"
    return bool((off > ROUNDOFF[dtype] * exact.abs()).any())


def norm(rows, width, dtype):
    """Returns whether half of the type's digits would refuse the gradients."""
    layer, exact = nn.LayerNorm(width).to(dtype), nn.LayerNorm(width).double()
    x, g = torch.randn(rows, width).to(dtype), torch.randn(rows, width).to(dtype)
    layer(x).backward(g)
    exact(x.double()).backward(g.double())
    shares = [float((mine.grad - right.grad).abs().max() / right.grad.abs().max()) for mine, right in zip(layer.parameters(), exact.parameters())]
    assert max(shares) <= 2 * ROUNDOFF[dtype] * rows ** 0.5, f"{dtype} layer norm of {rows} rows: {shares}"
    return max(shares) > ROUNDOFF[dtype] ** 0.5


def main():
    torch.manual_seed(0)
    for dtype in ROUNDOFF:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            for size in SIZES:
                for layout in ("plain", "transposed", "batched", "offset"):
                    linear(*size, layout, dtype)
            rounds = [table(*size, dtype) for size in ((20, 100, 8), (3, 1024, 16), (1000, 5000, 4))]
            assert all(rounds), "a table's gradient was added up in a wider type"
        several = [norm(rows, width, dtype) for rows in (16, 512, 8192) for width in (8, 128)]
        assert dtype is torch.float16 or any(several), "a layer norm's gradients were added up in a wider type"
    print("linear layers add up in float32, tables and layer norms in their own type")
    return 0


sys.exit(main())
