"""What the module keeps over a mgr restart, typed: one folder of keys for each kind.

A stored value that cannot be read (another version, a damaged part) is left where it
is, listed in `unreadable`, and never guessed at.

Nothing here waits.  A method that takes `done` says by it when the mons have the value;
what the others store may come later, and what is dropped goes later still.
"""

from __future__ import annotations

import re
from typing import Dict, Iterable, List, Optional, Sequence, Tuple, Type, TypeVar

from ...core import codec, versions
from ...core.agents import Agent
from ...core.automation.state import AutoState
from ...core.change.rollout_state import Rollout
from ...core.drive.acceptance import Acceptance, Acceptances
from ...core.drive.accepted_proofs import AcceptedProofs
from ...core.errors import StorageError, WcacheError
from ...core.experiment.campaign import Campaign
from ...core.experiment.run_state import RunState
from ...core.experiment.slots import AnySlot, Periods, slot_at
from ...core.history import HistoryEntry, Kind
from ...core.host_report import HostReport
from ...core.ports import Done, Store, Write
from ...core.record import Period, Record
from ...core.verdict.foreign.document import Evidence
from ...core.verdict.load_profile import LoadProfile
from ...core.verdict.plp.trust import TrustedModels
from ...core.verdict.result import Result
from ...core.versions import Numbered
from ...deployment.form import Deployment
from .plans import StoredPlans
from .readable import VALUE_BYTES_MAX, readable, require_key

T = TypeVar("T", bound=Numbered)
_NUMBERED = re.compile(r"[cp][0-9]{1,12}(\.[0-9]+)?").fullmatch

_NUMBER = re.compile(r"[0-9]{1,18}").fullmatch
# Before the key of a value that could not be read, and that another one was stored in place of.
ASIDE = "aside/"


STATE_VERSION = 1


