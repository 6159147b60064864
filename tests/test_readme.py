"""The README: the excerpt of the demo is what the demo prints, and every path named in the documentation exists."""

import re
from pathlib import Path

import pytest

from tagwood import Tagger, evaluate
from tagwood import demo as pydocs
from tagwood.cli.demo import answer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
POINTS = 1.5  # other patch versions of Python and packages have other docstrings
PATHS = re.compile(r"(?<![\w./-])((?:src|tests|docs|benchmarks|experiments|scripts|cpp)/[\w./-]*\w)")


@pytest.fixture(scope="module")
def demo():
    """Train as ``tagwood demo`` does."""
    train, test = pydocs.build(pydocs.CORE_PACKAGES)
    return Tagger().fit(train.texts, train.labels, vocab=train.vocab), train, test


def test_the_readme_shows_the_size_of_the_demo_corpus(demo):
    _, train, _ = demo
    for name, found in (("rows", train.n_rows), ("labels", train.n_labels)):
        shown = int(re.search(rf"^{name} +([\d,]+)", README, re.MULTILINE)[1].replace(",", ""))
        assert found == pytest.approx(shown, rel=0.05)


def test_the_readme_shows_the_measures_of_the_demo(demo):
    tagger, train, test = demo
    report = evaluate(test.labels, tagger.rank(test.texts, 5), train_labels=train.labels)
    shown = dict(re.findall(r"│ (P@\d) +│ +([\d.]+) │", README))
    assert set(shown) == {"P@1", "P@3", "P@5"}
    for name, value in shown.items():
        assert 100 * report[name] == pytest.approx(float(value), abs=POINTS)


def test_the_readme_shows_answers_of_the_demo(demo):
    tagger, *_ = demo
    question, answers = "", {}
    for left, label in re.findall(r"^│ (.{40}) │ [\d.]+ ([\w.]+) +│", README, re.MULTILINE):
        question = left.strip() or question
        answers.setdefault(question, []).append(label)
    assert len(answers) == 2
    for question, labels in answers.items():
        assert set(labels) <= {label for label, _ in answer(tagger, question)["labels"]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_named_on_a_page_exist(page):
    text = page.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s:]+)\)", text)]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    named = {path for code in re.findall(r"`([^`\n]+)`", text) for path in PATHS.findall(code)}
    missing += [path for path in named if not (ROOT / path).exists()]
    assert not missing
