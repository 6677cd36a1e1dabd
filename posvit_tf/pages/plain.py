"""report.html of a run that trained no classifier: its pictures, its figures, its command."""

from pathlib import Path

from posvit_tf.analysis.seeds import told
from posvit_tf.errors import UserError
from posvit_tf.fields import flat
from posvit_tf.pages import html
from posvit_tf.training import run_files


def figures(result: dict, prefix: str = "") -> list[tuple[str, str]]:
    """(name, value) of each figure in a result, nested ones by dotted names, seeds in one line."""
    rows = []
    for name, value in result.items():
        if isinstance(value, dict) and "per_seed" in value:
            rows.append((prefix + name, told(value).replace("+-", "\N{PLUS-MINUS SIGN}")))
        elif isinstance(value, dict):
            rows += figures(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, html.number(value)))
    return rows


def write(workdir: Path) -> Path:
    """Writes report.html from what the run left in its workdir.

    Raises:
        UserError: a file of the workdir is missing or damaged, or the page cannot be written.
    """
    result = run_files.read_result(workdir)
    captions = result.pop("captions", {})
    tables = {
        name: html.table(result.pop(name))
        for name, value in tuple(result.items())
        if isinstance(value, list) and value and isinstance(value[0], dict)
    }
    try:
        pictures = {name: (workdir / "plots" / name).read_bytes() for name in captions}
    except OSError as error:
        raise UserError(
            f"{error.filename} cannot be read ({error.strerror}): bring it back to make the page"
        ) from error
    return html.write(
        workdir / run_files.REPORT,
        "plain.html",
        workdir=workdir,
        result=result,
        figures=figures(result),
        tables=tables,
        pictures=[
            (html.data_uri("image/png", pictures[name]), caption)
            for name, caption in captions.items()
        ],
        config=flat(run_files.read_config(workdir)),
        start=run_files.first_start(workdir),
    )
