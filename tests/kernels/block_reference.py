"""A fused block by the float64 operators and torch's BatchNorm, and the same block by kernels: values and gradients."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from hypersphere.functional import angular, decoupled_conv, decoupled_conv_transpose, magnitude, magnitude_ratio
from hypersphere.functional.magnitude import DEFAULT_BETA
from hypersphere.kernels import block
from hypersphere.kernels.spec import Fields, Window, spec_of

ACTIVATIONS = {
    "none": lambda u, leak: u,
    "relu": lambda u, leak: F.relu(u),
    "leaky_relu": F.prelu,
    "gelu": lambda u, leak: F.gelu(u),
    "gelu_tanh": lambda u, leak: F.gelu(u, approximate="tanh"),
    "silu": lambda u, leak: F.silu(u),
}


@dataclass
class Case:
    g: str = "linear"
    h: str = "sphere"
    norm: str = "train"
    act: str = "relu"
    batch: int = 2
    channels: int = 3
    filters: int = 6
    size: tuple = (5, 4)
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    extra: int = 0  # output_padding
    dtype: torch.dtype = torch.float32
    last: bool = False
    k: float = 0.3
    learnable: bool | str = False  # k, scale, shift and slopes come as tensors; "k": k alone
    running: bool = False
    chained: bool = False  # q is given
    scale: float = 1.0
    tensors: dict = field(default_factory=dict)
    dz: torch.Tensor | None = None
    dq: torch.Tensor | None = None

    def make(self):
        """Tensors in float64 that the case's dtype holds exactly."""
        dims = len(self.size)
        x = torch.randn(self.batch, self.channels, *self.size) * self.scale
        outer = (self.channels, self.filters // self.groups)
        if not self.transposed:
            outer = (self.filters, self.channels // self.groups)
        made = {"x": x, "weight": torch.randn(*outer, *[self.kernel] * dims)}
        if self.learnable is True:
            made |= {"scale": self.per_channel(), "shift": self.per_channel() - 1}
            if self.act == "leaky_relu":
                made["leaks"] = self.per_channel() - 0.5
        if self.learnable and self.g == "sigmoid":
            made["k"] = self.per_channel() * self.k
        if self.h in ("ball", "tanh", "segment"):
            made["rho"] = (0.7 if self.running else 3.0) + torch.rand(()) / 2
        if self.norm != "none":
            made |= {"gamma": self.per_channel(), "beta": self.per_channel() - 1}
        made["x"] = made["x"].to(self.dtype)
        self.tensors = {name: t.double() for name, t in made.items()}
        self.mean, self.var = self.per_channel() - 1, self.per_channel()

    def per_channel(self):
        return torch.rand(self.filters) + 0.5

    def expected(self):
        """z, q, running statistics and gradients in float64."""
        return self._by_operations({name: v.clone() for name, v in self.tensors.items()})

    def plain(self):
        """The same by plain operations in the case's dtype, as autocast runs them."""
        t = {name: v.to(self.dtype if name == "x" else torch.float32) for name, v in self.tensors.items()}
        with torch.autocast(t["x"].device.type, self.dtype):
            return self._by_operations(t)

    def _by_operations(self, t):
        t = {name: v.requires_grad_() for name, v in t.items()}
        case, dims = self, len(self.size)
        shape = (-1, *[1] * dims)

        def radius(n):
            rho = t.get("rho", 1.0)
            return rho * n.detach().mean() if case.running else rho

        class Magnitude:
            def __call__(self, n):
                return magnitude(n, case.h, 1.0, None, radius(n))

            def ratio(self, n):
                return magnitude_ratio(n, case.h, 1.0, None, radius(n))

        class Angular:
            def from_cos(self, c):
                k = t["k"].view(shape) if "k" in t else case.k
                return angular(c, case.g, k)

            def closed_form(self):  # the cosine with h(n)/n has a limit at zero patches
                return ("cosine", 0.3) if case.g == "cosine" else None

        options = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}
        function = decoupled_conv_transpose if self.transposed else decoupled_conv
        options |= {"output_padding": self.extra} if self.transposed else {}
        u = function(t["x"], t["weight"], **options, magnitude=Magnitude(), angular=Angular())
        if "scale" in t:
            u = u * t["scale"].view(shape) + t["shift"].view(shape)
        mean, var = (v.to(t["weight"].dtype, copy=True) for v in (self.mean, self.var))
        if self.norm != "none":
            u = F.batch_norm(u, mean, var, t["gamma"], t["beta"], self.norm == "train", 0.1, 1e-5)
        z = ACTIVATIONS[self.act](u, t.get("leaks", torch.tensor([0.1], dtype=u.dtype)))
        q = z.float().square().sum(1, keepdim=True) if z.dtype == self.dtype else z.square().sum(1, keepdim=True)
        if self.dz is None:
            self.dz, self.dq = torch.randn_like(z).to(self.dtype), torch.randn_like(q).float() * 0.1
        torch.autograd.backward([z, q], [self.dz.to(z.dtype), self.dq.to(q.dtype)])
        found = {"z": z.detach(), "q": q.detach()} | {f"d{name}": v.grad for name, v in t.items()}
        return found | ({"mean": mean, "var": var} if self.norm == "train" else {})

    def actual(self):
        """The same by kernels."""
        dims = len(self.size)
        t = {name: v.to(self.dtype if name == "x" else torch.float32) for name, v in self.tensors.items()}
        x = t.pop("x")
        if self.last:
            x = x.contiguous(memory_format=torch.channels_last_3d if dims == 3 else torch.channels_last)
        mean, var = self.mean.clone(), self.var.clone()
        window = [(v,) * dims for v in (self.kernel, self.stride, self.padding, self.dilation)]
        fields = Fields(
            Window(*window, self.groups, self.transposed, (self.extra,) * dims if self.extra else ()),
            angular=self.g,
            k=None if "k" in t else self.k,
            magnitude=self.h,
            beta=DEFAULT_BETA.get(self.h, 0.0),
            rho=None if "rho" in t else 1.0,
            running=self.running,
            training=True,
            norm=self.norm,
            activation=self.act,
            leak=0.1,
        )
        state = {}
        if self.norm != "none":
            state |= {"mean": mean, "var": var, "tracked": torch.zeros((), dtype=torch.long)}
        if self.running:
            state |= {"running_norm": torch.ones(()), "running_count": torch.zeros((), dtype=torch.long)}
        q = x.float().square().sum(1, keepdim=True) if self.chained else None
        inputs = block.Inputs(x, q, **t, **state)
        spec = spec_of(fields)
        z, q_out, read, kept = block.forward(spec, inputs)
        need = tuple(v is not None for v in inputs[:10])
        grads = block.backward(spec, inputs._replace(x=read), kept, self.dz, self.dq, need)._asdict()
        if self.chained:
            grads["x"] = grads["x"].float() + 2 * x.float() * grads["q"]
        found = {"z": z, "q": q_out} | {f"d{name}": grads[name] for name in self.tensors}
        return found | ({"mean": mean, "var": var} if self.norm == "train" else {})


def distance(a, b):
    return float((a.double() - b).norm() / b.norm().clamp_min(1e-30))
