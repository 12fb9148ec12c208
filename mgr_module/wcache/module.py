"""The ceph-mgr module: wiring only.  Options, commands, serve loop, health checks."""

from __future__ import annotations

import errno
import threading
import time
from functools import partial
from typing import Any, Callable, ClassVar, Dict, List, Optional, Tuple, Union

from mgr_module import MgrModule, MgrStandbyModule

from .ceph import compat as ceph_compat
from .ceph.blocks import CephBlocks
from .ceph.command import Osds
from .ceph.config import CephConfig, OwnOptions, disable_soon
from .ceph.health import CephProgress, health_checks
from .ceph.loads import CephLoads
from .ceph.osd_options import CephOsdOptions
from .ceph.store import CephKeys, KvStore
from .ceph.store_queue import StoreQueue
from .ceph.surroundings import CephKeyring, CephStops, CephSurroundings, Upgrades
from .ceph.view import CephTraffic, CephView
from .ceph.web_host import CephWebHost, StandbyWebHost, WebTokens
from .commands import commands
from .commands.service import Service
from .commands.views import Views
from .core.fleet import set_up
from .core.fleet.claims import host_names_of
from .engine.config_watch import Starter
from .engine.engine import Engine, steady_clock
from .engine.evidence.analysis_child import AnalysisChild
from .engine.executor import Ports
from .engine.gate.kept_blocks import KeptBlocks
from .engine.load_watch import LoadWatch
from .engine.storing.archive import Archive
from .knobs.knob import option_names
from .knobs.registry import KNOBS
from .options import OF_EACH_MGR, Options, module_options, read_options
from .services.deploying import AgentService, KeyWork
from .services.plans.planners import Parts, make_all, with_all
from .web.app import App
from .web.dashboard_login import DashboardLogin
from .web.pages import Reader
from .web.server import WebPage, redirecting

# Health and the loads of a quiet cluster are looked at this often, in seconds.
IDLE_TICK_S = 5.0
BUSY_TICK_S = 0.5


