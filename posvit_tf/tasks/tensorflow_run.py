"""One training on images on the devices that TensorFlow sees, one process or several."""

from collections.abc import Callable
from pathlib import Path

import keras
from ml_collections import ConfigDict

from posvit_tf.data import pictures, sources
from posvit_tf.data.splits import Source
from posvit_tf.errors import UserError
from posvit_tf.fields import flat
from posvit_tf.tasks import training_run
from posvit_tf.training import pretrained, run_files
from posvit_tf.training import strategy as strategies
from posvit_tf.training.board import Board
from posvit_tf.training.objective import Objective
from posvit_tf.training.replicas import Replicas


def run(
    config: ConfigDict,
    workdir: Path,
    make_objective: Callable[[ConfigDict, Source, keras.Model], Objective],
    write_page: Callable,
) -> dict:
    """Trains `config` in `workdir`, or goes on where it stopped; writes result.json and plots/.

    Args:
        config: of a run on images. workdir: where it goes.
        make_objective: of the config, the data and the model that they name.
        write_page: as for `training_run.train_and_test`.

    Returns:
        The content of result.json.

    Raises:
        UserError: bad data or settings, a loss that is not finite, out of memory.
    """
    strategy = strategies.make(config)
    processes = strategies.processes(config, strategy)
    with strategies.explained(config), pictures.noticed():
        if processes.place.count > 1:
            token = workdir / run_files.LOCK  # the chief's, if all see one folder
            seen = token.read_text() if token.exists() else None
            if not processes.alike(sorted(flat(run_files.plain(config)).items()), seen):
                raise UserError(
                    f"process {processes.place.index} of {processes.place.count} was not started like the "
                    "others: all need the same config and a --workdir that is one folder for all of them"
                )
        keras.utils.set_random_seed(config.seed)
        source = sources.load(config.data)
        source, earlier = pretrained.find(config.init_from, workdir, source)
        config, derived = training_run.completed(config, source, earlier)
        if derived and processes.place.chief:
            print(f"chosen from the data: {' '.join(f'{f}={v}' for f, v in derived.items())}")
        with strategy.scope():
            objective, optimizer, plan, table = training_run.start(
                config, source, earlier, strategy.num_replicas_in_sync, make_objective
            )
        if table and processes.place.chief:
            print(table)
        trainer = Replicas(config, strategy, objective, optimizer)
        return training_run.train_and_test(
            config, workdir, source, plan, processes, trainer, write_page, Board
        )
