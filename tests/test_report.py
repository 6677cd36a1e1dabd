"""The pages of real runs, and a browser that looks at them."""

import base64
import csv
import html
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import numpy as np
import pytest

from posvit_tf import config, report
from posvit_tf.cli import main
from posvit_tf.data.splits import Split
from posvit_tf.pages import run
from posvit_tf.tasks import associate, classify
from posvit_tf.training import logbook, run_files

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
PHONE = 390  # pixels
NAMES = ('<b onclick="alert(1)">&amp;</b>', "'quoted' \"twice\"", "Ünïcödé", *map(str, range(97)))

LOOK = """
<script>
onload = () => {
  const facts = [...document.querySelectorAll("iframe")].map(({contentDocument: page}) => ({
    width: page.documentElement.scrollWidth,
    scrolled: [...page.querySelectorAll(".scroll")].filter(b => b.scrollWidth > b.clientWidth).length,
    pictures: page.images.length,
    broken: [...page.images].filter(picture => !picture.naturalWidth).length,
    text: page.body.innerText,
  }));
  document.body.innerText = "FACTS" + JSON.stringify(facts) + "END";
};
</script>
"""


def look(pages: Sequence[Path], folder: Path) -> tuple[list[dict], list[str]]:
    """What a browser of a phone's width makes of pages, and what its console says."""
    frame = folder / "frame.html"
    frames = "".join(
        f'<iframe src="{p.as_uri()}" width={PHONE} height=800></iframe>' for p in pages
    )
    frame.write_text(f"<!doctype html><meta charset=utf-8><body>{frames}{LOOK}")
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--allow-file-access-from-files", "--enable-logging=stderr", "--v=0"),
            *(f"--user-data-dir={folder / 'browser'}", frame.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    facts = html.unescape(done.stdout.partition("FACTS")[2].partition("END")[0])
    return json.loads(facts), [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


@pytest.fixture(scope="module")
def workdirs(tiny, tmp_path_factory):
    """A run of content attention, and one of the theory."""
    found = {}
    for name, task, settings in (
        ("content", classify, tiny({"model.attention": "content"})),
        ("theory", associate, config.load("spatial:setting=tiny", {"steps": 3, "seeds": 2})),
    ):
        found[name] = tmp_path_factory.mktemp(name)
        with run_files.claimed(found[name], settings):
            task.run(settings, found[name])
    return found


@pytest.fixture(scope="module")
def hundred(workdirs, tmp_path_factory):
    """The page of a model without patches, for a hundred classes of odd names."""
    workdir = shutil.copytree(workdirs["content"], tmp_path_factory.mktemp("odd") / "<i>&")
    images = keras.Input((8, 8, 1), dtype="uint8")
    model = keras.Model(images, keras.layers.Dense(100)(keras.layers.Flatten()(images)))
    rng = np.random.default_rng(0)
    test = Split(rng.integers(0, 256, (300, 8, 8, 1), "uint8"), np.repeat(np.arange(100), 3))
    return run.write(workdir, model, test, rng.normal(size=(300, 100)).astype("float32"), NAMES)


def test_a_run_ends_with_its_page_and_the_command_makes_the_same_one(workdirs):
    page = workdirs["content"] / "report.html"
    text = page.read_text()
    assert len(text) < 500_000
    assert not re.search(r"(src|href)=\"(?!data:|#)", text)  # nothing from elsewhere
    page.unlink()
    assert main(["posvit", "report", str(page.parent)]) == 0
    assert page.read_text() == text  # so the accuracy, too, is result.json's


def test_the_metrics_can_be_downloaded_as_a_table(workdirs):
    text = (workdirs["content"] / "report.html").read_text()
    content = base64.b64decode(re.search(r'href="data:text/csv[^,]*,([^"]*)"', text)[1]).decode()
    lines = logbook.read_lines(workdirs["content"] / "metrics.jsonl")
    rows = list(csv.DictReader(io.StringIO(content)))
    assert len(rows) == len(lines) and set(rows[0]) == {key for line in lines for key in line}
    assert [float(row["loss"]) for row in rows] == [line["loss"] for line in lines]


def test_names_are_no_html(hundred):
    text = hundred.read_text()
    assert "<b onclick" not in text and "<i>&" not in text
    assert "&lt;b onclick" in text and "no grid of patches" in text


def test_what_has_no_page_is_one_line(workdirs, tmp_path, capsys):
    assert main(["posvit", "report", str(tmp_path)]) == 2
    assert "holds no finished run" in capsys.readouterr().err
    assert main(["posvit", "report", str(workdirs["content"]), str(workdirs["theory"])]) == 2
    assert "task associate" in capsys.readouterr().err


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def holding(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def without(field: str) -> Callable[[Path], object]:
    def change(path):
        fields = json.loads(path.read_text())
        del fields[field]
        path.write_text(json.dumps(fields))

    return change


@pytest.mark.parametrize(
    ("kinds", "file", "change", "message"),
    [
        ("content theory sweep", "config.json", holding("{}"), "config.json lacks task[:,]"),
        ("content theory sweep", "config.json", holding("[]"), "config.json holds no JSON object"),
        ("content theory sweep", "result.json", holding("{}"), "result.json is damaged"),
        ("content theory sweep", "result.json", without("captions"), "is damaged: .*lacks captions"),
        ("content", "config.json", without("data"), "config.json lacks data.name: "),
        ("content sweep", "result.json", without("test"), "is damaged: .*lacks test.accuracy, "),
        ("content theory", "command.txt", remove, "command.txt cannot be read"),
        ("content theory", "command.txt", holding("date\n'\na=b\nc\n\n"), "command.txt cannot be read"),
        ("theory", "plots", remove, "plots/.*.png cannot be read"),
        ("sweep", "", remove, "runs holds no finished run"),
    ],
)  # fmt: skip
def test_a_damaged_workdir_is_one_line(kinds, file, change, message, workdirs, tmp_path, capsys):
    for kind in kinds.split():
        workdir = tmp_path / kind
        run = workdir / "runs/a/seed_0" if kind == "sweep" else workdir
        shutil.copytree(workdirs["theory" if kind == "theory" else "content"], run)
        if kind == "sweep":
            fields = {"task": "sweep", "config": "figure7", "captions": {}}
            (workdir / "result.json").write_text(json.dumps(fields))
        change(run / file)
        assert main(["posvit", "report", str(workdir)]) == 2
        assert re.fullmatch(f"error: .*{message}.*\n", capsys.readouterr().err)


@pytest.mark.skipif(not CHROMIUM, reason="no chromium here; .ci/run installs Debian's")
def test_a_browser_shows_every_picture_within_a_phones_width_and_has_no_complaint(
    workdirs, hundred, tmp_path
):
    compared = report.write([workdirs["content"], hundred.parent], tmp_path / "compare.html")
    theory = report.write([workdirs["theory"]], None)
    pages = [workdirs["content"] / "report.html", hundred, compared, theory]
    facts, console = look(pages, tmp_path)
    assert not console
    for fact, pictures in zip(facts, (2 + 1 + 2 + 16, 2 + 1 + 24, 2, 3), strict=True):
        assert fact["width"] <= PHONE and not fact["scrolled"]
        assert not fact["broken"] and fact["pictures"] >= pictures
    assert NAMES[0] in facts[1]["text"]

    bad = tmp_path / "bad.html"
    bad.write_text(
        '<img src="data:image/png;base64,AA"><p style="width:900px">x<script>x.y</script>'
        '<div class="scroll" style="overflow:auto; width:90px"><p style="width:900px">x</div>'
    )
    (fact,), console = look([bad], tmp_path)
    assert fact["width"] > PHONE and fact["broken"] == fact["scrolled"] == 1 and console
