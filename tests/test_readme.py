import re
from pathlib import Path

import numpy as np

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_first_two_commands():
    commands = re.findall(r"^    (.*)$", README, re.MULTILINE)[:2]
    assert commands == [
        "pip install -e . && python main.py --config=digits",
        'pip install -e ".[test]" && pytest',
    ]


def test_the_layers_work_in_your_own_model_as_printed():
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "compile" in b]
    names = {}
    exec(block, names)
    images, labels = np.random.rand(8, 32, 32, 3).astype("float32"), np.arange(8)
    history = names["model"].fit(images, labels, epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]
