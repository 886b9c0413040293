"""URLs of cells, and what a server's settings promise."""

from __future__ import annotations

import pytest

from flowfabric.errors import ConfigError
from flowfabric.store.valkey.options import Options, options_of
from flowfabric.store.valkey.server_checks import check_policy, check_version, durability


def test_a_url_names_a_cell() -> None:
    assert options_of("valkey://h") == Options("h", 6379, "default")
    assert options_of("valkey://h:7000/jobs") == Options("h", 7000, "jobs")
    assert options_of("valkeys://u:p%40ss@h/a?cluster=1") == Options(
        "h", 6379, "a", "u", "p@ss", tls=True, cluster=True
    )
    assert options_of("valkey://h/jobs").prefix == "{jobs}"


@pytest.mark.parametrize(
    "url",
    [
        "valkey://",
        "valkey:///jobs",
        "redis://h/jobs",
        "valkey://h:port/jobs",
        "valkey://h/jo}bs",
        "valkey://h/" + "x" * 101,
        "valkey://h/jobs?cluster=2",
        "valkey://h/jobs?clustr=1",
        "valkey://h/jobs?ca=/ca.pem",
    ],
)
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^url: "):
        options_of(url)


def test_the_durability_is_that_of_the_url_or_of_the_caller() -> None:
    assert not options_of("valkey://h").replicated
    assert options_of("valkey://h?durability=replicated").replicated
    assert options_of("valkey://h", "replicated").replicated
    assert not options_of("valkey://h?durability=replicated", "server").replicated
    for url, wanted in (("valkey://h?durability=always", None), ("valkey://h", "always")):
        with pytest.raises(ConfigError, match="durability: server or replicated is accepted"):
            options_of(url, wanted)


def test_a_replica_loses_what_it_has_not_received() -> None:
    settings = {"appendonly": "yes", "appendfsync": "always"}
    assert "a failover loses" in durability(settings, replicas=1)
    assert durability(settings, replicas=1).startswith("full (append file, ")
    assert durability(settings, replicas=1, is_replicated=True).startswith("replicated")


def test_the_password_is_not_shown() -> None:
    options = options_of("valkey://user:secret@h:7000/jobs")
    assert "secret" not in repr(options) and "user" not in repr(options)
    assert options.shown == "valkey://h:7000/jobs"


def test_an_old_server_is_refused() -> None:
    check_version("redis_version:7.2.4\r\nvalkey_version:8.0.1\r\n")
    for info, found in (
        ("valkey_version:7.2.5\r\n", "7.2.5"),
        ("redis_version:7.4.0\r\n", "7.4.0"),
        ("", "unknown"),
    ):
        with pytest.raises(ConfigError, match=f"the server has {found}"):
            check_version(info)


def test_a_server_that_evicts_is_refused() -> None:
    check_policy({"maxmemory-policy": "noeviction"})
    with pytest.raises(ConfigError, match="CONFIG SET maxmemory-policy noeviction"):
        check_policy({"maxmemory-policy": "allkeys-lru"})


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        ({}, "unknown"),
        ({"appendonly": "no", "appendfsync": "always"}, "none"),
        ({"appendonly": "yes", "appendfsync": "always"}, "full"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, "about a second"),
        ({"appendonly": "yes", "appendfsync": "no"}, "up to 30 s"),
    ],
)
def test_the_durability_follows_from_the_append_file(settings: dict[str, str], begins: str) -> None:
    assert durability(settings).startswith(begins)
