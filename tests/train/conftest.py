import pytest
import torch

from hypersphere import data


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def characters(monkeypatch):
    """24 patterns of 8×8 pixels with noise in the place of every data set: twelve to learn, twelve new ones."""
    generator = torch.Generator().manual_seed(1)
    patterns = torch.randint(0, 256, (24, 1, 8, 8), generator=generator)

    def split(first):
        labels = torch.arange(12).repeat_interleave(10)
        noise = torch.randint(-25, 26, (120, 1, 8, 8), generator=generator)
        images = (patterns[first + labels] + noise).clamp(0, 255).to(torch.uint8)
        return data.Split(images, labels, tuple(f"pattern {first + label}" for label in range(12)))

    dataset = data.Dataset("omniglot", split(0), split(12))
    monkeypatch.setattr("hypersphere.data.load", lambda *_, **__: dataset)
    return dataset
