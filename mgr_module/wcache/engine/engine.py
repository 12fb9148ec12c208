"""The engine as others see it: one lock, a queue of events, the turn of its loop.

Nothing slow happens under the lock: that works elsewhere and puts its answers into queues,
which `tick` drains.  A lease is renewed by progress: probes hear of it only while whole ticks
are made.
"""

from __future__ import annotations

import secrets
import threading
import time
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ..core import events
from ..core.change.rollout import RolloutMachine
from ..core.cluster import ClusterState
from ..core.errors import StorageError
from ..core.experiment.campaign import Campaign
from ..core.experiment.run_state import OVER, RunSpec, RunState, RunStatus
from ..core.experiment.stand_in import stand_in, wants_another
from ..core.fleet.claims import believed
from ..core.fleet.disputes import on_domains
from ..core.history import HistoryEntry
from ..core.jobs import Job
from .executor import Ports
from .orders import Orders
from .run_queue import CLUSTER_GRACE_S, machine_of
from .storing.archive import CAMPAIGN, RUN
from .under_way import (
    at_once,
    begun_jobs,
    domains_taken,
    in_common,
    open_jobs,
    taken,
    touched_by,
    touched_by_run,
)
from .world import World


def steady_clock() -> Callable[[], float]:
    """Wall-clock time that never steps: a set clock must not end or prolong a period."""
    offset_s = time.time() - time.monotonic()
    return lambda: offset_s + time.monotonic()