class Archive:
    """Typed access to the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.unreadable: Dict[str, str] = {}
        self._plans = StoredPlans(store)
        self._record_sizes: Optional[Dict[str, int]] = None

    def check_version(self) -> None:
        """Refuse to touch the state of a newer module; mark a fresh store as ours.

        One that is no number says nothing: each value has its own.
        """
        for key in self._store.keys(ASIDE):
            self.unreadable[key] = f"{key[len(ASIDE):]} could not be read, and another is stored"
        try:
            text = self._store.get("version")
        except StorageError as error:
            self.unreadable["version"] = error.message
            return
        if text is None:
            self._store.write_later("version", str(STATE_VERSION))
        elif not _NUMBER(text):
            self.unreadable["version"] = "version is no number"
        elif int(text) != STATE_VERSION:
            raise WcacheError(
                f"the stored state has version {text[:10]!r}, this module knows {STATE_VERSION}",
                "run the module that wrote it, or `ceph config-key rm` its keys",
            )

    def load(self, cls: Type[T], prefix: str) -> Dict[str, T]:
        """All values of a kind, by name; what cannot be read is in `unreadable`.

        Of numbered ones the name is a number, which is what makes it known.
        """
        found: Dict[str, T] = {}
        for key in self._store.keys(prefix + "/"):
            value = self.load_one(cls, key)
            if value is not None:
                found[key[len(prefix) + 1:]] = value
        return found

    def load_one(self, cls: Type[T], key: str) -> Optional[T]:
        """One value, or None."""
        try:
            text = self._store.get(key)
            if text is None:
                return None
            value = versions.loads(cls, text, bytes_max=VALUE_BYTES_MAX, what=key)
            require_key(key, value)
        except WcacheError as error:
            self.unreadable[key] = error.message
            return None
        return value

    def numbered(self, cls: Type[T], prefix: str) -> Dict[int, T]:
        """The same of a kind whose names are numbers, in their order."""
        found: Dict[int, T] = {}
        for name, value in sorted(self.load(cls, prefix).items()):
            if _NUMBER(name):
                found[int(name)] = value
            else:
                self.unreadable[f"{prefix}/{name}"] = f"{prefix}/{name} names no number"
        return found

    def left_out(self, key: str, error: Exception) -> None:
        """What was read of a key does not do: it is left out, and stays where it is."""
        self.unreadable[key] = codec.one_line(f"{key} does not do ({error!r})", 300)

    def _first(self, key: str) -> Tuple[Write, ...]:
        """What is written before a key: what could not be read of it is not lost with it."""
        if key not in self.unreadable or key.startswith(ASIDE):
            return ()
        why = self.unreadable.pop(key)
        try:
            text = self._store.get(key)
        except StorageError:
            return ()  # nothing can be made of it
        if text is None:
            return ()
        self.unreadable[ASIDE + key] = why
        return (Write(ASIDE + key, text),)

    def put(self, key: str, value: Numbered, done: Done) -> None:
        """Store a value that will be read again, else tell `done` why it would not be."""
        try:
            text = readable(key, value)
        except StorageError as error:
            done(error)
            return
        self._store.write((*self._first(key), Write(key, text)), done)

    def _put_raw(self, key: str, value: Numbered, done: Done) -> None:
        """Store what was measured: too much of it to be read back each time."""
        self._store.write((*self._first(key), Write(key, versions.dumps(value))), done)

    def put_later(self, key: str, value: Numbered) -> None:
        """Store a value that may wait, and of which only the newest counts."""
        for write in self._first(key):
            self._store.write_later(write.key, write.text)
        self._store.write_later(key, versions.dumps(value))

    def drop(self, key: str) -> None:
        """Remove a value."""
        self._store.write_later(key, None)

    def trouble(self) -> str:
        """One line on what the mons do not store now, or ""."""
        return self._store.trouble()

    def names(self, kind: str) -> List[str]:
        """Names of everything stored of a kind, what cannot be read included."""
        return [key[len(kind) + 1:] for key in self._store.keys(kind + "/")]

    # ---- one pair of methods for each kind

    @property
    def frozen(self) -> bool:
        """Whether an admin has frozen the cluster; a word that cannot be read may say so."""
        try:
            text = self._store.get("frozen")
        except StorageError as error:
            self.unreadable["frozen"] = error.message
            return True
        if text not in (None, "0", "1"):
            self.unreadable["frozen"] = "frozen is neither 0 nor 1, so nothing is changed"
        return text not in (None, "0")

    def set_frozen(self, frozen: bool, done: Done) -> None:
        """Freeze or thaw."""
        self._store.write((Write("frozen", "1" if frozen else "0"),), done)

    def acceptances(self) -> Tuple[Acceptance, ...]:
        """What an admin accepted and a probe's journal may still have."""
        found = self.load_one(Acceptances, "accepted")
        return found.items if found is not None else ()

    def put_acceptances(self, items: Tuple[Acceptance, ...], done: Done) -> None:
        """Store all of them."""
        self.put("accepted", Acceptances(items), done)

    def trusted_models(self) -> TrustedModels:
        """Drive models whose power-loss protection an admin vouches for."""
        return self.load_one(TrustedModels, "plp-trust") or TrustedModels()

    def put_trusted_models(self, models: TrustedModels, done: Done) -> None:
        """Store all of them."""
        self.put("plp-trust", models, done)

    def accepted_proofs(self) -> AcceptedProofs:
        """Hosts whose evidence of a drive model an admin has accepted."""
        return self.load_one(AcceptedProofs, "accepted-words") or AcceptedProofs()

    def put_accepted_proofs(self, proofs: AcceptedProofs, done: Done) -> None:
        """Store all of them."""
        self.put("accepted-words", proofs, done)

    def campaigns(self) -> Dict[str, Campaign]:
        """All campaigns by id."""
        return self.load(Campaign, "campaign")

    def put_campaign(
        self, campaign: Campaign, runs: Sequence[RunState], done: Done
    ) -> None:
        """Store a campaign with its runs.

        The header comes last: runs without one are not begun after a restart.
        """
        values: List[Tuple[str, Numbered]] = [(f"run/{run.spec.run_id}", run) for run in runs]
        values.append((f"campaign/{campaign.campaign_id}", campaign))
        try:
            writes = [
                write for key, value in values
                for write in (*self._first(key), Write(key, readable(key, value)))
            ]
        except StorageError as error:
            done(error)
            return
        self._store.write(writes, done)

    def drop_campaign(self, campaign_id: str) -> None:
        """Remove a campaign's header."""
        self.drop(f"campaign/{campaign_id}")

    def drop_run(self, run_id: str) -> None:
        """Remove a run with what is left of its periods."""
        self.drop_periods(run_id)
        self.drop(f"run/{run_id}")

    def runs(self) -> Dict[str, RunState]:
        """All runs by id."""
        return self.load(RunState, "run")

    def put_run(self, state: RunState, done: Done) -> None:
        """Store where a run stands."""
        self.put(f"run/{state.spec.run_id}", state, done)

    def periods(self, run_id: str, experiments: int) -> List[Periods]:
        """The saved periods of a run, one dict for each of its experiments."""
        found: List[Periods] = [{} for _ in range(experiments)]
        for name, period in self.load(Period, f"period/{run_id}").items():
            parts = name.split("/")
            if len(parts) == 3 and all(map(_NUMBER, parts)):
                index, number, second = (int(part) for part in parts)
                if index < experiments:
                    found[index][slot_at(number, bool(second))] = period
        return found

    def put_period(
        self, run_id: str, experiment: int, slot: AnySlot, period: Period, done: Done
    ) -> None:
        """Store a finished period."""
        key = f"period/{run_id}/{experiment}/{slot.stored_index}/{int(slot.second)}"
        self._put_raw(key, period, done)

    def drop_periods(self, run_id: str, experiment: Optional[int] = None) -> None:
        """Remove the periods of an experiment whose record is stored, or all of a run."""
        of = "" if experiment is None else f"{experiment}/"
        for key in self._store.keys(f"period/{run_id}/{of}"):
            self.drop(key)

    def record(self, record_id: str) -> Optional[Record]:
        """One record with its raw samples, or None."""
        return self.load_one(Record, f"record/{record_id}")

    def record_ids(self) -> List[str]:
        """Ids of all records that are kept."""
        return list(self.record_sizes())

    def record_sizes(self) -> Dict[str, int]:
        """Bytes that each record takes, by id."""
        if self._record_sizes is None:  # a listing reads every value, so it is done once
            found = self._store.sizes("record/")
            self._record_sizes = {key[len("record/"):]: size for key, size in found.items()}
        return dict(self._record_sizes)

    def put_record(self, record: Record, done: Done) -> None:
        """Store a record."""
        self.record_sizes()  # read before it is there
        self._put_raw(f"record/{record.record_id}", record, done)

    def record_is_stored(self, record_id: str) -> None:
        """A record has become one of those that are kept."""
        key = f"record/{record_id}"
        size = self._store.sizes(key).get(key, 0)
        self._record_sizes = {**self.record_sizes(), record_id: size}

    def drop_record(self, record_id: str) -> None:
        """Remove a record; its result stays."""
        self.drop(f"record/{record_id}")
        if self._record_sizes is not None:
            self._record_sizes.pop(record_id, None)

    def results(self) -> Dict[str, Result]:
        """All results by record id."""
        return self.load(Result, "result")

    def put_result(self, result: Result) -> None:
        """Store a result."""
        self.put_later(f"result/{result.record_id}", result)

    def drop_result(self, record_id: str) -> None:
        """Remove a result and its record, from which it would be made again."""
        self.drop_record(record_id)
        self.drop(f"result/{record_id}")

    def foreign(self) -> Dict[str, Evidence]:
        """What was imported, by the cluster that it is from."""
        return self.load(Evidence, "foreign")

    def put_foreign(self, evidence: Evidence, done: Done) -> None:
        """Store what was imported."""
        self.put(f"foreign/{evidence.cluster}", evidence, done)

    def drop_foreign(self, cluster: str) -> None:
        """Remove what was imported from a cluster."""
        self.drop(f"foreign/{cluster}")

    def automation(self) -> AutoState:
        """What `auto` allows, and how far it has come."""
        return self.load_one(AutoState, "automation") or AutoState()

    def put_automation(self, state: AutoState, done: Done) -> None:
        """Store it."""
        self.put("automation", state, done)

    def profiles(self) -> Dict[int, LoadProfile]:
        """Load profiles by OSD."""
        return self.numbered(LoadProfile, "profile")

    def put_profile(self, osd_id: int, profile: LoadProfile) -> None:
        """Store an OSD's load profile."""
        self.put_later(f"profile/{osd_id}", profile)

    def drop_profile(self, osd_id: int) -> None:
        """Remove an OSD's load profile."""
        self.drop(f"profile/{osd_id}")

    def rollouts(self) -> Dict[str, Rollout]:
        """Return all plans by id."""
        found: Dict[str, Rollout] = {}
        for plan_id in self._plans.ids():
            try:
                plan = self._plans.load(plan_id)
                require_key(f"rollout/{plan_id}", plan)
            except WcacheError as error:
                self.unreadable[f"rollout/{plan_id}"] = error.message
                continue
            if plan is not None:
                found[plan_id] = plan
        self._plans.sweep()
        return found

    def put_rollout(self, rollout: Rollout, done: Done) -> None:
        """Store a plan and how far it has come."""
        self._plans.put(rollout, done)

    def drop_rollout(self, plan_id: str) -> None:
        """Remove a plan."""
        self._plans.drop(plan_id)

    def reports(self) -> Dict[str, HostReport]:
        """The last report of each host."""
        return self.load(HostReport, "report")

    def put_report(self, report: HostReport) -> None:
        """Store a host's report."""
        self.put_later(f"report/{report.hostname}", report)

    def agents(self) -> Dict[str, Agent]:
        """The probes as last stored."""
        return self.load(Agent, "agent")

    def put_agent(self, agent: Agent) -> None:
        """Store who speaks for a host (when that changes, not at every call)."""
        self.put_later(f"agent/{agent.hostname}", agent)

    def deployments(self) -> Dict[str, Deployment]:
        """The hosts that probes were added to."""
        return self.load(Deployment, "deployment")

    def put_deployment(self, item: Deployment) -> None:
        """Store how a host was added."""
        self.put_later(f"deployment/{item.hostname}", item)

    def drop_host(self, hostname: str) -> None:
        """Remove a host's report and probe, and how it was added."""
        self.drop(f"deployment/{hostname}")
        self.drop(f"report/{hostname}")
        self.drop(f"agent/{hostname}")

    def history(self, log: str) -> Dict[int, HistoryEntry]:
        """The lines of an audit log by their numbers, in order."""
        return self.numbered(HistoryEntry, log)

    def history_next(self, log: str) -> int:
        """The number after all that a log has used, what cannot be read included."""
        return max((int(n) for n in self.names(log) if _NUMBER(n)), default=-1) + 1

    def put_history(self, log: str, number: int, entry: HistoryEntry) -> None:
        """Store a line of an audit log before what is stored after it; a probe's line may wait.

        A mgr that is told to end does so at once (handle_mgr_signal() of Ceph's src/mgr/Mgr.cc),
        and what a plan is stored to have come to is not told again.
        """
        key, text = f"{log}/{number:010d}", versions.dumps(entry)

        def done(error: Optional[StorageError]) -> None:
            if error is not None:
                self._store.write_later(key, text)  # tries again until the mons have it

        if entry.kind is Kind.PROBE:
            self._store.write_later(key, text)
        else:
            self._store.write((Write(key, text),), done)

    def drop_history(self, log: str, number: int) -> None:
        """Remove a line of an audit log."""
        self.drop(f"{log}/{number:010d}")


def next_number(ids: Iterable[str]) -> int:
    """The number of a new campaign or plan, after all that `ids` (c1, c1.0, p3) have."""
    numbers = [int(key[1:].partition(".")[0] or "0") for key in ids if _NUMBERED(key)]
    return max(numbers, default=0) + 1
