"""`ceph wcache leave`: what was changed goes back or stays; all else of wcache goes.

Each step stands by itself.  What a step waits for is said, and the same command goes on with it:
nothing is begun any more and what is under way ends; plans go back, the newest first, or stay; the
probes' keys go, host by host; then the module's options and all that is stored.  At last the
module is disabled: a mgr that takes over would begin anew.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
)

from ..core.change.change import Change, ChangeStatus
from ..core.change.rollout_state import Rollout
from ..core.errors import (
    MalformedError,
    NotReadyError,
    RefusedError,
    StorageError,
    WcacheError,
)
from ..core.text import arguments, command, commented, many, named
from ..deployment.places import Form, checked_hostname
from ..engine.engine import Engine
from ..engine.under_way import open_jobs
from ..engine.world import World
from .deploying import AGAIN, AgentService
from .guards import require_store, would
from .plans.plan_guards import plan_order
from .plans.rollouts import RolloutService

# A command holds up the others of its mgr on some releases, so it ends and is called again.
WORK_S = 20.0
STORE_WAIT_S, STORE_LOOK_S = 5.0, 0.05
DISABLE = command("ceph mgr module disable wcache")
BY_HAND = commented(DISABLE, "only where it is still enabled in a minute")
DISABLED = f'{DISABLE} || undone="$undone the mgrs"'
# A host's part that fails adds itself to `undone`, over all scripts of one file, and the rest runs.
ALL_DONE = 'if [ -n "$undone" ]; then echo "NOT done on:$undone" >&2; false; fi'


def require_way(arguments: Mapping[str, Any]) -> None:
    """Raise MalformedError where it is not said what becomes of what was changed."""
    if bool(arguments.get("back")) is bool(arguments.get("keep")):
        raise MalformedError(
            "say what becomes of what was changed",
            "--back takes it back, --keep leaves it as it is",
        )
    _named(arguments.get("host_is_gone", ""))


def _named(hosts: str) -> FrozenSet[str]:
    return frozenset(map(checked_hostname, filter(None, hosts.split(","))))


@dataclass
class LeaveService:
    """Leaves a cluster; `left` once nothing of wcache is stored there any more.

    `freeze` has everything that is under way end.  `drop_options` removes the module's options
    from the mons and returns how many there were.  `disable_soon` has the module disabled once
    the answer is out.
    """

    _engine: Engine
    _rollouts: RolloutService
    _agents: AgentService
    _freeze: Callable[[], object]
    _drop_options: Callable[[], int]
    _disable_soon: Callable[[], object]
    _ending: bool = False
    # a script that was printed asks cephadm's mgr, and all mgrs start anew where a module goes
    _asks_mgrs: bool = False
    left: bool = False

    def leave(
        self, back: bool = False, keep: bool = False, host_is_gone: Optional[str] = None,
        dry_run: bool = False,
    ) -> Dict[str, Any]:
        """`leave --back` or `--keep`: do what can be done now.

        `host_is_gone` names hosts, with commas between, that will not come back.
        """
        gone, had_left = _named(host_is_gone or ""), self.left
        world = self._engine.world()
        told: Dict[str, Any] = {
            "way": "back" if back else "keep", "left": False,
            "keeps": [] if back else list(_kept(world)),
        }
        if dry_run:
            return {**told, **would(self._would(world, back, gone))}
        if not self.left:
            require_store(world)
        scripts: List[Dict[str, Any]] = []
        waits: List[str] = []
        if not (self._ending or self.left):
            self._freeze()
            # nothing waits for hosts that are gone, and what they are to run is printed once
            scripts, waits = self._remove_hosts(self._agents.unheard(gone), gone, keep)
            try:
                self._end_all(back, gone)
                told["keeps"] = list(_kept(self._engine.world()))
            except WcacheError as error:
                if not scripts:
                    raise
                waits.append(error.line())
        if not (waits or self.left):
            found, waits = self._remove_hosts(_hosts(self._engine.world()), gone, keep)
            scripts += found
        self._asks_mgrs |= any(found["form"] == Form.CEPHADM.value for found in scripts)
        if not waits:
            waits = self._end_store()
        elif not scripts:
            raise NotReadyError(
                waits[0] + (f"; and {many(len(waits) - 1, 'host')} more" if waits[1:] else ""),
                "do that, then run the same command again",
            )
        left, script = self.left, [found["script"] for found in scripts]
        if left and self._asks_mgrs:
            script.append(DISABLED)
        elif had_left:
            self._disable_soon()  # the mons have refused it, or it is done twice
        again = ["ceph", "wcache", "leave", f"--{told['way']}"]
        again += [f"--host-is-gone={host_is_gone}"] if host_is_gone else []
        return {
            **told, "left": left, "waits": waits,
            "hosts": [found["hostname"] for found in scripts],
            "notes": list(dict.fromkeys(line for found in scripts for line in found["notes"])),
            "stays": [line for found in scripts for line in found["stays"]],
            "script": "\n".join([*script, ALL_DONE] if script else []),
            "next": BY_HAND if left else arguments(again),
        }

    # ---- one step after the other

    def _end_all(self, back: bool, gone: FrozenSet[str]) -> None:
        """End what is under way, and have all plans go back; raises NotReadyError until it has."""
        world = self._engine.world()
        owed = _owed(world, gone)
        open_ = [
            *world.open_runs, *world.open_plans, *(each.words for each in world.reserved), *owed,
        ]
        waits = [line for one in world.open_plans for line in world.rollouts[one].waits_for]
        waits += [
            f"{names}, whose target goes back once up, or once removed from the cluster"
            for names in owed.values()
        ]
        if open_:
            why = f", and waits for {waits[0]}" if waits else ""
            raise NotReadyError(f"{named(open_)} is ended and taken back first{why}", AGAIN)
        if not back:
            return
        lost = _unreadable(world)
        if lost:
            raise RefusedError(
                f"what {named(lost)} has changed cannot be read, so it is not taken back",
                "see `ceph wcache status`; --keep leaves it as it is",
            )
        there = {"", *_hosts(world)} - gone
        for plan in _changed(world):
            if all(change.hostname not in there for change in plan.touched):
                continue  # what hosts that are gone have of it is told
            self._rollouts.rollback(plan.plan_id)
            failed = [one for one in plan.touched if one.status is ChangeStatus.ROLLBACK_FAILED]
            why = f", once more: {failed[0].name}: {failed[0].detail}" if failed else ""
            raise NotReadyError(f"plan {plan.plan_id} goes back{why}", AGAIN)

    def _remove_hosts(
        self, hostnames: Iterable[str], gone: FrozenSet[str], keep: bool
    ) -> Tuple[List[Dict[str, Any]], List[str]]:
        """Remove probes' keys; what is to be run on each host, and what others wait for."""
        found = []
        waits: List[str] = []
        until_s = time.monotonic() + WORK_S
        for hostname in hostnames:
            if time.monotonic() > until_s:
                waits.append(f"{hostname}: {AGAIN}")
                break
            try:
                found.append(self._agents.remove(
                    hostname, host_is_gone=hostname in gone, kept=keep
                ))
            except WcacheError as error:
                waits.append(f"{hostname}: {error.line()}")
        return found, waits

    def _end_store(self) -> List[str]:
        """Remove options and all that is stored; what is waited for, where it is not done yet."""
        failed: List[str] = []

        def ended(error: Optional[StorageError]) -> None:
            self.left, self._ending = error is None, False
            if self.left and not self._asks_mgrs:
                self._disable_soon()
            failed.extend([error.line()] if error is not None else [])

        if not self._ending and not self.left:
            try:
                self._drop_options()
            except WcacheError as error:
                return [error.line()]  # what hosts are to run is printed all the same
            self._ending = True
            with self._engine.orders():
                self._engine.ports.archive.end(ended)
        until_s = time.monotonic() + STORE_WAIT_S
        while self._ending and time.monotonic() < until_s:
            time.sleep(STORE_LOOK_S)
        return failed or ([] if self.left else ["the mons remove what was stored"])

    def _would(self, world: World, back: bool, gone: FrozenSet[str]) -> Iterator[str]:
        yield "begin nothing any more, and end what is under way"
        if back:
            for plan in _changed(world):
                there = [change for change in plan.touched if change.hostname not in gone]
                lost = len(plan.touched) - len(there)
                yield f"roll back plan {plan.plan_id} ({many(len(there), 'change')})" + (
                    f"; {many(lost, 'change')} on hosts that are gone would stay" if lost else ""
                )
        for hostname in _hosts(world):
            yield f"remove the key of {hostname}'s probe, and print what is to be run there"
        yield "remove the module's options and all that it has stored"
        yield "disable the module, for which all mgrs start anew; with cephadm the script does it"


