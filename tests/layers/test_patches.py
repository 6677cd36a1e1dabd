import numpy as np
import pytest

from posvit_tf.errors import UserError
from posvit_tf.layers import PatchEmbedding


def test_patches_are_counted_row_by_row_on_a_grid_that_is_not_square(rng):
    images = rng.normal(size=(2, 4, 8, 3)).astype("float32")
    layer = PatchEmbedding(width=12, patch_size=2)
    layer.build(images.shape)
    layer.set_weights([np.eye(12), np.zeros(12)])  # a token is its patch
    patches = [images[:, r : r + 2, c : c + 2] for r in (0, 2) for c in (0, 2, 4, 6)]
    np.testing.assert_allclose(
        layer(images), np.stack(patches, axis=1).reshape(2, 8, 12), rtol=1e-6
    )
    assert layer.grid == (2, 4)


@pytest.mark.parametrize("size", [(10, 8), (8, 10)])
def test_an_image_that_does_not_divide_into_patches_is_refused(size):
    with pytest.raises(UserError, match=rf"{size[0]}x{size[1]} pixels .* 4x4"):
        PatchEmbedding(8, patch_size=4)(np.zeros((1, *size, 3)))


def test_an_image_of_another_size_than_built_for_is_refused():
    layer = PatchEmbedding(8, patch_size=2)
    layer.build((None, 4, 8, 3))
    with pytest.raises(ValueError, match="4, 8, 3"):
        layer(np.zeros((2, 4, 4, 3)))  # as many pixels as one image of 4x8
