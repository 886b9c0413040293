"""A Valkey cluster on loopback: three primaries and a replica of each, real processes."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from valkey.exceptions import ValkeyError

from flowfabric.testing.postgres import free_port
from flowfabric.testing.valkey import find_server
from tests.patience import patience
from valkey import Valkey

SLOTS = 16_384
PRIMARIES = 3
WAIT_S = 30.0
FAILED_AFTER_MS = 3_000
"""A node that is silent for so long is failed over by the others."""


class Node:
    """One process with its folder and port, which it keeps when it is started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options = folder, options
        self.port, self._bus = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder.mkdir()

    def start(self) -> None:
        settings = {
            "port": self.port,
            "cluster-port": self._bus,
            "bind": "127.0.0.1",
            "dir": self._folder,
            "save": "",
            "logfile": "log",
            "cluster-enabled": "yes",
            "cluster-node-timeout": FAILED_AFTER_MS,
            "cluster-replica-validity-factor": 0,
            "cluster-allow-replica-migration": "no",
            "repl-ping-replica-period": 1,
            "repl-diskless-sync-delay": 0,
        }
        command = [str(find_server())]
        for name, value in settings.items():
            command += [f"--{name}", str(value)]
        self._process = subprocess.Popen([*command, *self._options])
        self.until(lambda: self.told("PING") is not None, "answers")

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def ask(self, *command: object) -> Any:
        client = Valkey(
            host="127.0.0.1", port=self.port, socket_timeout=WAIT_S, decode_responses=True
        )
        client.response_callbacks.clear()
        try:
            return client.execute_command(*map(str, command))  # type: ignore[no-untyped-call]
        finally:
            client.close()  # type: ignore[no-untyped-call]

    def told(self, *command: object) -> Any:
        """None when it does not answer."""
        try:
            return self.ask(*command)
        except (ValkeyError, OSError):
            return None

    def replicates(self, primary: str) -> bool:
        return self.told("CLUSTER", "REPLICATE", primary) is not None

    def facts(self, *command: str) -> dict[str, str]:
        """Of an answer with a name and a value on each line; empty when it does not answer."""
        lines = str(self.told(*command) or "").splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    @property
    def name(self) -> str:
        return str(self.ask("CLUSTER", "MYID"))

    @property
    def is_primary(self) -> bool:
        return self.facts("INFO", "replication").get("role") == "master"

    @property
    def follows(self) -> bool:
        found = self.facts("INFO", "replication")
        return found.get("role") == "slave" and found.get("master_link_status") == "up"

    def until(self, holds: Callable[[], bool], what: str) -> None:
        until(holds, f"node {self.port}: {what}\n{self.log()}")

    @property
    def has_replica(self) -> bool:
        found = self.facts("INFO", "replication")
        return found.get("role") == "master" and "state=online" in found.get("slave0", "")

    def promote(self, how: str) -> None:
        """`FORCE` has the votes of the other primaries, `TAKEOVER` does without."""
        self.told("CLUSTER", "FAILOVER", how)
        self.until(lambda: self.is_primary, "is promoted")

    def log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace")[-1_500:] if path.exists() else ""


class Cluster:
    """Nodes are ended by their own process ids."""

    def __init__(self, *options: str, folder: Path | None = None) -> None:
        self._folder = Path(mkdtemp(prefix="ff-cluster-", dir=folder))
        self.nodes = [Node(self._folder / str(at), *options) for at in range(2 * PRIMARIES)]

    def url_of(self, cell: str, more: str = "") -> str:
        return f"valkey://127.0.0.1:{self.nodes[0].port}/{cell}?cluster=1{more}"

    def __enter__(self) -> Cluster:
        try:
            self._form()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _form(self) -> None:
        for node in self.nodes:
            node.start()
        first = self.nodes[0]
        for node in self.nodes:
            first.ask("CLUSTER", "MEET", "127.0.0.1", node.port, node._bus)
        for node in self.nodes:
            node.until(self._is_known(node), "knows all nodes")
        for at, node in enumerate(self.nodes[:PRIMARIES]):
            low, high = (SLOTS * (at + n) // PRIMARIES for n in (0, 1))
            node.ask("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
        for primary, replica in zip(self.nodes[:PRIMARIES], self.nodes[PRIMARIES:], strict=True):
            name = primary.name
            replica.until(partial(replica.replicates, name), "replicates")
        self.settle()

    def _is_known(self, node: Node) -> Callable[[], bool]:
        def holds() -> bool:
            known = node.facts("CLUSTER", "INFO").get("cluster_known_nodes")
            return known == str(len(self.nodes))

        return holds

    def settle(self) -> None:
        """Returns when every node knows all slots, and each primary has a replica that follows."""

        def holds() -> bool:
            states = [node.facts("CLUSTER", "INFO").get("cluster_state") for node in self.nodes]
            followers = [node for node in self.nodes if node.follows]
            primaries = [node for node in self.nodes if node.has_replica]
            whole = len(followers) == len(primaries) == PRIMARIES
            return whole and set(states) == {"ok"}

        until(holds, "the cluster settles")

    def owner(self, cell: str) -> Node:
        slot = self.slot_of(cell)
        for start, end, primary, *_ in self.nodes_up()[0].ask("CLUSTER", "SLOTS"):
            if start <= slot <= end:
                return next(n for n in self.nodes if n.port == primary[1])
        raise AssertionError(f"no node has slot {slot}")

    def replica_of(self, node: Node) -> Node:
        name = node.name
        found = self.nodes_up()[0].ask("CLUSTER", "NODES").splitlines()
        port = next(
            int(re.split("[:@]", line.split()[1])[1]) for line in found if line.split()[3] == name
        )
        return next(each for each in self.nodes if each.port == port)

    def slot_of(self, cell: str) -> int:
        return int(self.nodes_up()[0].ask("CLUSTER", "KEYSLOT", f"{{{cell}}}"))

    def other_primary(self, node: Node) -> Node:
        return next(each for each in self.nodes if each.is_primary and each is not node)

    def move(self, cell: str) -> None:
        """Moves the slot as a whole, which Valkey 9 can."""
        slot, source = self.slot_of(cell), self.owner(cell)
        target = self.other_primary(source)
        source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.name)
        until(lambda: self.owner(cell) is target, f"slot {slot} moves: {source.log()}")

    @contextmanager
    def moving(self, cell: str) -> Iterator[tuple[Node, Node]]:
        """The slot moves key by key meanwhile, as in Valkey 8."""
        slot, source = self.slot_of(cell), self.owner(cell)
        target = self.other_primary(source)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.name)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.name)
        yield source, target
        for node in (target, source, *(each for each in self.nodes if each.is_primary)):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target.name)

    def move_keys(self, source: Node, target: Node, cell: str, *, at_most: int = 0) -> None:
        slot, moved = self.slot_of(cell), 0
        with Valkey(port=source.port) as client:
            client.response_callbacks.clear()  # they would decode the names
            while names := client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, at_most or 100):
                done = client.execute_command(
                    "MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *names
                )
                assert done == b"OK", done
                moved += len(names)
                if at_most and moved >= at_most:
                    return

    def nodes_up(self) -> list[Node]:
        return [node for node in self.nodes if node.is_running]


def until(holds: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + patience(seconds)
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
