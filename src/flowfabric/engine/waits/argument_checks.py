"""Types and sizes of the arguments of suspends and signals; rules check their meaning."""

from __future__ import annotations

from flowfabric.engine import validation
from flowfabric.errors import ValidationError, ValidationKind, bad_input, invalid
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model import waitpoint as model
from flowfabric.model.state import TimeoutBehavior

MAX_TEXT_BYTES = 4_096
MAX_KEY_BYTES = 256
MAX_COMMENT_BYTES = 16_000
MAX_PARSED_DEPTH = 16
_SIGNAL_TEXTS = (
    "signal_name",
    "signal_category",
    "source_type",
    "source_identity",
    "correlation_id",
    "target_scope",
)


def check_suspend(args: model.SuspendArgs) -> None:
    validation.instance(args, model.SuspendArgs)
    validation.flow_id(args.suspension_id, "suspension_id")
    _check_bindings(args.waitpoints)
    _check_condition(args.resume_condition, 0)
    validation.text(str(args.reason_code), "reason_code", MAX_KEY_BYTES)
    validation.text(args.requested_by, "requested_by", MAX_KEY_BYTES)
    validation.optional_timestamp(args.timeout_at, "timeout_at")
    validation.optional_timestamp(args.now, "now")
    for field in ("continuation_metadata_pointer", "idempotency_key"):
        validation.optional_text(getattr(args, field), field, MAX_TEXT_BYTES)
    try:
        TimeoutBehavior(args.timeout_behavior)
    except ValueError:
        accepted = ", ".join(TimeoutBehavior)
        raise invalid("timeout_behavior", accepted, args.timeout_behavior) from None
    policy = validation.instance(args.resume_policy, model.ResumePolicy, "resume_policy")
    _check_delay(policy.resume_delay_ms)


def _check_delay(delay_ms: object) -> None:
    if delay_ms is not None:
        validation.whole(delay_ms, "resume_delay_ms", 0, validation.MAX_TIMESTAMP_MS)


def _check_bindings(bindings: object) -> None:
    if not isinstance(bindings, list | tuple):
        accepted = "a list of FreshWaitpoint or UsePending"
        raise invalid("waitpoints", accepted, type(bindings).__name__)
    validation.whole(len(bindings), "waitpoints", 0, model.MAX_BINDINGS)
    for binding in bindings:
        if not isinstance(binding, model.FreshWaitpoint | model.UsePending):
            raise invalid("waitpoints", "FreshWaitpoint or UsePending", binding)
        validation.flow_id(binding.waitpoint_id, "waitpoint_id")
        if isinstance(binding, model.FreshWaitpoint):
            validation.text(binding.waitpoint_key, "waitpoint_key", MAX_KEY_BYTES)
            validation.payload_schema(binding.payload_schema)


def _check_condition(condition: object, depth: int) -> None:
    """Bounds the recursion; the rule refuses conditions deeper than 4."""
    if depth > MAX_PARSED_DEPTH:
        raise bad_input(f"depth {depth} exceeds cap 4 at path <root>")
    match condition:
        case model.Single(waitpoint_key=key, name=name):
            validation.text(key, "waitpoint_key", MAX_KEY_BYTES)
            validation.optional_text(name, "signal name", MAX_KEY_BYTES)
        case model.AllOf(members=several) | model.Count(waitpoints=several) if not isinstance(
            several, list | tuple
        ):
            raise invalid(
                "resume_condition", "a list of members or of waitpoint keys", type(several).__name__
            )
        case model.Count(n=n, count_kind=kind, waitpoints=keys, name=name, veto=veto):
            validation.whole(n, "n", 0, 2**31 - 1)
            if not isinstance(kind, model.CountKind):
                raise invalid("count_kind", ", ".join(model.CountKind), kind)
            for key in keys:
                validation.text(key, "waitpoint_key", MAX_KEY_BYTES)
            validation.optional_text(name, "signal name", MAX_KEY_BYTES)
            validation.optional_text(veto, "veto", MAX_KEY_BYTES)
        case model.AllOf(members=members):
            for member in members:
                _check_condition(member, depth + 1)
        case model.OperatorOnly() | model.TimeoutOnly():
            return
        case _:
            accepted = "Single, AllOf, Count, OperatorOnly or TimeoutOnly"
            raise invalid("resume_condition", accepted, type(condition).__name__)


def check_signal(args: model.DeliverSignalArgs) -> ExecutionId:
    """The execution that the signal is for."""
    validation.instance(args, model.DeliverSignalArgs)
    if args.payload is not None:
        if not isinstance(args.payload, bytes):
            raise invalid("payload", "bytes", type(args.payload).__name__)
        if len(args.payload) > model.MAX_SIGNAL_BYTES:
            detail = f"payload: at most {model.MAX_SIGNAL_BYTES} bytes, got {len(args.payload)}"
            raise ValidationError(ValidationKind.PAYLOAD_TOO_LARGE, detail)
    ident = execution_id(args.execution_id)
    validation.flow_id(args.waitpoint_id, "waitpoint_id")
    validation.flow_id(args.signal_id, "signal_id")
    if not isinstance(args.waitpoint_token, str):
        raise ValidationError(ValidationKind.INVALID_TOKEN, "missing_token")
    for field in _SIGNAL_TEXTS:
        validation.text(getattr(args, field), field, MAX_TEXT_BYTES)
    validation.text(args.comment, "comment", MAX_COMMENT_BYTES)
    validation.text(args.payload_encoding, "payload_encoding", 64)
    validation.optional_text(args.idempotency_key, "idempotency_key", MAX_TEXT_BYTES)
    validation.optional_timestamp(args.created_at, "created_at")
    validation.optional_timestamp(args.now, "now")
    for field in ("dedup_ttl_ms", "max_signals_per_execution", "signal_maxlen"):
        validation.whole(getattr(args, field), field, 0, validation.MAX_TIMESTAMP_MS)
    _check_delay(args.resume_delay_ms)
    return ident
