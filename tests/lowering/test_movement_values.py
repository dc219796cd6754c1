"""Shape, padding, indexing, scatter and sorting operators against PyTorch's CPU kernels."""

import math

import pytest
import torch

from tests.lowering.checks import check, record, replay, run
from tests.lowering.harness import Recorder

aten = torch.ops.aten
X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
BIG = torch.randn(5, 6, 7, generator=torch.Generator().manual_seed(1))


def integers(low, high, shape, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype, generator=torch.Generator().manual_seed(2))


MOVES = {
    "cat": (aten.cat.default, [X, torch.randn(2, 5, 4), torch.randn(2, 0, 4)], 1),
    "cat promotes": (aten.cat.default, [integers(0, 5, (2, 3)), torch.randn(2, 3)], 0),
    "cat skips": (aten.cat.default, [torch.empty(0), X], 0),
    "stack": (aten.stack.default, [X, X + 1], -1),
    "pad": (aten.constant_pad_nd.default, X, [1, 2, 0, -1], 3.5),
    "roll": (aten.roll.default, X, [5, -2], [0, 2]),
    "roll flat": (aten.roll.default, X, [7]),
    "flip": (aten.flip.default, X, [0, -1]),
    "rot90": (aten.rot90.default, X, 3, [0, 2]),
    "repeat": (aten.repeat.default, X, [3, 2, 1, 2]),
    "repeat none": (aten.repeat.default, X, [0, 1, 1]),
    "slice gradient": (aten.slice_backward.default, torch.randn(2, 3, 2), [2, 3, 4], 2, 0, 2**63 - 1, 2),
    "slice gradient, negative": (aten.slice_backward.default, torch.randn(2, 1, 4), [2, 3, 4], 1, -1, 9, 1),
    "select gradient": (aten.select_backward.default, torch.randn(2, 4), [2, 3, 4], 1, -1),
    "diagonal gradient": (aten.diagonal_backward.default, torch.randn(5, 2), [3, 5, 4], -1, 0, 2),
    "diagonal scatter": (aten.diagonal_scatter.default, torch.randn(3, 5, 4), torch.randn(5, 3), 1, 0, 2),
    "diagonal copy": (aten.diagonal_copy.default, torch.randn(3, 5, 4), -2, 2, 0),
    "unfold gradient": (aten.unfold_backward.default, torch.randn(2, 4, 3, 3), [2, 10, 3], 1, 3, 2),
    "unfold gradient, wide": (aten.unfold_backward.default, torch.randn(2, 16, 150), [2, 300], 1, 150, 10),
    "unfold": (aten.unfold_copy.default, torch.randn(2, 10, 3), 1, 3, 2),
    "slice scatter": (aten.slice_scatter.default, X, torch.randn(2, 2, 4), 1, 1, 3, 1),
    "slice scatter, step": (aten.slice_scatter.default, X, torch.randn(2, 3, 2), 2, 1, None, 2),
    "select scatter": (aten.select_scatter.default, X, torch.randn(2, 4), 1, -1),
    "expand": (aten.expand_copy.default, torch.randn(3, 1), [2, 3, 4]),
    "permute": (aten.permute_copy.default, X, [2, 0, 1]),
    "split": (aten.unsafe_split.Tensor, X, 2, 1),
    "split sizes": (aten.split_with_sizes_copy.default, X, [1, 2], 1),
    "unbind": (aten.unbind_copy.int, X, 1),
    "pixel shuffle": (aten.pixel_shuffle.default, torch.randn(2, 8, 3, 4), 2),
    "pixel unshuffle": (aten.pixel_unshuffle.default, torch.randn(2, 2, 6, 8), 2),
    "channel shuffle": (aten.channel_shuffle.default, torch.randn(2, 6, 3, 4), 3),
}


@pytest.mark.parametrize("case", MOVES)
def test_movement(case):
    check(*MOVES[case])


@pytest.mark.parametrize("kind", ["reflection", "replication"])
def test_border_padding(kind):
    shapes = {1: (2, 3, 9), 2: (2, 3, 7, 9), 3: (2, 3, 7, 9, 5)}
    for spatial, shape in shapes.items():
        pad = [3, 2, 1, 4, 2, 2][: 2 * spatial]
        forward, backward = (getattr(aten, f"{kind}_pad{spatial}d{s}").default for s in ("", "_backward"))
        x = torch.randn(shape)
        check(forward, x, pad)
        check(backward, torch.randn_like(forward(x, pad)), x, pad)


def test_wide_border_gradient():
    check(aten.replication_pad1d_backward.default, torch.randn(2, 3, 49), torch.randn(2, 3, 9), [20, 20])


