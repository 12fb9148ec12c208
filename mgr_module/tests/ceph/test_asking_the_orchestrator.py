"""The orchestrator is asked by Ceph's own client, and its absence is no failure."""

import sys
from types import SimpleNamespace

import pytest
from wcache.ceph.command import CommandFailed, Osds
from wcache.ceph.config import CephConfig
from wcache.ceph.surroundings import CephSurroundings
from wcache.core.config_database import ConfigEdit
from wcache.core.errors import RefusedError


class Mgr:
    """Modules of a mgr by name, and the option that chooses the orchestrator."""

    def __init__(self, backend, **modules):
        self.backend, self.modules = backend, modules

    def get_module_option_ex(self, module, key, default=None):
        assert (module, key) == ("orchestrator", "orchestrator")
        return self.backend or default

    def send_command(self, result, svc_type, svc_id, command, tag):
        # ceph_send_command in BaseMgrModule.cc
        if svc_type not in ("mon", "osd", "mds", "pg"):
            raise ValueError(f"unknown service type: {svc_type}")
        raise AssertionError(f"sent to {svc_type}: {command}")

    def remote(self, module_name, method_name, *args):
        return getattr(self.modules[module_name], method_name)(*args)


class Backend:
    """An orchestrator's backend, which hides what it raises in its answer, as Ceph's do."""

    def __init__(self, *hostnames):
        self.hostnames = hostnames
        self.labels = set()

    def get_hosts(self):
        return SimpleNamespace(result=[SimpleNamespace(hostname=one) for one in self.hostnames])

    def add_host_label(self, hostname, label):
        if hostname not in self.hostnames:
            return SimpleNamespace(error=ValueError(f"host {hostname} does not\nexist"))
        self.labels.add((hostname, label))
        return SimpleNamespace(result=f"Added label {label} to host {hostname}")

    def remove_host_label(self, hostname, label):
        self.labels.discard((hostname, label))
        return SimpleNamespace(result=f"Removed label {label} from host {hostname}")


class Client:
    """As orchestrator/_interface.py: every method is one of the backend that is chosen."""

    def set_mgr(self, mgr):
        self.mgr = mgr

    def __getattr__(self, method):
        # _select_orchestrator, which the module orchestrator has
        backend = self.mgr.get_module_option_ex("orchestrator", "orchestrator")
        return lambda *args: self.mgr.remote(backend, method, *args)


def result_or_raise(answer):
    if hasattr(answer, "error"):
        raise answer.error
    return answer.result


@pytest.fixture
def interface(monkeypatch):
    found = SimpleNamespace(OrchestratorClientMixin=Client, raise_if_exception=result_or_raise)
    monkeypatch.setitem(sys.modules, "orchestrator", found)


def test_the_hosts_are_those_of_the_backend(interface):
    orchestrator = CephSurroundings(Mgr("cephadm", cephadm=Backend("h1", "h2")))
    assert orchestrator.orchestrator() == "cephadm"
    assert orchestrator.hosts() == ("h1", "h2")
    assert "h1" in orchestrator.ask("add_host_label", "h1", "x")


def test_without_an_orchestrator_nothing_is_imported_and_there_is_no_list(monkeypatch):
    monkeypatch.setitem(sys.modules, "orchestrator", None)  # importing it would fail
    assert CephSurroundings(Mgr("")).hosts() is None


@pytest.mark.parametrize("missing", ["the client", "the backend", "the host"])
def test_one_that_fails_is_told_of_in_one_line(interface, monkeypatch, missing):
    if missing == "the client":
        monkeypatch.setitem(sys.modules, "orchestrator", None)
    modules = {} if missing == "the backend" else {"cephadm": Backend("h1")}
    orchestrator = CephSurroundings(Mgr("cephadm", **modules))
    with pytest.raises(CommandFailed) as failure:
        orchestrator.ask("add_host_label", "h9", "x")
    assert "the orchestrator cephadm refused `add_host_label`" in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_label_is_set_and_removed_by_the_backend_since_no_command_reaches_a_mgr(interface):
    backend = Backend("h1")
    mgr = Mgr("cephadm", cephadm=backend)
    config = CephConfig(mgr, (), osds=Osds(mgr), orchestrator=CephSurroundings(mgr))
    config.write(ConfigEdit("h1/cephadm", "_no_autotune_memory", "label", None))
    assert backend.labels == {("h1", "_no_autotune_memory")}
    config.write(ConfigEdit("h1/cephadm", "_no_autotune_memory", None, "label"))
    assert backend.labels == set()
    with pytest.raises(RefusedError, match="does not exist"):
        config.write(ConfigEdit("h9/cephadm", "_no_autotune_memory", "label", None))
