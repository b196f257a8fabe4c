"""Faces aligned by landmarks, against a least-squares solution and images whose place is known."""

import math

import numpy as np
import pytest
import torch

import hypersphere as hs


def placed(scale, angle, shift, points):
    turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], dtype=torch.float64)
    return scale * points @ turn.mT + torch.tensor(shift, dtype=torch.float64)


def test_a_similarity_is_found_again():
    torch.manual_seed(0)
    points = torch.randn(5, 2, dtype=torch.float64)
    found = hs.data.similarity(points, placed(1.7, 0.6, (3.0, -2.0), points))
    expected = [[1.7 * math.cos(0.6), -1.7 * math.sin(0.6), 3.0], [1.7 * math.sin(0.6), 1.7 * math.cos(0.6), -2.0]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_it_is_the_least_squares_solution():
    torch.manual_seed(0)
    points, target = torch.randn(3, 5, 2, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)
    for one, found in zip(points.numpy(), hs.data.similarity(points, target).numpy(), strict=True):
        rows = [[x, -y, 1, 0] for x, y in one] + [
            [y, x, 0, 1] for x, y in one
        ]  # of a, b, t_x, t_y in [[a, -b], [b, a]]
        a, b, left, down = np.linalg.lstsq(np.array(rows), target.numpy().T.ravel(), rcond=None)[0]
        assert np.allclose(found, [[a, -b, left], [b, a, down]])


def test_landmarks_come_to_their_places():
    target = torch.tensor(hs.data.FIVE_POINTS, dtype=torch.float64)
    points = placed(1.4, 0.3, (60.0, 20.0), target)
    y, x = torch.meshgrid(torch.arange(260.0), torch.arange(260.0), indexing="ij")
    images = torch.stack([torch.exp(-((x - u) ** 2 + (y - v) ** 2) / 18) for u, v in points.tolist()])[:, None]
    faces = hs.data.align_faces(images, points.repeat(5, 1, 1))
    assert faces.shape == (5, 1, 112, 96)
    for face, (u, v) in zip(faces, target.tolist(), strict=True):
        row, column = divmod(int(face.argmax()), 96)
        assert abs(column - u) < 1
        assert abs(row - v) < 1


def test_landmarks_that_no_similarity_fits_come_nearest_to_their_places():
    """Of an image whose pixels are their own places, the aligned one tells where each came from."""
    torch.manual_seed(0)
    target = torch.tensor(hs.data.FIVE_POINTS, dtype=torch.float64)
    points = placed(1.4, 0.3, (80.0, 40.0), target) + 6 * torch.randn(5, 2, dtype=torch.float64)
    y, x = torch.meshgrid(*[torch.arange(300, dtype=torch.float64)] * 2, indexing="ij")
    source = hs.data.align_faces(torch.stack([x, y])[None], points[None])[0].permute(1, 2, 0)  # (row, column) to (x, y)
    forward = hs.data.similarity(points, target)
    rows, columns = torch.meshgrid(torch.arange(112.0), torch.arange(96.0), indexing="ij")
    there = source @ forward[:, :2].mT + forward[:, 2]
    torch.testing.assert_close(there, torch.stack([columns, rows], -1).double(), atol=1e-6, rtol=0)


def test_faces_in_place_are_cropped_alone():
    torch.manual_seed(0)
    images = torch.randint(0, 256, (2, 3, 150, 140), dtype=torch.uint8)
    points = torch.tensor(hs.data.FIVE_POINTS).repeat(2, 1, 1) + torch.tensor([20.0, 30.0])
    faces = hs.data.align_faces(images, points)
    assert faces.dtype == torch.uint8
    assert torch.equal(faces, images[:, :, 30:142, 20:116])
    assert torch.equal(hs.data.align_faces(images, points.tolist()), faces)
    outside = hs.data.align_faces(images.float(), points - 1000)
    assert (outside == 0).all()
    assert hs.data.align_faces(images, points, 56, 48).shape == (2, 3, 56, 48)


def test_what_cannot_be_aligned():
    images, points = torch.zeros(1, 3, 9, 9), torch.zeros(1, 5, 2)
    with pytest.raises(ValueError, match="all one point"):
        hs.data.similarity(points, torch.randn(5, 2))
    with pytest.raises(ValueError, match="NaN"):
        hs.data.similarity(torch.randn(5, 2) * math.nan, torch.randn(5, 2))
    with pytest.raises(ValueError, match="NaN"):
        hs.data.align_faces(images, points + math.nan)
    with pytest.raises(ValueError, match="pass"):
        hs.data.align_faces(images, points[0])
    with pytest.raises(ValueError, match="landmarks"):
        hs.data.similarity(torch.randn(4, 2), torch.randn(5, 2))
    with pytest.raises(ValueError, match=r"4 points of 2 numbers, target has shape \(5, 2\)"):
        hs.data.align_faces(images, torch.randn(1, 4, 2))
    with pytest.raises(ValueError, match="all one"):
        hs.data.align_faces(images, points)
    with pytest.raises(TypeError, match="images is a ndarray: pass a tensor"):
        hs.data.align_faces(images.numpy(), points)
    with pytest.raises(ValueError, match="pass one target for all sets of points, or one for each"):
        hs.data.similarity(torch.randn(3, 5, 2), torch.randn(2, 5, 2))
    assert hs.data.similarity(torch.randn(5, 2), torch.randn(3, 5, 2)).shape == (3, 2, 3)
    mirrored = torch.tensor([[[0.0, 0], [0, 1], [1, 0], [1, 1]]])  # of the corners of a square: no turn comes near
    with pytest.raises(ValueError, match="no similarity brings near its places"):
        hs.data.align_faces(images, mirrored, target=torch.tensor([[0.0, 0], [1, 0], [0, 1], [1, 1]]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_dtype_of_images_does_not_move_them(dtype):
    images = torch.randint(0, 256, (1, 1, 150, 140)).to(dtype)
    points = torch.tensor(hs.data.FIVE_POINTS)[None] + torch.tensor([20.0, 30.0])
    faces = hs.data.align_faces(images, points)
    assert faces.dtype == dtype
    apart = (faces - images[:, :, 30:142, 20:116]).abs().max()
    assert apart <= 1  # the last digit of bfloat16 at 255; neighbours differ by more than 200
