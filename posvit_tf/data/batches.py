"""How examples fill batches. Imports no TensorFlow."""

from posvit_tf.errors import UserError


def updates_per_epoch(n: int, batch_size: int, accumulate: int) -> int:
    """floor(n / (accumulate * batch_size)): an epoch's incomplete last update is dropped.

    Raises:
        UserError: if the n examples do not fill a single update.
    """
    needed = accumulate * batch_size
    if needed > n:
        raise UserError(
            f"one update takes {needed} examples (data.batch_size={batch_size} x "
            f"train.accumulate={accumulate}) but the training set holds {n}: lower "
            f"data.batch_size or train.accumulate"
        )
    return n // needed


def replica_batch_size(batch_size: int, replicas: int, field: str) -> int:
    """batch_size / replicas, the examples of a batch that one replica computes.

    Raises:
        UserError: if the batch does not divide evenly.
    """
    share, rest = divmod(batch_size, replicas)
    if rest or not share:
        near = " or ".join(str(size * replicas) for size in (share, share + 1) if size)
        raise UserError(f"{field}={batch_size} does not divide by {replicas} replicas: use {near}")
    return share
