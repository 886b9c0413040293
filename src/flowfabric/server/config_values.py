"""Parsers of setting values: each returns the value of a text or raises ValueError."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import cast, get_args

from flowfabric.connect import is_postgres, is_valkey, valkey_options
from flowfabric.engine.core import LeaseEvents
from flowfabric.errors import ConfigError
from flowfabric.ids import lane_id
from flowfabric.rules.waits.signing_keys import is_secret
from flowfabric.sdk.options import age_ms
from flowfabric.server.auth import MIN_TOKEN_LENGTH

log = logging.getLogger("flowfabric.server")

U16, U32, U64 = 2**16 - 1, 2**32 - 1, 2**64 - 1


_HOST = re.compile(r"[A-Za-z0-9._:-]{1,255}\Z")


def number(name: str, most: int, least: int = 0) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"expected {name}{' above zero' if least else ''}, got '{text:.40}'")
        return int(text)

    return parse


def flag(text: str) -> bool:
    return text == "1" or text.lower() == "true"


def backend(text: str) -> str:
    name = text.lower() or "sqlite"
    if name not in ("sqlite", "postgres", "valkey"):
        raise ValueError(f"expected sqlite, postgres or valkey, got '{text:.40}'")
    return name


def lease_events(text: str) -> LeaseEvents:
    for accepted in get_args(LeaseEvents):
        if text == accepted:
            return cast(LeaseEvents, accepted)
    raise ValueError(f"expected all, transitions or off, got '{text:.40}'")


def postgres_url(text: str) -> str:
    if text and not is_postgres(text):
        raise ValueError(
            "expected postgresql://user@host/database; pairs such as host=... dbname=... "
            "are not a URL"
        )
    return text


def valkey_url(text: str) -> str:
    if text and not is_valkey(text):
        raise ValueError("expected valkey://host:6379/CELL, or valkeys:// for TLS")
    return text


def durability(text: str) -> str:
    if text:
        valkey_options("valkey://localhost", text)
    return text


def host(text: str) -> str:
    if not _HOST.match(text):
        raise ValueError(f"expected the name or the address of a host, got '{text:.60}'")
    return text


def secret(text: str) -> str:
    if not is_secret(text):
        raise ValueError(
            "expected 64 hexadecimal digits or more, in pairs, not all zero; "
            "create them with: openssl rand -hex 32"
        )
    return text


def token(text: str) -> str:
    if text and len(text) < MIN_TOKEN_LENGTH:
        raise ValueError(
            f"expected at least {MIN_TOKEN_LENGTH} characters, got {len(text)}; "
            "create one with: openssl rand -hex 32"
        )
    return text


def address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > U16:
        raise ValueError(f"expected host:port, got '{text:.60}'")
    return host.strip("[]"), int(port)


def lanes(text: str) -> list[str]:
    found = [lane for part in text.split(",") if (lane := part.strip())]
    if not found:
        raise ValueError("expected at least one lane, separated by commas")
    return [str(lane_id(lane)) for lane in found]


def origins(text: str) -> list[str]:
    found = [origin for part in text.split(",") if (origin := part.strip())]
    valid = [
        origin
        for origin in found
        if origin == "*" or (origin.isascii() and origin.isprintable() and " " not in origin)
    ]
    if found and not valid:
        raise ValueError("none of the origins is a valid header value")
    if len(valid) < len(found):
        log.warning(
            "FF_CORS_ORIGINS: origins that are no header values are ignored",
            extra={"ignored": [each for each in found if each not in valid], "kept": valid},
        )
    return valid


def interval(text: str) -> int | None:
    return number("u64", U64, 1)(text) if text else None


def age(text: str) -> int:
    span = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else text
    try:
        return age_ms(span, "age")
    except ConfigError:
        raise ValueError(
            f"expected a span such as 36h or 30d, or seconds, from 1s to 10 years, got '{text:.40}'"
        ) from None
