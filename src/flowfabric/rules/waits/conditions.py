"""Resume conditions: their JSON form, their checks, and what a signal contributes to one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import Corruption, bad_input
from flowfabric.model import waitpoint as model

VETO = "veto"
"""The token that satisfies every condition; tokens of nodes contain a colon."""


class Arrived(Struct, frozen=True):
    """The fields of a signal that a condition depends on."""

    waitpoint_id: UUID
    waitpoint_key: str
    signal_id: UUID
    signal_name: str
    source_type: str
    source_identity: str
    link: str = ""


def encode(condition: model.Condition) -> str:
    return json.dumps(_wire(condition), separators=(",", ":"), ensure_ascii=False)


def _matcher(name: str | None) -> object:
    return "Wildcard" if name is None else {"ByName": name}


def _wire(condition: model.Condition) -> object:
    match condition:
        case model.Single(waitpoint_key=key, name=name):
            return {"Single": {"waitpoint_key": key, "matcher": _matcher(name)}}
        case model.OperatorOnly():
            return "OperatorOnly"
        case model.TimeoutOnly():
            return "TimeoutOnly"
        case model.AllOf(members=members):
            return {"Composite": {"kind": "AllOf", "members": [*map(_wire, members)]}}
    count: dict[str, object] = {
        "kind": "Count",
        "n": condition.n,
        "count_kind": str(condition.count_kind),
        "waitpoints": list(condition.waitpoints),
    }
    for field, name in (("matcher", condition.name), ("veto", condition.veto)):
        if name is not None:
            count[field] = _matcher(name)
    return {"Composite": count}


def decode(text: str) -> model.Condition:
    try:
        return _read(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise Corruption(f"suspension condition: {error}") from None


def _name(matcher: Mapping[str, object] | Literal["Wildcard"] | None) -> str | None:
    return None if matcher is None or matcher == "Wildcard" else str(matcher["ByName"])


def _read(tree: Any) -> model.Condition:
    if tree == "OperatorOnly":
        return model.OperatorOnly()
    if tree == "TimeoutOnly":
        return model.TimeoutOnly()
    if "Single" in tree:
        single = tree["Single"]
        return model.Single(single["waitpoint_key"], _name(single["matcher"]))
    composite = tree["Composite"]
    if composite["kind"] == "AllOf":
        return model.AllOf(tuple(_read(member) for member in composite["members"]))
    kind = model.CountKind(composite["count_kind"])
    names = _name(composite.get("matcher")), _name(composite.get("veto"))
    return model.Count(composite["n"], kind, tuple(composite["waitpoints"]), *names)


def is_composite(condition: model.Condition) -> bool:
    return isinstance(condition, model.AllOf | model.Count)


def nodes(condition: model.Condition, path: str = "") -> Iterator[tuple[str, model.Condition]]:
    yield path, condition
    if isinstance(condition, model.AllOf):
        for at, member in enumerate(condition.members):
            yield from nodes(member, f"{path}.members[{at}]" if path else f"members[{at}]")


def check_shape(condition: model.Condition) -> None:
    """Raises for a condition that is too deep, too large, or can never be satisfied."""
    _check_depth(condition, "", 1)
    for count, (path, node) in enumerate(nodes(condition), 1):
        where = f"at path {path or '<root>'}"
        if count > model.MAX_CONDITION_NODES:
            raise bad_input(f"condition has more than {model.MAX_CONDITION_NODES} nodes")
        if isinstance(node, model.AllOf) and not node.members:
            raise bad_input(f"allof_empty_members {where}")
        if isinstance(node, model.Count):
            _check_count(node, where)


def _check_depth(condition: model.Condition, path: str, depth: int) -> None:
    if not isinstance(condition, model.AllOf | model.Count):
        return
    if depth > model.MAX_CONDITION_DEPTH:
        raise bad_input(
            f"depth {depth} exceeds cap {model.MAX_CONDITION_DEPTH} at path {path or '<root>'}"
        )
    for at, member in enumerate(condition.members if isinstance(condition, model.AllOf) else ()):
        _check_depth(member, f"{path}.members[{at}]" if path else f"members[{at}]", depth + 1)


def _check_count(node: model.Count, where: str) -> None:
    if node.n < 1:
        raise bad_input(f"count_n_zero {where}")
    if not node.waitpoints:
        raise bad_input(f"count_waitpoints_empty {where}")
    if node.count_kind is model.CountKind.DISTINCT_WAITPOINTS and node.n > len(node.waitpoints):
        most = f"waitpoints.len()={len(node.waitpoints)}"
        raise bad_input(f"count_exceeds_waitpoint_set: n={node.n} > {most} {where}")


def referenced(condition: model.Condition) -> list[str]:
    """Every waitpoint key of a condition, in the order of the tree."""
    keys: dict[str, None] = {}
    for _, node in nodes(condition):
        if isinstance(node, model.Single):
            keys[node.waitpoint_key] = None
        elif isinstance(node, model.Count):
            keys.update(dict.fromkeys(node.waitpoints))
    return list(keys)


def required_names(condition: model.Condition, key: str) -> list[str]:
    """The signal names that a waitpoint waits for; none means any."""
    names: dict[str, None] = {}
    for _, node in nodes(condition):
        match node:
            case model.Single(waitpoint_key=wanted, name=str(name)) if wanted == key:
                names[name] = None
            case model.Count(waitpoints=keys, name=name, veto=veto) if key in keys:
                names.update(dict.fromkeys(each for each in (name, veto) if each is not None))
            case model.OperatorOnly():
                names["__operator_only__"] = None
            case model.TimeoutOnly():
                names["__timeout_only__"] = None
    return list(names)


def accepted_names(condition: model.Condition, key: str) -> list[str]:
    """The only signal names that a waitpoint takes; none means any. A veto restricts the names."""
    restricted = any(
        isinstance(node, model.Count) and node.veto is not None and key in node.waitpoints
        for _, node in nodes(condition)
    )
    return required_names(condition, key) if restricted else []


class Verdict(Struct, frozen=True):
    """The effect of a signal, the tokens that satisfy the condition now, and whether it counted."""

    effect: str
    satisfied: tuple[str, ...]
    matched: bool
    met: bool = False


def judge(condition: model.Condition, satisfied: tuple[str, ...], signal: Arrived) -> Verdict:
    """Adds one signal to the tokens that satisfy a condition."""
    listened, tokens = False, []
    for path, node in nodes(condition):
        if not _listens(node, signal.waitpoint_key):
            continue
        listened = True
        if _accepts(node, signal.signal_name):
            tokens.append(_token(path, node, signal))
    grown = tuple(dict.fromkeys((*satisfied, *tokens)))
    if tokens and len(grown) > len(satisfied):
        met = is_met(condition, grown)
        return Verdict(
            "resume_condition_satisfied" if met else "appended_to_waitpoint",
            grown,
            matched=True,
            met=met,
        )
    if not is_composite(condition):
        return Verdict("appended_to_waitpoint", satisfied, matched=bool(tokens))
    if not listened:
        return Verdict("signal_ignored_not_in_condition", satisfied, matched=False)
    if not tokens:
        return Verdict("signal_ignored_matcher_failed", satisfied, matched=False)
    return Verdict("appended_to_waitpoint_duplicate", satisfied, matched=True)


def _listens(node: model.Condition, key: str) -> bool:
    if isinstance(node, model.Single):
        return node.waitpoint_key == key
    return isinstance(node, model.Count) and key in node.waitpoints


def _accepts(node: model.Condition, name: str) -> bool:
    wanted = node.name if isinstance(node, model.Single | model.Count) else None
    return wanted is None or wanted == name or _vetoes(node, name)


def _vetoes(node: model.Condition, name: str) -> bool:
    return isinstance(node, model.Count) and node.veto is not None and node.veto == name


def _token(path: str, node: model.Condition, signal: Arrived) -> str:
    if not isinstance(node, model.Count):
        return f"leaf:{path}"
    if _vetoes(node, signal.signal_name):
        return VETO
    if node.count_kind is model.CountKind.DISTINCT_WAITPOINTS:
        return f"{path}#wp:{signal.waitpoint_id}"
    if node.count_kind is model.CountKind.DISTINCT_SIGNALS:
        return f"{path}#sig:{signal.signal_id}"
    if signal.link:  # a link counts once, for any name of its user
        return f"{path}#link:{signal.link}"
    return f"{path}#src:{signal.source_type}:{signal.source_identity}"


def is_met(condition: model.Condition, satisfied: tuple[str, ...], path: str = "") -> bool:
    if VETO in satisfied:
        return True
    match condition:
        case model.Single():
            return f"leaf:{path}" in satisfied
        case model.Count(n=n):
            return sum(token.startswith(f"{path}#") for token in satisfied) >= n
        case model.AllOf(members=members):
            inside = [
                f"{path}.members[{at}]" if path else f"members[{at}]" for at in range(len(members))
            ]
            return bool(members) and all(
                is_met(m, satisfied, p) for m, p in zip(members, inside, strict=True)
            )
        case _:
            return False