def _hosts(world: World) -> List[str]:
    """All hosts that a probe was brought to, or has called from."""
    return sorted({
        *world.deployments, *world.reports, *(agent.hostname for agent in world.agents)
    })


def _changed(world: World) -> List[Rollout]:
    """Plans of which something is as they have set it, the newest first."""
    plans = sorted(world.plans, key=lambda plan: plan_order(plan.plan_id), reverse=True)
    return [plan for plan in plans if plan.touched]


def _owed(world: World, gone: FrozenSet[str]) -> Dict[str, str]:
    """By trial that ended: OSDs that are down in the map, and may run on with what it gave them.

    Nothing waits for those on hosts that are gone.
    """
    found, osds = {}, world.cluster.osds
    for trial_id in open_jobs(world.trials):
        trial = world.trials[trial_id]
        here = [i for i in trial.owed if i not in osds or osds[i].hostname not in gone]
        if here and trial.holds is None:
            found[f"trial {trial_id}"] = named([f"osd.{osd_id}" for osd_id in here])
    return found


def _unreadable(world: World) -> List[str]:
    """The stored plans that cannot be read."""
    return [key for key in world.unreadable if key.startswith("rollout/")]


def _kept(world: World) -> Iterator[Mapping[str, str]]:
    """What plans have set and stays: what keeps it, and what undoes it without wcache."""
    for plan in _changed(world):
        for change in plan.touched:
            sure = change.status is ChangeStatus.APPLIED
            by, undo = _by_and_undo(world, change)
            yield {
                "plan_id": plan.plan_id, "hostname": change.hostname,
                "name": change.name, "what": change.setting.goal if sure else
                f"may be {change.setting.goal} ({change.status.value})",
                "kept_by": by, "undo": undo,
            }
    for key in _unreadable(world):
        yield {
            "plan_id": key.partition("/")[2], "hostname": "", "name": "all that it has changed",
            "what": "and that cannot be read", "kept_by": "what is not known", "undo": "",
        }


def _by_and_undo(world: World, change: Change) -> Tuple[str, str]:
    kept_by, undo = change.setting.kept_by, change.setting.undo
    if kept_by:
        return kept_by, undo
    if not change.lasts:
        return "nothing: a power cycle ends it", undo
    drives = world.drives_of(change)
    if not drives:
        return "a udev rule or the drive's saved page: its host no longer reports which", undo
    page = drives[0].state.page
    if page.saved is None or page.by_rule:
        by_probe = command("wcache-probe restore --action {}", change.action_id)
        return "a udev rule, which runs wcache-probe: leave that program on the host", by_probe
    return "the drive's saved page", undo
