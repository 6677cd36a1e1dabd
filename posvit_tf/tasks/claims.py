"""The paper's claims as a table: setting, what was found over the seeds, holds or not."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ml_collections import ConfigDict

from posvit_tf.fields import Field
from posvit_tf.tasks.theory_runs import SEEDS, page, seeds
from posvit_tf.training import run_files

__all__ = ["RESULT_FIELDS", "check", "declared", "page", "run", "tell"]


class Row(NamedTuple):
    """A claim and what was found of it."""

    claim: str
    setting: str
    found: str
    holds: bool


RESULT_FIELDS = "config claims"


def declared(config: Mapping) -> dict[str, Field]:
    """As `task.Task`; fewer than 5 seeds are too few for a claim."""
    return {**SEEDS, "seeds": SEEDS["seeds"]._replace(least=5)}


def check(config: ConfigDict) -> None:
    """As `task.Task`: any seeds will do."""


def run(config: ConfigDict, workdir: Path) -> dict:
    """Tries every claim; prints the table as it grows and writes claims.md and result.json.

    Returns:
        The content of result.json.
    """
    from posvit_tf.tasks import paper_claims

    rows = []
    for row in paper_claims.attempts(seeds(config)):
        rows.append(row)
        verdict = "holds" if row.holds else "FAILS"
        print(f"{verdict}  {row.claim} [{row.setting}]: {row.found}", flush=True)
    (workdir / "claims.md").write_text(markdown(rows, config.seeds))
    result = {
        "task": config.task,
        "config": config.name,
        "seeds": list(seeds(config)),
        "claims": [row._asdict() | {"holds": bool(row.holds)} for row in rows],
    }
    run_files.write_json(workdir / "result.json", result)
    return result


def tell(result: dict, workdir: Path) -> None:
    """Prints how many claims held and where the table is."""
    held = sum(claim["holds"] for claim in result["claims"])
    print(f"{held} of {len(result['claims'])} claims hold: {workdir / 'claims.md'}")


def markdown(rows: list[Row], seeds: int) -> str:
    """The table as Markdown."""
    lines = [
        f"Mean +- standard deviation over {seeds} seeds unless said.",
        "",
        "| claim | setting | found | holds |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        verdict = "yes" if row.holds else "**no**"
        lines.append(f"| {row.claim} | {row.setting} | {row.found} | {verdict} |")
    return "\n".join(lines) + "\n"
