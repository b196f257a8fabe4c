"""What the kernels of warm-started maps compute, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from hypersphere.functional.orthogonalize import WarmCayley, WarmPolar, WarmQR, connect, polar, rotate_all, warm
from hypersphere.functional.orthogonalize import algorithms as exact
from hypersphere.functional.orthogonalize.grouped import TILE, layout_of, product

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPES = [torch.Size((1, 19, 19)), torch.Size((1, 34, 34))]  # one tile, and two by two
FROM_LAST = {
    "gram_schmidt": (WarmQR, exact.gram_schmidt, exact.qr_backward),
    "householder": (partial(WarmQR, householder=True), exact.householder, exact.qr_backward),
    "lowdin": (WarmPolar, exact.lowdin, exact.lowdin_backward),
}


def everything() -> dict[str, Any]:
    """By kind of kernel; with several tiles of matrices that the interpreter does in little time."""
    with patch.dict(TILE, BM=32, BN=32), patch.object(warm, "_STEPS", 13), torch.device(DEVICE):
        torch.manual_seed(0)
        found = {"cayley": cayley(), "products": products()}
        TILE.update(BM=64, BN=64)
        found["through zero"] = through_zero()
        return {**found, "polar": polar_factors(), **{name: from_last(name) for name in FROM_LAST}}


def cayley() -> dict[str, dict[str, object]]:
    """Errors against float64 and numbers of steps, over a history with jumps."""
    out: dict[str, dict[str, object]] = {}
    state = WarmCayley(SHAPES, DEVICE)
    u = [(2 / shape[-1]) ** 0.5 * torch.randn(shape) for shape in SHAPES]

    def step(name: str) -> list[Tensor]:
        matrices = state(u)
        wanted = [exact.cayley(x.double())[0] for x in u]
        out[name] = {
            "error": max(float((r - w).abs().max()) for r, w in zip(matrices, wanted, strict=True)),
            "defect": max(defect(r) for r in matrices),
            "steps": state.steps(),
            "failed": int(state.failed.sum()),
        }
        return matrices

    start = u
    started = [r.clone() for r in step("first")]
    u = [x + 1e-3 * torch.randn_like(x).sign() for x in u]
    solved = [(r,) for r in step("moved")]
    out["moved"]["gradient"] = max(gradient_errors("warm cayley", u, solved, exact.cayley, exact.cayley_backward))
    u = [torch.randn_like(x) for x in u]
    step("literal")
    u = [1e6 * torch.randn_like(x) for x in u]
    found = state(u)
    out["too large"] = {"nan": all(bool(r.isnan().all()) for r in found), "failed": int(state.failed.sum())}
    state.redo(u, [(r,) for r in found])
    out["redone"] = {"error": turned("warm cayley", u, found, exact.cayley), "failed": int(state.failed.sum())}
    u = [x * 1e-6 for x in u]
    step("after it")
    state.forget()
    same = all(torch.equal(a, b) for a, b in zip(state(start), started, strict=True))
    out["restarted"] = {"same": same, "failed": int(state.failed.sum())}
    return out


def turned(kind: str, u: list[Tensor], matrices: list[Tensor], forward: Any) -> float:
    """The largest error of w = Rv, which the kernel sums over the padding of R, too, and v = I."""
    vs = [torch.eye(x.shape[-1]).expand_as(x) for x in u]
    ws = rotate_all(vs, u, kind, [(r,) for r in matrices])
    return max(float((w.mT - forward(x.double())[0]).abs().max()) for w, x in zip(ws, u, strict=True))


def defect(r: Tensor) -> float:
    """max|RᵀR − I|."""
    r = r.double()
    return float((r.mT @ r - torch.eye(r.shape[-1])).abs().max())


def gradient_errors(kind: str, u: list[Tensor], solved: Any, forward: Any, backward: Any) -> list[float]:
    """Relative errors of the gradients of all parameters through w = Rv and through R; w itself is checked, too."""
    vs = [torch.randn(*x.shape[:-2], 5 + 40 * index, x.shape[-1]) for index, x in enumerate(u)]
    leaves = [x.clone().requires_grad_() for x in u]
    ws = rotate_all(vs, leaves, kind, solved)
    grads = [1e-4 * torch.randn_like(w) for w in ws]
    out = []
    for index, found in enumerate(torch.autograd.grad(ws, leaves, grads)):
        wanted, v = forward(u[index].double()), vs[index].double()
        of_r = grads[index].double().mT @ v
        gradient = backward(of_r, *wanted)
        again = found
        if index == 0:
            (again,) = torch.autograd.grad(connect(leaves[0], kind, solved[0]), leaves[0], of_r.float())
        assert (ws[index] - v @ wanted[0].mT).abs().max() < 1e-4
        out.append(max(float((one - gradient).norm() / gradient.norm()) for one in (found, again)))
    return out


def from_last(name: str) -> dict[str, object]:
    """Errors of maps that start from the last step, against float64: after a jump, then a move, a change of sign."""
    make, forward, backward = FROM_LAST[name]
    torch.manual_seed(0)
    shapes = [torch.Size((1, 40, 40)), torch.Size((1, 70, 70))]
    state: Any = make(shapes, DEVICE)
    u = [torch.randn(shape) for shape in shapes]
    state(u)
    u = [2.0 * torch.randn_like(x) for x in u]
    solved = state._from_last(u)
    wrong = [int(r.isnan().any()) for r, *_ in solved]
    out: dict[str, object] = {"jump": {"failed": state.failed.tolist(), "nan": wrong}}
    state.redo(u, solved)
    out["redone"] = turned(state.kind, u, [r for r, *_ in solved], forward)
    u = [x + 1e-3 * torch.randn_like(x).sign() for x in u]
    q, t = exact.gram_schmidt(u[0].double())
    t.triu_()[..., -1, -1] *= -0.1  # the smallest pivot goes through 0
    u[0] = (q @ t).float()
    solved = state._from_last(u)
    out["failed"] = state.failed.tolist()
    solved = state._again(u, solved)
    for index, error in enumerate(gradient_errors(state.kind, u, solved, forward, backward)):
        r = solved[index][0]
        out["other sign" if index == 0 else "moved"] = {
            "error": float((r - forward(u[index].double())[0]).abs().max()),
            "defect": defect(r),
            "gradient": error,
        }
    return out


def through_zero() -> dict[str, object]:
    """Löwdin's map where the smallest singular value changes its sign in a step that is small."""
    torch.manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(40, 40, dtype=torch.float64))[0] for _ in range(2))
    sizes = torch.linspace(0.1, 12, 40, dtype=torch.float64)
    state = WarmPolar([torch.Size((1, 40, 40))], DEVICE)
    out: dict[str, object] = {}
    for name, smallest in (("before", 0.003), ("after", -0.002)):
        sizes[0] = smallest
        u = [((left * sizes) @ right.mT).float()[None]]
        solved = state(u) if name == "before" else state._from_last(u)
        out[name] = {"failed": state.failed.tolist(), "nan": bool(solved[0][0].isnan().any())}
    state.redo(u, solved)
    out["error"] = turned("polar", u, [solved[0][0]], exact.lowdin)
    return out


