import pytest
from library import make_library
from services import LIMITS
from starlette.testclient import TestClient

from tagwood import LabelVocab, LinearTree, Tagger
from tagwood.service.app import create_app
from tagwood.service.settings import ServiceSettings


@pytest.fixture(scope="session")
def tagger():
    """Do not change it: all tests share it."""
    texts, labels = make_library()
    vocab = LabelVocab.from_names(
        ["trees", "water", "stars", "stones", "never used", "<script>alert(1)</script>"],
        uris=[f"http://example.org/{number}" for number in range(6)],
        languages={"de": ["Bäume", "Wasser", "Sterne", "Steine", "", ""]},
    )
    return Tagger(model=LinearTree(threads=1, max_leaf_size=2, arity=2)).fit(texts, labels, vocab=vocab)


@pytest.fixture
def settings(tmp_path):
    return ServiceSettings(
        limits=LIMITS, feedback=tmp_path / "feedback.jsonl", corrections=tmp_path / "corrections.jsonl"
    )


@pytest.fixture
def client(tagger, settings):
    with TestClient(create_app(tagger, settings), base_url="http://localhost") as client:
        yield client
