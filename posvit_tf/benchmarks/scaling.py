"""How time and memory of a train step grow with tokens, batch and depth, positional against vanilla.

    python -m posvit_tf.benchmarks.scaling --json=scaling.json --plot=scaling.png

Each point is a process of its own on one core: the median CPU time of a few steps, and the most memory
that a step holds above the built model, traced before at batch 1. An exponent is the slope of the
straight line through the logarithms; keys as tokens/time/positional, batch/memory/content. The last
block goes through the class token alone, so that of depth L about L - 1 blocks cost: its exponent is
above 1.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from posvit_tf.benchmarks import measure

ATTENTIONS = ("positional", "content")
BASE = {"tokens": 257, "batch": 8, "depth": 2}
ALONG = {"tokens": (65, 145, 257, 577, 1025), "batch": (4, 8, 16, 32), "depth": (2, 4, 7)}
PATCH = 4


def status(field: str) -> float:
    """A figure of /proc/self/status in MB: VmRSS, or VmHWM, the most since `clear_refs`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def point(attention: str, tokens: int, batch: int, depth: int) -> dict[str, float]:
    """CPU seconds of a train step and MB above the built model, in this process."""
    measure.use_cores(1)
    from posvit_tf.benchmarks.contestants import Shape, ours

    image = PATCH * round((tokens - 1) ** 0.5)
    shape = Shape(image, PATCH, batch, depth, 384, 12, 384)
    _, small, _ = ours(shape._replace(batch=1), attention, xla=False)
    _, step, _ = ours(shape, attention, xla=False)
    small()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    seconds = []
    for _ in range(5):
        began = time.process_time()
        step()
        seconds.append(time.process_time() - began)
    return {"time": float(np.median(seconds[2:])), "memory": status("VmHWM") - before}


def measure_all() -> dict:
    """(what grows, attention, its value) -> point, each in a fresh process."""
    found, points = {}, {}
    for along, values in ALONG.items():
        for attention in ATTENTIONS:
            for value in values:
                numbers = {**BASE, along: value}
                key = (attention, *numbers.values())
                if key not in points:
                    command = [sys.executable, "-m", "posvit_tf.benchmarks.scaling", "--point"]
                    done = subprocess.run(
                        [*command, ",".join(map(str, key))], check=True, stdout=subprocess.PIPE
                    )
                    points[key] = json.loads(done.stdout.splitlines()[-1])
                found[along, attention, value] = points[key]
    return found


def exponent(values, figures) -> float:
    """k of figure ~ value^k, by least squares on the logarithms."""
    return float(np.polyfit(np.log(values), np.log(figures), 1)[0])


def draw(found: dict, path: Path) -> None:
    """Time and memory against tokens, batch and depth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(2, len(ALONG), figsize=(11, 6.4), layout="constrained")
    colors = {"positional": "#0072b2", "content": "#d55e00"}
    names = {"positional": "positional", "content": "vanilla (content)"}
    units = {"time": "CPU seconds a step", "memory": "MB above the model"}
    for column, (along, values) in enumerate(ALONG.items()):
        fixed = ", ".join(f"{k} {v}" for k, v in BASE.items() if k != along)
        for row, what in enumerate(units):
            panel = axes[row, column]
            for attention in ATTENTIONS:
                figures = [found[along, attention, value][what] for value in values]
                panel.loglog(
                    values,
                    figures,
                    marker="o" if attention == "positional" else "s",
                    color=colors[attention],
                    label=f"{names[attention]}, exponent {exponent(values, figures):.2f}",
                )
            panel.set_xticks(values, map(str, values))
            panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            panel.yaxis.set_major_formatter("{x:g}")
            panel.minorticks_off()
            panel.set_xlabel(f"{along} ({fixed})")
            panel.set_ylabel(units[what])
            panel.grid(alpha=0.3)
            panel.legend(fontsize=8)
    figure.suptitle("A train step, width 384, 12 heads, MLP 384, one core")
    figure.savefig(path, dpi=140)


def main() -> None:
    """Measures every point, prints the table and the exponents, writes --json and --plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="write the exponents to this file")
    parser.add_argument("--plot", type=Path, help="write the picture to this PNG file")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.point:
        attention, *numbers = flags.point.split(",")
        print(json.dumps(point(attention, *map(int, numbers))))
        return
    print(measure.machine())
    found = measure_all()
    measure.table(
        ("grows", "value", "attention", "CPU s a step", "MB above the model"),
        (
            (along, value, attention, f"{p['time']:.3f}", f"{p['memory']:.0f}")
            for (along, attention, value), p in found.items()
        ),
    )
    exponents = {
        f"{along}/{what}/{attention}": exponent(
            values, [found[along, attention, value][what] for value in values]
        )
        for along, values in ALONG.items()
        for what in ("time", "memory")
        for attention in ATTENTIONS
    }
    ratio = found["batch", "positional", 16]["memory"] / found["batch", "content", 16]["memory"]
    exponents["257/memory/positional:content"] = ratio
    print()
    measure.table(("exponent", ""), ((k, f"{v:.2f}") for k, v in exponents.items()))
    measure.write(flags.json, exponents)
    if flags.plot:
        draw(found, flags.plot)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
