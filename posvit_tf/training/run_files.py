"""What a workdir holds of its run but for metrics: config, command, result, and the lock that claims it."""

import contextlib
import errno
import fcntl
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from ml_collections import ConfigDict

from posvit_tf import task
from posvit_tf.config import complete
from posvit_tf.errors import UserError
from posvit_tf.fields import flat

VERSIONS = ("posvit_tf", "tensorflow", "jax", "keras", "numpy", "tensorflow-datasets")
REPORT = "report.html"  # a workdir's own page
LOCK = ".lock"  # of a workdir; its last line names the process that worked there last
UNWRITABLE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
}


def finished(workdir: Path, config: ConfigDict) -> dict | None:
    """The result of a workdir whose run is finished, else None. Writes nothing.

    Args:
        workdir: a new folder, an empty one, or one of a run of the same config.
        config: of the run.

    Raises:
        UserError: the folder holds another config.
    """
    result = workdir / "result.json"
    # A start that failed before its first checkpoint leaves nothing to protect.
    if result.exists() or any(workdir.glob("checkpoints/*.npz")):
        check_same(ConfigDict(read_json(workdir / "config.json")), config, workdir)
    if not result.exists():
        return None
    return read_result(workdir)


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[TextIO]:
    """Inside, the workdir is this process's own; gives the open lock file.

    The operating system gives it up when the process ends, however it ends.

    Raises:
        UserError: another run or export is at work there.
    """
    with open(workdir / LOCK, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another run or export is at work in {workdir}: wait for it or choose another workdir"
            ) from None
        except OSError as error:
            print(
                f"warning: {workdir} cannot be locked ({error.strerror}): "
                "see to it that no second run or export works there",
                file=sys.stderr,
            )
        yield lock


@contextlib.contextmanager
def claimed(workdir: Path, config: ConfigDict) -> Iterator[None]:
    """`locked` for a run, with config.json and command.txt in the workdir.

    Raises:
        UserError: another run or export is at work there, or the folder cannot be written.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        with locked(workdir) as lock:
            lock.write(f"{platform.node()} {os.getpid()} {time.time_ns()}\n")
            lock.flush()
            with open(workdir / "command.txt", "a") as file:
                file.write(command())
            write_json(workdir / "config.json", plain(config))
            yield
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise UserError(
            f"cannot write {error.filename or workdir} ({error.strerror}); what is there is kept: make "
            "room and run the same command again, or choose another --workdir"
        ) from error


def plain(config: ConfigDict) -> dict:
    """The config as it stands in config.json."""
    return json.loads(config.to_json_best_effort())


def read_json(path: Path) -> dict:
    """The object in a file of a workdir.

    Raises:
        UserError: the file is missing or holds something else.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): name the workdir of a run, or bring the file back"
        ) from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path} holds no JSON object: name the workdir of a run, or bring the file back"
        )
    return content


def lacking(content: dict, fields: str) -> str:
    """Those of some dotted fields, with spaces between them, that a nested dict does not have."""
    known = flat(content).keys() | content.keys()
    return ", ".join(field for field in fields.split() if field not in known)


def read_config(workdir: Path, fields: str = "task") -> dict:
    """The content of config.json, with some dotted fields at least, spaces between them.

    Raises:
        UserError: the file is missing, damaged or of another version.
    """
    path = workdir / "config.json"
    content = read_json(path)
    missing = lacking(content, fields)
    if missing:
        raise UserError(
            f"{path} lacks {missing}: it is of another version of posvit_tf or was changed; bring it "
            "back, name another workdir, or train again"
        )
    return content


def read_result(workdir: Path) -> dict:
    """The content of result.json.

    Raises:
        UserError: the workdir holds no finished run, or the file is damaged.
    """
    if not (workdir / "result.json").exists():
        raise UserError(
            f"{workdir} holds no finished run (no result.json): name the workdir of one, or run its "
            "command to the end"
        )
    content = read_json(workdir / "result.json")
    known = content.get("task") in task.TASKS
    missing = lacking(content, task.find(content["task"]).RESULT_FIELDS if known else "task")
    if not known:
        missing = missing or f"a task of this version, and has {content['task']!r}"
    if missing:
        raise UserError(
            f"{workdir / 'result.json'} is damaged: delete it, and the same command makes it again (it "
            f"lacks {missing})"
        )
    return content


def check_same(recorded: ConfigDict, wanted: ConfigDict, workdir: Path) -> None:
    """Raises UserError naming the fields in which two configs differ."""
    if recorded.get("task") == wanted.task:
        complete(recorded)
    old, new = flat(plain(recorded)), flat(plain(wanted))
    differing = [
        f"{field} {old.get(field)!r} there, {new.get(field)!r} here"
        for field in sorted((old.keys() | new.keys()) - {"name"})  # digits: is digits
        if old.get(field) != new.get(field)
    ]
    if differing:
        raise UserError(
            f"workdir {workdir} holds a run of another config ({'; '.join(differing[:4])}"
            f"{'; ...' if len(differing) > 4 else ''}): choose another --workdir, "
            "or start from its weights with --config.init_from"
        )


def command_line() -> str:
    """The command of this process, as one would paste it."""
    program, *words = sys.argv
    own = Path(program).name in ("posvit", "__main__.py")
    return shlex.join(["posvit", *words] if own else ["python", program, *words])


def command() -> str:
    """The command line, versions and git commit of this process, as text."""
    commit = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    installed = {found.name: found.version for found in importlib.metadata.distributions()}
    versions = " ".join(f"{name}={installed[name]}" for name in VERSIONS if name in installed)
    cluster = os.environ.get("TF_CONFIG")
    line = (f"TF_CONFIG={shlex.quote(cluster)} " if cluster else "") + command_line()
    return (
        f"{time.strftime('%Y-%m-%d %H:%M:%S')}\n{line}\n"
        f"python={platform.python_version()} {versions}\ncommit={commit or 'none'}\n\n"
    )


def machine() -> str:
    """Processor, number of cores, and how busy they are."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else ()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor()
    return f"{processor}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


class Start(NamedTuple):
    """One start of a run, as `command` wrote it: the time, the command line, versions, the commit."""

    time: str
    command: str
    versions: dict[str, str]
    commit: str

    @property
    def again(self) -> str:
        """The command without its --workdir, where the same run would only be told again."""
        words, kept = iter(shlex.split(self.command)), []
        for word in words:
            if word in ("--workdir", "-workdir"):
                next(words, None)
            elif not word.lstrip("-").startswith("workdir="):
                kept.append(word)
        return shlex.join(kept)


def first_start(workdir: Path) -> Start:
    """How the run of a workdir was started first; later starts went on with it.

    Raises:
        UserError: command.txt is missing or damaged.
    """
    path = workdir / "command.txt"
    try:
        moment, line, versions, commit = path.read_text().partition("\n\n")[0].splitlines()
        pairs = dict(word.split("=", 1) for word in versions.split())
        shlex.split(line)  # `Start.again` does
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}): name the workdir of a run, or bring the file back"
        ) from error
    return Start(moment, line, pairs, commit.removeprefix("commit="))


def write_json(path: Path, content: dict) -> None:
    """Writes the file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(temporary, path)


def tell_files(result: dict, workdir: Path) -> None:
    """Prints where a run's pictures and figures are, with the first sentence of each caption."""
    for name, caption in result["captions"].items():
        print(f"{workdir / 'plots' / name}: {caption.partition('. ')[0]}")
    print(workdir / "result.json")
