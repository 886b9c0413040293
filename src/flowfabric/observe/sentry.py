"""Reports errors and crashes to Sentry, without credentials, if FF_SENTRY_DSN is set.

Needs the extra `sentry`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from flowfabric.errors import ConfigError
from flowfabric.observe.logs import extra_fields, redact, redact_fields

DSN, ENVIRONMENT, RELEASE = "FF_SENTRY_DSN", "FF_SENTRY_ENVIRONMENT", "FF_SENTRY_RELEASE"
PRODUCTION = "production"
SHUTDOWN_S = 5.0
"""Longest time that the last reports may take."""
_NEVER_SENT = ("breadcrumbs", "request", "user")


def parse_dsn(text: str) -> str:
    """Validate a DSN; empty disables Sentry. Errors do not repeat it: it is a credential."""
    if text and not _is_dsn(text):
        raise ValueError(
            "expected https://KEY@HOST/PROJECT, as Sentry shows it under Client Keys (DSN), "
            "or an empty value"
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


def sentry_from_environment() -> AbstractContextManager[None]:
    try:
        url = parse_dsn(os.environ.get(DSN, ""))
    except ValueError as error:
        raise ConfigError(f"invalid value for {DSN}: {error}") from None
    return sentry_reporting(url, os.environ.get(ENVIRONMENT, ""), os.environ.get(RELEASE, ""))


@contextmanager
def sentry_reporting(url: str, environment: str = "", release: str = "") -> Iterator[None]:
    """Enter it around a whole process, before logging is configured.

    Without a DSN it does nothing and imports nothing.
    """
    if not url:
        yield
        return
    sentry = _start_client(url, environment or PRODUCTION, release or version("flowfabric"))
    try:
        yield
    except ConfigError:
        raise  # an error of the operator, shown on the terminal
    except Exception as error:
        sentry.capture_exception(error, level="fatal")
        raise
    finally:
        sentry.get_client().close(SHUTDOWN_S)


def _start_client(url: str, environment: str, release: str) -> ModuleType:
    try:
        import sentry_sdk
        from sentry_sdk.integrations.dedupe import DedupeIntegration
        from sentry_sdk.integrations.logging import LoggingIntegration
    except ModuleNotFoundError:
        raise ConfigError(
            f"{DSN} needs one more library: pip install 'flowfabric[sentry]'"
        ) from None
    sentry_sdk.init(
        dsn=url,
        environment=environment,
        release=release,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[
            LoggingIntegration(level=None, event_level=logging.ERROR),
            DedupeIntegration(),
        ],
        before_send=redact_event,
        before_breadcrumb=lambda *_: None,
        include_local_variables=False,
        include_source_context=False,
        send_default_pii=False,
        max_request_body_size="never",
        auto_session_tracking=False,
    )
    return sentry_sdk


def redact_event(event: Mapping[str, object], hint: Mapping[str, object]) -> Any:
    """Redact an event by the rule of log lines; arguments of a record are part of its text."""
    sent = {name: v for name, v in redact_fields(event).items() if name not in _NEVER_SENT}
    record = hint.get("log_record")
    if isinstance(record, logging.LogRecord):
        message, formatted = redact(str(record.msg)), redact(record.getMessage())
        sent["logentry"] = {"message": message, "formatted": formatted}
        sent["extra"] = extra_fields(record)
    return sent
