"""Checks of arguments. An error names the field and what is accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

import msgspec
from msgspec import structs

from flowfabric.errors import ValidationError, ValidationKind, bad_input, invalid
from flowfabric.ids import (
    ExecutionId,
    execution_id,
    lane_id,
    name,
    parse_uuid,
    partition_key,
    tag_key_is_valid,
)
from flowfabric.model.execution import (
    MAX_PAYLOAD_BYTES,
    MAX_REASON_BYTES,
    MAX_TAGS,
    MAX_TAGS_BYTES,
    CreateExecutionArgs,
)
from flowfabric.model.lease import MAX_LEASE_TTL_MS, MAX_WAIT_MS, ClaimPolicy
from flowfabric.model.waitpoint import MAX_APPROVERS
from flowfabric.rules.waits.payload_schema import MAX_SCHEMA_BYTES
from flowfabric.rules.waits.schema_form import flaw

MAX_TIMESTAMP_MS = 2**53 - 1
MAX_IDEMPOTENCY_KEY_BYTES = 512
MAX_JSON_BYTES = 65_536
_I32 = 2**31
T = TypeVar("T")


def instance(value: object, kind: type[T], field: str = "args") -> T:
    if not isinstance(value, kind):
        raise invalid(field, kind.__name__, type(value).__name__)
    return value


def whole(value: object, field: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise invalid(field, f"a whole number from {low} to {high}", value)
    return value


def ttl_ms(value: object, field: str = "lease_ttl_ms", most: int = MAX_LEASE_TTL_MS) -> int:
    return whole(value, field, 1, most)


def timestamp(value: object, field: str) -> int:
    return whole(value, field, 0, MAX_TIMESTAMP_MS)


def optional_timestamp(value: object, field: str) -> int | None:
    return None if value is None else timestamp(value, field)


def text(value: object, field: str, most: int = MAX_REASON_BYTES) -> str:
    if type(value) is str and len(value) <= most and value.isascii() and "\0" not in value:
        return value
    if not isinstance(value, str):
        raise invalid(field, "text", value)
    if len(value) > most or len(value.encode(errors="surrogatepass")) > most:
        raise invalid(field, f"text of at most {most} bytes")
    if not is_storable(value):
        raise invalid(field, "valid Unicode text without NUL")
    return value


def optional_text(value: object, field: str, most: int = MAX_REASON_BYTES) -> str | None:
    return None if value is None else text(value, field, most)


def is_storable(value: str) -> bool:
    """Some stores reject NUL and unpaired surrogates, so all do."""
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def payload(value: object, field: str) -> bytes:
    if type(value) is bytes and len(value) <= MAX_PAYLOAD_BYTES:
        return value
    if not isinstance(value, bytes | bytearray | memoryview):
        raise invalid(field, "bytes", value)
    if len(value) > MAX_PAYLOAD_BYTES:
        raise ValidationError(
            ValidationKind.PAYLOAD_TOO_LARGE,
            f"{field}: at most {MAX_PAYLOAD_BYTES} bytes, got {len(value)}",
        )
    return bytes(value)


def tags(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise invalid("tags", "a mapping of text to text", value)
    if len(value) > MAX_TAGS:
        raise invalid("tags", f"at most {MAX_TAGS} tags, got {len(value)}")
    size = 0
    for key, held in value.items():
        if not isinstance(key, str) or not isinstance(held, str) or not is_storable(key + held):
            raise invalid("tags", "a mapping of text to text", {key: held})
        size += len(key.encode()) + len(held.encode())
    if size > MAX_TAGS_BYTES:
        raise invalid("tags", f"at most {MAX_TAGS_BYTES} bytes in all, got {size}")
    return dict(value)


def optional_uuid(value: object, field: str) -> UUID | None:
    if value is not None and not isinstance(value, UUID):
        raise invalid(field, f"a UUID, not {type(value).__name__}")
    return value


def _uuid(value: object) -> UUID | None:
    if isinstance(value, UUID):
        return value
    try:
        return parse_uuid(value if isinstance(value, str) else "")
    except ValueError:
        return None


def flow_id(value: object, field: str = "flow_id") -> UUID:
    """A UUID, or its text."""
    found = _uuid(value)
    if found is None:
        raise invalid(field, "a UUID", value)
    return found


def limit_id(value: object, field: str) -> UUID:
    """The id of a budget or a quota: a UUID, or its text."""
    found = _uuid(value)
    if found is None:
        raise bad_input(f"invalid {field}: {str(value)!r:.80}")
    return found


_FLOW_TAG = re.compile(r"[a-z][a-z0-9_]*\.")


def is_flow_tag(key: str) -> bool:
    return _FLOW_TAG.match(key) is not None


def flow_tag_key(key: object) -> str:
    if not isinstance(key, str) or not tag_key_is_valid(key):
        shown = key if isinstance(key, str) else type(key).__name__
        raise bad_input(
            f'invalid tag key: "{shown:.80}" (must match ^[a-z][a-z0-9_]*\\.[a-z0-9_][a-z0-9_.]*$)'
        )
    return key


def limit(value: object, most: int, field: str = "limit") -> int:
    """A page size, cut to `most`. Zero asks for an empty page."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise invalid(field, f"a whole number from 0 to {most}", value)
    return min(value, most)


