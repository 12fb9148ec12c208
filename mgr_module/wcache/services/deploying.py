"""The use cases behind `ceph wcache agent add` and `agent rm`: a probe comes, a probe goes.

A key is made and fetched, never shown: what is printed has it carried by the orchestrator,
or by the admin's own `ceph auth get`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..ceph.command import CommandFailed
from ..ceph.surroundings import Surroundings
from ..core.agents import Agent, overdue_s
from ..core.deployment import build_folder, cephadm, rook, systemd
from ..core.deployment.form import (
    Deployment,
    Form,
    Script,
    checked_image,
    checked_namespace,
    entity_of,
)
from ..core.deployment.leaving import reasons_to_stay, what_stays
from ..core.deployment.places import Places, chosen, named_for
from ..core.drive.saved_off import how_to_name, made_to_flush, say_flushed, why_pinned
from ..core.errors import MalformedError, NotFoundError, NotReadyError, RefusedError
from ..core.events import Halt
from ..core.fleet.loaded_off import touched_domains
from ..core.host_report import HostReport
from ..core.model import DriveReport
from ..core.output_format import FORMAT_VERSION
from ..core.text import many, named
from ..engine.engine import Engine
from ..engine.key_work import PENDING, THERE, KeyWork
from ..engine.world import World
from .dry_run import would
from .guards import require_store

PINS = (
    "prepare has the kernel flush the SCSI and SATA drives of OSDs from the next boot on, also",
    "those that are off: each of their commits pays for a flush with nothing to write then. It",
    "leaves out drives that are off and save that themselves, and says which are which; so does",
    "`wcache-probe prepare --dry-run`, which changes nothing.",
)
REMOVING = "the host is being removed"
LEFT_BEHIND = (
    "the probe's program, service, key file and journal, and what `wcache-probe prepare` wrote: "
    "these are harmless; if the host returns, run the script that is printed here"
)


class AgentService:
    """Adds and removes hosts; waits for the mons with no lock held."""

    def __init__(self, engine: Engine, keys: KeyWork, surroundings: Surroundings) -> None:
        self._engine = engine
        self._keys = keys
        self._surroundings = surroundings

    # ---- add

    def add(
        self, hostname: Optional[str] = None, *, every: bool = False, form: Optional[str] = None,
        image: Optional[str] = None, hosts_read: bool = False,
    ) -> Dict[str, Any]:
        """`agent add`: keys for these hosts, and the script that brings probes onto them."""
        places = Places(self._engine.world().cluster.osds, self._surroundings.told())
        run_by, why = self._form(form)
        listed = self._listed(run_by, every)
        asked, left_out = chosen(
            hostname, places, every=every, listed=listed, hosts_read=hosts_read
        )
        self._require_possible(run_by, image)
        hostnames = named_for(run_by, asked, left_out, every=every)
        made = self._deployments(run_by, hostnames, image)
        # what cannot be printed is refused before keys are made
        self._install(run_by, made, program_inside=image is not None)
        require_store(self._engine.world())
        # Rook makes the key itself, with the CephClient
        job = None if run_by is Form.ROOK else self._keys.make(hostnames)
        rows = []
        for item in made:
            state = run_by.value if job is None else job.state(item.hostname)
            error = "" if job is None else job.errors.get(item.hostname, "")
            rows.append({
                "hostname": item.hostname, "entity": entity_of(item.hostname), "key": state,
                "error": error, "osd_ids": places.osd_ids(item.hostname),
            })
            if not error:
                with self._engine.orders() as orders:
                    orders.add_host(item, noted=state != THERE)
        failed = [row for row in rows if row["error"]]
        if len(failed) == len(rows):
            raise NotReadyError(f"no key was made: {failed[0]['error']}", "see `ceph health`")
        without = {row["hostname"] for row in failed}
        script = self._install(
            run_by, [item for item in made if item.hostname not in without],
            program_inside=image is not None,
        )
        return {
            "format_version": FORMAT_VERSION, "form": run_by.value, "why": why, "hosts": rows,
            "named_by_osds": every and listed is None, "left_out": left_out,
            "notes": [*script.notes, *self._pins(run_by, [item.hostname for item in made])],
            "script": "\n".join(script.lines),
        }

    def _pins(self, form: Form, hostnames: Sequence[str]) -> List[str]:
        """Which drives `wcache-probe prepare` will make flush, as far as probes have reported."""
        if form is Form.VSTART:
            return []  # its drives are simulated
        reports = self._engine.world().reports
        known = [reports[name] for name in hostnames if name in reports]
        return [*PINS, *(line for report in known for line in _pins_of(report))]

    def _listed(self, form: Form, every: bool) -> Optional[Tuple[str, ...]]:
        """The orchestrator's hosts; None where there is none, and for one that goes by ssh."""
        folder = self._surroundings.build_folder()
        if form is Form.VSTART and folder is not None:
            return (folder.hostname,)  # vstart.sh runs all of its daemons on one host
        if form is Form.SYSTEMD and not every:
            return None
        try:
            return self._surroundings.hosts()
        except CommandFailed as failure:
            raise NotReadyError(str(failure), "see `ceph orch status`") from None

    def _form(self, asked: Optional[str]) -> Tuple[Form, str]:
        if asked is not None:
            known = {item.value: item for item in Form}
            if asked not in known:
                raise MalformedError(f"--run-by is one of {', '.join(known)}")
            return known[asked], "as --run-by says"
        backend = self._surroundings.orchestrator()
        if backend == Form.ROOK.value or self._surroundings.namespace():
            return Form.ROOK, "the mgr runs in a pod"
        if backend == Form.CEPHADM.value:
            return Form.CEPHADM, "cephadm is what `ceph orch status` names"
        if backend:
            return Form.SYSTEMD, f"`ceph orch status` names {backend[:40]}"
        folder = self._surroundings.build_folder()
        if folder is not None:
            return Form.VSTART, f"the mgr runs from the build folder {folder.path[:200]}"
        return Form.SYSTEMD, "there is no orchestrator"

    def _require_possible(self, form: Form, image: Optional[str]) -> None:
        if image is not None and form in (Form.SYSTEMD, Form.VSTART):
            raise MalformedError("a program of the host has no image", "leave out --image")
        if form is Form.VSTART and self._surroundings.build_folder() is None:
            raise RefusedError(
                "the mgr's configuration is in no build folder of Ceph's", "leave out --run-by"
            )
        if form is Form.CEPHADM and not self._surroundings.containers_take_arguments():
            raise RefusedError(
                "cephadm of this release cannot give a container's program its arguments",
                "use --run-by systemd",
            )

    def _deployments(
        self, form: Form, hostnames: Sequence[str], image: Optional[str]
    ) -> Tuple[Deployment, ...]:
        now_s = self._engine.world().now_s
        on_host = form in (Form.SYSTEMD, Form.VSTART)
        used = "" if on_host else checked_image(image or self._image())
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

    def _install(
        self, form: Form, made: Sequence[Deployment], *, program_inside: bool
    ) -> Script:
        """The script for hosts of one form, image and namespace."""
        hostnames = [item.hostname for item in made]
        image, namespace = (made[0].image, made[0].namespace) if made else ("", "")
        if form is Form.CEPHADM:
            return cephadm.install(hostnames, image, program_inside=program_inside)
        if form is Form.ROOK:
            fsid = self._engine.world().cluster.fsid
            return rook.install(
                hostnames, namespace, image, fsid, program_inside=program_inside
            )
        folder = self._surroundings.build_folder()
        if form is Form.VSTART and folder is not None and hostnames:
            return build_folder.install(hostnames[0], folder)
        return systemd.install(hostnames)

    # ---- remove

    def remove(
        self, hostname: str, *, force: bool = False, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`agent rm`: end what is measured there, remove the key, say what is left to do.

        Refused while something stands on the host that would be forgotten with it, and for a
        host whose probe is not responding, unless forced.
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
            if unheard and not force:
                raise NotReadyError(
                    f"the probe of {hostname} has not called {unheard}, so nothing on that host "
                    "can be looked at or restored",
                    "wait for its next call, or start it; --force forgets a host that is gone",
                )
            if dry_run:
                return self._would_remove(world, hostname, known, force=force)
            for run_id in _runs_on(world, hostname):
                orders.executor.feed(run_id, Halt(REMOVING))
            ended = orders.look(world)
            if (heard or not force) and any(name == hostname for name, _ in ended.leased):
                raise NotReadyError(
                    f"what is measured on {hostname} is ended and restored",
                    "run the same command again in a moment",
                )
            stays = _what_stays(ended, hostname)
            if not force:
                _require_restored(ended, hostname, stays)
        item = known or self._as_found(hostname)
        if not heard and force:
            stays.append(LEFT_BEHIND)
        if item.form is not Form.ROOK:
            job = self._keys.remove(hostname)
            if job.state(hostname) == PENDING:
                raise NotReadyError(
                    f"the mons have not removed {entity_of(hostname)} yet",
                    "run the same command again in a moment",
                )
            if hostname in job.errors:
                raise NotReadyError(
                    f"the key is still there: {job.errors[hostname]}", "see `ceph health`"
                )
        left = f"; left as it is: {many(len(stays), 'item')}" if stays else ""
        with engine.orders() as orders:
            orders.remove_host(hostname, "" if agent is None else agent.instance_id)
            orders.note("admin", hostname, f"host removed{left}")
        folder = self._surroundings.build_folder()
        script = _removal(item, folder.path if folder else "")
        return {
            "format_version": FORMAT_VERSION, "hostname": hostname, "changed": True,
            "form": item.form.value, "stays": stays, "notes": list(script.notes),
            "script": "\n".join(script.lines),
        }

    def _would_remove(
        self, world: World, hostname: str, known: Optional[Deployment], *, force: bool
    ) -> Dict[str, Any]:
        stays = _what_stays(world, hostname)
        if not force:
            _require_restored(world, hostname, stays)
        form = (known or self._as_found(hostname)).form
        key = "the CephClient" if form is Form.ROOK else entity_of(hostname)
        return {"hostname": hostname, "form": form.value, "stays": stays, **would([
            *(f"end run {run_id} and restore its drives" for run_id in _runs_on(world, hostname)),
            f"remove the key of {key}", f"forget {hostname}, its reports and how it was added",
        ])}

    def _as_found(self, hostname: str) -> Deployment:
        """How a host that was never added by `agent add` would be added now."""
        form, _ = self._form(None)
        return Deployment(hostname, form, 0.0, "", self._namespace())


def _pins_of(report: HostReport) -> List[str]:
    """What `prepare` will do to the drives of one host, going by its probe's last report."""
    touched = touched_domains(report)

    def named_by(drive: DriveReport) -> str:
        if drive.domain_id in touched:
            return "the journal has an entry of it"
        not_named = any(one.text == how_to_name(drive) for one in drive.refusals)
        return "" if not_named else "the boot rule names it, or cannot"

    def left_out(drive: DriveReport) -> bool:
        domain = [one for one in report.drives if one.domain_id == drive.domain_id]
        return not why_pinned(domain, named_by)

    off = [drive.dev_name for drive in report.drives if left_out(drive)]
    flushed = made_to_flush(drive for drive in report.drives if not left_out(drive))
    lines = [f"left as they are: {named(off)}"] if off else []
    lines += [say_flushed(flushed)] if flushed else []
    return [f"{report.hostname}: {line}" for line in lines]


def _runs_on(world: World, hostname: str) -> List[str]:
    return [
        run_id for run_id in world.open_runs if world.runs[run_id].spec.hostname == hostname
    ]


def _unheard(world: World, agent: Agent) -> str:
    """Since when a probe that should have called by now has not; "" where it has."""
    silent_s = world.now_s - agent.seen_at_s
    if agent.hostname in world.only_stored:
        return "since the mgr started"
    due_s = overdue_s(world.options.poll_idle_s)
    return f"for {silent_s:.0f} s" if silent_s >= due_s else ""


def _what_stays(world: World, hostname: str) -> List[str]:
    return what_stays(
        hostname, world.plans, [machine.state for machine in world.runs.values()],
        world.reports.get(hostname),
    )


def _require_restored(world: World, hostname: str, stays: Sequence[str]) -> None:
    standing = reasons_to_stay(hostname, world.plans)
    if standing:
        raise RefusedError(
            "; ".join(standing),
            "roll it back, then run this again (--force leaves it as it is)",
        )
    owed = [item for item in world.disputes if item.hostname == hostname]
    if owed:
        raise RefusedError(
            f"{hostname} {owed[0].domain_id}: {owed[0].why}",
            "see `ceph wcache status`; --force forgets the host all the same",
        )
    if stays:
        raise RefusedError(
            f"the journal of {hostname} is not empty: {stays[0]}",
            "run `wcache-probe restore --all` on the host, and what it prints for changes that "
            "were applied (--force leaves them)",
        )


def _removal(item: Deployment, folder: str) -> Script:
    if item.form is Form.VSTART:
        return build_folder.remove(item.hostname, folder)
    if item.form is Form.CEPHADM:
        return cephadm.remove(item.hostname)
    if item.form is Form.ROOK:
        return rook.remove(item.hostname, checked_namespace(item.namespace))
    return systemd.remove(item.hostname)
