"""What admins and `auto` have the engine do; each order holds the lock once."""

from __future__ import annotations

from typing import Callable, Iterable, List, Sequence, Tuple

from ..core.change.change_status import UNFINISHED
from ..core.change.rollout import RolloutMachine
from ..core.change.rollout_state import Rollout, RolloutStatus
from ..core.deployment.form import Deployment, entity_of
from ..core.drive.acceptance import Acceptance
from ..core.drive.accepted_proofs import AcceptedProof
from ..core.errors import ConflictError, StorageError
from ..core.events import Action, Begin, ClusterSeen, Halt, SaveRun
from ..core.experiment.campaign import Campaign
from ..core.experiment.observing.machines import machine_of
from ..core.experiment.run_state import FROZEN_BY_ADMIN, RunState
from ..core.experiment.slots import Periods
from ..core.jobs import Trial
from ..core.record import Precondition
from ..core.verdict.foreign.document import Evidence
from ..core.verdict.plp.trust import TrustedModel
from .accepting import settle
from .engine import Engine
from .evidence.accepted_proofs import ACCEPTED_PROOFS
from .evidence.trust import TRUSTED
from .persistence import ACCEPTED
from .storing.archive import next_number
from .under_way import open_plans, open_runs, open_trials
from .world import World


class Orders:
    """Over the engine: it holds nothing itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def freeze(self, frozen: bool) -> bool:
        """Toggle nothing any more, and restore what is under way; or thaw.  Whether that is new."""
        engine = self._engine
        with engine.lock:
            changed = engine.frozen != frozen
            engine.frozen = frozen
            if changed:
                # first in the queue: a mgr that takes over must find it
                engine.persistence.save_frozen(frozen)
                engine.note("admin", "cluster", "frozen" if frozen else "thawed")
            for owner in open_runs(engine.runs) if frozen else ():
                engine.feed(owner, Halt(FROZEN_BY_ADMIN))
            for owner in open_plans(engine.rollouts) if frozen else ():
                engine.feed(owner, Halt(FROZEN_BY_ADMIN))
            for owner in open_trials(engine.trials) if frozen else ():
                engine.feed(owner, Halt(FROZEN_BY_ADMIN))
            engine.hear_store()
        return changed

    def accept(self, item: Acceptance) -> bool:
        """Give up prior states by an admin's word; whether the mons have all of it already."""
        engine = self._engine
        with engine.lock:
            if item.keys:
                engine.accepting.add(item)  # before all else, so that all of it is stored or none
            for owner in settle(item, engine.runs, engine.rollouts):
                engine.execute(owner, [SaveRun()])
            engine.hear_store()
            # a look or a restore that was asked for is of no use now; the next report says what
            # is left of it
            engine.hosts.drop_tasks_of(item.hostname)
            engine.ask_anew(item.hostname)
            owners = (ACCEPTED, *item.owners) if item.keys else item.owners
            return all(map(engine.persistence.is_stored, owners))

    # ---- plans and campaigns

    def new_campaign_id(self) -> str:
        """A campaign's id that is new: what cannot be read keeps its number."""
        stored = [*self._engine.archive.names("campaign"), *self._engine.archive.names("run")]
        return f"c{next_number([*self._engine.campaigns, *stored])}"

    def new_plan_id(self) -> str:
        """A plan's id that is new: what cannot be read, or was removed, keeps its number.

        An `apply` that somebody wrote down must never begin another plan.
        """
        engine = self._engine
        with engine.lock:
            told = [entry.what for entry in engine.audit.all() if entry.what.startswith("p")]
            known = [*engine.rollouts, *engine.archive.names("rollout"), *told]
        return f"p{next_number(known)}"

    def begin(self, plan_id: str) -> RolloutStatus:
        """Carry out a plan; returns where it stands then."""
        with self._engine.lock:
            self._engine.feed(plan_id, Begin())
            return self._engine.rollouts[plan_id].rollout.status

    def add_campaign(self, campaign: Campaign, states: Sequence[RunState]) -> None:
        """Store a campaign; its runs begin once the mons have all of it."""
        engine, campaign_id = self._engine, campaign.campaign_id

        def stored() -> None:
            engine.unstored.discard(campaign_id)
            engine.persistence.stored()

        def failed(error: StorageError) -> None:
            engine.unstored.discard(campaign_id)
            engine.campaigns.pop(campaign_id, None)
            for number, state in enumerate(states):
                engine.runs.pop(state.spec.run_id, None)
                if number:  # the first keeps the campaign's number from being used again
                    engine.archive.drop_run(state.spec.run_id)
            engine.archive.drop_campaign(campaign_id)
            engine.note("mgr", campaign_id, f"not started: {error.message}", "warning")

        with engine.lock:
            engine.campaigns[campaign_id] = campaign
            for state in states:
                periods: List[Periods] = [{} for _ in state.spec.experiments]
                engine.runs[state.spec.run_id] = machine_of(state, periods, engine.epoch)
            engine.unstored.add(campaign_id)
            engine.archive.put_campaign(
                campaign, states, engine.gate.expect(campaign_id, stored, failed)
            )
            engine.hear_store()
            engine.prune()

    def add_rollout(self, rollout: Rollout) -> None:
        """Store a new plan, not started."""
        engine = self._engine
        with engine.lock:
            if rollout.plan_id in engine.rollouts:
                raise ConflictError("another plan was made at the same moment", "ask again")
            machine = RolloutMachine(rollout, engine.epoch)
            engine.rollouts[rollout.plan_id] = machine
            engine.persistence.save(rollout.plan_id, machine)
            engine.hear_store()
            engine.prune()

    def remove_plan(self, plan_id: str) -> None:
        """Forget a plan that was never begun; its number is not used again."""
        engine = self._engine
        with engine.lock:
            del engine.rollouts[plan_id]
            engine.persistence.forget(plan_id)
            engine.archive.drop_rollout(plan_id)
            engine.note("admin", plan_id, "removed; it was never begun")

    def steer(
        self, plan_id: str, act: Callable[[RolloutMachine], List[Action]]
    ) -> RolloutStatus:
        """Have the machine of a plan do something; returns where it stands then."""
        with self._engine.lock:
            self._engine.execute(plan_id, act(self._engine.rollouts[plan_id]))
            return self._engine.rollouts[plan_id].rollout.status

    def missed_now(self, plan_id: str, world: World) -> Tuple[Precondition, ...]:
        """What keeps a plan from going on, by what the mgr knows itself."""
        with self._engine.lock:
            machine = self._engine.rollouts[plan_id]
            return self._engine.looking.missed_now(
                machine, world.cluster, lambda: world.recommendations
            )

    def look_for(self, plan_id: str, done: Callable[[ClusterSeen], None]) -> None:
        """The same with what only the mons know; `done` is called once, from any thread."""
        with self._engine.lock:
            machine = self._engine.rollouts[plan_id]
            self._engine.looking.see(machine, machine.groups_next, done)

    # ---- trials

    def begin_trial(self, trial: Trial) -> None:
        """Carry out what a knob tries by itself, in place of the last one of its kind."""
        engine = self._engine
        with engine.lock:
            for job_id in [i for i, old in engine.trials.items() if old.key == trial.key]:
                del engine.trials[job_id]
            engine.trials[trial.job_id] = trial
            engine.feed(trial.job_id, Begin())

    def end_trial(self, job_id: str, reason: str) -> bool:
        """Have a trial take back what it changed; False where it ends already."""
        engine = self._engine
        with engine.lock:
            trial = engine.trials[job_id]
            before = trial.state
            engine.feed(job_id, Halt(reason))
            return bool(trial.state != before)

    def watch_memory(self, hostnames: Iterable[str]) -> None:
        """Have these hosts tell of their memory again and again, and no others."""
        with self._engine.lock:
            self._engine.hosts.watch_memory(hostnames)

    # ---- hosts

    def add_host(self, item: Deployment, *, noted: bool) -> None:
        """Remember a host that was added; its probe may call again."""
        engine = self._engine
        with engine.lock:
            before = engine.hosts.deployments.get(item.hostname)
            engine.hosts.removed.pop(item.hostname, None)
            if before is not None and _alike(before, item):
                return
            engine.hosts.deployments[item.hostname] = item
            engine.archive.put_deployment(item)
            if noted or before is None:
                text = f"host added for {item.form.value}, key {entity_of(item.hostname)}"
                engine.note("admin", item.hostname, text)

    def remove_host(self, hostname: str, instance_id: str) -> None:
        """Forget a host and refuse this instance of its probe, which goes on calling.

        No plan waits for it; what a plan has on other hosts goes its own way.
        """
        engine = self._engine
        with engine.lock:
            engine.hosts.forget(hostname)
            if instance_id:
                engine.hosts.removed[hostname] = instance_id
            engine.accepting.forget(hostname)
            engine.archive.drop_host(hostname)
            for plan_id, machine in [*engine.rollouts.items()]:
                if any(
                    change.hostname == hostname and change.status in UNFINISHED
                    for change in machine.rollout.drive_changes
                ):
                    engine.feed(plan_id, Halt(f"host {hostname} was removed"))

    # ---- an admin's word, and that of other clusters

    def trust(self, item: TrustedModel) -> None:
        """Vouch for a drive model's power-loss protection."""
        with self._engine.lock:
            self._engine.analyses.trust.add(item)
            self._save_trust()

    def distrust(self, drive_model: str) -> None:
        """No longer vouch for it."""
        with self._engine.lock:
            self._engine.analyses.trust.remove(drive_model)
            self._save_trust()

    def _save_trust(self) -> None:
        engine = self._engine
        engine.persistence.save_value(TRUSTED, engine.analyses.trust.put)
        engine.hear_store()
        engine.analyses.trust_changed()

    def accept_proof(self, item: AcceptedProof) -> None:
        """What a host has shown of a drive model counts on all hosts."""
        with self._engine.lock:
            self._engine.analyses.accepted.add(item)
            self._save_proofs()

    def revoke_proof(self, hostname: str, drive_model: str) -> None:
        """It counts by the rule of two hosts again."""
        with self._engine.lock:
            self._engine.analyses.accepted.remove(hostname, drive_model)
            self._save_proofs()

    def _save_proofs(self) -> None:
        engine = self._engine
        engine.persistence.save_value(ACCEPTED_PROOFS, engine.analyses.accepted.put)
        engine.hear_store()
        # hosts are told with the request for their next report
        engine.hosts.reported_at_s.clear()

    def import_evidence(self, found: Evidence) -> bool:
        """Keep what another cluster found; False where it is kept already."""
        engine = self._engine

        def stored(error: object) -> None:
            if isinstance(error, StorageError):
                engine.persistence.failed(error)

        with engine.lock:
            return engine.analyses.foreign.add(found, stored)

    def drop_evidence(self, cluster: str) -> None:
        """Forget what came from a cluster."""
        with self._engine.lock:
            self._engine.analyses.foreign.drop(cluster)


def _alike(before: Deployment, item: Deployment) -> bool:
    return (before.form, before.image, before.namespace) == (
        item.form, item.image, item.namespace
    )
