"""Routes for the review of groups. In: group numbers, corrected labels. Out: groups, and JSON lines for training."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from tagwood.service.group_review import GroupReview, last_of_each_row
from tagwood.service.loaded import Loaded
from tagwood.service.problems import Part, ProblemError
from tagwood.service.routes.browse import LanguageQuery
from tagwood.service.routes.suggest import check_count, label_object, new_id
from tagwood.service.schemas import CorrectionRequest
from tagwood.service.security import JsonResponse
from tagwood.service.state import ServiceState, state_of

GroupPlace = Annotated[int, Path(ge=0, le=2**31 - 1, description="Number of the group.", examples=[0])]


async def groups(
    request: Request,
    q: Annotated[str, Query(max_length=200, description="Part of a group's name.")] = "",
    offset: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """List the groups of a model that was trained from group labels, least confident first."""
    state = state_of(request)
    review = _review(state.holder.current)
    return JsonResponse(
        await state.in_thread(lambda: review.listing(q, offset, limit, _corrected(state, review)))
    )


async def group(request: Request, group: GroupPlace, language: LanguageQuery = None) -> Response:
    """Show a group, its samples and the labels worked out for each."""
    state = state_of(request)
    loaded = state.holder.current
    review = _review(loaded, group)
    chosen = loaded.language(language)
    return JsonResponse(await state.in_thread(lambda: review.group(group, chosen, _corrected(state, review))))


async def correct(request: Request, body: CorrectionRequest, group: GroupPlace) -> Any:
    """Store the right labels of samples; they are on the disk before the answer comes."""
    state = state_of(request)
    loaded = state.holder.current
    review = _review(loaded, group)
    if state.corrections is None:
        raise ProblemError("conflict", "This service was started without a file for corrections.")
    records = _records(loaded, review, group, body, state)
    await state.corrections.append(records)
    state.telemetry.add("feedback", len(records))
    return {"id": records[0]["id"], "records": len(records)}


async def corrections(request: Request) -> Response:
    """Download all corrections as JSON lines; `tagwood train` reads them."""
    state = state_of(request)
    if state.corrections is None:
        raise ProblemError("conflict", "This service was started without a file for corrections.")
    lines = await state.in_thread(state.corrections.read)
    content = b"".join(line + b"\n" for line in last_of_each_row(lines))
    name = {"Content-Disposition": 'attachment; filename="corrections.jsonl"'}
    return Response(content, media_type="application/x-ndjson", headers=name)


def _review(loaded: Loaded, group: int | None = None) -> GroupReview:
    review = loaded.groups
    if review is None:
        raise ProblemError(
            "not-found", "This model was not trained from group labels, or keeps none of its texts."
        )
    if group is not None and group >= len(review):
        raise ProblemError("not-found", f"There are {len(review):,} groups to review; there is no {group}.")
    return review


def _corrected(state: ServiceState, review: GroupReview) -> dict[int, list[int]]:
    return {} if state.corrections is None else review.corrections(state.corrections.read())


def _records(
    loaded: Loaded, review: GroupReview, group: int, body: CorrectionRequest, state: ServiceState
) -> list[dict[str, Any]]:
    rows = review.rows(group)
    records = []
    for place, sample in enumerate(body.samples):
        pointer = f"#/samples/{place}"
        if sample.row not in rows:
            detail = f"Row {sample.row} is not in this group."
            raise ProblemError("not-found", detail, [Part(f"{pointer}/row", detail)])
        check_count(sample.labels, f"samples/{place}/labels", state.settings.limits)
        labels = list(dict.fromkeys(loaded.find(label, f"{pointer}/labels") for label in sample.labels))
        records.append(
            {
                "id": new_id(),
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
                "model": loaded.name,
                "data": loaded.tagger.fingerprint_,
                "row": sample.row,
                "from_group": review.kept.names[group],
                "text": review.kept.texts[rows[sample.row]],
                "labels": [label_object(loaded, label) for label in labels],
                "label_ids": labels,
                "note": body.note,
            }
        )
    return records
