"""What the contract tests share: the problem every model solves, and each model fitted to it once."""

import pytest
from checkerboard import checkerboard
from model_factories import MODELS


@pytest.fixture(scope="session")
def problem():
    return checkerboard(n_rows=48, n_labels=12, n_colours=3, n_features=24, seed=1)


@pytest.fixture(params=list(MODELS))
def make(request):
    """Return a function that makes the unfitted model."""
    return MODELS[request.param]


@pytest.fixture(scope="session")
def fitted_models(problem):
    return {name: new().fit(problem.X_train, problem.Y_train) for name, new in MODELS.items()}


@pytest.fixture(params=list(MODELS))
def model(request, fitted_models):
    """A fitted model, shared by tests: prediction changes nothing."""
    return fitted_models[request.param]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep stamps of verified files out of the home folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
