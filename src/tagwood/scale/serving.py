"""Serve a label space beyond one machine's memory, or one model on many machines, as a Ray Serve application.

`split_model` cuts the linear trees of a model into shards of whole subtrees and writes one folder for each, and one for
the router. `build_app` makes an application of them: a router, which encodes texts and follows the beam, and the
shards, which open nodes for it. Answers have the bits of the model in one place. An ordinary model folder becomes an
application of replicas of the whole model.

    >>> # serve run tagwood.scale.serving:build_app model=shards
    >>> # curl -d '{"texts": ["oak and ash"], "k": 3}' http://127.0.0.1:8000/

Decisions: `POST /` takes ``{"texts": [...], "k": 5}`` and returns one list of labels per text; ``GET /`` names the
model. A replica answers Ray's health checks once its folder is loaded and checked. Deploying other folders under the
same name replaces replicas one after the other. Every request to a shard names the split it belongs to, so a router
never mixes the answers of two models. A shard of another split names its folder; a router whose own shards are gone
opens that folder and answers from there, so requests wait for an update and are not refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from tagwood._check import check_int
from tagwood._sparse import CsrParts
from tagwood.errors import InputError, StorageError, TagwoodError
from tagwood.models.linear_tree import TreeRanker
from tagwood.models.linear_tree.sharded import (
    ROUTER,
    Opened,
    Opening,
    ShardedWeights,
    keep_nodes,
    open_nodes,
    share_nodes,
)
from tagwood.scale.cluster import load_ray
from tagwood.scale.prediction import model_checksum, open_model
from tagwood.storage import Storable, load, save
from tagwood.storage.publish import replace_path
from tagwood.tagger import Tag, Tagger

SPLIT = "split.json"
_MOST_TEXTS = 1000
_MOST_LABELS = 1000
_TRIES, _PAUSE = 5, 0.2  # before a router follows its shards to another split
_SECONDS = 30.0  # to wait for a shard
_UPDATE = 120.0  # to wait for all shards of one split


def split_model(folder: Path, target: Path, n_shards: int) -> Path:
    """Write the shards of a model to a new folder: ``router``, ``shard-0``, ``shard-1``, ... and ``split.json``.

    Parameters
    ----------
    folder
        Model folder of a Tagger with a linear tree, alone or in an ensemble.
    target
        Folder to write, which must not exist; it appears when it is complete.
    n_shards
        Number of shards, at least 2. Each holds about the same number of labels.
    """
    check_int(n_shards, "n_shards", low=2)
    tagger = Tagger.load(folder)
    models = tree_models(tagger.model_)
    if not models:
        kind = type(tagger.model_).__name__
        raise InputError("a model in shards must have a linear tree", given=kind, hint="Serve replicas of it instead.")
    owners = [[share_nodes(weights.tree, n_shards) for weights in model.trees_] for model in models]
    whole = [list(model.trees_) for model in models]
    split = model_checksum(folder)
    with replace_path(target, folder=True) as place:
        place.mkdir()
        for shard in (*range(n_shards), ROUTER):
            for model, trees, owner in zip(models, whole, owners, strict=True):
                dtype = model.base_tree().solver.weights
                model.trees_ = [
                    keep_nodes(weights, np.flatnonzero(of == shard), dtype)
                    for weights, of in zip(trees, owner, strict=True)
                ]
            if shard == ROUTER:
                tagger.save(place / "router")
            else:
                for number, model in enumerate(models):
                    save(cast(Storable, model), place / f"shard-{shard}" / f"tree-{number}")
        facts = {"split": split, "shards": n_shards, "trees": len(models)}
        (place / SPLIT).write_text(json.dumps(facts) + "\n", encoding="utf-8")
    return target


def read_split(folder: Path) -> dict[str, Any]:
    """Return the facts of a folder that `split_model` wrote."""
    try:
        facts: dict[str, Any] = json.loads((folder / SPLIT).read_text(encoding="utf-8"))
        if not isinstance(facts["split"], str) or facts["shards"] < 2 or facts["trees"] < 1:
            raise ValueError("facts are missing")
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "Write it with tagwood.scale.serving.split_model."
        raise StorageError("this is not a complete folder of shards", path=folder, hint=hint) from error
    return facts


def tree_models(model: Any) -> list[TreeRanker]:
    """Return the linear trees that a model is or has as members."""
    if isinstance(model, TreeRanker):
        return [model]
    return [found for member in getattr(model, "members_", ()) for found in tree_models(member.model)]


class Shard:
    """A replica of one shard: opens nodes of its subtrees."""

    def __init__(self, folder: str) -> None:
        place = Path(folder)
        facts = read_split(place.parent)
        self.split, self.folder = facts["split"], str(place.parent)
        self.models: list[TreeRanker] = [load(place / f"tree-{number}") for number in range(facts["trees"])]

    def open(self, split: str, model: int, tree: int, opening: tuple[Any, ...]) -> tuple[Any, ...] | str:
        """Open nodes of one tree; to a router of another split, name the folder of this one."""
        if split != self.split:
            return self.folder
        X, *rest = opening
        return tuple(open_nodes(self.models[model].trees_[tree], Opening(CsrParts(*X), *rest), 1))

    def check_health(self) -> None:
        """Answer Ray's health check: a replica that is here has loaded its shard."""


