"""Schemathesis asks the service whatever its own OpenAPI document allows, and what it does not.

No answer may be a 5xx or differ from the document, no wrong request may be accepted and no right one refused. The suite
runs a slice in one process; the whole, against a running service, is one command: python tests/support/ask_whole.py.
"""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tagwood.service.app import ROUTES, create_app
from tagwood.service.settings import ServiceSettings

BY_PARAMETERS = [route for route in ROUTES if route.method == "POST" or route.tag in ("labels", "groups")]
BY_PARAMETERS = [route for route in BY_PARAMETERS if route.path != "/v1/corrections"]
CASES = [(route, GenerationMode.POSITIVE) for route in ROUTES]
CASES += [(route, GenerationMode.NEGATIVE) for route in BY_PARAMETERS]


@pytest.fixture(scope="module")
def asked(tagger, tmp_path_factory):
    folder = tmp_path_factory.mktemp("journals")
    settings = ServiceSettings(feedback=folder / "f.jsonl", corrections=folder / "c.jsonl")
    return schemathesis.openapi.from_asgi("/openapi.json", create_app(tagger, settings))


@pytest.mark.parametrize(("route", "mode"), CASES, ids=lambda value: getattr(value, "path", None) or value.name)
def test_generated_requests_get_documented_answers(asked, route, mode):
    # Languages that a vocabulary does not have are refused with 400, as Annif does; no schema can tell which.
    excluded = (
        [positive_data_acceptance]
        if route.tag in ("annif", "reconciliation") and mode == GenerationMode.POSITIVE
        else []
    )

    @hypothesis_settings(
        max_examples=5,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=asked[route.path][route.method].as_strategy(generation_mode=mode))
    def ask(case):
        case.call_and_validate(excluded_checks=excluded)

    ask()
