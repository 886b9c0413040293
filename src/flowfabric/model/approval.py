"""Open waitpoints with their executions, as people decide about them."""

from __future__ import annotations

from msgspec import Struct


class ApprovalListed(Struct, frozen=True):
    """An open waitpoint with its execution, without the token. `counted` is the progress of a
    condition that counts.
    """

    execution_id: str
    waitpoint_id: str
    waitpoint_key: str
    state: str
    execution_kind: str
    lane_id: str
    reason_code: str
    required_signal_names: tuple[str, ...]
    counted: str
    age_ms: int
    expires_in_ms: int | None
    on_timeout: str
    token_kid: str
    token_fingerprint: str
