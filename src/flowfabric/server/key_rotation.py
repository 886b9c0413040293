"""Rotates the signing key of waitpoint tokens, one rotation at a time, with audit records."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus

from flowfabric.errors import EngineError
from flowfabric.server.route import ApiRequest, Reply, bad_request
from flowfabric.wire.errors import MEDIA_TYPE

audit = logging.getLogger("audit")

TIMEOUT_S = 120.0


async def rotate_key(request: ApiRequest, kid: str, secret: str) -> Reply:
    if not kid or ":" in kid:
        raise bad_request("new_kid: must not be empty and must not contain a colon")
    if not secret or len(secret) % 2 or any(c not in "0123456789abcdefABCDEF" for c in secret):
        raise bad_request("new_secret_hex: must be an even number of hexadecimal digits")
    grace = request.server.settings.waitpoint_hmac_grace_ms
    with request.server.rotations.slot():
        try:
            async with asyncio.timeout(TIMEOUT_S):
                entries = await request.engine.rotate_waitpoint_hmac_secret_all(kid, secret, grace)
        except TimeoutError:
            audit.warning(
                "waitpoint_hmac_rotation_timeout_http_504",
                extra={"new_kid": kid, "timeout_s": TIMEOUT_S},
            )
            timed_out = {
                "status": 504,
                "title": HTTPStatus(504).phrase,
                "code": "timeout",
                "error": "the rotation timed out; retrying is safe",
            }
            return Reply(504, timed_out, media=MEDIA_TYPE)
    failed = [entry for entry in entries if isinstance(entry.result, Exception)]
    for entry in failed:
        audit.error(
            "waitpoint_hmac_rotation_failed",
            extra={"partition": entry.partition, "err": str(entry.result)},
        )
    facts = {
        "new_kid": kid,
        "total_partitions": len(entries),
        "rotated": len(entries) - len(failed),
        "failed_count": len(failed),
    }
    audit.info("waitpoint_hmac_rotation_complete", extra=facts)
    if len(failed) == len(entries):
        first = next((entry.result for entry in failed), None)
        if isinstance(first, EngineError):
            raise first
        raise bad_request("no partition could be rotated")
    return Reply(
        200,
        {
            "rotated": len(entries) - len(failed),
            "failed": [e.partition for e in failed],
            "new_kid": kid,
        },
    )
