"""A picture of any kind as uint8 RGB: the one preprocessing of training, evaluation and prediction.

`decode` reads a file, `fit` brings the pixels to a model's size. What stands behind them, the
normalisation, is in the model.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image, ImageOps

from posvit_tf.errors import UserError

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP")


def decode(picture: str | Path | bytes) -> np.ndarray:
    """The pixels of a picture as a person sees them: red, green, blue.

    What it is, its content says and not its suffix: JPEG, PNG, BMP, GIF (the first frame) or WebP.
    It is turned as its EXIF orientation says. Grey becomes three equal channels; palettes and CMYK
    become RGB (by Pillow's formulas, without colour profiles); of 16 bits the upper 8 are kept; what
    is transparent is laid on white, c = (1 - alpha) * 255 + alpha * colour.

    Args:
        picture: a file, or a file's content.

    Returns:
        (height, width, 3) uint8.

    Raises:
        UserError: `FILE: REASON` for one that is missing, empty, cut short or none of these formats.
    """
    is_content = isinstance(picture, bytes)
    name = f"picture of {len(picture)} bytes" if is_content else picture
    try:
        content = picture if is_content else Path(picture).read_bytes()
    except OSError as error:
        raise UserError(f"{name}: {error.strerror}") from None
    if not content:
        raise UserError(f"{name}: the file is empty")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            return _rgb(ImageOps.exif_transpose(image))
    except Image.UnidentifiedImageError:
        raise UserError(f"{name}: not a whole JPEG, PNG, BMP, GIF or WebP picture") from None
    except Exception as error:  # each of Pillow's readers raises its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{name}: {reason}") from error


def _rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):  # 16-bit grey, which Pillow would clip and not scale
        values = np.asarray(image).astype(np.int32)  # (h,w)
        transparent = values == image.info.get("transparency", -1)
        grey = np.where(transparent, 255, values >> 8).astype(np.uint8)
        return np.stack([grey] * 3, axis=-1)  # (h,w,3)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))  # (h,w,3)


def size(text: str) -> tuple[int, int]:
    """Height and width in pixels: "64" -> (64, 64), "48,64" -> (48, 64).

    Raises:
        UserError: it is neither.
    """
    match = re.fullmatch(r"([1-9]\d*)(?:,([1-9]\d*))?", text)
    if not match:
        raise UserError(
            f"data.image_size={text!r} is not a size: write 64, or 48,64 for HEIGHT,WIDTH"
        )
    return int(match[1]), int(match[2] or match[1])


def fit(images: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """The largest central part of the target's aspect ratio, resized to height x width.

    Resized by a triangle filter as wide as the reduction (bilinear, antialiased), rounded to uint8.
    Made of TensorFlow's operations, so that it also runs within tf.data and a SavedModel.

    Args:
        images: (h, w, C) uint8, as from `decode`, or (B, h, w, C); h and w need not be known when
            traced.
        height, width: of the result, in pixels.

    Returns:
        (height, width, C) or (B, height, width, C) uint8.
    """
    h, w = tf.unstack(tf.shape(images)[-3:-1])

    def part(side: tf.Tensor, other: tf.Tensor, ratio: float) -> tf.Tensor:
        scaled = tf.cast(tf.round(tf.cast(other, tf.float64) * ratio), tf.int32)
        return tf.clip_by_value(scaled, 1, side)

    rows, columns = part(h, w, height / width), part(w, h, width / height)
    top, left = (h - rows) // 2, (w - columns) // 2
    shape = (*images.shape[:-3], height, width, images.shape[-1])
    images = images[..., top : top + rows, left : left + columns, :]  # (...,rows,columns,C)
    images = tf.image.resize(images, (height, width), antialias=True)  # (...,height,width,C)
    images = tf.clip_by_value(tf.round(images), 0.0, 255.0)
    return tf.ensure_shape(tf.cast(images, tf.uint8), shape)


def fit_channels(image: tf.Tensor, shape: tuple[int, int, int]) -> tf.Tensor:
    """`fit` for a model of one channel, too: grey is then 0.2989 R + 0.587 G + 0.114 B.

    Args:
        image: (h, w, 3) uint8.
        shape: (height, width, C) of the result; C is 3 or 1.

    Returns:
        uint8 of that shape.
    """
    height, width, channels = shape
    if channels == 1:
        image = tf.image.rgb_to_grayscale(image)  # (h,w,1)
    return fit(image, height, width)


def decode_in_graph(content: tf.Tensor) -> tf.Tensor:
    """`decode` in TensorFlow's operations: of JPEG and PNG alone, and EXIF does not turn it.

    Args:
        content: a file's content, a scalar string.

    Returns:
        (height, width, 3) uint8.
    """

    def jpeg():
        return tf.io.decode_jpeg(content, channels=3, dct_method="INTEGER_ACCURATE")  # (h,w,3)

    def png():
        image = tf.cast(tf.io.decode_png(content, channels=4), tf.float32)  # (h,w,4)
        alpha = image[..., 3:] / 255.0
        flat = (1.0 - alpha) * 255.0 + alpha * image[..., :3]
        return tf.cast(tf.round(flat), tf.uint8)  # (h,w,3)

    return tf.cond(tf.io.is_jpeg(content), jpeg, png)


@contextlib.contextmanager
def noticed() -> Iterator[None]:
    """Inside, a picture that `Pictures` can no longer read is a UserError again."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        # How tf.data tells what `decode` raised.
        unreadable = re.search(r"UserError: (.*)", error.message)
        if unreadable is None:
            raise
        raise UserError(
            f"{unreadable[1]}; it was whole at the start: bring it back and run the same command again (with "
            "the same --workdir a run goes on)"
        ) from error


class Pictures:
    """Files as an array of pictures (n, height, width, 3) uint8, decoded and fitted when asked for.

    Args:
        paths: (n,) files.
        digests: (n,) SHA-256 of each.
        height, width: to which they are fitted, in pixels.
    """

    def __init__(self, paths: np.ndarray, digests: np.ndarray, height: int, width: int):
        self.paths, self.digests = paths, digests
        self.shape = (len(paths), height, width, 3)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: slice | np.ndarray) -> np.ndarray:
        """The pictures of a slice or of (m,) numbers, (m, height, width, 3)."""
        chosen = np.arange(len(self))[key]
        found = np.empty((len(chosen), *self.shape[1:]), np.uint8)
        dataset = tf.data.Dataset.from_tensor_slices(chosen)
        dataset = dataset.map(self._picture, num_parallel_calls=tf.data.AUTOTUNE)
        for place, picture in zip(found, dataset.as_numpy_iterator(), strict=True):
            place[...] = picture
        return found

    def gather(self, chosen: tf.Tensor) -> tf.Tensor:
        """As `tf.gather` of an array: (m,) numbers -> (m, height, width, 3)."""
        spec = tf.TensorSpec(self.shape[1:], tf.uint8)
        return tf.map_fn(self._picture, chosen, fn_output_signature=spec)

    @tf.autograph.experimental.do_not_convert
    def _picture(self, number: tf.Tensor) -> tf.Tensor:
        pixels = tf.numpy_function(lambda n: decode(self.paths[n]), [number], tf.uint8)
        return fit(tf.ensure_shape(pixels, (None, None, 3)), *self.shape[1:3])
