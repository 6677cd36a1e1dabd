import numpy as np
import pytest
import tensorflow_datasets as tfds


@pytest.fixture
def prepare(tmp_path):
    """Writes a small data set as tensorflow-datasets prepares it, train in two files."""

    def write(name, train=40, test=20, label=lambda i, classes: i % classes):
        builder = tfds.builder(name, data_dir=tmp_path)
        features = builder.info.features
        rng = np.random.default_rng(0)
        splits = {}
        for split, n in (("train", train), ("test", test)):
            images = rng.integers(0, 256, (n, *features["image"].shape), dtype=np.uint8)
            labels = np.array([label(i, features["label"].num_classes) for i in range(n)])
            splits[split] = images, labels
        builder.data_path.mkdir(parents=True)
        writer = tfds.core.SequentialWriter(builder.info, max_examples_per_shard=train // 2)
        writer.initialize_splits(list(splits))
        unused = {key: "" if key == "id" else 0 for key in features}
        for split, (images, labels) in splits.items():
            examples = [
                unused | {"image": image, "label": int(label)}
                for image, label in zip(images, labels, strict=True)
            ]
            writer.add_examples({split: examples})
        writer.close_all()
        return builder.data_path, splits

    return write
