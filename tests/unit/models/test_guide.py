"""The guide to models: its examples run."""

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


def test_the_examples_of_the_guide_run():
    """All Python blocks of the guide, one after the other, must run and their assertions hold."""
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 7
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), {"__name__": "guide"})
