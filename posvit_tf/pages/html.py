"""From templates, arrays and rows to one HTML file with everything inside it."""

import base64
import csv
import io
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import jinja2
import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

from posvit_tf.errors import UserError
from posvit_tf.text import counted
from posvit_tf.training import logbook

SIDE = 128  # pixels, of a photo at most

TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("posvit_tf.pages"),
    autoescape=True,  # names of classes and folders may hold < and &
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write(path: Path, template: str, **content) -> Path:
    """Fills in a template and writes it to `path`, as a whole or not at all.

    Raises:
        UserError: the file cannot be written.
    """
    text = TEMPLATES.get_template(template).render(**content)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        # Names of folders may hold bytes that are no text.
        temporary.write_text(text, encoding="utf-8", errors="replace")
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    return path


def data_uri(kind: str, content: bytes) -> str:
    """data:KIND;base64,..."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def png(pixels: np.ndarray) -> str:
    """uint8 (h, w, 3) or (h, w) as a data URI."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "png", optimize=True)
    return data_uri("image/png", buffer.getvalue())


def photo(image: np.ndarray) -> str:
    """uint8 (H, W, C), of 1 or 3 channels, as a data URI, no side above SIDE pixels."""
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    picture.thumbnail((SIDE, SIDE))
    return png(np.asarray(picture))


def svg(figure: Figure) -> str:
    """A figure as a data URI, letters drawn, so that it looks alike everywhere."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "posvit_tf"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return data_uri("image/svg+xml", buffer.getvalue())


def table(rows: Sequence[dict]) -> tuple[list[str], list[list]]:
    """The columns of rows that need not have the same ones, and their cells, "" where one has none."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    return columns, [[row.get(column, "") for column in columns] for row in rows]


def csv_uri(rows: Sequence[dict]) -> str:
    """Rows as a CSV file in a data URI, a header line first."""
    columns, cells = table(rows)
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows(cells)
    return data_uri("text/csv;charset=utf-8", buffer.getvalue().encode(errors="replace"))


def number(value) -> str:
    """A figure as people read it: 4 significant digits, thousands apart; other things as they are."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


TEMPLATES.filters |= {
    "counted": counted,
    "number": number,
    "shell": lambda path: shlex.quote(str(path)),
    "duration": logbook.duration,
}
