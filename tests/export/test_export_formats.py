"""Every family of networks as files that compute what the network does, on real inputs where there are any."""

import numpy as np
import onnxruntime
import pytest
import torch
from cards import run_snippets
from folders import make_run
from safetensors import safe_open
from torch.nn.functional import normalize

import hypersphere as hs
from hypersphere._core.registries import HEADS
from hypersphere.export import export_run
from hypersphere.runs import Facts
from hypersphere.train import DataConfig, LossConfig, ModelConfig, OrthogonalConfig

pytestmark = pytest.mark.slow

SMALL = ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8)
MLP = ModelConfig(name="mlp", extra={"hidden": (8, 8)})
GRAPH = Facts(3, in_features=6, classes=("a", "b", "c"))
CLOUDS = Facts(4, classes=("a", "b", "c", "d"))

# name → (settings, facts or None for digits, formats): ONNX takes seconds, so one of each kind of operator has it
FAMILIES = {
    "plain": ({"model": SMALL}, None, "torch"),
    "sphere": (
        {"model": ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8, conv="sphere", angular="sigmoid")},
        None,
        "torch,onnx",
    ),
    "decoupled": (
        {"model": ModelConfig(name="mlp", extra={"hidden": (8, 8)}, conv="decoupled", magnitude="tanh")},
        None,
        "torch",
    ),
    "resnet": ({"model": ModelConfig(name="resnet20", widths="4,4,4")}, None, "torch"),
    "sphereface": (
        {
            "model": ModelConfig(name="sphereface4", widths="4,4,4,4", feature_dim=8),
            "loss": LossConfig(name="a_softmax"),
        },
        None,
        "torch",
    ),
    "merged": ({"model": SMALL, "orthogonal": OrthogonalConfig(method="cayley")}, None, "torch"),
    "mlp": ({"model": MLP, "data": DataConfig(name="digits", normalize="standard")}, None, "torch,onnx"),
    "gcn": ({"model": ModelConfig(name="gcn"), "data": DataConfig(name="cora")}, GRAPH, "torch,onnx"),
    "pointnet": (
        {
            "model": ModelConfig(name="pointnet_tnet", extra={"width": 0.05}),
            "data": DataConfig(name="modelnet40", points=16),
        },
        CLOUDS,
        "torch",
    ),
    "pointnet2": (
        {
            "model": ModelConfig(name="pointnet2", extra={"points": (4, 2)}),
            "data": DataConfig(name="modelnet40", points=16),
        },
        CLOUDS,
        "torch,onnx",
    ),
}


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERSPHERE_DATA", str(tmp_path / "nothing"))


def digits(count):
    return hs.data.normalize(hs.data.load("digits").test.images[:count])


@pytest.mark.parametrize("family", FAMILIES)
def test_families(tmp_path, no_data, monkeypatch, family):
    parts, facts, formats = FAMILIES[family]
    path, _ = make_run(tmp_path, **parts, **({} if facts is None else {"facts": facts}))
    lines = []
    made = export_run(path, formats=f"safetensors,{formats}", samples=9, say=lines.append)
    assert list(made.checks) == ["safetensors", *formats.split(",")]
    assert made.notes == {}
    assert made.checks["safetensors"].difference == 0
    for check in made.checks.values():
        assert check.passed
        assert check.agreement == 1
        assert check.batches == (1, 5, 9)
    assert made.real == (facts is None)
    assert ("random inputs" in lines[0]) == (facts is not None)
    shapes = [one["logits"] for one in run_snippets(made.folder, monkeypatch)]
    assert shapes == [(5, facts.num_classes if facts else 10)] * len(made.checks)


@pytest.mark.parametrize("head", HEADS)
def test_heads(tmp_path, head):
    path, _ = make_run(tmp_path, model=MLP, loss=LossConfig(name=head))
    made = export_run(path, formats="safetensors,torch", samples=6)
    assert all(check.agreement == 1 for check in made.checks.values())


def test_onnx_gives_what_the_network_gives_on_digits_in_batches_of_any_size(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, loss=LossConfig(name="am_softmax"))
    made = export_run(path, formats="onnx", out=tmp_path / "out")
    assert made.inputs == "the first 64 test images of digits"
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["batch", 1, 8, 8]
    assert [(out.name, out.shape[0]) for out in session.get_outputs()] == [("logits", "batch"), ("embedding", "batch")]
    model = hs.load(path)
    for count in (1, 2, 7, 100):
        images = digits(count)
        logits, embedding = session.run(None, {"input": images.numpy()})
        with torch.no_grad():
            np.testing.assert_allclose(logits, model(images), atol=1e-4)
            np.testing.assert_allclose(embedding, normalize(model.features(images)), atol=1e-5)
    assert session.get_modelmeta().custom_metadata_map["recipe"] == "made"


