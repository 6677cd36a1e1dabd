import pytest

from posvit_tf.export import write
from posvit_tf.tasks import classify
from posvit_tf.training import run_files


@pytest.fixture(scope="session")
def workdir(tiny, tmp_path_factory):
    """A finished run of two blocks with its export: the SavedModel, checked in a fresh process."""
    folder = tmp_path_factory.mktemp("exported")
    config = tiny({"model.depth": 2})
    with run_files.claimed(folder, config):
        classify.run(config, folder)
    write.export(folder, ["saved_model"])
    return folder
