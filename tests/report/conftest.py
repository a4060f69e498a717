import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def document() -> dict[str, Any]:
    """An estimate with made-up round figures: it exercises the layout, it claims nothing about any model."""
    return json.loads((DATA / "estimate_layout.json").read_text(encoding="utf-8"))
