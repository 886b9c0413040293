"""Approval links: a page that says what is asked, and a button that answers. The link's token is all the rights there are."""

from __future__ import annotations

from html import escape
from typing import Annotated, Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Meta, Struct

from flowfabric.errors import EngineError, StateError, StateKind, ValidationError, ValidationKind
from flowfabric.model.waitpoint import DeliverSignalArgs, WaitpointListed
from flowfabric.server.route import Ask, Reply, Route
from flowfabric.server.routes.waitpoints import delivered
from flowfabric.wire.operations import Bound

HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex"><title>{title}</title><style>
body{{font:17px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;padding:0 1rem;color:#1a1a1a;background:#fff}}
dt{{color:#666;font-size:.85em}}dd{{margin:0 0 .8rem}}input{{font:inherit;width:100%;padding:.5rem;margin:.2rem 0 1rem;
box-sizing:border-box}}button{{font:inherit;padding:.6rem 1.2rem;margin-right:.6rem;border:1px solid #999;border-radius:.4rem;
background:#f4f4f4;cursor:pointer}}button:first-of-type{{background:#14532d;border-color:#14532d;color:#fff}}
@media(prefers-color-scheme:dark){{body{{background:#161616;color:#eee}}dt{{color:#aaa}}button{{background:#333;color:#eee}}}}
</style><main>{main}</main></html>"""
ANSWERS = ("approved", "rejected")


class Link(Struct, frozen=True):
    t: str = ""


class Answer(Struct, frozen=True):
    """`who` is taken at its word, and the signal says so: its source type is `link`. The link proves the right to answer."""

    answer: Annotated[str, Meta(min_length=1, max_length=256)]
    who: Annotated[str, Meta(min_length=1, max_length=200)]
    t: str = ""
    comment: Annotated[str, Meta(max_length=4_000)] = ""
    payload: Annotated[str, Meta(max_length=65_536)] = ""


def _page(status: int, title: str, main: str) -> Reply:
    text = _PAGE.format(title=escape(title), main=main)
    return Reply(status, raw=text.encode(), media="text/html; charset=utf-8", headers=dict(HEADERS))


def _refused(error: EngineError) -> Reply:
    """Used and expired links say so, for only who had a good one gets that far; anything else is one and the same page."""
    if isinstance(error, StateError) and error.kind is StateKind.TARGET_NOT_SIGNALABLE:
        return _page(
            410,
            "No longer needed",
            "<h1>No longer needed</h1><p>What asked this has ended or goes on already.</p>",
        )
    if isinstance(error, StateError):
        return _page(
            410,
            "Answered already",
            "<h1>Answered already</h1><p>Nothing waits for this answer any more.</p>",
        )
    if isinstance(error, ValidationError) and "token_expired" in str(error):
        return _page(
            410,
            "Expired",
            "<h1>This link has expired</h1><p>Ask whoever sent it for a new one.</p>",
        )
    return _page(
        404,
        "Not a valid link",
        "<h1>This link is not valid</h1><p>Check that it was copied whole.</p>",
    )


def _not_accepted(error: ValidationError) -> Reply:
    said = f"<p>{escape(error.detail)}</p><p>Go back and change it; the question is still open.</p>"
    return _page(400, "Not accepted", f"<h1>This answer is not accepted</h1>{said}")


async def _asked(ask: Ask, token: str) -> WaitpointListed:
    return await ask.engine.look_at_waitpoint(
        ask.execution(), ask.uuid("waitpoint_id", "waitpoint_id"), token
    )


async def show(ask: Ask) -> Reply:
    """What is asked, as a page that needs no script."""
    try:
        asked = await _asked(ask, ask.query.t)
        about = await ask.engine.read_execution_context(ask.execution())
    except EngineError as error:
        return _refused(error)
    facts = {"Asked by": about.execution_kind, "Question": asked.waitpoint_key}
    facts |= {name: value for name, value in about.tags.items() if name.startswith("approval.")}
    told = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()
    )
    buttons = "".join(
        f'<button name="answer" value="{escape(name, quote=True)}">{escape(name)}</button>'
        for name in asked.required_signal_names or ANSWERS
    )
    form = (
        f'<form method="post"><input type="hidden" name="t" value="{escape(ask.query.t, quote=True)}">'
        '<label>Your name<input name="who" required maxlength="200" autocomplete="name"></label>'
        f'<label>Comment<input name="comment" maxlength="4000"></label>{_field(asked)}{buttons}</form>'
    )
    return _page(
        200, "Your answer is needed", f"<h1>Your answer is needed</h1><dl>{told}</dl>{form}"
    )


def _field(asked: WaitpointListed) -> str:
    """Where a payload is asked for: text as it is, anything else as JSON."""
    if asked.payload_schema is None:
        return ""
    kind = escape(str(asked.payload_schema.get("type", "JSON")))
    return f'<label>Answer ({kind})<input name="payload" maxlength="65536"></label>'


def _payload(asked: WaitpointListed, text: str) -> bytes | None:
    if asked.payload_schema is None or not text:
        return None
    return (
        msgspec.json.encode(text) if asked.payload_schema.get("type") == "string" else text.encode()
    )


async def answer(ask: Ask) -> Reply:
    """Delivers the answer; sent twice by one link, it counts once."""
    body: Answer = ask.body
    try:
        asked = await _asked(ask, body.t)
        if body.answer not in (asked.required_signal_names or ANSWERS):
            return _page(
                400,
                "Not one of the answers",
                "<h1>That is not one of the answers</h1><p>Go back and choose one.</p>",
            )
        ident = uuid5(NAMESPACE_URL, f"{asked.waitpoint_id}/{body.t}/{body.who}/{body.answer}")
        told = DeliverSignalArgs(
            execution_id=ask.execution(),
            waitpoint_id=asked.waitpoint_id,
            signal_id=ident,
            waitpoint_token=body.t,
            signal_name=body.answer,
            signal_category="approval",
            source_type="link",
            source_identity=body.who,
            payload=_payload(asked, body.payload),
            comment=body.comment,
            idempotency_key=f"link:{ident}",
        )
    except EngineError as error:
        return _refused(error)
    try:
        await delivered(ask, told)
    except EngineError as error:
        if isinstance(error, ValidationError) and error.kind is ValidationKind.INVALID_INPUT:
            return _not_accepted(error)
        return _refused(error)
    return _page(
        200,
        "Thank you",
        f"<h1>Thank you</h1><p>Your answer, <b>{escape(body.answer)}</b>, has been delivered.</p>",
    )


_LINK: dict[str, Any] = {
    "role": None,
    "bound": Bound.FREE,
    "answers": {200: None, 404: None, 410: None},
    "media": "text/html",
    "tag": "approvals",
}
_PATH = "/approve/{id}/{waitpoint_id}"

ROUTES = (
    Route("GET", _PATH, show, query=Link, **_LINK),
    Route("POST", _PATH, answer, body=Answer, form=True, **_LINK),
)
