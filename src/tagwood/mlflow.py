"""MLflow flavour: log a Tagger to a run or a registry, load it back, or serve it as an MLflow model.

In: a fitted `Tagger`. Out: an MLflow model folder with the flavours ``tagwood`` (the Tagger itself, by `load_model`)
and ``python_function`` (texts in, a table of labels and scores out). Needs the extra ``mlflow``.

Decisions: the signature of the function has the options of `Tagger.tag` as parameters, because MLflow drops all others
with no more than a warning; it leaves the input open, because a schema would refuse either lists or tables.

>>> from tagwood import Tagger, mlflow
>>> mlflow.log_model(tagger, "subjects")                    # doctest: +SKIP
>>> tagger = mlflow.load_model("models:/subjects/3")        # doctest: +SKIP
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tagwood._check import as_list
from tagwood.errors import InputError, MissingExtraError
from tagwood.storage import load, save
from tagwood.tagger import Tagger

FLAVOR = "tagwood"
_MODEL = "model"
# Options of `Tagger.tag`: name, type and default in MLflow's signature. An empty list stands for no labels given.
_OPTIONS: dict[str, tuple[str, Any]] = {
    "k": ("long", 5),
    "promise": ("string", None),
    "threshold": ("double", None),
    "restrict": ("string", []),
    "exclude": ("string", []),
    "language": ("string", None),
}


def save_model(tagger: Tagger, path: str | Path, mlflow_model: Any = None, **metadata: Any) -> None:
    """Save a Tagger as an MLflow model.

    Parameters
    ----------
    tagger
        A fitted Tagger.
    path
        Folder to create.
    mlflow_model
        The `mlflow.models.Model` to complete; MLflow gives it. A new one by default. Without a signature it gets one
        with the options of `Tagger.tag` as parameters.
    **metadata
        Fields of a new `mlflow.models.Model`, such as ``metadata={"owner": "search"}``.
    """
    mlflow = _import_mlflow()
    if not isinstance(tagger, Tagger):
        raise InputError("the MLflow flavour takes a Tagger", given=type(tagger).__name__)
    path = Path(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} must be an empty or absent folder", hint="Choose another path.")
    save(tagger, path / _MODEL)
    from tagwood import __version__

    described = mlflow.models.Model(**metadata) if mlflow_model is None else mlflow_model
    requirements = [f"tagwood=={__version__}"]
    (path / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    mlflow.pyfunc.add_to_model(described, loader_module="tagwood.mlflow", data=_MODEL, pip_requirements=requirements)
    if described.signature is None:
        described.signature = _signature()
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


def _signature() -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ParamSchema, ParamSpec

    shapes = {name: (-1,) if default == [] else None for name, (_, default) in _OPTIONS.items()}
    specs = [ParamSpec(name, kind, default, shapes[name]) for name, (kind, default) in _OPTIONS.items()]
    return ModelSignature(params=ParamSchema(specs))


class _TextFunction:
    """What MLflow calls: texts in, one row of ids, labels, URIs and scores per text out."""

    def __init__(self, tagger: Tagger) -> None:
        self.tagger = tagger

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return a pandas table of the labels of each text, best first.

        Parameters
        ----------
        model_input
            A text, or several: a list, a column, or a table or mapping with the column ``text`` or a single column.
        params
            Options of `Tagger.tag`; an empty `restrict` or `exclude` is none.

        Returns
        -------
        A table with a row for each text: lists in the columns ``ids`` (as given in training), ``labels`` (names),
        ``uris`` and ``scores``, and ``review``.
        """
        import pandas as pd

        unknown = sorted(set(params or {}) - set(_OPTIONS))
        if unknown:
            raise InputError(f"params must be among {', '.join(_OPTIONS)}", given=", ".join(unknown))
        options = {name: value for name, value in (params or {}).items() if value is not None and np.size(value)}
        rows = [
            (
                [tag.label for tag in tags],
                [tag.name for tag in tags],
                [tag.uri for tag in tags],
                [float(tag.score) for tag in tags],
                tags.review,
            )
            for tags in self.tagger.tag(_texts_of(model_input), **options)
        ]
        return pd.DataFrame(rows, columns=["ids", "labels", "uris", "scores", "review"])


def _texts_of(model_input: Any) -> list[Any]:
    """Take the texts from one text, a list, a column, or a table."""
    columns = model_input.keys() if isinstance(model_input, Mapping) else getattr(model_input, "columns", None)
    if columns is not None:
        names = list(columns)
        if "text" not in names and len(names) != 1:
            given = ", ".join(map(str, names))
            raise InputError("a table must have the column 'text' or a single column", given=given)
        model_input = model_input["text" if "text" in names else names[0]]
    if isinstance(model_input, str):
        return [model_input]
    rows = as_list(model_input, "texts")
    # Records, and the rows of an array with one column, are texts, too.
    rows = [row.get("text", row) if isinstance(row, Mapping) else row for row in rows]
    return [row[0] if isinstance(row, list) and len(row) == 1 else row for row in rows]


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
