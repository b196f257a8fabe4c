"""What recurrent layers refuse, by argument, value and fix."""

from __future__ import annotations

import pytest
import torch
from recurrent_reference import BATCH, STEPS

import hypersphere as hs


def test_errors_name_argument_value_and_fix() -> None:
    lstm, gru = hs.nn.SphereLSTM(3, 4, 2), hs.nn.SphereGRU(3, 4, 2)
    x, state = torch.randn(STEPS, BATCH, 3), torch.randn(2, BATCH, 4)
    with pytest.raises(ValueError, match="input has 5 features, but input_size=3"):
        lstm(torch.randn(STEPS, BATCH, 5))
    with pytest.raises(ValueError, match=r"input has shape \(3,\): pass \(time, batch, features\)"):
        lstm(torch.randn(3))
    with pytest.raises(ValueError, match="no time steps"):
        lstm(torch.randn(0, BATCH, 3))
    with pytest.raises(TypeError, match=r"input has dtype torch.int64"):
        lstm(torch.ones(STEPS, BATCH, 3, dtype=torch.long))
    with pytest.raises(TypeError, match=r"input must be a torch\.Tensor, not list"):
        lstm([[1.0, 2.0, 3.0]])
    with pytest.raises(TypeError, match=r"float64 and weight torch\.float32"):
        lstm(x.double())
    with pytest.raises(TypeError, match=r"hx must be a pair of tensors \(h_0, c_0\), not Tensor"):
        lstm(x, state)
    with pytest.raises(TypeError, match="hx must be one tensor h_0, not tuple"):
        gru(x, (state, state))
    with pytest.raises(ValueError, match=r"hx has shape \(2, 3, 5\), but must have \(2, 3, 4\)"):
        gru(x, torch.randn(2, 3, 5))
    with pytest.raises(ValueError, match=r"hx has shape \(2, 3, 4\), but must have \(2, 3, 4\) and \(2, 3, 4\)"):
        lstm(x, (state,))
    with pytest.raises(ValueError, match=r"hx has shape \(2, 3, 4\), but must have \(2, 4\)"):
        gru(x[:, 0], state)


def test_bad_constructor_arguments() -> None:
    with pytest.raises(ValueError, match=r"weighted='linea' is unknown.*did you mean 'linear'"):
        hs.nn.DecoupledGRU(3, 4, weighted="linea")
    with pytest.raises(ValueError, match=r"magnitude='tan' is unknown"):
        hs.nn.DecoupledGRU(3, 4, magnitude="tan")
    with pytest.raises(ValueError, match=r"angular='cos' is unknown"):
        hs.nn.SphereGRU(3, 4, angular="cos")
    with pytest.raises(TypeError, match="weighted"):
        hs.nn.SphereGRU(3, 4, weighted="linear")
    with pytest.raises(ValueError, match="proj_size"):
        hs.nn.SphereGRU(3, 4, proj_size=2)
