"""Whether each file of a folder is a whole picture: asked once, remembered in the user's cache."""

import hashlib
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import PIL

from posvit_tf.data.pictures import decode
from posvit_tf.errors import UserError

AT_ONCE = 1_000  # files
KEEP_SECONDS = 30.0  # between two lines that tell how far it is; what came before them is kept


class Verdict(NamedTuple):
    """What decoding a whole file found.

    Attributes:
        stamp: size in bytes and time of change in ns; with other ones the file is decoded again.
        sha256: of the file, as hexadecimal digits.
        shape: height and width in pixels, upright.
        reason: why it cannot be read; "" for a whole picture.
    """

    stamp: tuple[int, int]
    sha256: str = ""
    shape: tuple[int, int] = (0, 0)
    reason: str = ""


def scan(root: Path, files: list[str]) -> list[Verdict]:
    """The verdict on each file, from the cache where it was whole and has not changed since.

    The cache is pictures-*.json in $XDG_CACHE_HOME/posvit_tf, or ~/.cache/posvit_tf: the folder
    itself may be read-only. An interrupted scan keeps what it has decoded, a killed one all but the
    last KEEP_SECONDS and AT_ONCE files.

    Args:
        root: the folder of the pictures.
        files: paths below it.
    """
    cache = cache_file(root)
    recalled = _recall(cache)
    known = {file: recalled[file] for file in files if file in recalled}
    new = [
        file
        for file in files
        if file not in known or known[file].reason or known[file].stamp != _stamp(root / file)
    ]
    if new:
        print(f"pictures: {len(new)} of {len(files)} files to check", flush=True)
    pool = ThreadPoolExecutor(os.cpu_count())  # Pillow decodes outside Python's lock
    kept = time.monotonic()
    try:
        for start in range(0, len(new), AT_ONCE):
            part = new[start : start + AT_ONCE]
            known.update(zip(part, pool.map(_judge, [root / file for file in part]), strict=True))
            if start + AT_ONCE < len(new) and time.monotonic() - kept >= KEEP_SECONDS:
                print(f"pictures: {start + AT_ONCE} of {len(new)} files checked", flush=True)
                _remember(cache, known)
                kept = time.monotonic()
    finally:
        pool.shutdown(cancel_futures=True)
        if new:
            _remember(cache, known)
    return [known[file] for file in files]


def cache_file(root: Path) -> Path:
    """Where the verdicts on a folder are kept, named after its path."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return home / "posvit_tf" / f"pictures-{name}.json"


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _judge(path: Path) -> Verdict:
    stamp = _stamp(path)
    try:
        height, width, _ = decode(path).shape
    except UserError as error:
        return Verdict(stamp, reason=str(error).removeprefix(f"{path}: "))
    return Verdict(stamp, hashlib.sha256(path.read_bytes()).hexdigest(), (height, width))


def _recall(cache: Path) -> dict[str, Verdict]:
    try:
        content = json.loads(cache.read_text())
        if content["pillow"] != PIL.__version__:  # another one may judge otherwise
            return {}
        return {
            file: Verdict(tuple(stamp), sha256, tuple(shape), reason)
            for file, (stamp, sha256, shape, reason) in content["files"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # none yet, or not whole: the files say it again


def _remember(cache: Path, verdicts: dict[str, Verdict]) -> None:
    temporary = cache.with_name(f".{cache.name}.{os.getpid()}.tmp")
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps({"pillow": PIL.__version__, "files": verdicts}))
        os.replace(temporary, cache)
    except OSError as error:
        print(
            f"warning: {cache} cannot be written ({error.strerror}): the next run checks the "
            "pictures again; set XDG_CACHE_HOME to a folder that can be",
            file=sys.stderr,
        )
