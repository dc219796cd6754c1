"""The suite of optimizers: PyTorch's optimizer database, every configuration with each of foreach, fused,
differentiable and none of them, capturable and tensor learning rates included, for a few steps with given gradients
(or with a closure); parameters and state are compared.

    float32, float64, bfloat16, complex64    by the parameters' dtype
    state_dict                               a run on the CPU is loaded and continued
"""

import copy

import torch
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

from tests.conformance.database import seeded

KINDS = ["float32", "float64", "bfloat16", "complex64", "state_dict"]
TABLE = {info.name: info for info in optim_db}
SHAPES = [(4, 5), (3,), (2, 3, 4), (1,)]
STEPS = 4
SHORTER_THAN_A_VECTOR = 4
TWO_DIMENSIONS_ONLY = {"Muon"}


def names():
    return sorted(TABLE)


def configurations(info):
    """Keyword arguments of the constructor. The database is asked for what it has for CUDA, which is most."""
    for given in info.optim_inputs_func(device="cuda"):
        base = {flag: False for flag in info.supported_impls}
        for flag in (None, *info.supported_impls):
            yield {**base, **given.kwargs, **({flag: True} if flag else {})}


def start(info, dtype, index):
    """Parameters and, for each step, their gradients."""
    shapes = [s for s in SHAPES if len(s) == 2 or info.name not in TWO_DIMENSIONS_ONLY]
    generator = torch.Generator().manual_seed(index)

    def draw(shape):
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=wide).to(dtype)

    def gradient(shape):
        if not info.only_supports_sparse_grads:
            return draw(shape)
        return torch.sparse_coo_tensor([list(range(0, shape[0], 2))], draw((len(range(0, shape[0], 2)), *shape[1:])),
                                       shape)  # fmt: skip

    return [draw(s) for s in shapes], [[gradient(s) for s in shapes] for _ in range(STEPS)]


def make(info, kwargs, parameters):
    """On the CPU capturable is refused, and means the same without."""
    kwargs = copy.deepcopy(kwargs)
    if parameters[0].device.type == "cpu":
        kwargs.pop("capturable", None)
    return info.optim_cls(parameters, **kwargs)


def steps(info, optimizer, parameters, gradients):
    for given in gradients:
        if info.step_requires_closure:
            # One objective for all steps: where it changes between them, what L-BFGS learnt of the last one's curvature
            # is noise, and CPU's own result moves by 2 if the parameters move by 1e-7 of themselves.
            def closure():
                optimizer.zero_grad()
                loss = sum(((p - g).abs() ** 2).sum() for p, g in zip(parameters, gradients[0], strict=True))
                loss.backward()
                return loss

            optimizer.step(closure)
        else:
            for p, g in zip(parameters, given, strict=True):
                p.grad = g
            optimizer.step()


def state_of(optimizer, parameters):
    """Tensors in a fixed order. Where `step` is kept, and in which dtype, is the implementation's business."""
    found = [*parameters]
    for p in parameters:
        state = optimizer.state.get(p, {})
        for key in sorted(k for k in state if isinstance(k, str)):
            values = pytree.tree_leaves(state[key])
            found += [float(x) if key in ("step", "eta", "mu", "mu_product") else x for x in values]
    return found


def in_pieces(tensors):
    return [piece for x in tensors for piece in x.detach().flatten().split(SHORTER_THAN_A_VECTOR)]


def put_together(pieces, shapes):
    """The reverse, of as many lists of tensors of those shapes as there are."""
    whole, pieces = [], list(pieces)
    while pieces:
        for shape in shapes:
            count = -(-shape.numel() // SHORTER_THAN_A_VECTOR)
            whole.append(torch.cat(pieces[:count]).view(shape))
            del pieces[:count]
    return whole


def cpu_is_wrong(info, kwargs, parameters):
    """CPU's fused SGD reads the momentum of 16-bit vectors as floats and stores no parameter; elements that fill no
    vector are right."""
    return (
        info.name == "SGD"
        and kwargs.get("fused")
        and parameters[0].device.type == "cpu"
        and parameters[0].dtype in (torch.bfloat16, torch.float16)
    )


def run_of(info, kwargs, continued):
    def run(arguments):
        parameters, gradients = arguments
        if cpu_is_wrong(info, kwargs, parameters):
            pieces = [torch.nn.Parameter(p) for p in in_pieces(parameters)]
            optimizer = make(info, kwargs, pieces)
            steps(info, optimizer, pieces, [in_pieces(given) for given in gradients])
            return put_together(state_of(optimizer, pieces), [p.shape for p in parameters])
        if info.step_requires_closure:
            parameters = [p.detach().clone().requires_grad_() for p in parameters]
        optimizer = make(info, kwargs, parameters)
        if continued:
            # What was trained on the CPU goes on here.
            home = [torch.nn.Parameter(p.detach().cpu().clone()) for p in parameters]
            before = [[g.cpu().clone() for g in given] for given in gradients]
            first = make(info, kwargs, home)
            steps(info, first, home, before)
            optimizer.load_state_dict(first.state_dict())
        steps(info, optimizer, parameters, gradients)
        if (
            info.step_requires_closure
        ):  # it stops by itself, and where it has converged its history is rounding
            return parameters
        return state_of(optimizer, parameters)

    return run


def cases(name, kinds, runner):
    """(kind, index, function that gives letter and message)."""
    info = TABLE[name]
    for kind in kinds:
        dtype = torch.float32 if kind == "state_dict" else getattr(torch, kind)
        if dtype.is_complex and not info.supports_complex:
            continue
        for index, kwargs in seeded(lambda: configurations(info)):
            if kind == "state_dict" and kwargs.get("differentiable"):
                continue
            arguments = start(info, dtype, index)
            function = run_of(info, kwargs, kind == "state_dict")
            yield (
                kind,
                index,
                lambda f=function, a=arguments, k=kwargs: told(
                    runner.values(info, f, a, layout=False, composed=True), k
                ),
            )


def told(verdict, kwargs):
    letter, message = verdict
    given = ", ".join(f"{k}={v}" for k, v in kwargs.items() if v is not False)
    return letter, f"({given[:80]}) {message}" if message else ""