@pytest.mark.parametrize("kind", ["symmetric", "unit", "standard"])
def test_with_normalization_the_input_are_bytes(tmp_path, monkeypatch, kind):
    path, _ = make_run(tmp_path, model=MLP, data=DataConfig(name="digits", normalize=kind))
    formats = "safetensors,torch,onnx" if kind == "standard" else "torch"
    export_run(path, formats=formats, out=tmp_path / "out", with_normalization=True, samples=6)
    snippets = run_snippets(tmp_path / "out", monkeypatch)
    assert [one["logits"] for one in snippets] == [(5, 10)] * len(formats.split(","))
    dataset = hs.data.load("digits")
    images = dataset.test.images[:20]
    inputs = hs.data.normalize(images, kind, mean=dataset.mean, std=dataset.std)
    logits, _ = torch.export.load(tmp_path / "out" / "model.pt2").module()(images)
    with torch.no_grad():
        torch.testing.assert_close(logits, hs.load(path)(inputs), atol=1e-4, rtol=1e-4)
    if "onnx" in formats:
        session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
        np.testing.assert_allclose(session.run(["logits"], {"input": images.numpy()})[0], logits.detach(), atol=1e-4)


@pytest.mark.parametrize(("model", "loss"), [(SMALL, "cross_entropy"), (MLP, "arcface")], ids=["cnn", "mlp"])
def test_embedding_alone_has_no_class_vectors(tmp_path, monkeypatch, model, loss):
    path, _ = make_run(tmp_path, model=model, loss=LossConfig(name=loss))
    formats = "safetensors,torch,onnx" if loss == "arcface" else "safetensors,torch"
    made = export_run(path, formats=formats, out=tmp_path / "out", embedding=True, samples=6)
    snippets = run_snippets(tmp_path / "out", monkeypatch)
    assert [one.keys() for one in snippets] == [{"embedding"}] * len(formats.split(","))
    assert all(check.agreement is None for check in made.checks.values())
    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert not [name for name in file.keys() if "classifier" in name or "head" in name]  # noqa: SIM118
        assert file.metadata()["outputs"] == "embedding"
    with torch.no_grad():
        wanted = hs.load(path).features(digits(4))
        torch.testing.assert_close(hs.load(tmp_path / "out")(digits(4)), wanted)
        embedding = torch.export.load(tmp_path / "out" / "model.pt2").module()(digits(4))
        torch.testing.assert_close(embedding, normalize(wanted))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Cosines are not calibrated" in card
    assert "always names one" not in card
    code = card.split("## How to compare two images")[1].split("```text\n")[1].split("```")[0]
    names = {"embedding": embedding, "threshold": 0.0}
    exec(code, names)
    assert names["cosine"] == pytest.approx(float(torch.cosine_similarity(wanted[0], wanted[1], dim=0)), abs=1e-5)
    assert names["same"] == (names["cosine"] > 0)
    assert "--pairs pairs.txt" in card


def test_an_export_loads_without_its_run(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, orthogonal=OrthogonalConfig(method="householder"))
    export_run(path, formats="safetensors", out=tmp_path / "out")
    with torch.no_grad():
        wanted = hs.load(path)(digits(5))
        path.rename(tmp_path / "gone")
        for place in (tmp_path / "out", tmp_path / "out" / "model.safetensors"):
            assert torch.equal(hs.load(place)(digits(5)), wanted)
    with pytest.raises(ValueError, match="seed=1 is for run folders"):
        hs.load(tmp_path / "out", seed=1)


def test_no_test_picture_travels_in_a_file(tmp_path):
    path, _ = make_run(tmp_path, model=MLP)
    export_run(path, formats="torch", out=tmp_path / "out", samples=64)
    example = torch.export.load(tmp_path / "out" / "model.pt2").example_inputs
    assert example is None or not example[0][0].any()


@pytest.mark.real_data("cora")
def test_a_graph_network_on_cora(tmp_path):
    facts = Facts(7, in_features=1433)
    path, _ = make_run(tmp_path, model=ModelConfig(name="gcn"), data=DataConfig(name="cora"), facts=facts)
    made = export_run(path, formats="safetensors,torch", out=tmp_path / "out", samples=50)
    assert made.real
    source = hs.data.load("cora")
    with torch.no_grad():  # the whole graph: sparse for the network, dense for the program
        wanted = hs.load(path)(source.normalized_features(), source.adjacency())
        features, adjacency = (part.to_dense() for part in (source.normalized_features(), source.adjacency()))
        logits, _ = torch.export.load(tmp_path / "out" / "model.pt2").module()(features, adjacency)
    torch.testing.assert_close(logits, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.real_data("modelnet40")
def test_farthest_points_of_real_clouds_in_onnx(tmp_path):
    model = ModelConfig(name="pointnet2", extra={"points": (32, 8)})
    facts = Facts(40, classes=hs.data.load("modelnet40", points=64).classes)
    path, _ = make_run(tmp_path, model=model, data=DataConfig(name="modelnet40", points=64), facts=facts)
    made = export_run(path, formats="onnx", samples=20)
    assert made.real
    assert made.checks["onnx"].agreement == 1
