"""Users with few rights, and TLS. The server of the wheel has no TLS, so a proxy speaks it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowfabric.connect import connect_store
from flowfabric.errors import ConfigError, FlowFabricError, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy
from flowfabric.store.valkey.library import library
from flowfabric.testing.valkey import ValkeyServer
from tests import valkey
from tests.store.valkey.certificates import OPENSSL, issuer, server_side
from tests.store.valkey.cuts import Network
from tests.store.valkey.test_replicated import pair
from valkey import Valkey

GUIDE = Path(__file__).parents[3] / "docs" / "valkey.md"
PASSWORD = "s3cret-of-ff"
RULE = re.compile(r"^ACL SETUSER ff (.*)$", re.MULTILINE)


def documented() -> list[str]:
    """The rules that the guide gives to a user, with its password."""
    found = RULE.search(GUIDE.read_text("utf-8").replace("\\\n", " "))
    assert found is not None
    return found.group(1).replace(">PASSWORD", f">{PASSWORD}").split()


@contextmanager
def user(server: ValkeyServer, *more: str) -> Iterator[str]:
    """The URL of the cell `jobs` for a user with the documented rules and these."""
    with Valkey(port=server.port) as admin:
        admin.execute_command("ACL", "SETUSER", "ff", "reset", *documented(), *more)
        admin.execute_command("FUNCTION", "FLUSH", "SYNC")
        yield f"valkey://ff:{PASSWORD}@127.0.0.1:{server.port}/jobs"
        admin.execute_command("ACL", "DELUSER", "ff")


async def _one_life(url: str, namespace: str = "default") -> str:
    engine = await connect_store(url)
    policy = ClaimPolicy("w", "i", 30_000, namespace=namespace)
    try:
        ident = ExecutionId.solo("default")
        await engine.create_execution(CreateExecutionArgs(execution_id=ident, namespace=namespace))
        for claimed in await engine.claim_many("default", (), policy, 1):
            await engine.complete(claimed.handle, b"done")
        return str(await engine.read_execution_state(ident))
    finally:
        await engine.close()


async def test_a_user_with_the_documented_rights_can_do_everything() -> None:
    server = valkey.server()
    with user(server) as url:
        assert await _one_life(url) == "completed"
        assert await _one_life(url, "acme") == "completed"
        with Valkey(port=server.port, username="ff", password=PASSWORD) as other:
            for refused in (
                "FLUSHALL",
                "KEYS *",
                "CONFIG SET maxmemory 1",
                "GET {other}:T",
                "GET {jobs2}:T",
            ):
                with pytest.raises(Exception, match="permissions"):
                    other.execute_command(*refused.split())


async def test_the_documented_rights_suffice_for_a_replica_to_confirm() -> None:
    with pair() as (primary, replica), user(primary) as url:
        assert await _one_life(f"{url}?durability=replicated") == "completed"
        assert replica.port


RIGHTS = [
    "+fcall", "+function|load", "+info", "+get", "+set", "+del", "+exists", "+time", "+hgetall",
    "+hget", "+hmget", "+hset", "+hdel", "+zadd", "+zrem", "+zrangebylex", "+zrevrangebylex",
    "+publish", "+subscribe",
]  # fmt: skip
"""Without one of these nothing is written."""


def test_every_command_of_the_library_is_among_the_rights() -> None:
    called = re.findall(r"""call\(["']([A-Z]+)""", library().text)
    assert set(called) > {"HSET", "ZADD", "INFO"}
    assert {f"+{name.lower()}" for name in called} <= set(RIGHTS)


@pytest.mark.parametrize("right", RIGHTS)
async def test_a_missing_right_is_one_clear_line(right: str) -> None:
    assert right in documented()
    server = valkey.server()
    with user(server, f"-{right[1:]}") as url, Valkey(port=server.port) as admin:
        before = set(admin.keys("{jobs}*"))
        with pytest.raises(TransportError, match=r"too few rights; docs/valkey\.md") as refused:
            await connect_store(url, loops=False)
        _is_clear(refused.value)
        assert right[1:] in str(refused.value) or right == "+subscribe"
        assert refused.value.backend_kind == "auth"
        assert set(admin.keys("{jobs}*")) == before


async def test_a_user_has_the_cells_of_its_keys_only() -> None:
    with user(valkey.server()) as url:
        with pytest.raises(TransportError, match=r"subscribing to the channel \{other\}:W") as no:
            await connect_store(url.replace("/jobs", "/other"), loops=False)
        _is_clear(no.value)


@pytest.mark.parametrize("who", ["ff:wrong-password", "nobody:wrong-password", "nobody@h:p@w"])
async def test_a_wrong_user_or_password_is_one_clear_line(who: str) -> None:
    name, _, password = who.partition(":")
    with user(valkey.server()) as url:
        url = url.replace(f"ff:{PASSWORD}@", f"{name}:{password.replace('@', '%40')}@", 1)
        if "@h" in name:
            url = url.replace("@h:", "%40h:")
        with pytest.raises(TransportError, match="refused this user or password") as refused:
            await connect_store(url, loops=False)
        _is_clear(refused.value)
        assert password not in str(refused.value)


def _is_clear(error: FlowFabricError) -> None:
    assert "\n" not in str(error) and len(str(error)) < 250
    assert PASSWORD not in str(error) and PASSWORD not in repr(error.__cause__)


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl on this machine")
async def test_tls_with_an_issuer_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = issuer(tmp_path, "ours"), issuer(tmp_path, "other")
    network = Network(server_side(tmp_path, ours))
    network.open([valkey.server().port])
    try:
        host, port = network.address("127.0.0.1", valkey.server().port)
        url = f"valkeys://{host}:{port}/tls"
        assert await _one_life(f"{url}?ca={ours}") == "completed"
        monkeypatch.setattr("flowfabric.store.valkey.client.CONNECT_TIMEOUT_MS", 1_000)
        for refused in (url, f"{url}?ca={other}"):
            with pytest.raises(TransportError, match=r"cannot reach valkeys://.*certificate") as no:
                await connect_store(refused, loops=False)
            _is_clear(no.value)
        plain = f"valkeys://127.0.0.1:{valkey.server().port}/tls?ca={ours}"
        with pytest.raises(TransportError, match="is it a port with TLS") as no:
            await connect_store(plain, loops=False)
    finally:
        network.close()


async def test_the_file_of_certificates_is_checked(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no certificate")
    for file, said in ((tmp_path / "none", "No such file"), (text, "certificates in PEM")):
        with pytest.raises(ConfigError, match=f"url: ca: .*{said}"):
            await connect_store(f"valkeys://127.0.0.1:1/jobs?ca={file}", loops=False)
