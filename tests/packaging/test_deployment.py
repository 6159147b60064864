"""What is deployed: the Kubernetes manifests fit their schemas, and name what the service has."""

import json
import re
from pathlib import Path

import pytest

from tagwood.cli.serve import serve
from tagwood.service.settings import GRACEFUL

yaml = pytest.importorskip("yaml")
DEPLOY = Path(__file__).parents[2] / "deploy"
TEXT = (DEPLOY / "kubernetes.yaml").read_text()
MANIFESTS = list(yaml.safe_load_all(TEXT))
DEPLOYMENT = next(one for one in MANIFESTS if one["kind"] == "Deployment")
CONTAINER = DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one["kind"])
def test_manifests_fit_the_schema(manifest):
    validator = pytest.importorskip("kubernetes_validate")
    validator.validate(manifest, "1.31", strict=True)
    broken = {**manifest, "spec": {**manifest["spec"], "nothing": 1}}
    with pytest.raises(validator.ValidationError):
        validator.validate(broken, "1.31", strict=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_lines_about_filters_can_be_uncommented():
    text, changed = re.subn(r"^( +)# (- .*filters.*)$", r"\1\2", TEXT, flags=re.M)
    deployment = next(one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert changed == 3
    assert "--filters=/filters" in pod["containers"][0]["args"]
    assert {"name": "filters", "mountPath": "/filters"} in pod["containers"][0]["volumeMounts"]
    assert "filters" in {one["name"] for one in pod["volumes"]}
    pytest.importorskip("kubernetes_validate").validate(deployment, "1.31", strict=True)


def test_the_container_is_unprivileged_and_the_model_read_only():
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    mounts = {one["name"]: one for one in CONTAINER["volumeMounts"]}
    assert mounts["models"]["readOnly"]
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    user = next(line.split()[1] for line in lines if line.startswith("USER"))
    assert int(user) == DEPLOYMENT["spec"]["template"]["spec"]["securityContext"]["runAsUser"]


def test_arguments_and_probes_exist():
    options = {"--" + name.replace("_", "-") for name in serve.__annotations__}
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    default = json.loads(next(line for line in lines if line.startswith("CMD")).removeprefix("CMD"))
    given = {word.partition("=")[0] for word in (*CONTAINER["args"], *default) if word.startswith("--")}
    assert given <= options
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/health"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/ready"


def test_an_image_is_built_from_the_sources_only():
    left_out = set((DEPLOY.parent / ".dockerignore").read_text().splitlines())
    assert {".git", ".venv", ".cache", "build", "dist"} <= left_out
    assert not left_out & {"src", "cpp", "CMakeLists.txt", "LICENSE", "README.md", "constraints.txt", "pyproject.toml"}


def test_a_pod_waits_longer_than_the_service_needs_to_stop():
    wait = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    assert DEPLOYMENT["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > wait + GRACEFUL + 10


def test_a_pod_without_a_model_is_alive_and_not_ready():
    assert "--wait-for-model" in CONTAINER["args"]
    assert CONTAINER["startupProbe"]["httpGet"]["path"] == "/health"
