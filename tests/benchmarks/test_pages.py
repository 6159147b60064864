"""The published pages of benchmarks and experiments are what the code writes from the published results."""

import inspect
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import SHARED
from benchmarks.report import MARKER

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = sorted(
    str(path.parent.relative_to(ROOT)).replace("/", ".")
    for kind in ("benchmarks", "experiments")
    for path in (ROOT / kind).glob("*/__main__.py")
    if path.parent.name != "scale"  # its figures are on a page written by hand, docs/scale.md
)
MODULES = [
    *(f"{name}.__main__" for name in SUBJECTS),
    "benchmarks.linear_tree.growth",
    "benchmarks.linear_tree.seeds",
]


@pytest.mark.parametrize("name", MODULES)
def test_the_page_is_made_from_its_results(name, tmp_path):
    if name == "experiments.eagle.__main__" and not SHARED.exists():
        pytest.skip("its pictures need ../shared/data")
    module = import_module(name)
    page = module.PAGE
    shutil.copy(page.published / f"{page.name}.json", tmp_path)
    options = {"out": tmp_path} if "out" in inspect.signature(module.page_blocks).parameters else {}
    page.write(tmp_path, module.page_blocks(page.load(tmp_path), **options))
    text = (tmp_path / f"{page.name}.md").read_text(encoding="utf-8")
    assert text == (page.published / f"{page.name}.md").read_text(encoding="utf-8")
    assert len(text.partition(MARKER)[0].splitlines()) < 40  # the introduction fits one screen
