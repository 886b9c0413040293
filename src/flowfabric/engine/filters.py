"""Filters of scanners and subscribers."""

from __future__ import annotations

from flowfabric.errors import Corruption, invalid
from flowfabric.ids import INSTANCE_TAG_KEY
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import Execution, stored_tags
from flowfabric.model.worker import Routed


def checked_filter(wanted: object) -> ScannerFilter:
    """The filter given; None passes everything."""
    if wanted is None:
        return ScannerFilter()
    if not isinstance(wanted, ScannerFilter):
        raise invalid("wanted", "a ScannerFilter", wanted)
    if wanted.namespace is not None and not isinstance(wanted.namespace, str):
        raise invalid("wanted.namespace", "text", wanted.namespace)
    pair = wanted.instance_tag
    if pair is not None and not (
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(p, str) for p in pair)
    ):
        raise invalid("wanted.instance_tag", "a (key, value) pair of text", pair)
    return wanted


def passes(execution: Execution | Routed, wanted: ScannerFilter | None) -> bool:
    """Whether an execution passes the filter of a scanner."""
    if wanted is None or wanted.empty:
        return True
    if wanted.namespace is not None and execution.namespace != wanted.namespace:
        return False
    if wanted.instance_tag is None:
        return True
    key, value = wanted.instance_tag
    if key == INSTANCE_TAG_KEY:
        return execution.instance_tag == value
    return tagged(execution.tags, key, value)


def tagged(tags: str, key: str, value: str) -> bool:
    """Unreadable tags count as none, so that a damaged row does not stop the others."""
    try:
        return stored_tags(tags).get(key) == value
    except Corruption:
        return False
