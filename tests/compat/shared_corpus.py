"""Writes vectors/cross-language.json: the document that all implementations of FlowFabric produce
byte for byte.

`python -m tests.compat.shared_corpus` writes the file.
Names of keys are those of the original's Valkey backend; no store here uses them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flowfabric.codec.token import signed
from flowfabric.ids import ExecutionId, name, partition_tag
from flowfabric.model.signing_key import HmacKey

FILE = Path(__file__).parent / "vectors" / "cross-language.json"
SIGNED = (
    ("kid-a", b"secret-1", b"hello"),
    ("vllm-demo-2026-05", b"super-secret-rotating-key-v1", b"exec=abc:waitpoint=wp-42"),
    ("k0", b"k", b""),
    ("block-sized-secret", b"\xaa" * 64, b"message"),
    ("binary", b"k", b"\x00\x01\xfe\xff"),
)
EXECUTIONS = (
    "{fp:0}:00000000-0000-4000-8000-000000000000",
    "{fp:42}:11111111-2222-4333-8444-555555555555",
    "{fp:255}:ffffffff-ffff-4fff-8fff-ffffffffffff",
)
KEYS = ("core", "payload", "result", "tags", "attempts", "exec_signals", "waitpoints")
NAMESPACES = ("acme", "tenant_1")
LANES = ("default", "hot", "lane-2")


def corpus() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "produced_by": "ff-client/examples/gen_cross_lang_corpus.rs (ff_core)",
        "hmac": [_signed(*each) for each in SIGNED],
        "keys": {
            "exec_keys": [_exec_keys(ExecutionId(text)) for text in EXECUTIONS],
            "free_functions": _free_functions(),
        },
        "namespace_round_trip": [
            {"as_str": name(text, "namespace"), "input": text} for text in NAMESPACES
        ],
    }


def _signed(kid: str, secret: bytes, message: bytes) -> dict[str, str]:
    token = f"{kid}:{signed(HmacKey(kid, 0, 1, None, secret), message)}"
    return {
        "secret_hex": secret.hex(),
        "kid": kid,
        "message_hex": message.hex(),
        "expected_token": token,
    }


def _exec_keys(ident: ExecutionId) -> dict[str, Any]:
    start = f"ff:exec:{partition_tag(ident.partition_index)}:{ident}"
    return {
        "execution_id": ident,
        "keys": {key: f"{start}:{key.removeprefix('exec_')}" for key in KEYS},
    }


def _free_functions() -> dict[str, list[dict[str, Any]]]:
    def cases(field: str, values: tuple[str, ...], form: str, **more: str) -> list[dict[str, Any]]:
        return [
            {"args": {field: value, **more}, "expected": form.format(value)} for value in values
        ]

    return {
        "global_config_partitions": [{"args": {}, "expected": "ff:config:partitions"}],
        "namespace_executions_key": cases(
            "namespace", ("acme", "tenant_1", "ns-with-dashes"), "ff:ns:{}:executions"
        ),
        "idempotency_key": cases(
            "idem_key",
            ("key-1", "key-with-dash"),
            "ff:idem:exec:acme:{}",
            tag="exec",
            namespace="acme",
        ),
        "lane_config_key": cases("lane", LANES, "ff:lane:{}:config"),
        "lane_counts_key": cases("lane", LANES, "ff:lane:{}:counts"),
    }


def text() -> str:
    return json.dumps(corpus(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
