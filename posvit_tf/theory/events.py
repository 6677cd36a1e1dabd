"""The three events of a run (paper, section 3), read off its trace."""

from collections.abc import Sequence


def events(trace: Sequence[dict[str, float]], linear_error: float) -> dict[str, int | None]:
    """The steps of the three events, None for one that never comes.

    t1: the test error is within 10% of the linear rule's: the model is a linear rule.
    t2: gamma - rho is past half its final value: A has learned the sets.
    t3: the risk is below a tenth of its value at t2: alpha grows again and the model fits.

    Args:
        trace: of `processes.Run`: step, risk, test_error, gamma, rho.
        linear_error: of the best linear rule.
    """

    def first(condition) -> dict[str, float] | None:
        return next((record for record in trace if condition(record)), None)

    def gap(record):
        return record["gamma"] - record["rho"]

    final = gap(trace[-1])
    one = first(lambda record: record["test_error"] <= 1.1 * linear_error)
    two = first(lambda record: gap(record) > final / 2) if final > 0 else None
    three = two and first(
        lambda record: record["step"] > two["step"] and record["risk"] < two["risk"] / 10
    )
    found = {"t1": one, "t2": two, "t3": three}
    return {name: record and record["step"] for name, record in found.items()}
