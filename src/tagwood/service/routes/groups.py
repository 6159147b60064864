"""Endpoints for the review of groups. In: group numbers, corrected labels. Out: groups, and JSON lines for training."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from tagwood.service.group_review import GroupReview, last_of_each_row
from tagwood.service.problems import ProblemError
from tagwood.service.routes.labels import LanguageQuery
from tagwood.service.routes.texts import check_count, new_record, training_label
from tagwood.service.schemas import CorrectionRequest
from tagwood.service.security import JsonResponse
from tagwood.service.state import LoadedModel, ServiceState, state_of

GroupPath = Annotated[int, Path(ge=0, le=2**31 - 1, description="Number of the group.", examples=[0])]
_NO_FILE = "This service was started without a file for corrections."


async def groups(
    request: Request,
    q: Annotated[str, Query(max_length=200, description="Part of a group's name.")] = "",
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """List the groups of a model that was trained from group labels, least confident first."""
    state = state_of(request)
    review = _review(state.holder.current)
    return JsonResponse(await state.in_thread(lambda: review.listing(q, offset, limit, _corrected(state, review))))


async def group(request: Request, group: GroupPath, language: LanguageQuery = None) -> Response:
    """Show a group, its samples and the labels imputed for each."""
    state = state_of(request)
    loaded = state.holder.current
    review = _review(loaded, group)
    chosen = loaded.language(language)
    return JsonResponse(await state.in_thread(lambda: review.group(group, chosen, _corrected(state, review))))


async def correct(request: Request, body: CorrectionRequest, group: GroupPath) -> Any:
    """Store the right labels of samples; they are on disk before the answer is sent."""
    state = state_of(request)
    loaded = state.holder.current
    review = _review(loaded, group)
    if state.corrections is None:
        raise ProblemError("conflict", _NO_FILE)
    records = _records(loaded, review, group, body, state)
    await state.corrections.append(records)
    state.metrics.add("feedback", len(records))
    return {"id": records[0]["id"], "records": len(records)}


async def corrections(request: Request) -> Response:
    """Download all corrections as JSON lines, which `tagwood train` reads."""
    state = state_of(request)
    if state.corrections is None:
        raise ProblemError("conflict", _NO_FILE)
    lines = await state.in_thread(state.corrections.read)
    content = b"".join(line + b"\n" for line in last_of_each_row(lines))
    name = {"Content-Disposition": 'attachment; filename="corrections.jsonl"'}
    return Response(content, media_type="application/x-ndjson", headers=name)


def _review(loaded: LoadedModel, group: int | None = None) -> GroupReview:
    review = loaded.groups
    if review is None:
        detail = "This model was not trained from group labels, or does not keep their texts."
        raise ProblemError("not-found", detail)
    if group is not None and group >= len(review):
        raise ProblemError("not-found", f"Group numbers are 0 to {len(review) - 1}; got {group}.")
    return review


def _corrected(state: ServiceState, review: GroupReview) -> dict[int, list[int]]:
    return {} if state.corrections is None else review.corrections(state.corrections.read())


def _records(
    loaded: LoadedModel, review: GroupReview, group: int, body: CorrectionRequest, state: ServiceState
) -> list[dict[str, Any]]:
    rows = review.rows(group)
    records = []
    for place, sample in enumerate(body.samples):
        pointer = f"#/samples/{place}"
        if sample.row not in rows:
            raise ProblemError.at(f"{pointer}/row", f"Row {sample.row} is not in this group.", "not-found")
        check_count(sample.labels, f"{pointer}/labels", state.settings.limits)
        labels = list(dict.fromkeys(loaded.find(label, f"{pointer}/labels") for label in sample.labels))
        records.append(
            {
                **new_record(loaded),
                "data": loaded.tagger.fingerprint_,
                "row": sample.row,
                "from_group": review.kept.names[group],
                "text": review.kept.texts[rows[sample.row]],
                "labels": [training_label(loaded, label) for label in labels],
                "label_ids": labels,
                "note": body.note,
            }
        )
    return records
