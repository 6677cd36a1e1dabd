"""Tells what this machine has and what will not work on it: `posvit doctor`."""

import argparse
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

import posvit_tf
from posvit_tf.data.fields import SOURCES
from posvit_tf.training import cluster, run_files

SMALL = 4 * 2**30  # bytes of memory below which the larger configs may not fit


def requirements() -> Iterator[tuple[Requirement, str]]:
    """What the package needs, with the extra that each belongs to: "" for the package itself."""
    for line in importlib.metadata.requires("posvit_tf") or ():
        needed = Requirement(line)
        extra = str(needed.marker).rpartition('extra == "')[2].rstrip('"') if needed.marker else ""
        yield needed, extra


def versions(problems: list[str]) -> dict[str, str]:
    """Package -> its version; one that is missing or too old or new for the package is a problem."""
    found, missing = {}, {}
    for needed, extra in requirements():
        try:
            found[needed.name] = importlib.metadata.version(needed.name)
        except importlib.metadata.PackageNotFoundError:
            missing.setdefault(extra, []).append(needed.name)
            continue
        if not needed.specifier.contains(found[needed.name], prereleases=True):
            problems.append(
                f"{needed.name} {found[needed.name]} is not supported: pip install "
                f'"{needed.name}{needed.specifier}"'
            )
    for extra, names in missing.items():
        what = f"what the extra {extra} brings" if extra else "what the package needs"
        again = f'pip install "posvit_tf[{extra}]"' if extra else "pip install posvit_tf"
        problems.append(f"{what} is not all here ({', '.join(names)}): {again}")
    return found


def devices(problems: list[str]) -> str:
    """The devices that TensorFlow sees."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow as tf
    except ImportError as error:
        problems.append(f"TensorFlow does not start ({error}): {cluster.INSTALL}")
        return "not known without TensorFlow"
    kinds = [device.device_type for device in tf.config.list_physical_devices()]
    if "GPU" not in kinds:
        problems.append(
            "no GPU is seen: the configs of the paper's size (cifar10 without size=nano, scale=paper) take "
            'days here; with an NVIDIA card, pip install "tensorflow[and-cuda]"'
        )
    if "TPU" not in kinds:
        problems.append(f"no TPU is seen: strategy=tpu will stop; on a TPU, {cluster.TPU_INSTALL}")
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def memory(problems: list[str]) -> str:
    """Memory that is free, and disk where runs go."""
    lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else ()
    sizes = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    if sizes.get("MemAvailable", SMALL) < SMALL:
        problems.append(
            "little memory is free: lower data.batch_size and data.eval_batch_size if a run stops for it"
        )
    free = f"{sizes['MemAvailable'] / 2**30:.1f} GiB" if sizes else "not known"
    disk = shutil.disk_usage(Path.cwd()).free
    return f"{free}; {disk / 2**30:.1f} GiB of disk in {Path.cwd()}"


def data(problems: list[str]) -> str:
    """The prepared data sets that are found where configs look for them."""
    root = Path(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets").expanduser()
    names = [name for name, (module, _) in SOURCES.items() if module.endswith("prepared")]
    versions = {name: sorted(root.glob(f"{name}/*/dataset_info.json")) for name in names}
    absent = [name for name, files in versions.items() if not files]
    if absent:
        problems.append(
            f"{', '.join(absent)} not in {root}: a run downloads it there, or set TFDS_DATA_DIR or "
            "--config.data.data_dir to where it is prepared"
        )
    found = [f"{name} {files[-1].parent.name}" for name, files in versions.items() if files]
    return f"digits in scikit-learn; in {root}: {', '.join(found) or 'none'}"


def run(arguments: Sequence[str]) -> int:
    """Prints what is found, and what will not work and why; gives 2 where no run would start."""
    argparse.ArgumentParser(prog="posvit doctor", description=__doc__).parse_args(arguments)
    problems: list[str] = []
    packages = versions(problems)
    lines = {
        "posvit_tf": f"{posvit_tf.__version__} in {Path(posvit_tf.__file__).parent}",
        "Python": f"{platform.python_version()} on {platform.platform()}",
        "versions": ", ".join(f"{name} {packages[name]}" for name in packages),
        "machine": run_files.machine(),
        "devices": devices(problems),
        "memory": memory(problems),
        "data": data(problems),
    }
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow":
        problems.append(f"KERAS_BACKEND={backend}: posvit trains on tensorflow alone; unset it")
    for name, text in lines.items():
        print(f"{name + ':':11}{text}")
    print("\nWhat will not work, and why:" if problems else "\nNothing stands in the way.")
    print(*(f"  - {problem}" for problem in problems), sep="\n")
    broken = [p for p in problems if p.startswith(("what the package", "TensorFlow", "KERAS"))]
    return 2 if broken or "not supported" in " ".join(problems) else 0


if __name__ == "__main__":
    from posvit_tf.cli import main

    sys.exit(main(["posvit", "doctor", *sys.argv[1:]]))
