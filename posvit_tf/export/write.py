"""From a workdir to its export: written beside the old one, checked, and put in its place."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from posvit_tf import trained
from posvit_tf.benchmarks import measure
from posvit_tf.data import pictures
from posvit_tf.data.splits import Source
from posvit_tf.errors import UserError
from posvit_tf.export import card, formats
from posvit_tf.export.card import megabytes
from posvit_tf.export.signatures import Signatures
from posvit_tf.models.vit import frozen
from posvit_tf.text import counted
from posvit_tf.training import run_files

COMPARED = 1000  # images at most on which a file is compared with the model
TOLERANCE = 1e-4  # of a logit
ROUNDS = 10
SCRATCH = ".export-"


@pictures.noticed()
def export(workdir: Path, names: list[str]) -> Path:
    """Writes WORKDIR/export: the formats, classes.txt and the model card, README.md.

    The model has the weights that the run reported, and computes in float32. Each file is loaded in a
    process of its own and compared with the model on images of the eval split (of the test split
    where there is none) before anything is put in place.

    Args:
        workdir: of a finished run of an image config.
        names: of `formats.FORMATS`; the SavedModel is always written.

    Returns:
        The folder.

    Raises:
        UserError: no such run, another process at work there, an extra is missing, a file cannot be
            written or differs from the model.
    """
    chosen = formats.choose(names)
    result = finished(workdir)
    recorded = run_files.read_config(workdir, trained.FIELDS)
    if recorded["data"].get("cell_size"):
        raise UserError(
            f"the run in {workdir} saw permuted images (data.cell_size={recorded['data']['cell_size']}), and "
            "its model takes no others: export a run without"
        )
    loaded, source = trained.load_with_data(workdir, precision="float32")
    target = workdir / "export"
    try:
        with run_files.locked(workdir), scratch_folder(workdir) as scratch:
            folder = Path(scratch, "export")
            folder.mkdir()
            facts = fill(folder, Path(scratch, "images.npy"), loaded, source, chosen)
            names = "".join(f"{name}\n" for name in loaded.class_names)
            (folder / "classes.txt").write_text(names)
            text = card.card(loaded.config, recorded["precision"], result, source, facts)
            (folder / "README.md").write_text(text)
            replace(folder, target, Path(scratch, "old"))
    except OSError as error:
        raise UserError(
            f"cannot write {error.filename or target} ({error.strerror}): make room, or give yourself "
            "the right to write there"
        ) from error
    except tf.errors.ResourceExhaustedError as error:  # TensorFlow's own word for a full disk
        raise UserError(f"cannot write {target} ({error.message}): make room") from error
    print(f"export: {target}")
    return target


def scratch_folder(workdir: Path) -> tempfile.TemporaryDirectory:
    """A folder in a locked workdir, so that putting the export in its place is a rename."""
    for left in workdir.glob(
        f"{SCRATCH}*"
    ):  # of an export that was killed: no other holds the lock
        shutil.rmtree(left)
    return tempfile.TemporaryDirectory(dir=workdir, prefix=SCRATCH)


def fill(
    folder: Path,
    scratch: Path,
    loaded: trained.Loaded,
    source: Source,
    chosen: list[str],
) -> card.Facts:
    """Writes and compares the chosen formats; `scratch` is the file for the images compared on."""
    model, class_names, _ = loaded
    split, examples = ("eval", source.eval) if source.eval else ("test", source.test)
    images = save_images(scratch, examples.images)
    logits = in_batches(lambda batch: model(batch, training=False), images)
    costs, files = write_saved_model(model, class_names, folder / "saved_model", images), {}
    for name in chosen:
        if name != "saved_model":
            formats.write(name, folder, model)
        files[name] = compare(formats.FORMATS[name], folder, images, logits)
    accuracies, quantised_size = {"float32": accuracy(logits, examples.labels)}, 0
    if "litert" in chosen:
        quantised = formats.in_a_fresh_process(formats.INT8, folder, scratch, len(images))
        accuracies["int8"] = accuracy(quantised, examples.labels)
        quantised_size = size(folder / formats.INT8.file)
        print(
            f"{formats.INT8.file}: {megabytes(quantised_size)}, accuracy "
            f"{accuracies['int8']:.4f}, of float32 {accuracies['float32']:.4f}, over "
            f"{counted(len(images), f'{split} image')}",
            flush=True,
        )
    return card.Facts(split, len(images), accuracies, ROUNDS, costs, files, quantised_size)


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Share of images whose highest logit is their label's."""
    return float(np.mean(logits.argmax(axis=1) == labels))


