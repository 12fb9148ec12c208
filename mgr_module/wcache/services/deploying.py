"""A probe comes or goes: `ceph wcache agent add`, `agent rm`, with their keys.

A key is made and fetched, never shown: what is printed has it carried by the orchestrator,
or by the admin's own `ceph auth get`.

Makes and removes probes' keys in a thread of its own, since the mons may be slow to answer.

A command waits for it for a moment, holding no lock; what takes longer goes on by itself, and
the same command tells what came of it when it is called again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..ceph.command import CommandFailed, InTurn
from ..ceph.surroundings import CephKeyring, CephSurroundings
from ..core.codec import one_line
from ..core.errors import (
    ConsentError,
    MalformedError,
    NotFoundError,
    NotReadyError,
    RefusedError,
)
from ..core.events import Halt
from ..core.fleet.agents import Agent, overdue_s
from ..core.text import chained, command, many, named
from ..deployment.places import (
    Deployment,
    Form,
    Places,
    caps_of,
    checked_image,
    checked_namespace,
    chosen,
    entity_of,
    named_for,
)
from ..deployment.scripts import Script, pins, reasons_to_stay, script, what_stays
from ..engine.engine import Engine
from ..engine.world import World
from .guards import require_store, would

# Far less than a lease: on some releases the probes' calls queue behind the one that waits.
WAIT_S = 5.0
PENDING = "pending"
MADE = "made"
THERE = "there"
REMOVED = "removed"


@dataclass
class KeyJob:
    """Keys of some hosts to be made, or to be removed; `said` has what came of each."""

    hostnames: Tuple[str, ...]
    remove: bool
    said: Dict[str, str] = field(default_factory=dict)
    errors: Dict[str, str] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    def state(self, hostname: str) -> str:
        """One of the words above, or empty where it failed."""
        if hostname in self.errors:
            return ""
        return self.said.get(hostname, PENDING)


class KeyWork:
    """One job after the other, in the order they were asked for."""

    def __init__(self, keys: CephKeyring, wait_s: float = WAIT_S) -> None:
        self._keys = keys
        self._wait_s = wait_s
        self._worker = InTurn("wcache-keys")

    def make(self, hostnames: Sequence[str]) -> KeyJob:
        """Make the keys that these hosts lack; returns when done, or after a moment."""
        return self._ask(KeyJob(tuple(hostnames), remove=False))

    def remove(self, hostname: str) -> KeyJob:
        """The same for a key that has to go."""
        return self._ask(KeyJob((hostname,), remove=True))

    def _ask(self, job: KeyJob) -> KeyJob:
        def work() -> None:
            for hostname in job.hostnames:
                self._do(job, hostname)
            job.done.set()

        self._worker.put(work)
        job.done.wait(self._wait_s)
        return job

    def _do(self, job: KeyJob, hostname: str) -> None:
        entity = entity_of(hostname)
        try:
            if job.remove:
                self._keys.remove(entity)
                job.said[hostname] = REMOVED
            else:
                made = self._keys.make(entity, caps_of(hostname))
                job.said[hostname] = MADE if made else THERE
        except CommandFailed as failure:
            job.errors[hostname] = one_line(str(failure), 300)
        except Exception as failure:
            # a thread's exception would go nowhere; the key is named, never its value
            job.errors[hostname] = f"{entity}: {type(failure).__name__}"


REMOVING = "the host is being removed"
AGAIN = "run the same command again in a moment"
LEFT_BEHIND = (
    "the probe's program, service, key file and journal, and what `wcache-probe prepare` wrote: "
    "these are harmless; if the host returns, run the script that is printed here"
)


class AgentService:
    """Adds and removes hosts; waits for the mons with no lock held."""

    def __init__(self, engine: Engine, keys: KeyWork, surroundings: CephSurroundings) -> None:
        self._engine = engine
        self._keys = keys
        self._surroundings = surroundings

    # ---- add

    def add(
        self, hostname: Optional[str] = None, *, every: bool = False, form: Optional[str] = None,
        image: Optional[str] = None, hosts_read: bool = False, dry_run: bool = False,
    ) -> Dict[str, Any]:
        """`agent add`: keys for these hosts, and the script that brings probes onto them."""
        places = Places(self._engine.world().cluster.osds, self._surroundings.told())
        run_by, why = self._form(form)
        listed = self._listed(run_by, every)
        try:
            asked, left_out = chosen(hostname, places, listed=listed, hosts_read=hosts_read)
        except ConsentError as missing:
            missing.told = _would_add(missing.told["hostnames"], places)
            raise
        self._require_possible(run_by, image)
        hostnames = named_for(run_by, asked, left_out, every=every)
        made = self._deployments(run_by, hostnames, image)
        # what cannot be printed is refused before keys are made
        told = self._script(made, program_inside=image is not None)
        if dry_run:
            return _would_add(hostnames, places)
        require_store(self._engine.world())
        # Rook makes the key itself, with the CephClient
        job = None if run_by is Form.ROOK else self._keys.make(hostnames)
        rows = [{
            "hostname": name, "entity": entity_of(name),
            "key": run_by.value if job is None else job.state(name),
            "error": "" if job is None else job.errors.get(name, ""),
            "osd_ids": places.osd_ids(name),
        } for name in hostnames]
        for item, row in zip(made, rows):
            if not row["error"]:
                with self._engine.orders() as orders:
                    orders.add_host(item, noted=row["key"] != THERE)
        with_key = [item for item, row in zip(made, rows) if not row["error"]]
        if not with_key:
            raise NotReadyError(f"no key was made: {rows[0]['error']}", "see `ceph health`")
        if len(with_key) < len(made):
            told = self._script(with_key, program_inside=image is not None)
        reports = self._engine.world().reports
        pinned = pins(reports[name] for name in hostnames if name in reports)
        return {
            "form": run_by.value, "why": why, "hosts": rows,
            "named_by_osds": every and listed is None, "left_out": left_out,
            "notes": [*told.notes, *pinned], "script": told.text,
            "undo": chained(
                command("ceph wcache agent rm {}", row["hostname"]) for row in rows
                if row["key"] != THERE and not row["error"]
            ),
        }

    def _listed(self, form: Form, every: bool) -> Optional[Tuple[str, ...]]:
        """The orchestrator's hosts; None where there is none, and for one that goes by ssh."""
        if form is Form.SYSTEMD and not every:
            return None
        try:
            return self._surroundings.hosts()
        except CommandFailed as failure:
            raise NotReadyError(str(failure), "see `ceph orch status`") from None

    def _form(self, asked: Optional[str]) -> Tuple[Form, str]:
        if asked is not None:
            return Form(asked), "as --run-by says"
        backend = self._surroundings.orchestrator()
        if backend == Form.ROOK.value or self._surroundings.namespace():
            return Form.ROOK, "the mgr runs in a pod"
        if backend == Form.CEPHADM.value:
            return Form.CEPHADM, "cephadm is what `ceph orch status` names"
        if backend:
            return Form.SYSTEMD, f"`ceph orch status` names {backend[:40]}"
        return Form.SYSTEMD, "there is no orchestrator"

    def _require_possible(self, form: Form, image: Optional[str]) -> None:
        if image is not None and form is Form.SYSTEMD:
            raise MalformedError("a program of the host has no image", "leave out --image")
        if form is Form.CEPHADM and not self._surroundings.containers_take_arguments():
            raise RefusedError(
                "cephadm of this release cannot give a container's program its arguments",
                "use --run-by systemd",
            )

    def _deployments(
        self, form: Form, hostnames: Sequence[str], image: Optional[str]
    ) -> Tuple[Deployment, ...]:
        now_s = self._engine.world().now_s
        used = "" if form is Form.SYSTEMD else checked_image(image or self._image())
        namespace = self._namespace() if form is Form.ROOK else ""
        return tuple(Deployment(one, form, now_s, used, namespace) for one in hostnames)

    def _image(self) -> str:
        try:
            found = self._surroundings.image()
        except CommandFailed as failure:
            raise NotReadyError(str(failure), "name Ceph's image with --image") from None
        if not found:
            raise NotFoundError(
                "the mgr runs in no container, and no container_image is configured",
                "name Ceph's own with --image, with the probe in it, or give another --run-by",
            )
        return found

    def _namespace(self) -> str:
        return checked_namespace(self._surroundings.namespace() or "rook-ceph")

    def _script(self, made: Sequence[Deployment], *, program_inside: bool) -> Script:
        """The script for hosts of one form, image and namespace."""
        of_all = made[0]
        return script(
            of_all.form.value, hostnames=[item.hostname for item in made], image=of_all.image,
            namespace=of_all.namespace, fsid=self._engine.world().cluster.fsid,
            program_inside=program_inside, ceph_user_id=self._surroundings.ceph_user_id(),
        )

    # ---- remove

    def unheard(self, hostnames: Iterable[str]) -> List[str]:
        """Those of some hosts whose probe should have called by now and has not."""
        world = self._engine.world()
        agents = [world.agent(name) for name in sorted(hostnames)]
        return [one.hostname for one in agents if one is not None and _unheard(world, one)]

    def remove(
        self, hostname: str, *, host_is_gone: bool = False, dry_run: bool = False,
        kept: bool = False,
    ) -> Dict[str, Any]:
        """`agent rm`: end what is measured there, remove the key, say what is left to do.

        Refused while something stands on the host that would be forgotten with it, and for a
        host whose probe is not responding, unless `host_is_gone`.  What is applied is to stay if
        `kept`.
        """
        engine = self._engine
        with engine.deciding() as (world, orders):
            known = world.deployments.get(hostname)
            agent = world.agent(hostname)
            if known is None and agent is None and hostname not in world.reports:
                raise NotFoundError(
                    f"there is no probe on host {hostname[:60]!r}", "see `ceph wcache agent ls`"
                )
            unheard = "" if agent is None else _unheard(world, agent)
            heard = agent is not None and not unheard
            if unheard and not host_is_gone:
                raise NotReadyError(
                    f"the probe of {hostname} has not called {unheard}, so nothing on that host "
                    "can be looked at or restored",
                    "wait for its next call, or start it; a host that is gone: --host-is-gone",
                )
            # one that `agent add` never added is as it would be added now
            item = known or Deployment(hostname, self._form(None)[0], 0.0, "", self._namespace())
            runs = [
                run_id for run_id in world.open_runs
                if world.runs[run_id].spec.hostname == hostname
            ]
            # what cannot be printed is refused before anything is removed
            told = script(
                "removal", form=item.form.value, hostname=hostname, gone=host_is_gone,
                namespace=checked_namespace(item.namespace) if item.form is Form.ROOK else "",
            )
            if dry_run:
                key = "the CephClient" if item.form is Form.ROOK else entity_of(hostname)
                stays = _stays(world, hostname, host_is_gone, kept=kept)
                return {"hostname": hostname, "form": item.form.value, "stays": stays, **would([
                    *(f"end run {run_id} and restore its drives" for run_id in runs),
                    f"remove the key of {key}",
                    f"forget {hostname}, its reports and how it was added",
                ])}
            for run_id in runs:
                orders.feed(run_id, Halt(REMOVING))
            ended = orders.look(world)
            if (heard or not host_is_gone) and any(name == hostname for name, _ in ended.leased):
                raise NotReadyError(
                    f"what is measured on {hostname} is ended and restored", AGAIN
                )
            stays = _stays(ended, hostname, host_is_gone, kept=kept)
        if not heard and host_is_gone:
            stays.append(LEFT_BEHIND)
        if item.form is not Form.ROOK:
            job = self._keys.remove(hostname)
            if job.state(hostname) == PENDING:
                raise NotReadyError(f"the mons have not removed {entity_of(hostname)} yet", AGAIN)
            if hostname in job.errors:
                raise NotReadyError(
                    f"the key is still there: {job.errors[hostname]}", "see `ceph health`"
                )
        left = f"; left as it is: {many(len(stays), 'item')}" if stays else ""
        with engine.orders() as orders:
            orders.remove_host(hostname)
            orders.note("admin", hostname, f"host removed{left}")
        return {
            "hostname": hostname, "changed": True,
            "form": item.form.value, "stays": stays, "notes": told.notes, "script": told.text,
        }