I1, I2, I3 = integers(-5, 5, (3, 4)), integers(-6, 6, (4,)), integers(0, 7, (3, 1), torch.int32)
INDICES = [[I1], [None, I2], [I1, I2], [I1, None, I3], [None, I2, I3], [I1, I2, I3]]


@pytest.mark.parametrize(
    "indices", INDICES, ids=lambda v: "x".join("_" if i is None else str(i.dim()) for i in v)
)
def test_index(indices):
    check(aten.index.Tensor, BIG, indices)
    check(aten.index_put.default, BIG, indices, torch.tensor(2.0))
    check(aten.index_put.default, BIG, indices, torch.randn_like(aten.index.Tensor(BIG, indices)), True)


def test_index_put_under_a_mask():
    mask = BIG[:, :, 0] > 0
    check(aten.index_put.default, BIG, [mask], torch.tensor(2.0))
    check(aten.index_put.default, BIG, [mask], torch.randn(7))
    check(aten.index_put.default, BIG, [mask], torch.randn(1, 7), True)
    check(aten.index_put.default, BIG, [None, BIG[0, :, 0] > 0], torch.randn(5, 1, 7))
    check(aten.index_put.default, BIG, [BIG > 0], torch.tensor(0.0))


ROWS = integers(0, 6, (9,))
ONE_DIM = {
    "select": (aten.index_select.default, BIG, 1, ROWS),
    "select by 0-dim": (aten.index_select.default, BIG, -1, torch.tensor(3)),
    "select from 0-dim": (aten.index_select.default, torch.tensor(2.0), 0, torch.tensor([0])),
    "add": (aten.index_add.default, BIG, 1, ROWS, torch.randn(5, 9, 7)),
    "copy": (aten.index_copy.default, BIG, 1, torch.tensor([0, 3, 5]), torch.randn(5, 3, 7)),
    "fill": (aten.index_fill.int_Scalar, BIG, 1, torch.tensor([0, -1]), 3.0),
    "fill with a tensor": (aten.index_fill.int_Tensor, BIG, 1, torch.tensor([0, -1]), torch.tensor(2.0)),
    "gather": (aten.gather.default, BIG, 2, integers(0, 7, (2, 6, 9))),
    "gather from 0-dim": (aten.gather.default, torch.tensor(2.0), 0, torch.tensor(0)),
    "take": (aten.take.default, BIG, integers(-210, 210, (3, 4))),
    "put": (aten.put.default, BIG, integers(0, 10, (12,)), torch.randn(12), True),
    "scatter number": (aten.scatter.value, BIG, 1, integers(0, 6, (5, 3, 7)), 2.0),
    "scatter add": (aten.scatter_add.default, BIG, 1, integers(0, 6, (5, 9, 7)), torch.randn(5, 9, 7)),
    "scatter larger": (aten.scatter_add.default, BIG, 1, integers(0, 6, (5, 3, 7)), torch.randn(5, 4, 7)),
}


@pytest.mark.parametrize("case", ONE_DIM)
def test_one_dimension(case):
    check(*ONE_DIM[case])


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce(reduce, include_self):
    index = integers(0, 4, (5, 5, 7))
    check(
        aten.scatter_reduce.two, BIG, 1, index, torch.rand(5, 9, 7) + 0.5, reduce, include_self=include_self
    )
    whole = (integers(-9, 9, (5, 6)), 1, integers(0, 4, (5, 5)), integers(-9, 9, (5, 5)), reduce)
    check(aten.scatter_reduce.two, *whole, include_self=include_self)
    special = BIG.clone()
    special[0] = math.nan
    if reduce in ("amax", "amin"):
        check(
            aten.scatter_reduce.two,
            special,
            1,
            index,
            torch.randn(5, 9, 7),
            reduce,
            include_self=include_self,
        )


def test_bad_indices_are_reported():
    bad = torch.tensor([0, 9])
    for func, args, shape in (
        (aten.index.Tensor, (BIG, [bad]), (2, 6, 7)),
        (aten.index.Tensor, (BIG, [torch.tensor([0, len(BIG)])]), (2, 6, 7)),
        (aten.index.Tensor, (BIG, [torch.tensor([0, -len(BIG) - 1])]), (2, 6, 7)),
        (aten.index_select.default, (BIG, 0, torch.tensor([0, -1])), (2, 6, 7)),
        (aten.gather.default, (BIG[0, 0].clone(), 0, bad), (2,)),
        (aten.gather.default, (BIG[0, 0].clone(), 0, torch.tensor([0, BIG.shape[2]])), (2,)),
        (aten.scatter_add.default, (BIG[0, 0].clone(), 0, bad, torch.ones(2)), (7,)),
    ):
        replay(func, args, [torch.empty(shape)], error=0)