def finished(workdir: Path) -> dict:
    """The result of an image config's finished run.

    Raises:
        UserError: there is none.
    """
    if not (workdir / "config.json").exists():
        raise UserError(f"{workdir} holds no run: name the workdir of one, with its config.json")
    if not (workdir / "result.json").exists():
        raise UserError(
            f"the run in {workdir} is not finished: go on with it by its command, "
            f"in {workdir / 'command.txt'}, with --workdir={workdir}"
        )
    result = run_files.read_result(workdir)
    if result["task"] != "classify":
        raise UserError(
            f"{workdir} holds a run of the task {result['task']}: only a run on images, such as "
            "--config=digits, leaves a model to export"
        )
    return result


def save_images(path: Path, images: np.ndarray) -> np.memmap:
    """Writes images, an array or `Pictures`, to an .npy file without holding all of them."""
    header = {"descr": "|u1", "fortran_order": False, "shape": tuple(images.shape)}
    # Not through a memmap: on a full disk that ends the process by a bus error.
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(images), 500):
            file.write(images[start : start + 500].tobytes())
    return np.load(path, mmap_mode="r")


def in_batches(call: Callable[[np.ndarray], tf.Tensor], images: np.ndarray) -> np.ndarray:
    """What a call gives for images, 50 at a time, put together."""
    return np.concatenate([call(images[s : s + 50]) for s in range(0, len(images), 50)])


def write_saved_model(
    model: keras.Model, class_names: tuple[str, ...], path: Path, images: np.ndarray
) -> list[card.Cost]:
    """Writes the SavedModel, its maps frozen; gives its costs, and those before they were frozen."""
    constant = frozen(model)
    after = Signatures(constant, class_names)
    after.save(path)
    if constant is model:
        kinds, sizes = {"none to freeze": after}, [size(path)]
    else:
        before = Signatures(model, class_names)
        with tempfile.TemporaryDirectory(dir=path.parent) as other:
            before.save(Path(other))
            kinds, sizes = {"made anew": before, "frozen": after}, [size(Path(other)), size(path)]
    times = []
    for batch in (1, 32):
        given = tf.constant(np.resize(images[:batch], (batch, *images.shape[1:])))  # (batch,H,W,C)
        calls = {
            kind: lambda run=served.functions["serving_default"], given=given: run(given)[
                "label"
            ].numpy()
            for kind, served in kinds.items()
        }
        found = measure.interleave(calls, ROUNDS)
        times.append([measure.spread(found[kind].wall) for kind in kinds])
    costs = [card.Cost(*row) for row in zip(kinds, sizes, *times, strict=True)]
    for cost in costs:
        print(
            f"maps {cost.maps}: {megabytes(cost.bytes)}, ms a call of 1: {cost.one}, of 32: {cost.many}",
            flush=True,
        )
    return costs


def compare(
    made: formats.Format, folder: Path, images: np.memmap, logits: np.ndarray
) -> card.Compared:
    """A file's largest difference from the model's logits, and the share of equal labels.

    Raises:
        UserError: it differs by more than TOLERANCE, or in a label.
    """
    count = min(COMPARED, len(images))
    found = formats.in_a_fresh_process(made, folder, Path(images.filename), count)
    difference = float(np.abs(found - logits[:count]).max())
    agreement = float(np.mean(found.argmax(axis=1) == logits[:count].argmax(axis=1)))
    row = card.Compared(made.file, size(folder / made.file), difference, agreement, count)
    print(
        f"{row.file}: {megabytes(row.bytes)}, in a fresh process: largest difference of a logit "
        f"{difference:.1e}, top-1 agreement {agreement:.2%} of {counted(count, 'image')}",
        flush=True,
    )
    if not difference <= TOLERANCE or agreement < 1:
        raise UserError(
            f"{made.file} is not the model (allowed: {TOLERANCE:g}, 100%), so no export was written: "
            "choose other --formats, and report this"
        )
    return row


def size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def replace(folder: Path, target: Path, aside: Path) -> None:
    """Renames a folder to a target, which may hold another one; that goes aside."""
    if target.exists():
        target.rename(aside)
    folder.rename(target)
