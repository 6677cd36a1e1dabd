import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from posvit_tf.data.pictures import decode, decode_in_graph, fit, fit_channels
from posvit_tf.errors import UserError

RED = (255, 0, 0)


def content(image, kind="PNG", **options):
    """The image as a file's content."""
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def of(mode, *pixels):
    """A picture of one row."""
    image = Image.new(mode, (len(pixels), 1))
    image.putdata(pixels)
    return image


def palette(transparency=None):
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 255, *RED])
    image.putdata([0, 1])
    return content(image, **({} if transparency is None else {"transparency": transparency}))


@pytest.mark.parametrize(
    ("picture", "pixels"),
    [
        (content(of("L", 77)), [(77, 77, 77)]),
        (content(of("L", 77, 5), transparency=77), [(255, 255, 255), (5, 5, 5)]),
        (content(of("1", 0, 255)), [(0, 0, 0), (255, 255, 255)]),
        (content(of("LA", (77, 255), (0, 51))), [(77, 77, 77), (204, 204, 204)]),
        (content(of("RGBA", (*RED, 0), (*RED, 255), (*RED, 51))),
         [(255, 255, 255), RED, (255, 204, 204)]),
        (palette(), [(0, 0, 255), RED]),
        (palette(0), [(255, 255, 255), RED]),
        (palette(bytes([255, 51])), [(0, 0, 255), (255, 204, 204)]),
        # 16 bits: a thousand is nearly black, and clipped it would be white
        (content(Image.fromarray(np.uint16([[1000, 77 * 257, 65535]]))),
         [(3, 3, 3), (77, 77, 77), (255, 255, 255)]),
        (content(of("RGB", RED), "BMP"), [RED]),
        (content(of("RGB", RED), "WEBP", lossless=True), [RED]),
        (content(of("RGB", RED), "GIF", save_all=True, append_images=[of("RGB", (0, 0, 9))]),
         [RED]),
    ],
)  # fmt: skip
def test_every_kind_becomes_rgb(picture, pixels):
    found = decode(picture)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [pixels])


def test_a_cmyk_jpeg_of_red_is_red():
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    np.testing.assert_allclose(decode(content(red, "JPEG", quality=100)), [[RED] * 16] * 16, atol=2)


def test_within_a_graph_jpeg_and_png_are_decoded_alike():
    noise = np.random.default_rng(0).integers(0, 256, (24, 16, 4), dtype=np.uint8)
    colours, grey = Image.fromarray(noise[..., :3]), Image.fromarray(noise[..., 0])
    graph = tf.function(decode_in_graph, input_signature=[tf.TensorSpec((), tf.string)])
    for picture in (
        *(content(image, "JPEG", quality=90) for image in (colours, grey)),
        *(content(image) for image in (colours, grey, Image.fromarray(noise))),
        content(Image.fromarray(noise[..., 0].astype(np.uint16) * 250)),
        content(grey, transparency=77),
        palette(bytes([255, 51])),
    ):
        expected = decode(picture)
        found = graph(picture).numpy()
        assert found.dtype == np.uint8
        np.testing.assert_allclose(found.astype(int), expected, atol=1)


def test_for_one_channel_a_picture_becomes_grey():
    image = np.array([[RED, (0, 255, 0), (0, 0, 255), (200, 200, 200)]], np.uint8)
    grey = fit_channels(tf.constant(image), (1, 4, 1))
    np.testing.assert_allclose(grey[0, :, 0], [76, 150, 29, 200], atol=1)
    np.testing.assert_array_equal(fit_channels(tf.constant(image), (1, 4, 3)), image)


def test_a_rotated_photo_is_turned_upright(tmp_path):
    upright = Image.new("RGB", (24, 16))  # 16 rows of 24
    upright.paste(RED, (0, 0, 8, 8))  # red at the top left
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn me clockwise": stored as the camera held it
    path = tmp_path / "a.jpg"
    upright.transpose(Image.Transpose.ROTATE_90).save(path, exif=exif, quality=100)
    assert Image.open(path).size == (16, 24)
    pixels = decode(path)
    assert pixels.shape == (16, 24, 3)
    np.testing.assert_allclose(pixels[2, 2], RED, atol=40)
    assert pixels[2, -2].max() < 40 and pixels[-2, 2].max() < 40


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "BMP", "GIF", "WEBP"])
def test_a_picture_cut_short_is_refused_by_name(kind, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    whole = content(Image.fromarray(noise), kind)
    path = tmp_path / "half"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=f"^{path}: ."):
        decode(path)


@pytest.mark.parametrize(
    ("name", "bad", "reason"),
    [
        ("empty.jpg", b"", "the file is empty"),
        ("notes.jpg", b"milk, bread", "not a whole JPEG, PNG, BMP, GIF or WebP picture"),
        ("scan.tif", content(of("RGB", RED), "TIFF"), "not a whole JPEG"),
        ("gone.jpg", None, "No such file or directory"),
    ],
)
def test_what_is_no_picture_is_refused_by_name_and_reason(name, bad, reason, tmp_path):
    path = tmp_path / name
    if bad is not None:
        path.write_bytes(bad)
    with pytest.raises(UserError, match=f"^{path}: {reason}"):
        decode(path)


def test_fit_is_antialiased_and_crops_the_centre_within_a_graph():
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[::2] = 255
    wide = np.pad(stripes, ((0, 0), (10, 10), (0, 0)), constant_values=9)
    unknown = tf.TensorSpec((None, None, 3), tf.uint8)
    graph = tf.function(lambda image: fit(image, 8, 8), input_signature=[unknown])
    for image in (stripes, wide):
        small = graph(image).numpy()
        assert small.dtype == np.uint8
        np.testing.assert_allclose(small[1:-1].astype(int), 127, atol=2)  # grey, not black or white
    # the size it has already: unchanged to the bit
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(graph(noise), noise)


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (31, 33)])
def test_fit_takes_any_shape(shape):
    image = np.full((*shape, 3), 200, np.uint8)
    np.testing.assert_array_equal(fit(tf.constant(image), 6, 4), np.full((6, 4, 3), 200))