def products() -> dict[str, float]:
    shapes = [torch.Size((1, 24, 24)), torch.Size((1, 38, 38))]
    layout = layout_of(shapes, DEVICE)
    a, b, c = (layout.empty(torch.zeros(1)) for _ in range(3))
    for flat in (a, b, c):
        for view in layout.views(flat, shapes):
            view.copy_(torch.randn(view.shape))
    errors: dict[str, float] = {}
    va, vb, vc = (layout.views(flat, shapes) for flat in (a, b, c))

    def compare(name: str, flat: Tensor, wanted: list[Tensor]) -> None:
        found = layout.views(flat, shapes)
        errors[name] = max(float((x - y).abs().max()) for x, y in zip(found, wanted, strict=True))

    eye = [torch.eye(x.shape[-1]) for x in va]
    plain, transposed = product(layout, a, b, c, alpha=2.0, beta=3.0, gamma=0.5, store="both")
    wanted = [2 * x @ y.mT + 3 * z + 0.5 * i for x, y, z, i in zip(va, vb, vc, eye, strict=True)]
    compare("plain", plain, wanted)
    compare("transposed", transposed, [w.mT for w in wanted])
    turned, _ = product(layout, a, b, c, transposed_addend=True)
    compare("transposed addend", turned, [x @ y.mT + z.mT for x, y, z in zip(va, vb, vc, strict=True)])
    symmetric, _ = product(layout, a, a, mirror=1)
    compare("symmetric", symmetric, [x @ x.mT for x in va])
    return errors


def polar_factors() -> dict[str, float]:
    errors = {"factor": 0.0, "gradient": 0.0, "float32 svd": 0.0}
    for shape in ((2, 1, 33, 33),):
        u, grad = torch.randn(shape), torch.randn(shape)
        r, h = polar.by_kernels(u)
        found = polar.backward_by_kernels(grad, r, h)
        wanted, *kept = exact.lowdin(u.double())
        gradient = exact.lowdin_backward(grad.double(), wanted, *kept)
        errors["factor"] = max(errors["factor"], float((r - wanted).abs().max()))
        errors["float32 svd"] = max(errors["float32 svd"], float((exact.lowdin(u)[0] - wanted).abs().max()))
        errors["gradient"] = max(errors["gradient"], float((found - gradient).norm() / gradient.norm()))
    u = torch.randn(20, 20)
    u[:, 3] = u[:, 2]
    r, h = polar.by_kernels(u)
    errors["defect of a singular one"] = defect(r)
    errors["its gradient"] = float(polar.backward_by_kernels(torch.ones(20, 20), r, h).abs().max())
    return errors
