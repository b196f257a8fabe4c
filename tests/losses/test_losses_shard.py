"""Classes over processes: the loss and gradients of one, a sample of the negatives, checkpoints for other numbers."""

import pytest
import shard_processes as processes
import torch

import hypersphere as hs

L = hs.losses


@pytest.mark.parametrize("world", [2, 4])
def test_loss_gradients_and_running_state_are_those_of_one_process(world):
    processes.run(processes.compare, world)


@pytest.mark.skipif(torch.cuda.is_available(), reason="in the interpreter; on a GPU the next test does it")
def test_kernels_over_processes():
    pytest.importorskip("triton")
    processes.run(processes.compare_by_kernels, 2)


@pytest.mark.gpu
def test_two_processes_on_one_gpu_are_one():
    """Every head in float64, by plain operations; by kernels in float32 and under autocast."""
    processes.run(processes.compare_on_a_gpu, 2)


def test_a_share_of_the_negatives_and_all_positives():
    processes.run(processes.sample, 2)


def test_a_checkpoint_goes_on_with_another_number_of_processes(tmp_path):
    processes.run(processes.save, 2, tmp_path)
    for world in (4, 1):
        processes.run(processes.load, world, tmp_path)


def test_what_has_an_entry_for_each_class():
    class Shifted(L.MarginSoftmax):
        def _reset_bias(self):
            self.bias = torch.nn.Parameter(torch.zeros(()))

    for head, names in ((L.Softmax(4, 5, bias=True), {"weight", "bias"}), (L.SphereFace2(4, 5), {"weight"})):
        assert head.class_tensors().keys() == names
    assert Shifted(4, 5, bias=True).class_tensors().keys() == {"weight"}  # a bias of its own, for all classes


def test_what_cannot_be_shared_out_is_refused():
    with pytest.raises(TypeError, match="head must be a head with class vectors"):
        L.shard(L.SphereFacePlus(L.Softmax(4, 5)), None)
    with pytest.raises(TypeError, match="mesh must be a torch DeviceMesh"):
        L.shard(L.Softmax(4, 5), None)
    processes.run(processes.refuse, 2)