def _would_add(hostnames: Sequence[str], places: Places) -> Dict[str, Any]:
    """What `agent add` would do, a line a host with the OSDs that say that they are there."""
    osds = {name: named([f"osd.{one}" for one in places.osd_ids(name)]) for name in hostnames}
    return {"hostnames": list(hostnames), **would(
        f"make the key {entity_of(name)}, and print how its probe comes to {on}"
        for name, on in osds.items()
    )}


def _unheard(world: World, agent: Agent) -> str:
    """Since when a probe that should have called by now has not; "" where it has."""
    silent_s = world.now_s - agent.seen_at_s
    if agent.hostname in world.only_stored:
        return "since the mgr started"
    due_s = overdue_s(world.options.poll_idle_s)
    return f"for {silent_s:.0f} s" if silent_s >= due_s else ""


def _stays(
    world: World, hostname: str, host_is_gone: bool, *, kept: bool = False
) -> List[str]:
    """What only the host's probe could take back; refused while there is any, unless it is gone.

    What is applied is not told where it is to be `kept`.
    """
    stays = what_stays(
        hostname, world.plans, [machine.state for machine in world.runs.values()],
        world.reports.get(hostname), kept=kept,
    )
    if host_is_gone:
        return stays
    standing = [] if kept else reasons_to_stay(hostname, world.plans)
    if standing:
        raise RefusedError(
            "; ".join(standing),
            "roll it back, then run this again (--host-is-gone leaves it as it is)",
        )
    owed = [item for item in world.disputes if item.hostname == hostname]
    if owed:
        raise RefusedError(
            f"{hostname} {owed[0].domain_id}".strip() + f": {owed[0].why}",
            "see `ceph wcache status`; --host-is-gone forgets the host all the same",
        )
    if stays:
        raise RefusedError(
            f"the journal of {hostname} is not empty: {stays[0]}",
            "run `wcache-probe restore --all` on the host, and what it prints for changes that "
            "were applied (--host-is-gone leaves them)",
        )
    return stays