class WholeModel:
    """A replica of a whole model: tags texts by itself."""

    def __init__(self, folder: str) -> None:
        self.tagger = open_model(Path(folder), model_checksum(Path(folder)))
        self.name = Path(folder).name

    async def __call__(self, request: Any) -> Any:
        """Answer an HTTP request."""
        from starlette.responses import JSONResponse

        if request.method == "GET":
            return JSONResponse({"model": self.name, "labels": len(self.tagger.vocab_)})
        try:
            texts, k = _parse(await request.body())
            return JSONResponse({"labels": await self.tag(texts, k)})
        except InputError as error:
            return JSONResponse({"detail": str(error)}, status_code=422)
        except TagwoodError as error:
            return JSONResponse({"detail": str(error)}, status_code=503)

    async def tag(self, texts: Sequence[str], k: int = 5) -> list[list[dict[str, Any]]]:
        """Return the labels of each text: label, uri, score."""
        found = await asyncio.to_thread(self._tag, list(texts), k)
        return [[{"label": tag.name, "uri": tag.uri, "score": tag.score} for tag in tags] for tags in found]

    def _tag(self, texts: list[str], k: int) -> Sequence[Sequence[Tag]]:
        return self.tagger.tag(texts, k)

    def check_health(self) -> None:
        """Answer Ray's health check: a replica that is here has loaded its model."""


class OtherSplitError(TagwoodError):
    """Shards do not answer, or are of another split, whose folder is named if one is known."""

    def __init__(self, folder: str | None) -> None:
        hint = "Deploy router and shards of one split_model together."
        super().__init__("all shards must answer, and be of the split of their router", hint=hint)
        self.folder = folder


class Router(WholeModel):
    """A replica of the router of a model in shards."""

    def __init__(self, folder: str, *shards: Any) -> None:
        self.shards, self.lock = shards, threading.Lock()
        self.opened: dict[str, Tagger] = {}
        self._follow(folder)

    def _follow(self, folder: str) -> None:
        """Answer from the split of a folder; the one before stays open, since requests may still be on their way."""
        with self.lock:
            self.opened = dict(list(self.opened.items())[-2:])
            if folder not in self.opened:
                self.opened[folder] = self._open(Path(folder))
            self.tagger, self.name = self.opened[folder], Path(folder).name

    def _open(self, place: Path) -> Tagger:
        split, router = read_split(place)["split"], place / "router"
        tagger = open_model(router, model_checksum(router))
        for number, model in enumerate(tree_models(tagger.model_)):
            model.trees_ = [
                ShardedWeights(
                    weights.tree,
                    weights.arrays,
                    weights.link,
                    share_nodes(weights.tree, len(self.shards)),
                    RemoteShards(self.shards, split, number, tree),
                )
                for tree, weights in enumerate(model.trees_)
            ]
        return tagger

    def _tag(self, texts: list[str], k: int) -> Sequence[Sequence[Tag]]:
        deadline = time.monotonic() + _UPDATE
        while True:
            try:
                return super()._tag(texts, k)
            except OtherSplitError as error:
                if time.monotonic() > deadline:
                    raise
                if error.folder is not None and read_split(Path(error.folder))["shards"] == len(self.shards):
                    self._follow(error.folder)


