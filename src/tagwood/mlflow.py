"""MLflow flavour: log a Tagger to a run or a registry, load it back, or serve it as an MLflow model.

In: a fitted `Tagger`. Out: an MLflow model folder with the flavours ``tagwood`` (the Tagger itself, by `load_model`)
and ``python_function`` (texts in, a table of labels and scores out). Needs the extra ``mlflow``.

>>> from tagwood import Tagger, mlflow
>>> mlflow.log_model(tagger, "subjects")                    # doctest: +SKIP
>>> tagger = mlflow.load_model("models:/subjects/3")        # doctest: +SKIP
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tagwood.errors import InputError, MissingExtraError
from tagwood.storage import load, save
from tagwood.tagger import Tagger

FLAVOR = "tagwood"
_MODEL = "model"
_OPTIONS = ("k", "promise", "threshold", "restrict", "exclude", "language")


def save_model(tagger: Tagger, path: str | Path, mlflow_model: Any = None, **metadata: Any) -> None:
    """Save a Tagger as an MLflow model.

    Parameters
    ----------
    tagger
        A fitted Tagger.
    path
        Folder to create.
    mlflow_model
        The `mlflow.models.Model` to complete; MLflow gives it. A new one by default.
    **metadata
        Fields of a new `mlflow.models.Model`, such as ``metadata={"owner": "search"}``.
    """
    mlflow = _import_mlflow()
    if not isinstance(tagger, Tagger):
        raise InputError("the MLflow flavour takes a Tagger", given=type(tagger).__name__)
    path = Path(path)
    if path.exists() and any(path.iterdir()):
        raise InputError(f"{path} must be an empty or absent folder", hint="Choose another path.")
    path.mkdir(parents=True, exist_ok=True)
    save(tagger, path / _MODEL)
    from tagwood import __version__

    described = mlflow.models.Model(**metadata) if mlflow_model is None else mlflow_model
    requirements = [f"tagwood=={__version__}"]
    (path / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    mlflow.pyfunc.add_to_model(described, loader_module="tagwood.mlflow", data=_MODEL, pip_requirements=requirements)
    described.add_flavor(FLAVOR, tagwood_version=__version__, data=_MODEL)
    described.save(str(path / "MLmodel"))


def log_model(tagger: Tagger, name: str, **options: Any) -> Any:
    """Log a Tagger to the active run; `options` are those of `mlflow.models.Model.log`, such as its registered name."""
    mlflow = _import_mlflow()
    return mlflow.models.Model.log(
        artifact_path=None, name=name, flavor=sys.modules[__name__], tagger=tagger, **options
    )


def load_model(model_uri: str) -> Tagger:
    """Return the Tagger of an MLflow model: a folder, ``runs:/...`` or ``models:/...``."""
    mlflow = _import_mlflow()
    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri))
    flavors = mlflow.models.Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        hint = "Load it with mlflow.pyfunc.load_model."
        raise InputError(f"{model_uri} must have the flavour tagwood", given=", ".join(flavors), hint=hint)
    tagger: Tagger = load(folder / _MODEL)
    return tagger


class _TextFunction:
    """What MLflow calls: texts in, one row of labels, URIs and scores per text out."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return a pandas table with the columns labels, uris, scores and review; `params` are options of `tag`."""
        import pandas as pd

        options = dict(params or {})
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise InputError(f"params must be among {', '.join(_OPTIONS)}", given=", ".join(unknown))
        rows = [
            ([tag.name for tag in tags], [tag.uri for tag in tags], [float(tag.score) for tag in tags], tags.review)
            for tags in self.tagger.tag(_texts_of(model_input), **options)
        ]
        return pd.DataFrame(rows, columns=["labels", "uris", "scores", "review"])


def _texts_of(model_input: Any) -> Iterable[str]:
    """Take the texts from a list, a column or a table."""
    columns = getattr(model_input, "columns", None)
    if columns is None:
        return list(model_input)
    if "text" in columns:
        return list(model_input["text"])
    if len(columns) == 1:
        return list(model_input[columns[0]])
    raise InputError("a table must have the column 'text' or a single column", given=", ".join(map(str, columns)))


def _load_pyfunc(path: str) -> _TextFunction:
    """Load the model for MLflow's ``python_function``."""
    return _TextFunction(load(path))


def _import_mlflow() -> Any:
    try:
        import mlflow
        import mlflow.models
        import mlflow.pyfunc
        import pandas as pd  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("the MLflow flavour", extra="mlflow") from error
    return mlflow