@pytest.mark.parametrize("bad", [[], [0], [2], [1, 2], [0, 1, 2]])
def test_the_first_failed_check_is_reported(bad):
    recorder = Recorder()
    for k in range(3):
        index = torch.tensor([0, 99 if k in bad else 1])
        record(recorder, aten.index_select.default, (BIG, 0, index), [torch.empty(2, 6, 7)])
    assert recorder.run() == (bad[0] if bad else -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("descending", [True, False])
def test_sort(dtype, descending):
    x = torch.randn(4, 5, 9)
    x[0, 0, 2], x[1, 1, 3], x[1, 1, 5], x[2, 2, 2], x[2, 3] = (
        math.nan,
        math.nan,
        math.nan,
        -math.inf,
        math.nan,
    )
    x = x.nan_to_num().to(dtype) if dtype in (torch.int64, torch.bool) else x.to(dtype)
    for dim in (0, 1, -1):
        check(aten.sort.stable, x, stable=True, dim=dim, descending=descending)


def test_order_statistics():
    x = torch.randn(4, 5, 9)
    x[0, 0, 2] = x[1, 1, 3] = x[1, 1, 5] = math.nan
    for dim in (0, 2):
        check(aten.median.dim, x, dim)
        check(aten.nanmedian.dim, x, dim, True)
        check(aten.topk.default, BIG, 3, dim, True, True)
        check(aten.topk.default, BIG, 3, dim, False, True)
    check(aten.median.default, x)
    check(aten.kthvalue.default, BIG, 2, -1, True)


@pytest.mark.parametrize("right", [True, False])
def test_search(right):
    rows = torch.sort(torch.randn(4, 17)).values
    x = torch.randn(4, 6)
    x[0, 0], x[1, 1] = math.nan, rows[1, 3]
    check(aten.searchsorted.Tensor, rows, x, right=right)
    check(aten.bucketize.Tensor, x, rows[1].clone(), right=right)
    mixed = torch.randn(4, 17)
    check(aten.searchsorted.Tensor, mixed, x, right=right, sorter=torch.argsort(mixed))


def test_lifted_starts():
    for args in ((aten.select_backward.default, torch.randn(2, 4), [2, 3, 4], 1, -2),):
        check(*args, lift={"index"})
    check(aten.slice_backward.default, torch.randn(2, 2, 4), [2, 3, 4], 1, 1, 3, 1, lift={"start", "end"})
    recorder, results, error = run(
        aten.slice_scatter.default, X, torch.ones(2, 2, 4), 1, 1, 3, 1, lift={"start"}
    )
    assert error == -1
    assert torch.equal(recorder.value_of(results[0]), results[0])


def test_compaction():
    x, mask = torch.randn(4, 6), BIG[0, 0, :6] > 0
    check(aten.masked_scatter.default, x, mask, torch.randn(30))
    check(aten.repeat_interleave.Tensor, torch.tensor([2, 0, 3, 1, 0, 0]))
    check(aten.histc.default, torch.tensor([0.0, 1, 2, 3, 3, 7, -1, 2.5, math.nan]), 8, 0, 7)
    check(aten.histc.default, torch.randn(1000), 100, -1.0, 1.0)
    replay(
        aten.masked_scatter.default,
        (torch.zeros(3), torch.ones(3) > 0, torch.ones(2)),
        [torch.empty(3)],
        error=0,
    )
    replay(
        aten.repeat_interleave.Tensor,
        (torch.tensor([1, 2]), None),
        [torch.empty(4, dtype=torch.int64)],
        error=0,
    )


def test_gated():
    for dim in (0, -1):
        x = torch.randn(4, 6)
        check(aten.glu.default, x, dim)
        check(aten.glu_backward.default, torch.randn_like(aten.glu.default(x, dim)), x, dim)


def test_membership():
    x, some = integers(0, 9, (4, 5)), integers(0, 9, (3,))
    check(aten.isin.Tensor_Tensor, x, some)
    check(aten.isin.Tensor_Tensor, x, some, invert=True)
    check(aten.isin.Tensor_Tensor, torch.tensor([math.nan, 1.0]), torch.tensor([math.nan, 1.0]))


@pytest.mark.parametrize("offset", [-2, 0, 1])
@pytest.mark.parametrize("dims", [(-2, -1), (0, 2), (2, 0), (1, 0)])
def test_diagonal_matrices(dims, offset):
    check(aten.diag_embed.default, torch.randn(2, 3), offset, *dims)
