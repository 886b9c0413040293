"""Tasks as their workers declare them, and submissions by the name of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.policy import ExecutionPolicy

MAX_TASKS_PER_CALL = 256
MAX_TASKS = 5_000
"""Per namespace."""
MAX_TASKS_PAGE = 1_000
MAX_DESCRIPTION_BYTES = 4_096
MAX_SIGNATURE_BYTES = 2_048
SEEN_EVERY_MS = 600_000
"""`last_seen_ms` is at most this much behind the last worker that declared the task."""

JsonSchema = dict[str, Any]


class TaskDeclaration(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a submission of the task applies.

    - `version`: a declaration with a lower one never replaces one with a higher one.
    - `policy`: priority, retries, timeout, required capabilities, quota and retention.
    - `quota`: the name of the policy's quota, for people.
    - `arguments`: the JSON schema of the arguments by name; None accepts any object.
    - `result`: the JSON schema of the result; None is unknown.
    - `description`, `signature`: for people.
    - `sealed`: a codec of the app encodes the arguments, so that only the app can submit it.
    """

    name: str
    lane_id: str = "default"
    version: int = 0
    policy: ExecutionPolicy = ExecutionPolicy()
    quota: str = ""
    arguments: JsonSchema | None = None
    result: JsonSchema | None = None
    description: str = ""
    signature: str = ""
    sealed: bool = False


class RegisterTasksArgs(Struct, frozen=True, kw_only=True):
    """The tasks a worker serves.

    `declared_at_ms` is that of the answer to its first registration; a worker that repeats the
    call passes it on, so that it does not replace what a worker has declared after it.
    """

    tasks: tuple[TaskDeclaration, ...]
    namespace: str = "default"
    declared_at_ms: int | None = None


class TasksRegistered(Struct, frozen=True):
    """`written`: the names of new and of changed tasks. `newer`: those whose stored declaration is
    newer, and stays.
    """

    declared_at_ms: int
    written: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()


class TaskHead(Struct, frozen=True, omit_defaults=True):
    """The part of a declaration that listings show."""

    lane_id: str = "default"
    version: int = 0
    signature: str = ""
    description: str = ""
    quota: str = ""
    sealed: bool = False


class TaskMark(Struct, frozen=True):
    """The columns of `ff_task` by which a registration is decided."""

    name: str
    fingerprint: str
    task_version: int
    quota_policy_id: UUID | None
    declared_at_ms: int
    last_seen_ms: int
    version: int


MARK_COLUMNS = TaskMark.__struct_fields__


class TaskSummary(Struct, frozen=True):
    """A line of a listing. `workers` is the number of live workers that offer the task."""

    name: str
    namespace: str
    lane_id: str
    version: int
    fingerprint: str
    signature: str
    description: str
    quota: str
    sealed: bool
    changed_at_ms: int
    last_seen_ms: int
    workers: int


class TaskInfo(Struct, frozen=True):
    """A registered task. `fingerprint` identifies this declaration among those of the name."""

    namespace: str
    declaration: TaskDeclaration
    fingerprint: str
    registered_at_ms: int
    changed_at_ms: int
    last_seen_ms: int
    workers: int


class Submission(Struct, frozen=True, kw_only=True):
    """One submission of a task. What is None is that of the declaration."""

    execution_id: ExecutionId
    namespace: str
    payload: bytes
    creator: str = ""
    lane_id: str | None = None
    priority: int | None = None
    requires: tuple[str, ...] = ()
    tags: Mapping[str, str] = {}
    key: str | None = None
    key_digest: str | None = None
    key_ttl_ms: int | None = None