def claim_policy(policy: object) -> ClaimPolicy:
    checked = instance(policy, ClaimPolicy, "policy")
    worker(checked.worker_id, checked.worker_instance_id)
    ttl_ms(checked.lease_ttl_ms)
    if checked.max_wait_ms is not None:
        whole(checked.max_wait_ms, "max_wait_ms", 0, MAX_WAIT_MS)
    optional_namespace(checked.namespace)
    return checked


def worker(worker_id: object, instance_id: object) -> None:
    name(worker_id, "worker_id")
    name(instance_id, "worker_instance_id")


def optional_namespace(value: object) -> str | None:
    """A namespace; None stands for the default of the operation, or for all."""
    return None if value is None else name(value, "namespace")


def partition_matches(stated: object, actual: int, field: str = "partition") -> None:
    if stated is not None and partition_key(stated, field) != actual:
        raise invalid(field, f"the partition inside the execution id ({actual})", stated)


def target(execution: object, partition: object, now: object = None) -> ExecutionId:
    """The execution of an operation that also takes its partition and a time."""
    ident = execution_id(execution)
    partition_matches(partition, ident.partition_index)
    optional_timestamp(now, "now")
    return ident


def payload_schema(value: object, field: str = "payload_schema") -> None:
    if value is None:
        return
    try:
        data = msgspec.json.encode(value) if isinstance(value, dict) else b""
    except (TypeError, ValueError, RecursionError):
        data = b""
    if not data or len(data) > MAX_SCHEMA_BYTES:
        raise invalid(field, f"a JSON schema of at most {MAX_SCHEMA_BYTES} bytes")
    wrong = flaw(msgspec.json.decode(data))
    if wrong is not None:
        raise bad_input(f"{field}: {wrong}")


def approvers(value: object) -> list[str]:
    """Distinct names, each with its own link."""
    if (
        not isinstance(value, list | tuple)
        or len(value) > MAX_APPROVERS
        or len(set(map(str, value))) < len(value)
    ):
        raise invalid("approvers", f"a list of at most {MAX_APPROVERS} different names", value)
    names = [text(each, "approvers", 256) for each in value]
    if not all(names):
        raise invalid("approvers", "names that are not empty", value)
    return names


def creation(args: object) -> CreateExecutionArgs:
    """A checked create, with mutable payloads and tags copied."""
    if not isinstance(args, CreateExecutionArgs):
        raise invalid("args", "CreateExecutionArgs", args)
    ident = execution_id(args.execution_id)
    partition_matches(args.partition_id, ident.partition_index, "partition_id")
    lane_id(args.lane_id)
    name(args.namespace, "namespace")
    name(args.execution_kind, "execution_kind")
    if args.creator_identity != "":
        name(args.creator_identity, "creator_identity")
    whole(args.priority, "priority", -_I32, _I32 - 1)
    if args.payload_encoding is not None:
        text(args.payload_encoding, "payload_encoding", 64)
    if args.idempotency_key is not None:
        text(args.idempotency_key, "idempotency_key", MAX_IDEMPOTENCY_KEY_BYTES)
    if args.key_digest is not None:
        text(args.key_digest, "key_digest", 64)
    if args.delay_until is not None:
        timestamp(args.delay_until, "delay_until")
    if args.execution_deadline_at is not None:
        timestamp(args.execution_deadline_at, "execution_deadline_at")
    if args.now is not None:
        timestamp(args.now, "now")
    data = payload(args.input_payload, "input_payload")
    held = {} if type(args.tags) is dict and not args.tags else tags(args.tags)
    if data is args.input_payload and ident is args.execution_id and not held:
        return args
    return structs.replace(args, execution_id=ident, input_payload=data, tags=held)
