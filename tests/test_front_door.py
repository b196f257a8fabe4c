"""The names that users rely on: removing or renaming one is a decision, not an accident."""

import inspect
from pathlib import Path

import pytest

import hypersphere as hs
import programs

FRONT_DOOR = {
    "functional": """angle patch_norm angular magnitude decoupled_conv decoupled_conv_transpose decoupled_linear psi
        energy refine orthogonalize unit norm""",
    "nn": """SphereConv1d SphereConv2d SphereConv3d SphereConvTranspose1d SphereConvTranspose2d SphereConvTranspose3d
        DecoupledConv1d DecoupledConv2d DecoupledConv3d DecoupledConvTranspose1d DecoupledConvTranspose2d
        DecoupledConvTranspose3d SphereLinear DecoupledLinear SphereRNN SphereLSTM SphereGRU DecoupledRNN DecoupledLSTM
        DecoupledGRU fold fuse""",
    "angular": "Cosine Linear Sigmoid SquareCosine",
    "magnitude": "Sphere Ball Tanh Linear Segment Log Mix",
    "losses": """Softmax WSoftmax SSoftmax LSoftmax ASoftmax SphereFace GASoftmax AMSoftmax CosFace ArcFace SphereFaceR
        SphereFace2 SphereFacePlus CenterLoss ContrastiveLoss TripletLoss Annealing AdaFace MagFace ElasticFace
        CurricularFace SubcenterArcFace""",
    "regularizers": "MHE CoMHE Orthonormal Orthogonal SRIP",
    "orthogonal": "attach merge",
    "optim": "OrthogonalSGD WeightProjection weighted_gradients parameter_groups hyperball AdamH MuonH",
    "metrics": """angular_visual_hardness angular_fisher_score separation_distance covering_radius verification
        verification_split verify_pairs pair_scores identification retrieval classification cosine_confusion
        few_shot""",
    "models": "create list_models",
    "data": "load",
    "plots": """angle_distributions angular_curves cmc condition_numbers confusion_matrix cosine_confusion_matrix
        energy_curves features_2d features_3d filters layer_energies learned_k learned_rho learning_curves
        magnitude_curves neuron_trajectories psi_curves roc weighted_neuron_trajectories""",
    "attacks": "fgsm bim deepfool robust_accuracy adversarial_batch pixels",
}
NAMES = [(module, name) for module, names in FRONT_DOOR.items() for name in names.split()]

SIGNATURES = {
    "functional.patch_norm": "x kernel_size stride padding dilation groups",
    "functional.angular": "cos kind k",
    "functional.magnitude": "norm kind alpha beta rho",
    "functional.decoupled_conv": "x weight bias stride padding dilation groups magnitude angular weighted",
    "functional.psi": "cos margin",
    "functional.energy": "w s distance half_space weights reduction",
    "functional.refine": "w s half_space steps",
    "functional.orthogonalize": "u method",
    "orthogonal.attach": "model method blocks share_blocks normalize refine init include skip",
    "optim.OrthogonalSGD": "params lr momentum",
    "optim.WeightProjection": "model every norm",
    "optim.parameter_groups": "model weight_decay",
    "regularizers.MHE": "model head hidden output s distance half_space output_layer",
    "regularizers.CoMHE": "model head projection dim count aggregate refresh half_space",
    "losses.GASoftmax": "in_features num_classes margin angular",
    "losses.SphereFacePlus": "head weight s",
    "losses.CenterLoss": "head weight rate",
    "losses.ContrastiveLoss": "head weight margin normalize",
    "losses.TripletLoss": "in_features num_classes margin mining",
    "losses.Annealing": "base gamma power minimum",
    "angular.Sigmoid": "k learnable share",
    "metrics.verification": "scores same folds",
    "metrics.identification": "probes probe_labels gallery gallery_labels distractors ranks",
    "embed": "model images flip batch_size device normalize",
    "plots.features_2d": "features labels class_vectors classes",
    "plots.features_3d": "features labels class_vectors classes",
    "plots.learning_curves": "runs key band",
    "convert": "model magnitude angular include skip keep_weights inplace",
}


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda value: value)
def test_every_name_is_there_public_and_documented(module, name):
    part = getattr(hs, module)
    assert name in part.__all__
    assert inspect.getdoc(getattr(part, name))


@pytest.mark.parametrize(("path", "arguments"), SIGNATURES.items(), ids=lambda value: str(value).split()[0])
def test_arguments_keep_their_names(path, arguments):
    target = hs
    for part in path.split("."):
        target = getattr(target, part)
    assert set(arguments.split()) <= set(inspect.signature(target).parameters)


def test_every_room_is_found_without_an_import_of_its_own():
    """``hs.train.Config`` after ``import hypersphere as hs`` alone: asked of the function that finds rooms."""
    rooms = [path.parent.name for path in Path(hs.__file__).parent.glob("*/__init__.py")]
    assert len(rooms) > 20
    for room in rooms:
        if not room.startswith("_"):
            assert hs.__getattr__(room).__name__ == f"hypersphere.{room}"


def test_the_library_needs_torch_alone():
    """Importing it must not import what the extras bring."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        blocked = "numpy scipy sklearn matplotlib rich safetensors onnx PIL tyro torchvision timm torchmetrics".split()
        if name.split(".")[0] in blocked and not any("torch" in (f.f_globals.get("__name__") or "") for f in frames()):
            raise ImportError(f"{name} is not a dependency of the library")
def frames():
    frame = sys._getframe(2)
    while frame:
        yield frame
        frame = frame.f_back
sys.meta_path.insert(0, Refuse())
import torch
import hypersphere as hs
assert abs(hs.functional.decoupled_conv(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)).item() - 1) < 1e-6
"""
    done = programs.run(["-c", code], bare=True)
    assert done.returncode == 0, done.stderr
