"""The MLflow flavour: log, load and call a Tagger through MLflow."""

import numpy as np
import pytest

from tagwood import Tagger
from tagwood.errors import InputError, NotFittedError

mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
pd = pytest.importorskip("pandas", reason="the extra mlflow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow itself

from mlflow.models import ModelSignature  # noqa: E402
from mlflow.types import ColSpec, Schema  # noqa: E402

from tagwood import mlflow as flavour  # noqa: E402

TEXTS = ["oak and beech", "oak leaves", "salmon and trout", "trout streams", "beech nuts", "salmon ladders"] * 4
LABELS = [["trees"], ["trees"], ["fish"], ["fish"], ["trees"], ["fish"]] * 4


@pytest.fixture(scope="module")
def tagger():
    return Tagger(quality="fast").fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def folder(tagger, tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "model"
    flavour.save_model(tagger, path)
    return str(path)


@pytest.fixture(scope="module")
def function(folder):
    return mlflow.pyfunc.load_model(folder)


def test_a_saved_model_loads_as_tagger_and_as_function(tagger, folder, function):
    assert flavour.load_model(folder).tag_one("salmon", k=1).names == ["fish"]
    answer = function.predict(pd.DataFrame({"id": [1, 2], "text": ["old oak", "a trout"]}))
    assert [labels[0] for labels in answer["labels"]] == ["trees", "fish"]
    assert answer["scores"][0][0] == pytest.approx(tagger.tag_one("old oak")[0].score)


@pytest.mark.parametrize(
    "given",
    [
        ["old oak", "a trout"],
        {"text": ["old oak", "a trout"]},
        {"query": np.array(["old oak", "a trout"])},
        [{"text": "old oak"}, {"text": "a trout"}],
        pd.Series(["old oak", "a trout"]),
        pd.DataFrame({"query": ["old oak", "a trout"]}),
        np.array(["old oak", "a trout"]),
        np.array([["old oak"], ["a trout"]]),
    ],
)
def test_texts_come_as_lists_columns_and_tables(function, given):
    assert [labels[0] for labels in function.predict(given)["labels"]] == ["trees", "fish"]


@pytest.mark.parametrize("given", ["old oak", {"text": "old oak"}, [{"text": "old oak"}]])
def test_one_text_is_one_row(function, given):
    assert [labels[0] for labels in function.predict(given)["labels"]] == ["trees"]


def test_options_of_tag_are_parameters_of_the_function(function):
    for name, value, expected in (
        ("k", 1, [["trees"]]),
        ("restrict", ["fish"], [["fish"]]),
        ("exclude", ["fish"], [["trees"]]),
        ("threshold", 1.0, [[]]),
    ):
        assert function.predict(["old oak"], params={name: value})["labels"].tolist() == expected
    assert function.predict(["old oak"])["labels"].map(len).tolist() == [2]


@pytest.mark.parametrize("ids", [[10**9, 7], [("shop 1", 7), ("shop 2", 7)]])
def test_ids_are_returned_as_given(ids, tmp_path):
    flavour.save_model(
        Tagger(quality="fast").fit(TEXTS, [[ids[label == ["fish"]]] for label in LABELS]), tmp_path / "m"
    )
    answer = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict("old oak", params={"k": 1})
    assert answer["ids"].tolist() == [[ids[0]]]


def test_a_signature_of_the_user_stays(tagger, tmp_path):
    schema = Schema([ColSpec("string", "text")])
    flavour.save_model(tagger, tmp_path / "m", signature=ModelSignature(inputs=schema))
    function = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert function.metadata.signature.inputs == schema
    assert function.predict({"text": "old oak"})["labels"][0][0] == "trees"


def test_a_model_is_logged_to_a_run_and_found_again(tagger, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # no database and no reports over the network in a test
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        logged = flavour.log_model(tagger, "subjects")
    assert flavour.load_model(logged.model_uri).tag_one("beech", k=1).names == ["trees"]


def test_wrong_input_is_named(tagger, function):
    with pytest.raises(InputError, match="params must be among k, promise"):
        flavour._TextFunction(tagger).predict(["oak"], {"limit": 1})  # MLflow leaves it out with a warning
    for given in (None, np.array("oak")):
        with pytest.raises(InputError, match="texts must be one entry per row"):
            function.predict(given)
    with pytest.raises(InputError, match="must have the column 'text' or a single column; got title, body"):
        function.predict(pd.DataFrame({"title": ["a"], "body": ["b"]}))


def test_only_a_tagger_and_an_empty_folder_are_taken(tagger, tmp_path):
    with pytest.raises(InputError, match="takes a Tagger"):
        flavour.save_model(tagger.model_, tmp_path / "a")
    with pytest.raises(NotFittedError):
        flavour.save_model(Tagger(), tmp_path / "a")
    assert not (tmp_path / "a").exists()
    (tmp_path / "c").touch()
    with pytest.raises(InputError, match="must be an empty or absent folder"):
        flavour.save_model(tagger, tmp_path / "c")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    with pytest.raises(InputError, match="must be an empty or absent folder"):
        flavour.save_model(tagger, tmp_path / "b")
