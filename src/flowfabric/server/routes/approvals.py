"""Approval links: a page with the question and a form that answers it.

The token in the link is the only credential.
"""

from __future__ import annotations

from html import escape
from typing import Annotated
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Meta, Struct

from flowfabric.errors import EngineError, StateError, StateKind, ValidationError, ValidationKind
from flowfabric.model.waitpoint import DeliverSignalArgs, WaitpointListed
from flowfabric.server.route import ApiRequest, Reply, RouteGroup
from flowfabric.server.routes.waitpoints import deliver
from flowfabric.wire.operations import Bound

HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
    ),
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex"><title>{title}</title><style>
body{{font:17px/1.5 system-ui,sans-serif;max-width:34rem;margin:12vh auto;padding:0 1rem;
color:#1a1a1a;background:#fff}}dt{{color:#666;font-size:.85em}}dd{{margin:0 0 .8rem}}
input{{font:inherit;width:100%;padding:.5rem;margin:.2rem 0 1rem;box-sizing:border-box}}
button{{font:inherit;padding:.6rem 1.2rem;margin-right:.6rem;border:1px solid #999;
border-radius:.4rem;background:#f4f4f4;cursor:pointer}}
button:first-of-type{{background:#14532d;border-color:#14532d;color:#fff}}
@media(prefers-color-scheme:dark){{body{{background:#161616;color:#eee}}dt{{color:#aaa}}
button{{background:#333;color:#eee}}}}
</style><main>{main}</main></html>"""
ANSWERS = ("approved", "rejected")


routes = RouteGroup(
    tag="approvals",
    role=None,
    bound=Bound.FREE,
    answers={200: None, 404: None, 410: None},
    media="text/html",
)


class Link(Struct, frozen=True):
    t: str = ""


class Answer(Struct, frozen=True):
    """An answer by link: the token proves the right to answer, not the identity `who`.

    The signal therefore has the source type `link`.
    """

    answer: Annotated[str, Meta(min_length=1, max_length=256)]
    who: Annotated[str, Meta(min_length=1, max_length=200)]
    t: str = ""
    comment: Annotated[str, Meta(max_length=4_000)] = ""
    payload: Annotated[str, Meta(max_length=65_536)] = ""


def _page(status: int, title: str, text: str, *, heading: str = "", html: str = "") -> Reply:
    """A page of a heading, by default the title, and a paragraph or other HTML."""
    main = f"<h1>{heading or title}</h1>{html or f'<p>{text}</p>'}"
    page = _PAGE.format(title=title, main=main).encode()
    return Reply(status, raw=page, media="text/html; charset=utf-8", headers=dict(HEADERS))


def _refused(error: EngineError) -> Reply:
    """The page of a refusal.

    Used and expired links are named as such, because only a valid token leads there. All other
    refusals give the same page.
    """
    if isinstance(error, StateError):
        if error.kind is StateKind.TARGET_NOT_SIGNALABLE:
            text = "The task that asked has ended or has resumed."
            return _page(410, "No longer needed", text)
        return _page(410, "Already answered", "No task waits for this answer any more.")
    if isinstance(error, ValidationError) and "token_expired" in str(error):
        text = "Ask its sender for a new one."
        return _page(410, "Expired", text, heading="This link has expired")
    text = "Check that it was copied completely."
    return _page(404, "Not a valid link", text, heading="This link is not valid")


def _not_accepted(error: ValidationError) -> Reply:
    reason = f"<p>{escape(error.detail)}</p><p>Go back and change it; the question is open.</p>"
    heading = "This answer is not accepted"
    return _page(400, "Not accepted", "", heading=heading, html=reason)


async def _waitpoint(request: ApiRequest, token: str) -> WaitpointListed:
    return await request.engine.look_at_waitpoint(
        request.execution(), request.uuid("waitpoint_id", "waitpoint_id"), token
    )


@routes("GET", "/approve/{id}/{waitpoint_id}")
async def show(request: ApiRequest, query: Link) -> Reply:
    """The page with the question; it needs no script."""
    try:
        waitpoint = await _waitpoint(request, query.t)
        about = await request.engine.read_execution_context(request.execution())
    except EngineError as error:
        return _refused(error)
    facts = {"Asked by": about.execution_kind, "Question": waitpoint.waitpoint_key}
    facts |= {name: value for name, value in about.tags.items() if name.startswith("approval.")}
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items()
    )
    buttons = "".join(
        f'<button name="answer" value="{escape(name, quote=True)}">{escape(name)}</button>'
        for name in waitpoint.required_signal_names or ANSWERS
    )
    token = escape(query.t, quote=True)
    form = (
        f'<form method="post"><input type="hidden" name="t" value="{token}">'
        '<label>Your name<input name="who" required maxlength="200" autocomplete="name"></label>'
        '<label>Comment<input name="comment" maxlength="4000"></label>'
        f"{_payload_field(waitpoint)}{buttons}</form>"
    )
    return _page(200, "Your answer is needed", "", html=f"<dl>{rows}</dl>{form}")


def _payload_field(waitpoint: WaitpointListed) -> str:
    """The input of a payload: a string is entered as text, any other type as JSON."""
    if waitpoint.payload_schema is None:
        return ""
    kind = escape(str(waitpoint.payload_schema.get("type", "JSON")))
    return f'<label>Answer ({kind})<input name="payload" maxlength="65536"></label>'


def _payload(waitpoint: WaitpointListed, text: str) -> bytes | None:
    if waitpoint.payload_schema is None or not text:
        return None
    is_text = waitpoint.payload_schema.get("type") == "string"
    return msgspec.json.encode(text) if is_text else text.encode()


@routes("POST", "/approve/{id}/{waitpoint_id}", form=True)
async def answer(request: ApiRequest, body: Answer) -> Reply:
    """Delivers the answer; a repeated answer counts once."""
    try:
        waitpoint = await _waitpoint(request, body.t)
        if body.answer not in (waitpoint.required_signal_names or ANSWERS):
            heading, text = "That is not one of the answers", "Go back and choose one."
            return _page(400, "Not one of the answers", text, heading=heading)
        name = f"{waitpoint.waitpoint_id}/{body.t}/{body.who}/{body.answer}"
        ident = uuid5(NAMESPACE_URL, name)
        signal = DeliverSignalArgs(
            execution_id=request.execution(),
            waitpoint_id=waitpoint.waitpoint_id,
            signal_id=ident,
            waitpoint_token=body.t,
            signal_name=body.answer,
            signal_category="approval",
            source_type="link",
            source_identity=body.who,
            payload=_payload(waitpoint, body.payload),
            comment=body.comment,
            idempotency_key=f"link:{ident}",
        )
    except EngineError as error:
        return _refused(error)
    try:
        await deliver(request, signal)
    except EngineError as error:
        if isinstance(error, ValidationError) and error.kind is ValidationKind.INVALID_INPUT:
            return _not_accepted(error)
        return _refused(error)
    text = f"Your answer, <b>{escape(body.answer)}</b>, has been delivered."
    return _page(200, "Thank you", text)
