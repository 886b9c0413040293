"""Sentry is told of errors and crashes where FF_SENTRY_DSN says so, and of nothing that opens a door. Needs the extra sentry."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from flowfabric.errors import ConfigError
from flowfabric.observe.logs import extras, redacted, shown

DSN, ENVIRONMENT, RELEASE = "FF_SENTRY_DSN", "FF_SENTRY_ENVIRONMENT", "FF_SENTRY_RELEASE"
PRODUCTION = "production"
LAST_S = 5.0
"""How long the end may take to send what is left."""
_NEVER_SENT = ("breadcrumbs", "request", "user")


def dsn(text: str) -> str:
    """As Sentry gives it out, or empty. What is wrong with it is said without repeating it: it is a credential."""
    if text and not _is_dsn(text):
        raise ValueError(
            "expected https://KEY@HOST/PROJECT, as Sentry shows it under Client Keys (DSN), or nothing"
        )
    return text


def _is_dsn(text: str) -> bool:
    try:
        parts = urlsplit(text)
        project = parts.path.rpartition("/")[2]
        known = (
            parts.scheme in ("http", "https")
            and parts.username
            and parts.hostname
            and parts.port != 0
        )
    except ValueError:
        return False
    return bool(known) and project.isascii() and project.isdigit()


def told_from_environment() -> AbstractContextManager[None]:
    try:
        where = dsn(os.environ.get(DSN, ""))
    except ValueError as error:
        raise ConfigError(f"invalid value for {DSN}: {error}") from None
    return told(where, os.environ.get(ENVIRONMENT, ""), os.environ.get(RELEASE, ""))


@contextmanager
def told(where: str, environment: str = "", release: str = "") -> Iterator[None]:
    """Around a whole process, before its logging is set up. Without a DSN it does nothing, and imports nothing."""
    if not where:
        yield
        return
    sentry = _begun(where, environment or PRODUCTION, release or version("flowfabric"))
    try:
        yield
    except ConfigError:
        raise  # whoever started it is told, and it is not a crash
    except Exception as error:
        sentry.capture_exception(error, level="fatal")
        raise
    finally:
        sentry.get_client().close(LAST_S)


def _begun(where: str, environment: str, release: str) -> Any:
    try:
        import sentry_sdk
        from sentry_sdk.integrations.dedupe import DedupeIntegration
        from sentry_sdk.integrations.logging import LoggingIntegration
    except ModuleNotFoundError:
        raise ConfigError(
            f"{DSN} needs one more library: pip install 'flowfabric[sentry]'"
        ) from None
    sentry_sdk.init(
        dsn=where,
        environment=environment,
        release=release,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[
            LoggingIntegration(level=None, event_level=logging.ERROR),
            DedupeIntegration(),
        ],
        before_send=cleaned,
        before_breadcrumb=lambda *_: None,
        include_local_variables=False,
        include_source_context=False,
        send_default_pii=False,
        max_request_body_size="never",
        auto_session_tracking=False,
    )
    return sentry_sdk


def cleaned(event: Any, hint: dict[str, Any]) -> Any:
    """As it may be sent: the rule is that of the log lines. Arguments of a log record are in its text already."""
    said = {name: value for name, value in shown("", event).items() if name not in _NEVER_SENT}
    record = hint.get("log_record")
    if isinstance(record, logging.LogRecord):
        said["logentry"] = {
            "message": redacted(str(record.msg)),
            "formatted": redacted(record.getMessage()),
        }
        said["extra"] = extras(record)
    return said