class Engine(Orders):
    """Lets one in at a time: to look, to give orders, or to have the next thing done.

    What this file defines takes the lock, and is for others; what it inherits is for whoever has
    the lock.  `ports`, `clock`, `wake` (there is something to do: the next tick comes at once),
    `config`, `kept_blocks` and, before anything is loaded, `trial_kinds` and `objections` are for
    anybody.
    """

    def __init__(
        self, ports: Ports, *, wake: Callable[[], None] = lambda: None,
        clock: Optional[Callable[[], float]] = None,
    ) -> None:
        self._lock = threading.Lock()
        self._looked: Optional[World] = None
        self._advised: Optional[World] = None
        super().__init__(
            ports, clock=clock or steady_clock(), wake=wake, note=self._note,
            verdicts=lambda: self._look(ports.view.cluster), verdicts_later=self.world,
        )

    @contextmanager
    def orders(self) -> Iterator[Engine]:
        """Orders that follow from no look; nothing else changes meanwhile."""
        if self._holder == threading.get_ident():  # it would wait for itself for ever
            raise RuntimeError("the engine's lock is taken twice")
        with self._lock:
            self._holder = threading.get_ident()
            try:
                yield self
            finally:
                self._holder = 0

    @contextmanager
    def deciding(self, before: Optional[World] = None) -> Iterator[Tuple[World, Engine]]:
        """A look, and orders that follow from it: nothing else changes meanwhile."""
        looked = before or self.world()
        _ = looked.cluster  # fetched while no lock is held
        with self.orders():
            yield self.look(looked), self

    def _note(self, owner: str, text: str) -> None:
        with self.orders():
            self.note("mgr", owner, text)

    # ---- what there is

    def world(self, before: Optional[World] = None) -> World:
        """What there is now; with the maps of an earlier look, and its advice where that stands."""
        with self.orders():
            if before is not None:
                return self.look(before)
            self._advised = self._newest_advised
            self._looked = self._look(self.view.cluster)
            return self._looked

    def world_soon_after(self) -> World:
        """What there is now, with maps and advice of the last look that has some.

        The loop looks every few seconds, and what follows a command needs no newer ones.
        """
        return self.world(self._newest_advised)

    @property
    def _newest_advised(self) -> Optional[World]:
        """The newest look of which the advice is worked out; the newest at all where none is."""
        looked = self._looked
        has_advice = looked is not None and looked.has_advice
        return looked if has_advice or self._advised is None else self._advised

    def look(self, before: World) -> World:
        """The same for whoever has the lock."""
        self.require_lock()
        return self._look(lambda: before.cluster).taking_over(before)

    def _look(self, maps: Callable[[], ClusterState]) -> World:
        """What there is now; `maps` fetches the cluster's, where somebody looks at them."""
        hosts, analyses, config = self.hosts, self.analyses, self.config
        analyses.hear()
        now_s = self.clock()
        agents, only_stored, other_versions, blocked = hosts.agents.look(now_s)

        # of what was aborted nobody waits for mons that do not answer
        aborted = {
            machine.state.spec.campaign_id for machine in self.runs.values()
            if machine.state.status is RunStatus.ABORTED
        }
        unsaved = {record.campaign_id for record in self.persistence.records.unsaved.values()}
        asked = {analyses.results[i].campaign_id for i in analyses.asked if i in analyses.results}

        world = World(
            now_s=now_s, maps=maps, loads=lambda: self.ports.profiles(world),
            options=self.options(), reports=dict(hosts.reports),
            reported_at_s=dict(hosts.reported_at_s), awaited_until_s=dict(hosts.awaited_until_s),
            journal_known=frozenset(hosts.journal_known), host_memory=dict(hosts.memory),
            agents=agents, only_stored=only_stored, other_versions=other_versions,
            blocked=blocked, deployments=dict(hosts.deployments),
            runs={run_id: copy(machine) for run_id, machine in self.runs.items()},
            rollouts={plan_id: copy(machine) for plan_id, machine in self.rollouts.items()},
            trials={job_id: copy(machine) for job_id, machine in self.trials.items()},
            campaigns=dict(self.campaigns), awaited=frozenset((unsaved - aborted) | asked),
            all_results=dict(analyses.results), trusted=analyses.trusted,
            accepted=analyses.accepted,
            foreign=dict(analyses.foreign), analysis_error=analyses.error,
            acceptances=dict(self.unrestored.accepted), frozen=self.frozen,
            reserved=self.reserved, broken=dict(self.broken),
            trouble=self.archive.trouble(), store_error=self.persistence.error,
            unreadable=dict(self.archive.unreadable), unticked_s=now_s - self.ticked_at_s,
            config=config.config, config_read_at_s=config.read_at_s, config_error=config.error,
            objections=self.objections,
        )
        return world

    def is_active(self) -> bool:
        """Whether something is under way, so that time matters."""
        with self.orders():
            return bool(self.reserved or begun_jobs(self.rollouts) or open_jobs(self.runs))

    def history(self) -> List[HistoryEntry]:
        with self.orders():
            return self.audit.all()

    # ---- the module's start and end

    def load(self) -> None:
        """Take up the stored state and go on where the last mgr stopped.

        Raises a WcacheError where it cannot be read; then nothing has begun, and it can be
        called again.
        """
        with self.orders():
            self._load()

    def _load(self) -> None:
        self.runs.clear()
        self.rollouts.clear()
        self.trials.clear()
        self.archive.check_version()
        now_s = self.clock()
        self.watchdog.trusted_from_s = self.queue.trusted_from_s = now_s + CLUSTER_GRACE_S
        self.epoch = format(int(now_s * 1000), "x")
        self.frozen = self.archive.frozen
        self.audit.load()
        self.hosts.load(self.archive, now_s)
        self.analyses.load()
        self.campaigns = self.archive.all(CAMPAIGN)
        for plan_id, rollout in self.archive.plans.all().items():
            with self._taking_up(f"rollout/{plan_id}"):
                self.rollouts[plan_id] = RolloutMachine(rollout, self.epoch)
                self.audit.know(rollout)
        for run_id, state in self.archive.all(RUN).items():
            if state.spec.campaign_id not in self.campaigns:
                continue  # its campaign was never wholly stored, or cannot be read
            over = state.status in OVER
            count = len(state.spec.experiments)
            periods = (
                [{} for _ in range(count)] if over else self.archive.periods(run_id, count)
            )
            with self._taking_up(f"run/{run_id}"):
                self.runs[run_id] = machine_of(state, periods, self.epoch)
        for kind in self.trial_kinds.values():
            stored = self.archive.get(kind.stored)
            if stored is not None:
                with self._taking_up(kind.stored.prefix):
                    trial = kind.machine_of(stored, self.epoch)
                    self.trials[trial.job_id] = trial
        for owner in self.unrestored.load():
            self.execute(owner, [events.SaveRun()])
        for owner in open_jobs(self.rollouts) if self.frozen else ():
            if self.rollouts[owner].paused:  # the last mgr was lost before it could tell it
                self.feed(owner, events.FREEZE)
        for owner in [*begun_jobs(self.runs), *begun_jobs(self.rollouts)]:
            self.note("mgr", owner, "resumed after a restart of the mgr")
            if self.frozen:
                self.feed(owner, events.FREEZE)
            self.feed(owner, events.Begin())
        for owner in open_jobs(self.trials):
            self.feed(owner, events.Begin())
        # what ended under the last mgr has had its turn
        self.had_their_turn = {*self.runs}.difference(open_jobs(self.runs))
        self.persistence.records.recover({run_id: m.state for run_id, m in self.runs.items()})
        self.analyses.catch_up()
        self.prune()
        self.ticked_at_s = self.clock()

    @contextmanager
    def _taking_up(self, key: str) -> Iterator[None]:
        """Leave out a stored value that no machine can be made of; the others go on."""
        try:
            yield
        except Exception as error:
            self.log.exception("%s is left out", key)
            self.archive.left_out(key, error)

    def cancel_loads(self) -> None:
        """Stop every measurement that is under way: the mgr stops."""
        with self.orders():
            for work in (self.measuring, self.questions, self.watching):
                work.cancel_all()

    # ---- the loop

    def tick(self) -> Optional[float]:
        """Do what is due; returns the seconds until something is due again, or None."""
        with self.orders():
            self.hear_store()
            now_s = self.clock()
            while not self._events.empty():
                owner, event = self._events.get_nowait()
                answer = event.answer if isinstance(event, events.Answered) else event
                if isinstance(answer, (events.LoadFailed, events.BlocksEnded)):
                    self.watchdog.cluster_at_s = 0.0  # where its OSDs are ill, that counts first
                    self._tell_of_cluster(now_s)
                self.feed(owner, event)
            all_jobs: Tuple[Mapping[str, Job], ...] = (self.runs, self.rollouts, self.trials)
            for owner in [
                job_id for jobs in all_jobs for job_id, job in jobs.items()
                if not job.over or job.wake_at_s is not None
            ]:
                self.guarded(owner, partial(self._tell_of_time, owner, now_s))
            self._start_waiting(now_s)
            self._tell_of_cluster(now_s)
            self._take_others()
            self.end_overdue(self.options().lease_ttl_s)
            self.osd_options.ask_again(self.runs, now_s, self.epoch)
            self.analyses.tick(now_s)
            self.persistence.retry(now_s, self.save, self.analyses)
            if self.persistence.prune_due:
                self.prune()
            self.ticked_at_s = self.clock()
            self.log.debug("tick: %.3f s", self.ticked_at_s - now_s)
            wakes = [job.wake_at_s for jobs in all_jobs for job in jobs.values()]
            due = [at_s for at_s in wakes if at_s is not None]
            return max(0.001, min(due) - now_s) if due else None

    def _tell_of_time(self, owner: str, now_s: float) -> None:
        machine = self.machine(owner)
        for event in self.watchdog.due(owner, machine, now_s) if machine is not None else ():
            self.feed(owner, event)

    def _tell_of_cluster(self, now_s: float) -> None:
        for owner, event in self.watchdog.unfit(self.runs, self.trials, now_s):
            self.feed(owner, event)

    def _start_waiting(self, now_s: float) -> None:
        if self.frozen or self.archive.trouble():
            return
        runs = self.runs
        if self.unstored:
            runs = {i: m for i, m in runs.items() if m.spec.campaign_id not in self.unstored}
        benched = {name for call in self.measuring.going_on() for name in call.touched.hosts}
        due = self.queue.due(runs, now_s, benched, self._apart)
        for run_id, event in self.unrestored.begin(due):
            if isinstance(event, events.Begin):
                spec = self.runs[run_id].spec
                self.note("mgr", run_id, f"started on {spec.hostname} {spec.domain_id}")
            self.feed(run_id, event)

    def _apart(self) -> Dict[str, str]:
        """Waiting runs that are not begun beside what is not over, and why; "" for a moment."""
        plans, reserved = open_jobs(self.rollouts), self.reserved
        if not (plans or reserved):
            return {}
        begun = {*begun_jobs(self.runs)}
        waiting = [run_id for run_id in open_jobs(self.runs) if run_id not in begun]
        cluster, found = self.view.cluster(), {}
        others = [
            *((f"plan {i}", touched_by(self.rollouts[i].rollout, cluster)) for i in plans),
            *((each.words, each.touched) for each in reserved),
        ]
        changing_now = at_once({}, self.rollouts)
        for run_id in waiting:
            spec = self.runs[run_id].spec
            if spec.toggles and changing_now:
                found[run_id] = ""
            for name, touched in others:
                mine = touched_by_run(spec)
                common = in_common(mine, touched.own)
                if common:
                    found[run_id] = f"waiting: {name} has {common} for itself"
                elif in_common(mine, touched):  # until its step is over
                    found.setdefault(run_id, "")
        return found

    def _take_others(self) -> None:
        """Measure another drive of its model, where one is well, for each run that fell ill.

        The cluster must be well otherwise: that is waited for as long as its campaign goes on.
        """
        going_on = open_jobs(self.runs)
        over = {*self.runs}.difference(going_on, self.had_their_turn)
        ended = [i for i, run in self.runs.items() if i in over and run.state.unfit]
        cluster = self.view.cluster() if ended else None
        if cluster is not None and cluster.blocking:
            campaigns = {self.runs[run_id].spec.campaign_id for run_id in going_on}
            ended = [i for i in ended if self.runs[i].spec.campaign_id not in campaigns]
            self.had_their_turn.update(ended)
            return
        self.had_their_turn.update(ended)
        if cluster is None or self.frozen or self.archive.trouble():
            return
        reports = list(believed(self.hosts.reports.values(), cluster))
        by_others = taken(self.rollouts, self.reserved, lambda: cluster)
        not_now = domains_taken(self.hosts.reports, by_others)
        for key, item in on_domains(self.unrestored.disputes(cluster.fsid), self.hosts.reports):
            not_now[key] = item.why
        for run_id in ended:
            ill = self.runs[run_id]
            campaign = self.campaigns.get(ill.spec.campaign_id)
            if campaign is None:
                continue
            runs = [
                machine.state for machine in self.runs.values()
                if machine.spec.campaign_id == campaign.campaign_id
            ]
            if not wants_another(ill.state, runs):
                continue
            try:
                spec = stand_in(
                    ill.state, ill.bytes_spent, campaign, runs, reports=reports, cluster=cluster,
                    disputed=not_now, throwaway=self.options().throwaway_cluster,
                    nonce=secrets.token_hex(8),
                )
            except Exception:
                # whatever it is: the others go on, and what was measured stands
                self.log.exception("no drive is taken for %s", run_id)
                continue
            if spec is None:
                said = "no other drive of its model is measured in its place"
                self.note("mgr", run_id, said)
            else:
                self._add_run(campaign, spec)

    def _add_run(self, campaign: Campaign, spec: RunSpec) -> None:
        campaign_id, run_id = campaign.campaign_id, spec.run_id

        def failed(error: StorageError) -> None:
            self.runs.pop(run_id, None)
            self.campaigns[campaign_id] = campaign
            self.archive.drop_run(run_id)
            self.note("mgr", campaign_id, f"{run_id} is not begun: {error.message}")

        more = replace(campaign, run_ids=(*campaign.run_ids, run_id))
        said = f"takes the place of {spec.instead_of}, whose OSDs are not well"
        self.note("mgr", run_id, said)
        self.put_runs(more, [RunState(spec, RunStatus.WAITING)], failed)
