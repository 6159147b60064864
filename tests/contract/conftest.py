"""What the contract tests share: the problem every model solves, and each model fitted to it once."""

import pytest
from model_factories import CASES, Rows, cases

SHAPE = {"n_rows": 48, "n_labels": 12, "n_colours": 3, "n_features": 24, "seed": 1}


@pytest.fixture(params=cases())
def case(request):
    """A kind of model."""
    return CASES[request.param]


@pytest.fixture
def rows(case) -> Rows:
    """The checkerboard in the form that the model reads."""
    return case.rows(**SHAPE)


@pytest.fixture(scope="session")
def fitted_models():
    return {}


@pytest.fixture
def model(request, case, rows, fitted_models):
    """A fitted model, shared by tests: prediction changes nothing."""
    name = request.node.callspec.params["case"]
    if name not in fitted_models:
        fitted_models[name] = case.fit(rows)
    return fitted_models[name]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep stamps of verified files out of the home folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
