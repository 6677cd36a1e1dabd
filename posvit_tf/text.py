"""Words of the messages and pages that people read."""


def counted(number: int, noun: str) -> str:
    """1, picture -> 1 picture; 1200, class folder -> 1,200 class folders; class -> classes."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"
