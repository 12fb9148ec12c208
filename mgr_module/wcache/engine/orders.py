"""Orders of admins or of `auto`, given by whoever has the engine's lock."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, List, Mapping, Optional, Sequence

from ..core.automation.state import AutoState
from ..core.change.change import UNFINISHED
from ..core.change.rollout import RolloutMachine
from ..core.change.rollout_state import Rollout, RolloutStatus
from ..core.drive.journal import Acceptance
from ..core.drive.proofs import AcceptedProof, AcceptedProofs
from ..core.errors import ConflictError, StorageError
from ..core.events import FREEZE, Action, Begin, Halt, SaveRun
from ..core.experiment.campaign import Campaign
from ..core.experiment.design import Periods
from ..core.experiment.run_state import RunState
from ..core.fleet.claims import Age
from ..core.jobs import Job
from ..core.verdict.foreign import Evidence, is_new
from ..core.verdict.result import TrustedModel, TrustedModels
from ..deployment.places import Deployment, RemovedHosts, entity_of
from .executor import Executor
from .run_queue import machine_of
from .storing.archive import (
    ACCEPTED,
    ACCEPTED_PROOFS,
    AGENT,
    AUTOMATION,
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


class Orders(Executor):
    """The second part of the engine: what is ordered of it."""

    def put_runs(
        self, campaign: Campaign, states: Sequence[RunState],
        failed: Callable[[StorageError], None],
    ) -> None:
        """Have a campaign with new runs stored; they begin once the mons have all of it."""
        campaign_id = campaign.campaign_id

        def taken() -> None:
            self.unstored.discard(campaign_id)
            self.persistence.stored()

        def refused(error: StorageError) -> None:
            self.unstored.discard(campaign_id)
            failed(error)

        self.campaigns[campaign_id] = campaign
        for state in states:
            periods: List[Periods] = [{} for _ in state.spec.experiments]
            self.runs[state.spec.run_id] = machine_of(state, periods, self.epoch)
        self.unstored.add(campaign_id)
        self.archive.put_campaign(
            campaign, states, self.gate.expect(campaign_id, taken, refused)
        )

    def is_stored(self, owner: str) -> bool:
        """Whether the mons have a value, or where a machine stands."""
        self.require_lock()
        self.hear_store()
        return self.persistence.is_stored(owner)

    def freeze(self, frozen: bool) -> bool:
        """Toggle nothing any more, and restore what is under way; or thaw.  Whether that is new."""
        self.require_lock()
        changed = self.frozen != frozen
        self.frozen = frozen
        if changed:
            # first in the queue: a mgr that takes over must find it
            self.persistence.save_frozen(frozen)
            self.note("admin", "cluster", "frozen" if frozen else "thawed")
        groups: Sequence[Mapping[str, Job]] = (self.runs, self.rollouts, self.trials)
        for jobs in groups if frozen else ():
            for owner in open_jobs(jobs):
                self.feed(owner, FREEZE)
        self.hear_store()
        return changed

    def accept(self, item: Acceptance) -> bool:
        """Give up prior states by an admin's word; whether the mons have all of it already."""
        self.require_lock()
        for owner in self.unrestored.accept(item):
            self.execute(owner, [SaveRun()])
        self.hear_store()
        # a look or a restore that was asked for is of no use now; the next report says what
        # is left of it
        self.hosts.drop_tasks_of(item.hostname)
        self.ask_anew(item.hostname)
        owners = (ACCEPTED.prefix, *item.owners) if item.keys else item.owners
        return all(map(self.persistence.is_stored, owners))

    # ---- plans and campaigns

    def new_campaign_id(self) -> str:
        """A campaign's id that is new: what cannot be read keeps its number."""
        self.require_lock()
        stored = [*self.archive.names(CAMPAIGN), *self.archive.names(RUN)]
        return f"c{next_number([*self.campaigns, *stored])}"

    def new_plan_id(self) -> str:
        """A plan's id that is new: what cannot be read, or was removed, keeps its number.

        An `apply` that somebody wrote down must never begin another plan.
        """
        self.require_lock()
        told = [entry.what for entry in self.audit.all() if entry.what.startswith("p")]
        known = [*self.rollouts, *self.archive.plans.ids(), *told]
        return f"p{next_number(known)}"

    def add_campaign(self, campaign: Campaign, states: Sequence[RunState]) -> None:
        """Store a campaign; its runs begin once the mons have all of it."""
        self.require_lock()
        campaign_id = campaign.campaign_id

        def failed(error: StorageError) -> None:
            self.campaigns.pop(campaign_id, None)
            for number, state in enumerate(states):
                self.runs.pop(state.spec.run_id, None)
                if number:  # the first keeps the campaign's number from being used again
                    self.archive.drop_run(state.spec.run_id)
            self.archive.drop(CAMPAIGN, campaign_id)
            self.note("mgr", campaign_id, f"not started: {error.message}", "warning")

        self.put_runs(campaign, states, failed)
        self.hear_store()
        self.prune()

    def add_rollout(self, rollout: Rollout) -> None:
        """Store a new plan, not started."""
        self.require_lock()
        if rollout.plan_id in self.rollouts:
            raise ConflictError("another plan was made at the same moment", "ask again")
        machine = RolloutMachine(rollout, self.epoch)
        self.rollouts[rollout.plan_id] = machine
        self.persistence.save(rollout.plan_id, machine)
        self.hear_store()
        self.prune()

    def remove_plan(self, plan_id: str) -> None:
        """Forget a plan that was never begun; where it was noted its number is not used again."""
        self.require_lock()
        del self.rollouts[plan_id]
        self.persistence.forget(plan_id)
        self.archive.plans.drop(plan_id)

    def steer(
        self, plan_id: str, act: Callable[[RolloutMachine], List[Action]]
    ) -> RolloutStatus:
        """Have the machine of a plan do something; returns where it stands then."""
        self.require_lock()
        self.execute(plan_id, act(self.rollouts[plan_id]))
        return self.rollouts[plan_id].rollout.status

    # ---- trials

    def begin_trial(self, knob: str, state: object) -> None:
        """Carry out what a knob tries by itself, in place of the last one of its kind."""
        self.require_lock()
        trial = self.questions.kinds[knob].machine_of(state, self.epoch)
        for job_id in [i for i, old in self.trials.items() if old.key == trial.key]:
            del self.trials[job_id]
        self.trials[trial.job_id] = trial
        self.feed(trial.job_id, Begin())

    def end_trial(self, job_id: str, reason: str) -> bool:
        """Have a trial take back what it changed; False where it ends already."""
        self.require_lock()
        trial = self.trials[job_id]
        before = trial.state
        self.feed(job_id, Halt(reason))
        return bool(trial.state != before)

    # ---- hosts

    def refresh(self) -> Age:
        """How old the reports are; hosts whose reports are old are looked at again."""
        self.require_lock()
        return self.hosts.refresh(self.clock())

    def ask_anew(self, hostname: str) -> None:
        """A host's last report may not tell of what is there now: it is asked for the next."""
        self.require_lock()
        self.hosts.look_again(hostname)

    def add_host(self, item: Deployment, *, noted: bool) -> None:
        """Remember a host that was added; its probe may call again."""
        self.require_lock()
        before = self.hosts.deployments.get(item.hostname)
        self._put_removed(self.hosts.removed.but(item.hostname))
        if before is not None and replace(before, added_at_s=item.added_at_s) == item:
            return
        self.hosts.deployments[item.hostname] = item
        self.archive.put_later(DEPLOYMENT, item)
        if noted or before is None:
            text = f"host added for {item.form.value}, key {entity_of(item.hostname)}"
            self.note("admin", item.hostname, text)

    def _put_removed(self, removed: RemovedHosts) -> None:
        if removed != self.hosts.removed:
            self.hosts.removed = removed
            self.archive.put_later(REMOVED, removed)

    def remove_host(self, hostname: str) -> None:
        """Forget a host, but for its name: its probe may go on calling, and is refused.

        No plan waits for it; what a plan has on other hosts goes its own way.
        """
        self.require_lock()
        agent = self.hosts.agents.get(hostname)
        if agent is not None:
            self._put_removed(self.hosts.removed.and_too(hostname, agent.instance_id))
        self.hosts.forget(hostname)
        self.unrestored.forget(hostname)
        self.archive.drop(DEPLOYMENT, hostname)
        self.archive.drop(REPORT, hostname)
        self.archive.drop(AGENT, hostname)
        for plan_id, machine in [*self.rollouts.items()]:
            if any(
                change.hostname == hostname and change.status in UNFINISHED
                for change in machine.rollout.drive_changes
            ):
                self.feed(plan_id, Halt(f"host {hostname} was removed"))

    # ---- an admin's word, what `auto` keeps, and the word of other clusters

    def keep_automation(self, state: AutoState) -> None:
        """Store what `auto` keeps."""
        self.require_lock()
        self.persistence.save_value(AUTOMATION, state)

    def trust(self, drive_model: str, item: Optional[TrustedModel]) -> None:
        """Vouch for the power-loss protection of a drive model; with None no longer."""
        self.require_lock()
        kept = [one for one in self.analyses.trusted if one.drive_model != drive_model]
        kept = sorted([*kept, *([item] if item else [])], key=lambda one: one.drive_model)
        self.analyses.trusted = tuple(kept)
        self.persistence.save_value(TRUSTED, TrustedModels(self.analyses.trusted))
        self.hear_store()

    def accept_proof(
        self, hostname: str, drive_model: str, item: Optional[AcceptedProof]
    ) -> None:
        """Have what a host has shown of a drive model count on all hosts; with None no longer."""
        self.require_lock()
        key = (hostname, drive_model)
        kept = [one for one in self.analyses.accepted if (one.hostname, one.drive_model) != key]
        kept += [item] if item else []
        self.analyses.accepted = tuple(
            sorted(kept, key=lambda one: (one.hostname, one.drive_model))
        )
        self.persistence.save_value(ACCEPTED_PROOFS, AcceptedProofs(self.analyses.accepted))
        self.hear_store()
        # hosts are told with the request for their next report
        for name in (*self.hosts.reported_at_s,):
            self.hosts.look_again(name)

    def import_evidence(self, found: Evidence) -> bool:
        """Keep what another cluster found; False where it is kept already."""
        self.require_lock()
        if not is_new(self.analyses.foreign, found):
            return False
        self.analyses.foreign[found.cluster] = found
        self.archive.put(FOREIGN, found, self.persistence.failed)
        return True

    def drop_evidence(self, cluster: str) -> None:
        """Forget what came from a cluster."""
        if self.analyses.foreign.pop(cluster, None) is not None:
            self.archive.drop(FOREIGN, cluster)
