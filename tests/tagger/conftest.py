import pytest
from library import make_library

from tagwood import LinearTree, Tagger


@pytest.fixture(scope="session")
def library():
    return make_library()


@pytest.fixture(scope="session")
def tagger(library):
    """Do not change it: all tests share it."""
    return Tagger(model=LinearTree(threads=1)).fit(*library)
