"""The page on data formats names every format and every field that the readers know."""

from pathlib import Path

import pytest

from tagwood.data import FORMATS
from tagwood.data import records as fields

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "data-formats.md"


@pytest.mark.parametrize(
    "word", [*FORMATS, *fields.TITLE, *fields.BODY, *fields.LABELS, *fields.ID, *fields.GROUP]
)
def test_the_page_names_it(word):
    assert f"`{word}`" in PAGE.read_text(encoding="utf-8")