class RemoteShards:
    """Opens nodes of one tree on all shards at once, by their Serve handles."""

    def __init__(self, shards: Sequence[Any], split: str, model: int, tree: int) -> None:
        self.shards, self.of = shards, (split, model, tree)

    def __call__(self, wanted: Sequence[tuple[int, Opening]]) -> list[Opened]:
        """Return what the shards answer; ask again while a shard is away or of another split."""
        found: dict[int, Opened] = {}
        folder = None
        for _ in range(_TRIES):
            missing = [item for item in wanted if item[0] not in found]
            asked = [(shard, self.shards[shard].open.remote(*self.of, _plain(opening))) for shard, opening in missing]
            for shard, answer in asked:
                with contextlib.suppress(*_lost()):  # a replica that was stopped or killed: another one takes over
                    opened = answer.result(timeout_s=_SECONDS)
                    if isinstance(opened, str):
                        folder = opened
                    else:
                        found[shard] = Opened(*opened)
            if len(found) == len(wanted):
                return [found[shard] for shard, _ in wanted]
            time.sleep(_PAUSE)
        raise OtherSplitError(folder)


def _lost() -> tuple[type[Exception], ...]:
    """Return the errors of a replica that is gone or not there yet."""
    return load_ray().exceptions.RayActorError, TimeoutError


def _plain(opening: Opening) -> tuple[Any, ...]:
    return (tuple(opening.X), *opening[1:])


def _parse(body: bytes) -> tuple[list[str], int]:
    try:
        content = json.loads(body)
        texts, k = content["texts"], content.get("k", 5)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError('a request must be JSON like {"texts": ["..."], "k": 5}') from error
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts) or len(texts) > _MOST_TEXTS:
        raise InputError(f"texts must be a list of at most {_MOST_TEXTS:,} texts")
    return texts, check_int(k, "k", low=1, high=_MOST_LABELS)


def build_app(args: dict[str, Any]) -> Any:
    """Return the Serve application of a folder; ``serve run tagwood.scale.serving:build_app model=FOLDER``.

    Parameters
    ----------
    args
        ``model``: a folder of `split_model`, or a model folder. ``replicas``: of the router, or of the whole model;
        default 1. ``shard_replicas``: of each shard; default 1. ``cpus``: of each replica; default 1.
    """
    load_ray()
    from ray import serve

    deployment: Any = serve.deployment
    if "model" not in args or set(args) - {"model", "replicas", "shard_replicas", "cpus"}:
        expected = "the application takes model=FOLDER, and replicas=, shard_replicas= and cpus="
        raise InputError(expected, given=", ".join(sorted(args)) or "nothing")
    folder = Path(args["model"]).resolve()
    replicas, shard_replicas = int(args.get("replicas", 1)), int(args.get("shard_replicas", 1))
    options: dict[str, Any] = {"ray_actor_options": {"num_cpus": float(args.get("cpus", 1))}}
    options |= {"health_check_period_s": 5, "max_ongoing_requests": 32, "graceful_shutdown_timeout_s": 2 * _UPDATE}
    if not (folder / SPLIT).exists():
        model_checksum(folder)  # a folder that is no model is named here, not by a replica
        return deployment(WholeModel).options(num_replicas=replicas, **options).bind(str(folder))
    n_shards = read_split(folder)["shards"]
    shards = [
        deployment(Shard)
        .options(name=f"shard-{number}", num_replicas=shard_replicas, **options)
        .bind(str(folder / f"shard-{number}"))
        for number in range(n_shards)
    ]
    return deployment(Router).options(num_replicas=replicas, **options).bind(str(folder), *shards)
