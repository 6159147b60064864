"""The MLflow flavour: log, load and call a Tagger through MLflow."""

import pytest

from tagwood import Tagger
from tagwood.errors import InputError

mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
pd = pytest.importorskip("pandas", reason="the extra mlflow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow itself

from tagwood import mlflow as flavour  # noqa: E402

TEXTS = ["oak and beech", "oak leaves", "salmon and trout", "trout streams", "beech nuts", "salmon ladders"] * 4
LABELS = [["trees"], ["trees"], ["fish"], ["fish"], ["trees"], ["fish"]] * 4


@pytest.fixture(scope="module")
def tagger():
    return Tagger(quality="fast").fit(TEXTS, LABELS)


def test_a_saved_model_loads_as_tagger_and_as_function(tagger, tmp_path):
    flavour.save_model(tagger, tmp_path / "model")
    assert flavour.load_model(str(tmp_path / "model")).tag_one("salmon", k=1).names == ["fish"]
    function = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    answer = function.predict(pd.DataFrame({"id": [1, 2], "text": ["old oak", "a trout"]}))
    assert [labels[0] for labels in answer["labels"]] == ["trees", "fish"]
    assert answer["scores"][0][0] == pytest.approx(tagger.tag_one("old oak")[0].score)


def test_a_model_is_logged_to_a_run_and_found_again(tagger, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # no database and no reports over the network in a test
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        logged = flavour.log_model(tagger, "subjects")
    assert flavour.load_model(logged.model_uri).tag_one("beech", k=1).names == ["trees"]


def test_options_of_tag_are_checked(tagger):
    function = flavour._TextFunction(tagger)
    assert [len(labels) for labels in function.predict(["oak"], {"k": 1})["labels"]] == [1]
    with pytest.raises(InputError, match="params must be among k, promise"):
        function.predict(["oak"], {"limit": 1})
    with pytest.raises(InputError, match="must have the column 'text' or a single column; got title, body"):
        function.predict(pd.DataFrame({"title": ["a"], "body": ["b"]}))


def test_only_a_tagger_and_an_empty_folder_are_taken(tagger, tmp_path):
    with pytest.raises(InputError, match="takes a Tagger"):
        flavour.save_model(tagger.model_, tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "file").touch()
    with pytest.raises(InputError, match="must be an empty or absent folder"):
        flavour.save_model(tagger, tmp_path / "b")
