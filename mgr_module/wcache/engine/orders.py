"""Orders of admins and `auto`, given by whoever has the engine's lock."""

from __future__ import annotations

import threading
from typing import Callable, List, Sequence

from ..core.change.change import UNFINISHED
from ..core.change.rollout import RolloutMachine
from ..core.change.rollout_state import Rollout, RolloutStatus
from ..core.drive.journal import Acceptance
from ..core.drive.proofs import AcceptedProof
from ..core.errors import ConflictError, StorageError
from ..core.events import FREEZE, Action, Begin, Halt, SaveRun
from ..core.experiment.campaign import Campaign
from ..core.experiment.design import Periods
from ..core.experiment.run_state import RunState
from ..core.fleet.claims import Age
from ..core.verdict.foreign import Evidence, is_new
from ..core.verdict.result import TrustedModel
from ..deployment.places import Deployment, RemovedHosts, entity_of
from .executor import Executor
from .run_queue import machine_of
from .storing.archive import (
    ACCEPTED,
    ACCEPTED_PROOFS,
    AGENT,
    CAMPAIGN,
    DEPLOYMENT,
    FOREIGN,
    REMOVED,
    REPORT,
    RUN,
    TRUSTED,
    next_number,
)
from .under_way import open_jobs
from .world import World, look


