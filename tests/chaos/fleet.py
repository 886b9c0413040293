"""The processes of a run: started, watched, ended one by one, and restarted under a new instance
id. They are forked from a server that has imported everything, so a kill hits a working process and
not an importing one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec

from flowfabric.connect import is_postgres, is_valkey
from tests.patience import patience

from .child import Setup, begin, module_of

ROLES = {
    "worker0": "worker",
    "worker1": "worker",
    "worker2": "worker",
    "driver": "driver",
    "signaller": "signaller",
    "subscriber": "subscriber",
    "taskworker0": "task_worker",
    "taskworker1": "task_worker",
    "taskclient": "task_client",
}
CLIENTS = ("driver", "taskclient")
"""They end by themselves once all that was planned is done."""
GRACEFUL_S = 20.0
"""Longer than what the worker, the passes of the loops and their thread may take, one after the
other.
"""


class Member:
    """One role; its process changes, its name does not."""

    def __init__(self, role: str) -> None:
        self.role, self.lives = role, 0
        self.process: BaseProcess | None = None
        self.grip = -1
        self.resumes_at: float | None = None
        self.asked_to_end_at: float | None = None
        self.finished = self.is_frozen = False

    @property
    def instance(self) -> str:
        return f"{self.role}-{self.lives}"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.is_alive()


class Fleet:
    def __init__(
        self,
        setup: Setup,
        url_of: Callable[[str], str],
        roles: Mapping[str, str] = ROLES,
        clients: tuple[str, ...] = CLIENTS,
    ) -> None:
        self._setup, self._url_of, self._roles, self.clients = setup, url_of, roles, clients
        self._nursery = multiprocessing.get_context("forkserver")
        kind = {is_postgres(setup.url): "postgres", is_valkey(setup.url): "valkey"}.get(True)
        stores = [f"flowfabric.store.{kind}.store"] if kind else []
        self._nursery.set_forkserver_preload(
            [*map(module_of, sorted(set(roles.values()))), *stores]
        )
        self._folder = Path(setup.folder)
        self.members = {role: Member(role) for role in roles}
        self.faults: list[tuple[str, str]] = []
        self.self_kills = 0
        self._killed: set[str] = set()

    def start(self, member: Member) -> None:
        member.lives += 1
        member.resumes_at = member.asked_to_end_at = None
        member.is_frozen = False
        setup = msgspec.structs.replace(
            self._setup, url=self._url_of(member.role), instance=member.instance
        )
        member.process = self._nursery.Process(
            target=begin, args=(self._roles[member.role], setup), name=member.instance
        )
        member.process.start()
        assert member.process.pid is not None
        member.grip = os.pidfd_open(member.process.pid)

    def send(self, member: Member, number: signal.Signals) -> bool:
        """To this very process: the grip on it never means another one that was given
        its number.
        """
        if not member.alive:
            return False
        if number == signal.SIGKILL:
            self._killed.add(member.instance)
        try:
            signal.pidfd_send_signal(member.grip, number)
        except ProcessLookupError:
            return False
        return True

    def tend(self, *, restart: bool = True) -> None:
        """Continues stopped processes at their time, records ended ones with the reason, and
        restarts them.
        """
        now = time.monotonic()
        for member in self.members.values():
            if member.resumes_at is not None and now >= member.resumes_at:
                member.resumes_at, member.is_frozen = None, False
                self.send(member, signal.SIGCONT)
            if member.alive:
                asked_at = member.asked_to_end_at
                if asked_at is not None and now > asked_at + patience(GRACEFUL_S):
                    self.faults.append(
                        (member.instance, f"still there {GRACEFUL_S:.0f} s after SIGTERM")
                    )
                    self.send(member, signal.SIGKILL)
                continue
            if member.process is not None:
                self._note_end(member, member.process.exitcode)
                member.process.close()
                os.close(member.grip)
                member.process = None
            if restart and not member.finished:
                self.start(member)

    def _note_end(self, member: Member, code: int | None) -> None:
        if code == -signal.SIGKILL:
            self.self_kills += member.instance not in self._killed
        elif code == 0 and member.role in self.clients:
            member.finished = member.asked_to_end_at is None
        elif member.asked_to_end_at is None or code not in (
            0,
            -signal.SIGTERM,
        ):  # the signal itself when it came before the handler
            self.faults.append(
                (
                    member.instance,
                    f"ended by itself with code {code}: {self.last_words(member.instance)}",
                )
            )

    def last_words(self, instance: str) -> str:
        path = self._folder / f"{instance}.err"
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1] if lines else "(silent)"

    def complaints(self) -> list[str]:
        """Lines on the standard error of processes; every one is unexpected."""
        found = []
        for path in sorted(self._folder.glob("*.err")):
            found += [
                f"{path.stem}: {line}"
                for line in path.read_text(errors="replace").splitlines()
                if line.strip()
            ]
        return found

    def resume_all(self) -> None:
        for member in self.members.values():
            if member.resumes_at is not None:
                member.resumes_at = 0.0
        self.tend()

    def kill_all(self) -> None:
        """SIGKILL also ends stopped processes."""
        for member in self.members.values():
            self.send(member, signal.SIGKILL)
        for member in self.members.values():
            if member.process is not None:
                member.process.join()
