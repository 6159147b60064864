"""What the tests of models share."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep stamps of verified files out of the home folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
