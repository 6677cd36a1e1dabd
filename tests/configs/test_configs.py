import re

import pytest

from posvit_tf import config, task
from posvit_tf.fields import flat


@pytest.mark.parametrize("name", config.paths())
def test_config_loads_and_says_what_it_is(name):
    loaded = config.load(name)
    text = config.paths()[name].read_text()
    assert config.summaries()[name].endswith(".")
    assert re.search(rf"posvit --config={name}\b", text)
    assert "Cost:" in text and "Expect:" in text
    declared = flat(task.find(loaded.task).declared(loaded))
    assert declared.keys() | {"task", "name"} == flat(loaded).keys()
    assert all(field.doc for field in declared.values())


def test_what_is_unset_can_be_set_in_a_config_built_on_another():
    loaded = config.load("folder", ["train.steps=3", "model.position_std=0.5", "data.batch_size=8"])
    assert (loaded.train.steps, loaded.model.position_std, loaded.data.batch_size) == (3, 0.5, 8)


def test_digits_has_the_fields_of_cifar10_but_reads_no_folder():
    digits, cifar10 = (dict(flat(config.load(name))) for name in ("digits", "cifar10"))
    assert cifar10.keys() - digits.keys() == {"data.data_dir"}
    assert digits.keys() <= cifar10.keys()


def test_cifar100_and_svhn_differ_from_cifar10_in_the_data_alone():
    arg = ":size=nano,attention=free"
    cifar10 = dict(flat(config.load(f"cifar10{arg}")))
    cifar100 = dict(flat(config.load(f"cifar100{arg}")))
    svhn = dict(flat(config.load(f"svhn{arg}")))
    for found in (cifar10, cifar100, svhn):
        del found["name"]
    assert cifar100 == cifar10 | {"data.name": "cifar100"}
    assert svhn == cifar10 | {"data.name": "svhn_cropped", "data.flip": False}
