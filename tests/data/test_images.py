import itertools

import numpy as np
import pytest

from posvit_tf.data import images
from posvit_tf.data.splits import Split
from posvit_tf.errors import UserError

N = 22


@pytest.fixture
def split():
    """Distinct images, each labelled by its index."""
    pixels = np.random.default_rng(0).integers(1, 256, (N, 6, 7, 3), dtype=np.uint8)
    return Split(pixels, np.arange(N, dtype=np.int32))


def draw(split, count, **changes):
    """`count` elements of the training set: images (count, ...), labels (count, k, B/R), draws."""
    options = {
        "batch_size": 4,
        "accumulate": 2,
        "seed": 0,
        "crop_padding": 2,
        "flip": True,
        "start_update": 0,
        "draws": 3,
    }
    dataset = images.train_dataset(split, **(options | changes))
    elements = itertools.islice(dataset.as_numpy_iterator(), count)
    return tuple(map(np.stack, zip(*elements, strict=True)))


def test_an_epoch_draws_without_repeats_and_drops_the_incomplete_update(split):
    assert images.updates_per_epoch(N, batch_size=4, accumulate=2) == 2
    _, labels, _ = draw(split, 6)
    epochs = labels.reshape(3, -1)  # 2 updates of 8 examples each
    assert all(len(set(epoch)) == 16 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert len({frozenset(epoch) for epoch in epochs}) > 1  # others are left out each time


def test_every_image_of_every_update_and_seed_has_numbers_of_its_own(split):
    numbers = np.concatenate([draw(split, 4, seed=seed)[2].ravel() for seed in (0, 1)])
    assert numbers.shape == (2 * 4 * 2 * 4 * 3,) and len(set(numbers)) == len(numbers)
    assert 0 <= numbers.min() and numbers.max() < 1


def test_crops_differ_between_updates(split):
    same = Split(np.repeat(split.images[:1], N, axis=0), split.labels)
    pixels, *_ = draw(same, 4)
    assert len({update.tobytes() for update in pixels}) == 4


def test_without_augmentation_the_images_are_as_they_were(split):
    pixels, labels, _ = draw(split, 2, crop_padding=0, flip=False)
    np.testing.assert_array_equal(pixels, split.images[labels])


def test_the_seed_changes_order_and_crops(split):
    first, again, other = draw(split, 2), draw(split, 2), draw(split, 2, seed=1)
    np.testing.assert_array_equal(first[0], again[0])
    assert (first[1] != other[1]).any()


@pytest.mark.parametrize("start", [1, 2, 5])
def test_started_at_an_update_it_goes_on_like_the_straight_one(split, start):
    straight, resumed = draw(split, start + 3), draw(split, 3, start_update=start)
    for a, b in zip(straight, resumed, strict=True):
        np.testing.assert_array_equal(a[start:], b)


@pytest.mark.parametrize("workers", [[range(2)], [range(1), range(1, 2)], [range(2), range(2, 4)]])
def test_the_shares_put_together_are_what_one_replica_sees(split, workers):
    updates, start = 3, 1
    changes = {"policy": "svhn", "start_update": start}
    replicas = sum(map(len, workers))
    shares = []
    for own in workers:
        drawn = draw(split, updates * len(own), own=own, replicas=replicas, **changes)
        shares += [[part[i :: len(own)] for part in drawn] for i in range(len(own))]
    whole = draw(split, updates, **changes)
    for part, parts in zip(whole, zip(*shares, strict=True), strict=True):
        np.testing.assert_array_equal(part, np.concatenate(parts, axis=2))  # axis 2: the batch


def test_a_policy_changes_images_of_its_own_draws_and_no_crop(split):
    plain, some = (draw(split, 3, policy=policy)[0] for policy in ("", "cifar10"))
    same = (plain == some).all(axis=(-1, -2, -3))
    assert 0 < same.mean() < 1
    again = draw(split, 3, policy="cifar10")[0]
    np.testing.assert_array_equal(some, again)


def test_a_policy_wants_colours(split):
    grey = Split(split.images[..., :1], split.labels)
    with pytest.raises(UserError, match="data.autoaugment=svhn changes colours.* 1 channel"):
        draw(grey, 1, policy="svhn")


def test_a_class_sorted_set_is_mixed_at_once():
    sorted_set = Split(np.zeros((4000, 1, 1, 1), np.uint8), np.repeat(np.int32([0, 1]), 2000))
    _, labels, _ = draw(sorted_set, 10, batch_size=32, accumulate=1, crop_padding=0, flip=False)
    assert all(5 < update.sum() < 27 for update in labels)


def test_shapes_are_static(split):
    dataset = images.train_dataset(
        split, batch_size=4, accumulate=2, seed=0, crop_padding=2, flip=True, start_update=0
    )
    assert [spec.shape.as_list() for spec in dataset.element_spec] == [
        [2, 4, 6, 7, 3],
        [2, 4],
        [2, 4, 0],
    ]


def test_evaluation_keeps_the_order_and_fills_the_last_batch_with_black(split):
    padded = np.concatenate([pixels for pixels, _ in images.eval_dataset(split, batch_size=8)])
    assert padded.shape == (24, 6, 7, 3)
    np.testing.assert_array_equal(padded[:N], split.images)
    assert not padded[N:].any()


@pytest.mark.parametrize("batch_size", [4, 8, 64])
def test_evaluation_shares_put_together_are_the_whole(split, batch_size):
    options = dict(batch_size=batch_size, draws=2)
    whole = zip(*images.eval_dataset(split, **options), strict=True)
    shares = zip(*images.eval_dataset(split, **options, own=range(4), replicas=4), strict=True)
    for one, other in zip(whole, shares, strict=True):
        np.testing.assert_array_equal(np.concatenate(one), np.concatenate(other))


def test_a_batch_larger_than_the_training_set_is_refused(split):
    with pytest.raises(UserError, match="takes 48 examples.*holds 22"):
        draw(split, 1, batch_size=24)


@pytest.mark.parametrize(("batch_size", "near"), [(10, "8 or 12"), (3, "4")])
def test_a_batch_that_does_not_divide_by_the_replicas_is_refused(split, batch_size, near):
    message = f"{batch_size} does not divide by 4 replicas: use {near}$"
    with pytest.raises(UserError, match=message):
        images.train_dataset(
            split,
            batch_size=batch_size,
            accumulate=1,
            seed=0,
            crop_padding=0,
            flip=False,
            start_update=0,
            replicas=4,
        )
    with pytest.raises(UserError, match=message):
        images.eval_dataset(split, batch_size=batch_size, replicas=4)
