"""Labelled images as one endless tf.data.Dataset of updates, and as padded batches to evaluate.

Everything random is a pure function of the seed, the epoch and the update: a run can start at any
update, and the replicas' shares put together are what one replica alone would see.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import tensorflow as tf

from posvit_tf.data import augment, autoaugment
from posvit_tf.data.batches import replica_batch_size, updates_per_epoch
from posvit_tf.data.pictures import Pictures
from posvit_tf.data.splits import Split
from posvit_tf.errors import UserError


def permuted_in_graph(images: tf.Tensor, order: np.ndarray) -> tf.Tensor:
    """`permute.permuted` for a batch (B, H, W, C) of tf.data."""
    batch, height, width, channels = images.shape
    flat = tf.reshape(images, (batch, height * width, channels))  # (B,H*W,C)
    return tf.reshape(tf.gather(flat, order, axis=1), images.shape)  # (B,H,W,C)


def gatherer(images: np.ndarray | Pictures) -> Callable[[tf.Tensor], tf.Tensor]:
    """Operations of a graph that give the images of (m,) numbers as (m, H, W, C)."""
    if isinstance(images, Pictures):
        return images.gather
    with tf.device("CPU"):
        return partial(tf.gather, tf.constant(images))


def uniform(seed: tf.Tensor, count: int, draws: int) -> tf.Tensor:
    """(count, draws) float32 in [0, 1), a pure function of `seed` (2,)."""
    return tf.random.stateless_uniform((count, draws), seed)


def train_dataset(
    split: Split,
    *,
    batch_size: int,
    accumulate: int,
    seed: int,
    crop_padding: int,
    flip: bool,
    start_update: int,
    policy: str = "",
    order: np.ndarray | None = None,
    permute_first: bool = False,
    draws: int = 0,
    own: range = range(1),
    replicas: int = 1,
) -> tf.data.Dataset:
    """One worker's shares of update `start_update` and of every later one, without end.

    Update u is the examples pi_e(p K), ..., pi_e(p K + K - 1), where K = accumulate * batch_size,
    e and p are the quotient and remainder of u by the updates per epoch, and pi_e is a permutation
    of the split drawn from (seed, e). A replica takes a contiguous share of each micro-batch.

    Args:
        split: the training images.
        batch_size: examples per micro-batch over all replicas.
        accumulate: micro-batches per update.
        seed: of the order and the augmentation.
        crop_padding: zero pixels per side from which the image is cropped at random.
        flip: whether half of the images are mirrored left to right.
        start_update: the first update, counted from 0.
        policy: of AutoAugment, after crop and flip: a key of `autoaugment.POLICIES`, or "" for none.
        order: of the pixels, (H*W,), that images are brought into at the end.
        permute_first: that they are brought into it at the beginning instead.
        draws: random numbers an image, for the objective.
        own: this worker's replicas, which take the elements in turn.
        replicas: how many there are on all workers.

    Returns:
        Dataset of images (accumulate, batch_size / replicas, H, W, C) uint8, labels
        (accumulate, batch_size / replicas) int32 and uniform numbers in [0, 1)
        (accumulate, batch_size / replicas, draws) float32: an element a replica, len(own) an update.

    Raises:
        UserError: if the split is smaller than an update, the batch does not divide by replicas, or
            AutoAugment is asked for on images without colours.
    """
    n = len(split.labels)
    _, height, width, channels = split.images.shape
    if policy and channels != 3:
        raise UserError(
            f"data.autoaugment={policy} changes colours, but these images have {channels} channel: "
            "use images of three, or leave it unset"
        )
    operations = autoaugment.of_policy(policy, height, width) if policy else None
    per_epoch = updates_per_epoch(n, batch_size, accumulate)
    share = replica_batch_size(batch_size, replicas, "data.batch_size")
    count = accumulate * batch_size
    gather = gatherer(split.images)
    with tf.device("CPU"):
        labels = tf.constant(split.labels)

    @tf.autograph.experimental.do_not_convert
    def element(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        update, replica = i // len(own), own.start + i % len(own)

        def shared(values: tf.Tensor) -> tf.Tensor:  # (k*B,...) -> (k*B/R,...)
            rest = values.shape[1:]
            by_replica = tf.reshape(values, (accumulate, replicas, share, *rest))
            return tf.reshape(by_replica[:, replica], (accumulate * share, *rest))

        epoch, position = update // per_epoch, update % per_epoch
        shuffled = tf.random.experimental.index_shuffle(
            position * count + tf.range(count, dtype=tf.int64),
            seed=tf.stack([tf.constant(seed, tf.int64), epoch]),
            max_index=n - 1,
        )  # (k*B,)
        chosen = shared(shuffled)  # (k*B/R,)
        batch = gather(chosen)  # (k*B/R,H,W,C)
        if order is not None and permute_first:
            batch = permuted_in_graph(batch, order)  # (k*B/R,H,W,C)
        update_seed = tf.stack([tf.constant(seed, tf.int64), update])
        if crop_padding or flip:
            drawn = augment.draw(update_seed, count, padding=crop_padding, flip=flip)
            batch = augment.crop_and_flip(batch, *map(shared, drawn), padding=crop_padding)
        if policy:
            # a seed of its own, so that crops and flips stay what they are without
            for rows in autoaugment.draw(tf.random.fold_in(update_seed, 1), count, policy):
                batch = autoaugment.apply(batch, shared(rows), operations)  # (k*B/R,H,W,3)
        if order is not None and not permute_first:
            batch = permuted_in_graph(batch, order)  # (k*B/R,H,W,C)
        batch = tf.reshape(batch, (accumulate, share, *batch.shape[1:]))  # (k,B/R,H,W,C)
        numbers = shared(uniform(tf.random.fold_in(update_seed, 2), count, draws))  # (k*B/R,D)
        return (
            batch,
            tf.reshape(tf.gather(labels, chosen), (accumulate, share)),
            tf.reshape(numbers, (accumulate, share, draws)),
        )

    elements = tf.data.Dataset.range(start_update * len(own), tf.int64.max)
    elements = elements.map(element, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return elements.prefetch(2)


def eval_dataset(
    split: Split,
    *,
    batch_size: int,
    order: np.ndarray | None = None,
    draws: int = 0,
    own: range = range(1),
    replicas: int = 1,
) -> tf.data.Dataset:
    """The images of a split one by one, not augmented, the last batch filled up with black images.

    The replicas' outputs of a batch, concatenated in replica order, are in the order of the split:
    cut them to len(split.labels) at the end.

    Args:
        split: the images.
        batch_size: examples per batch over all replicas.
        order: of the pixels, (H*W,), that images are brought into.
        draws: random numbers an image, for the objective: the same in every pass.
        own: this worker's replicas, which take the elements in turn.
        replicas: how many there are on all workers.

    Returns:
        Dataset of ceil(n / batch_size) * len(own) elements, each replica's contiguous share of a batch:
        images (batch_size / replicas, H, W, C) uint8, and uniform numbers in [0, 1)
        (batch_size / replicas, draws) float32.

    Raises:
        UserError: if the batch does not divide by the replicas.
    """
    n = len(split.labels)
    share = replica_batch_size(batch_size, replicas, "data.eval_batch_size")
    gather = gatherer(split.images)

    @tf.autograph.experimental.do_not_convert
    def element(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        batch, replica = i // len(own), own.start + i % len(own)
        start = batch * batch_size + replica * share
        part = gather(tf.range(tf.minimum(start, n), tf.minimum(start + share, n)))  # (<=B/R,H,W,C)
        part = tf.pad(part, ((0, share - tf.shape(part)[0]), (0, 0), (0, 0), (0, 0)))
        part = tf.ensure_shape(part, (share, *split.images.shape[1:]))  # (B/R,H,W,C)
        numbers = uniform(tf.stack([batch, 0]), batch_size, draws)[replica * share :][:share]
        return part if order is None else permuted_in_graph(part, order), numbers

    elements = tf.data.Dataset.range(-(-n // batch_size) * len(own))
    elements = elements.map(element, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return elements.prefetch(2)
