"""Writes vectors/corpus.json: ids, handles, tokens and cursors that implementations in other
languages can test against.

`python -m tests.compat.corpus` writes the file. Every value is made by the code of this repository
from the fixed inputs below.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from flowfabric.codec.event_cursor import encode_cursor
from flowfabric.codec.handle import encode_handle
from flowfabric.codec.token import fingerprint, mint
from flowfabric.ids import (
    BUDGET_PARTITIONS,
    FLOW_PARTITIONS,
    QUOTA_PARTITIONS,
    ExecutionId,
    ExecutionIdError,
    parse_uuid,
    partition_of,
)
from flowfabric.model.lease import BackendTag, HandleFields
from flowfabric.model.signing_key import HmacKey

FILE = Path(__file__).parent / "vectors" / "corpus.json"
UUIDS = (
    "00000000-0000-4000-8000-000000000000",
    "11111111-2222-4333-8444-555555555555",
    "ffffffff-ffff-4fff-8fff-ffffffffffff",
    "018f3c1e-7b2a-7c3d-9e4f-0123456789ab",
)
LANES = ("default", "mail", "a lane", "x" * 64, "~!@#$%^&*()")
SPELLINGS = (
    "{fp:7}:11111111-2222-4333-8444-555555555555",
    "{fp:007}:11111111-2222-4333-8444-555555555555",
    "{fp:+7}:11111111-2222-4333-8444-555555555555",
    "{fp:7}:11111111222243338444555555555555",
    "{fp:7}:{11111111-2222-4333-8444-555555555555}",
    "{fp:7}:urn:uuid:11111111-2222-4333-8444-555555555555",
    "{fp:7}:AAAAAAAA-2222-4333-8444-555555555555",
    "{fp:65535}:11111111-2222-4333-8444-555555555555",
    "{fp:65536}:11111111-2222-4333-8444-555555555555",
    "{fp:-7}:11111111-2222-4333-8444-555555555555",
    "{fp:}:11111111-2222-4333-8444-555555555555",
    "{fp:7}:11111111_2222_4333_8444_555555555555",
    "{fp:7}:1111111-2222-4333-8444-5555555555555",
    "{fp:7}:",
    "fp:7:11111111-2222-4333-8444-555555555555",
    "11111111-2222-4333-8444-555555555555",
    "",
)
SECRETS = (
    ("k1", "2a" * 32),
    ("kid-a", "7365637265742d31"),
    ("vllm-demo-2026-05", "aa" * 64),
    ("k\u00e9y", "00ff" * 20),
)
EVENTS = (0, 1, 255, 256, 2**31, 2**53, 2**63 - 1)


def corpus() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "produced_by": "python -m tests.compat.corpus",
        "partitions": {
            "flow": FLOW_PARTITIONS,
            "budget": BUDGET_PARTITIONS,
            "quota": QUOTA_PARTITIONS,
        },
        "partition_of_uuid": [
            {
                "uuid": each,
                "flow": partition_of(UUID(each), FLOW_PARTITIONS),
                "budget": partition_of(UUID(each), BUDGET_PARTITIONS),
            }
            for each in UUIDS
        ],
        "execution_ids": [
            *(
                {
                    "lane": lane,
                    "uuid": UUIDS[1],
                    "execution_id": str(ExecutionId.solo(lane, UUID(UUIDS[1]))),
                }
                for lane in LANES
            ),
            *(
                {
                    "flow_id": flow,
                    "uuid": UUIDS[1],
                    "execution_id": str(ExecutionId.for_flow(UUID(flow), UUID(UUIDS[1]))),
                }
                for flow in UUIDS
            ),
        ],
        "execution_id_spellings": [{"text": text, **_read(text)} for text in SPELLINGS],
        "uuid_spellings": [
            {"text": text, "uuid": _uuid(text)} for text in map(_behind_tag, SPELLINGS)
        ],
        "handles": [_handle(number, tag) for number, tag in enumerate(BackendTag)],
        "tokens": [
            _token(kid, secret, approver)
            for kid, secret in SECRETS
            for approver in ("", "ann@example.org")
        ],
        "event_cursors": [
            {"number": number, "hex": encode_cursor(number).hex()} for number in EVENTS
        ],
    }


def _read(text: str) -> dict[str, Any]:
    try:
        found = ExecutionId(text)
    except ExecutionIdError as error:
        return {"error": error.reason}
    return {"execution_id": str(found), "partition": found.partition_index}


def _behind_tag(text: str) -> str:
    return text.partition("}:")[2] if text.startswith("{fp:") else text


def _uuid(text: str) -> str | None:
    try:
        return str(parse_uuid(text))
    except ValueError:
        return None


def _handle(number: int, tag: BackendTag) -> dict[str, Any]:
    fields = HandleFields(
        tag,
        ExecutionId.of(number * 85, UUID(UUIDS[number % len(UUIDS)])),
        number,
        UUID(UUIDS[1]),
        UUID(UUIDS[3]),
        2**number,
        30_000,
        LANES[number % len(LANES)],
        f"w\u00f6rker-{number}",
    )
    shown = {
        name: str(getattr(fields, name))
        for name in ("execution_id", "attempt_id", "lease_id", "lane_id", "worker_instance_id")
    }
    numbers = {
        name: getattr(fields, name) for name in ("attempt_index", "lease_epoch", "lease_ttl_ms")
    }
    return {
        "backend": tag.label,
        "tag": int(tag),
        **shown,
        **numbers,
        "hex": encode_handle(fields).hex(),
    }


def _token(kid: str, secret: str, approver: str) -> dict[str, Any]:
    execution, waitpoint = ExecutionId.of(42, UUID(UUIDS[1])), UUID(UUIDS[3])
    token = mint(HmacKey(kid, 0, 1, None, bytes.fromhex(secret)), execution, waitpoint, approver)
    said = {
        "kid": kid,
        "secret_hex": secret,
        "execution_id": str(execution),
        "waitpoint_id": str(waitpoint),
        "approver": approver,
    }
    return {**said, "token": token, "fingerprint": fingerprint(token)[1]}


def text() -> str:
    return json.dumps(corpus(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