class EngineLock:
    """A plain lock; whoever has it already is told so, and does not wait for itself for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0

    @property
    def is_mine(self) -> bool:
        """Whether this thread has it."""
        return self._holder == threading.get_ident()

    def __enter__(self) -> None:
        if self.is_mine:
            raise RuntimeError("the engine's lock is taken twice")
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._holder = 0
        self._lock.release()


def put_runs(
    executor: Executor, campaign: Campaign, states: Sequence[RunState],
    stored: Callable[[], None], failed: Callable[[StorageError], None],
) -> None:
    """Have a campaign with new runs stored; they begin once the mons have all of it."""
    campaign_id = campaign.campaign_id

    def taken() -> None:
        executor.unstored.discard(campaign_id)
        stored()

    def refused(error: StorageError) -> None:
        executor.unstored.discard(campaign_id)
        failed(error)

    executor.campaigns[campaign_id] = campaign
    for state in states:
        periods: List[Periods] = [{} for _ in state.spec.experiments]
        executor.runs[state.spec.run_id] = machine_of(state, periods, executor.epoch)
    executor.unstored.add(campaign_id)
    executor.archive.put_campaign(
        campaign, states, executor.gate.expect(campaign_id, taken, refused)
    )


class Orders:
    """Over the executor: it keeps nothing itself, and never takes the lock."""

    def __init__(self, executor: Executor, lock: EngineLock) -> None:
        self._executor = executor
        self._lock = lock

    @property
    def executor(self) -> Executor:
        """The machines and all parts, for whoever has the lock."""
        if not self._lock.is_mine:
            raise RuntimeError("an order is given without the engine's lock")
        return self._executor

    def look(self, before: World) -> World:
        """What there is now, with the maps of an earlier look, and its advice where that stands."""
        return look(self.executor, lambda: before.cluster).taking_over(before)

    def note(self, who: str, what: str, text: str) -> None:
        """Add a line to the audit log and to the mgr's."""
        self.executor.note(who, what, text)

    def freeze(self, frozen: bool) -> bool:
        """Toggle nothing any more, and restore what is under way; or thaw.  Whether that is new."""
        executor = self.executor
        changed = executor.frozen != frozen
        executor.frozen = frozen
        if changed:
            # first in the queue: a mgr that takes over must find it
            executor.persistence.save_frozen(frozen)
            executor.note("admin", "cluster", "frozen" if frozen else "thawed")
        for jobs in (executor.runs, executor.rollouts, executor.trials) if frozen else ():
            for owner in open_jobs(jobs):
                executor.feed(owner, FREEZE)
        executor.hear_store()
        return changed

    def accept(self, item: Acceptance) -> bool:
        """Give up prior states by an admin's word; whether the mons have all of it already."""
        executor = self.executor
        for owner in executor.unrestored.accept(item):
            executor.execute(owner, [SaveRun()])
        executor.hear_store()
        # a look or a restore that was asked for is of no use now; the next report says what
        # is left of it
        executor.hosts.drop_tasks_of(item.hostname)
        self.ask_anew(item.hostname)
        owners = (ACCEPTED.prefix, *item.owners) if item.keys else item.owners
        return all(map(executor.persistence.is_stored, owners))

    # ---- plans and campaigns

    def new_campaign_id(self) -> str:
        """A campaign's id that is new: what cannot be read keeps its number."""
        archive = self.executor.archive
        stored = [*archive.names(CAMPAIGN), *archive.names(RUN)]
        return f"c{next_number([*self.executor.campaigns, *stored])}"

    def new_plan_id(self) -> str:
        """A plan's id that is new: what cannot be read, or was removed, keeps its number.

        An `apply` that somebody wrote down must never begin another plan.
        """
        executor = self.executor
        told = [entry.what for entry in executor.audit.all() if entry.what.startswith("p")]
        known = [*executor.rollouts, *executor.archive.plans.ids(), *told]
        return f"p{next_number(known)}"

    def begin(self, plan_id: str) -> RolloutStatus:
        """Carry out a plan; returns where it stands then."""
        self.executor.feed(plan_id, Begin())
        return self.executor.rollouts[plan_id].rollout.status

    def add_campaign(self, campaign: Campaign, states: Sequence[RunState]) -> None:
        """Store a campaign; its runs begin once the mons have all of it."""
        executor, campaign_id = self.executor, campaign.campaign_id

        def failed(error: StorageError) -> None:
            executor.campaigns.pop(campaign_id, None)
            for number, state in enumerate(states):
                executor.runs.pop(state.spec.run_id, None)
                if number:  # the first keeps the campaign's number from being used again
                    executor.archive.drop_run(state.spec.run_id)
            executor.archive.drop(CAMPAIGN, campaign_id)
            executor.note("mgr", campaign_id, f"not started: {error.message}", "warning")

        put_runs(executor, campaign, states, executor.persistence.stored, failed)
        executor.hear_store()
        executor.prune()

    def add_rollout(self, rollout: Rollout) -> None:
        """Store a new plan, not started."""
        executor = self.executor
        if rollout.plan_id in executor.rollouts:
            raise ConflictError("another plan was made at the same moment", "ask again")
        machine = RolloutMachine(rollout, executor.epoch)
        executor.rollouts[rollout.plan_id] = machine
        executor.persistence.save(rollout.plan_id, machine)
        executor.hear_store()
        executor.prune()

    def remove_plan(self, plan_id: str) -> None:
        """Forget a plan that was never begun; its number is not used again."""
        executor = self.executor
        del executor.rollouts[plan_id]
        executor.persistence.forget(plan_id)
        executor.archive.plans.drop(plan_id)
        executor.note("admin", plan_id, "removed; it was never begun")

    def steer(
        self, plan_id: str, act: Callable[[RolloutMachine], List[Action]]
    ) -> RolloutStatus:
        """Have the machine of a plan do something; returns where it stands then."""
        self.executor.execute(plan_id, act(self.executor.rollouts[plan_id]))
        return self.executor.rollouts[plan_id].rollout.status

    # ---- trials

    def begin_trial(self, knob: str, state: object) -> None:
        """Carry out what a knob tries by itself, in place of the last one of its kind."""
        executor = self.executor
        trial = executor.questions.kinds[knob].machine_of(state, executor.epoch)
        for job_id in [i for i, old in executor.trials.items() if old.key == trial.key]:
            del executor.trials[job_id]
        executor.trials[trial.job_id] = trial
        executor.feed(trial.job_id, Begin())

    def end_trial(self, job_id: str, reason: str) -> bool:
        """Have a trial take back what it changed; False where it ends already."""
        executor = self.executor
        trial = executor.trials[job_id]
        before = trial.state
        executor.feed(job_id, Halt(reason))
        return bool(trial.state != before)

    # ---- hosts

    def refresh(self) -> Age:
        """How old the reports are; hosts whose reports are old are looked at again."""
        executor = self.executor
        return executor.hosts.refresh(executor.clock())

    def ask_anew(self, hostname: str) -> None:
        """A host's last report may not tell of what is there now: it is asked for the next."""
        self.executor.hosts.reported_at_s.pop(hostname, None)

    def add_host(self, item: Deployment, *, noted: bool) -> None:
        """Remember a host that was added; its probe may call again."""
        executor = self.executor
        before = executor.hosts.deployments.get(item.hostname)
        self._put_removed(executor.hosts.removed.but(item.hostname))
        if before is not None and _alike(before, item):
            return
        executor.hosts.deployments[item.hostname] = item
        executor.archive.put_later(DEPLOYMENT, item)
        if noted or before is None:
            text = f"host added for {item.form.value}, key {entity_of(item.hostname)}"
            executor.note("admin", item.hostname, text)

    def _put_removed(self, removed: RemovedHosts) -> None:
        if removed != self.executor.hosts.removed:
            self.executor.hosts.removed = removed
            self.executor.archive.put_later(REMOVED, removed)

    def remove_host(self, hostname: str) -> None:
        """Forget a host, but for its name: its probe may go on calling, and is refused.

        No plan waits for it; what a plan has on other hosts goes its own way.
        """
        executor = self.executor
        executor.hosts.forget(hostname)
        self._put_removed(executor.hosts.removed.and_too(hostname))
        executor.unrestored.forget(hostname)
        executor.archive.drop(DEPLOYMENT, hostname)
        executor.archive.drop(REPORT, hostname)
        executor.archive.drop(AGENT, hostname)
        for plan_id, machine in [*executor.rollouts.items()]:
            if any(
                change.hostname == hostname and change.status in UNFINISHED
                for change in machine.rollout.drive_changes
            ):
                executor.feed(plan_id, Halt(f"host {hostname} was removed"))

    # ---- an admin's word, and that of other clusters

    def trust(self, item: TrustedModel) -> None:
        """Vouch for a drive model's power-loss protection."""
        self.executor.analyses.trusted[item.drive_model] = item
        self._save_trust()

    def distrust(self, drive_model: str) -> None:
        """No longer vouch for it."""
        del self.executor.analyses.trusted[drive_model]
        self._save_trust()

    def _save_trust(self) -> None:
        executor = self.executor
        executor.persistence.save_value(TRUSTED, executor.analyses.trusted_models())
        executor.hear_store()
        executor.analyses.trust_changed()

    def accept_proof(self, item: AcceptedProof) -> None:
        """What a host has shown of a drive model counts on all hosts."""
        self.executor.analyses.accepted[item.hostname, item.drive_model] = item
        self._save_proofs()

    def revoke_proof(self, hostname: str, drive_model: str) -> None:
        """It counts by the rule of two hosts again."""
        del self.executor.analyses.accepted[hostname, drive_model]
        self._save_proofs()

    def _save_proofs(self) -> None:
        executor = self.executor
        executor.persistence.save_value(ACCEPTED_PROOFS, executor.analyses.accepted_proofs())
        executor.hear_store()
        # hosts are told with the request for their next report
        executor.hosts.reported_at_s.clear()

    def import_evidence(self, found: Evidence) -> bool:
        """Keep what another cluster found; False where it is kept already."""
        executor, files = self.executor, self.executor.analyses.foreign

        def stored(error: object) -> None:
            if isinstance(error, StorageError):
                executor.persistence.failed(error)

        if not is_new(files, found):
            return False
        files[found.cluster] = found
        executor.archive.put(FOREIGN, found, stored)
        return True

    def drop_evidence(self, cluster: str) -> None:
        """Forget what came from a cluster."""
        if self.executor.analyses.foreign.pop(cluster, None) is not None:
            self.executor.archive.drop(FOREIGN, cluster)


def _alike(before: Deployment, item: Deployment) -> bool:
    return (before.form, before.image, before.namespace) == (
        item.form, item.image, item.namespace
    )