class Module(MgrModule):
    """`mgr/wcache`."""

    MODULE_OPTIONS = ceph_compat.options(module_options())
    COMMANDS = commands.specs()
    NOTIFY_TYPES: ClassVar[List[str]] = []  # `serve` looks by itself
    if ceph_compat.COMMAND_REGISTRY is not None:
        CLICommand = ceph_compat.COMMAND_REGISTRY

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wake = threading.Event()
        self._run = True
        self._options = Options()
        self._own = OwnOptions(self, self._wake.set)
        self._read_options()
        upgrades, points = Upgrades(self), partial(ceph_compat.points, self)
        view = CephView(
            self, bench_empties_caches=ceph_compat.BENCH_EMPTIES_CACHES,
            upgrade=upgrades.under_way,
            host_names=lambda: host_names_of(self._options.host_names), series=points,
        )
        self._analysis = AnalysisChild(
            python=lambda: self._options.python_path,
            seconds_max=lambda: self._options.analysis_seconds_max,
        )
        osds, surroundings = Osds(self, view.is_up), CephSurroundings(self)
        loads = CephLoads(
            osds, commits_min=lambda: self._options.traffic_commits_min,
            erasure_coded=view.erasure_coded, move_counters=ceph_compat.move_counters,
            clock=steady_clock(),
        )
        self._store = StoreQueue(KvStore(CephKeys(self)))
        archive = Archive(self._store)
        self._load_watch = LoadWatch(
            work=loads.work, archive=archive, world=lambda: self._engine.world(),
            log=self.log.warning,
        )
        self._engine = Engine(Ports(
            archive=archive, view=view, loads=loads, analysis=self._analysis,
            database=CephConfig(
                self, (*option_names(KNOBS), *set_up.OPTIONS),
                osds=osds, orchestrator=surroundings,
            ),
            blocks=CephBlocks(osds, lambda: self._options.traffic_commits_min),
            stops=CephStops(self),
            osd_options=CephOsdOptions(osds),
            cluster_log=lambda text: self.cluster_log(
                "cluster", self.ClusterLogPrio.WARN, text
            ),
            options=lambda: self._options, profiles=self._load_watch.profiles,
            log=self.log,
        ), wake=self._wake.set)
        agents = AgentService(self._engine, KeyWork(CephKeyring(self)), surroundings)
        knobs = with_all(make_all(Parts(
            self, self._engine, archive, view, surroundings, self.log,
            loads.benched_at_s if ceph_compat.BENCH_EMPTIES_CACHES else None,
        )))
        self._service = Service(
            self._engine, knobs, agents, CephTraffic(points), self.log,
            drop_options=self._own.drop, disable_soon=partial(disable_soon, self, self.log),
        )
        self._web = self._web_page(self._engine.kept_blocks)
        self._views = Views(
            self._engine, self._service, self._load_watch.by_osd, self._web.findings
        )
        self._progress = CephProgress(self)
        # what may fail comes first, and what it resumes only once
        self._starter = Starter((
            self._store.start, upgrades.look, self._load_watch.load, self._engine.load,
            *(knob.load for knob in knobs.values()), self._service.auto.load,
            *(knob.start for knob in knobs.values()), self._views.warm, self._load_watch.start,
            self._engine.config.start, self._web.start,
        ))

    def _web_page(self, blocks: KeptBlocks) -> WebPage:
        host = CephWebHost(self, lambda: self._options)
        login = DashboardLogin(uri=host.dashboard_uri, certificates=host.dashboard_certificates)
        reader = Reader(
            lambda cmd: commands.answer(
                self._service, self._views, cmd, "", self.log.exception
            ), blocks,
        )
        tokens = self._service.web_tokens
        return WebPage(
            host, tokens=tokens, log=self.log.warning,
            make_app=lambda secure: App(
                reader, tokens, login, secure, self.log.exception,
                lambda: self._options.web_metrics,
            ),
        )

    def config_notify(self) -> None:
        """Options changed: read them all, and ask whether some are gone."""
        self._own.changed()
        self._read_options()

    def _read_options(self) -> None:
        """Read them all; a bad value keeps its default."""
        self._options = _options_of(self, self._own.is_set)

    def handle_command(self, inbuf: str, cmd: Dict[str, Any]) -> Tuple[int, str, str]:
        """Answer one `ceph wcache` command; never an exception.

        What begins something goes by the options as the mons have them now.
        """
        ready = self._starter.ready
        if ready and cmd.get("prefix") in commands.BEGINNING:
            self._own.ask()
            self._read_options()
        return commands.answer(
            self._service, self._views, cmd, inbuf or "", self.log.exception,
            None if ready else self._starter.error,
        )

    def self_test(self) -> None:
        """`ceph mgr self-test module wcache`: every command that only looks gives an answer.

        Raises RuntimeError where one does not, or where the stored state cannot be read.
        """
        if not self._starter.ready:
            raise RuntimeError(f"wcache has not started: {self._starter.error or 'starting'}")
        for command in commands.COMMANDS:
            wanted = [item for item in command.arguments if "req=false" not in item]
            if command.perm != "r" or wanted:
                continue
            cmd = {"prefix": command.prefix, "format": "json"}
            code, _, error = commands.answer(
                self._service, self._views, cmd, "", self.log.exception
            )
            if code == -errno.EIO:
                raise RuntimeError(f"{command.prefix}: {error}")

    def serve(self) -> None:
        """Take up the stored state, then do what is due until the mgr stops."""
        while self._run:
            wait_s: Optional[float] = None
            idle_s = BUSY_TICK_S
            try:
                if self._service.leaving.left:
                    self._has_left()
                elif self._starter.ready:
                    try:
                        if self._own.look(time.monotonic()):
                            self._read_options()
                        wait_s = self._engine.tick()
                        self._service.tick()
                    finally:
                        self._publish()  # also that the engine is stuck
                    idle_s = BUSY_TICK_S if self._engine.is_active() else IDLE_TICK_S
                else:
                    idle_s = IDLE_TICK_S  # an error while starting: try again seldom
                    wait_s = self._start()
            except Exception:
                # the loop must go on: a campaign under way holds leases
                self.log.exception("tick failed")
            # not `min`: a start that keeps failing is tried ever more seldom
            if wait_s is None or (self._starter.ready and wait_s > idle_s):
                wait_s = idle_s
            self._wake.wait(wait_s)
            self._wake.clear()

    def _start(self) -> float:
        """Try to start; returns the seconds until the next try, or the first tick."""
        before = self._starter.error
        if self._starter.go_on():
            world = self._engine.world()
            frozen = ", frozen" if world.frozen else ""
            self.log.info("started with %d campaigns%s", len(world.campaigns), frozen)
            return 0.0
        if self._starter.error != before:
            self.log.error("cannot start: %s", self._starter.error)
        self.set_health_checks(health_checks(self._starter.findings()))
        return self._starter.retry_s

    def _has_left(self) -> None:
        """Nothing of wcache is in the cluster any more: nothing is read, set or told again."""
        self.set_health_checks({})
        self._progress.show({}, self._views.ended)
        self.shutdown()

    def _publish(self) -> None:
        """Health checks and progress are lost at a mgr restart, so set them every time."""
        self.set_health_checks(health_checks(self._views.findings(), self._views.headlines()))
        self._progress.show(self._views.under_way(), self._views.ended)

    def shutdown(self) -> None:
        """The mgr stops or hands over: leases run on until the next mgr renews them."""
        self._run = False
        self._wake.set()
        self._engine.cancel_loads()
        for knob in self._service.planners.values():
            knob.close()
        self._engine.config.close()
        self._load_watch.close()
        self._analysis.close()
        self._store.close()
        self._web.close()  # last: readers may take seconds


class StandbyModule(MgrStandbyModule):
    """`mgr/wcache` on a standby: its web page leads to the active mgr's, and that is all."""

    MODULE_OPTIONS = ceph_compat.options(module_options())

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._web = WebPage(
            StandbyWebHost(self, lambda: _options_of(self)), tokens=WebTokens(),
            log=self.log.warning, make_app=lambda secure: redirecting(self.get_active_uri),
        )

    def serve(self) -> None:
        """Follow the options until the mgr stops or becomes active."""
        self._web.run()

    def shutdown(self) -> None:
        """The mgr stops or becomes active."""
        self._web.close()


def _options_of(
    mgr: Union[Module, StandbyModule],
    is_set: Callable[[str, Any], bool] = lambda name, value: True,
) -> Options:
    """What the options say; some may be set for one mgr alone.  `is_set`: the mons have a value."""
    found = {
        option["name"]: (
            mgr.get_localized_module_option if option["name"] in OF_EACH_MGR
            else mgr.get_module_option
        )(option["name"])
        for option in module_options()
    }
    return read_options({name: value for name, value in found.items() if is_set(name, value)})
