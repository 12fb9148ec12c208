"""The module's options, as a frozen value the rest of the code reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Dict, List, Mapping, Tuple, Type, TypeVar

from .knobs.registry import KnobOptions

T = TypeVar("T")


@dataclass(frozen=True)
class Options(KnobOptions):
    """Values of the module options; `DESCRIPTIONS` says what each is for."""

    throwaway_cluster: bool = False
    host_names: str = ""
    poll_idle_s: float = 30.0
    poll_busy_s: float = 0.05
    lease_ttl_s: float = 60.0
    settle_s: float = 0.4
    period_s: float = 2.0
    pairs_max: int = 80
    drives_per_model: int = 6
    parallel_hosts_max: int = 1
    latency_limit_ms: float = 2000.0
    experiment_seconds_max: float = 300.0
    experiment_bytes_max: int = 4 * 1024**3
    experiment_client_wait_max_s: float = 600.0
    no_difference_share: float = 0.5
    traffic_commits_min: int = 20
    canary_wait_s: float = 60.0
    gate_by_load: bool = True
    gate_block_s: float = 5.0
    rollout_parallel_max: int = 2
    rollout_harm_max_s: float = 600.0
    pause_max_h: float = 24.0
    python_path: str = "/usr/bin/python3"
    analysis_seconds_max: float = 20.0
    auto_windows: str = ""
    auto_seconds_per_day: float = 14400.0
    auto_bytes_per_day: int = 64 * 1024**3
    auto_quiet_s: float = 3600.0
    auto_persist: bool = False
    web: str = "off"
    web_addr: str = ""
    web_port: int = 8447
    web_metrics: bool = False

    def of(self, kind: Type[T]) -> T:
        """Return the options of one knob, by the class that its folder has for them."""
        assert isinstance(self, kind)  # KnobOptions is made of all of them  # noqa: S101
        return self


# name: (description, lowest, highest); numbers outside are refused when they are set
DESCRIPTIONS: Dict[str, Tuple[str, Any, Any]] = {
    **{item.name: item.metadata["option"] for item in fields(KnobOptions)},
    "throwaway_cluster": (
        "The data in this cluster is worthless: allow simulated hosts, and loop devices that drop "
        "flushes. Never set this where data matters.", None, None),
    "host_names": (
        "Keys of probes that have another name than Ceph's maps have for their host, as "
        "'key=host, key=host' (the host is that of `ceph osd metadata`). A name that differs by "
        "its domain alone needs no entry.", None, None),
    "poll_idle_s": ("Seconds between two calls of an idle probe (jitter is added).", 0.2, 300.0),
    "poll_busy_s": ("Seconds between two calls of a probe during an experiment.", 0.01, 5.0),
    "lease_ttl_s": (
        "A probe that hears nothing for this many seconds restores the prior cache state.",
        2.0, 600.0),
    "settle_s": (
        "Minimum seconds from a toggle to the first sample; each experiment may choose more.",
        0.0, 60.0),
    "period_s": ("Length in seconds of one period of the OSD's own traffic.", 0.5, 300.0),
    "pairs_max": ("Pairs of periods after which an experiment gives up.", 4, 80),
    "drives_per_model": ("Drives of one drive model that a campaign samples.", 1, 1000),
    "parallel_hosts_max": ("Number of hosts that may measure at the same time.", 1, 1000),
    "latency_limit_ms": (
        "A sample slower than this aborts the experiment at once. On a drive of several OSDs (DB, "
        "WAL) each of them is watched, every second, from the toggle on. A drive of more than 64 "
        "OSDs is left alone.", 1.0, 60000.0),
    "experiment_seconds_max": ("Drive seconds that one experiment may take.", 5.0, 86400.0),
    "experiment_bytes_max": ("Bytes that one experiment may write.", 4096, 2**40),
    "experiment_client_wait_max_s": (
        "Extra seconds that one experiment may make clients wait, summed over all clients, of all "
        "OSDs on the drive.",
        1.0, 1000000.0),
    "no_difference_share": (
        "Share of these budgets that may be spent on showing that there is no difference.",
        0.05, 1.0),
    "traffic_commits_min": (
        "Commits a period needs before the OSD's own traffic counts as a measurement.",
        4, 1000000),
    "canary_wait_s": (
        "Seconds to watch the first changed drive before changing the next.", 0.0, 86400.0),
    "gate_by_load": (
        "Judge each step of a rollout by the commit latency of clients' writes beside unchanged "
        "OSDs. If it is off, only benches before and after each change judge.", None, None),
    "gate_block_s": (
        "Seconds in one block of clients' writes: 96 to 256 are taken before the first step, 8 to "
        "384 after each.",
        0.5, 600.0),
    "rollout_parallel_max": (
        "Drives of one failure domain that a rollout changes and judges together.", 1, 32),
    "rollout_harm_max_s": (
        "Extra seconds that a rollout may make clients wait, summed over all clients, by what is "
        "measured while its steps are judged; then it pauses.", 1.0, 1e9),
    "pause_max_h": (
        "Hours that a rollout begun by `ceph wcache auto` may stay paused; then what it has not "
        "judged goes back and it ends.", 0.01, 8760.0),
    "python_path": (
        "Interpreter of the analysis child; it needs numpy and scipy. Refused unless it and its "
        "folders belong to root (or the mgr's user) and nobody else can write there.",
        None, None),
    "analysis_seconds_max": ("Seconds one analysis may take before it is stopped.", 1.0, 600.0),
    "auto_windows": (
        "When `ceph wcache auto` may begin something, in UTC: '22:00-06:00; sat,sun 00:00-24:00'. "
        "Empty: at any time.", None, None),
    "auto_seconds_per_day": (
        "Drive seconds that automatic campaigns may take in a day (UTC).", 0.0, 1e9),
    "auto_bytes_per_day": (
        "Bytes that automatic campaigns may write in a day (UTC).", 0, 2**50),
    "auto_quiet_s": (
        "Seconds after new OSDs have come before anything is begun.",
        0.0, 604800.0),
    "auto_persist": (
        "Whether what is applied automatically also lasts over a power cycle.", None, None),
    "web": (
        "Where the module's web page is served: off, loopback (the active mgr's host alone), or "
        "tls (anywhere). It changes nothing, and wants a login of the dashboard or a token of "
        "`ceph wcache web token`.", None, None),
    "web_addr": (
        "Address that the web page listens on with tls, by mgr if need be "
        "(mgr/wcache/ID/web_addr). Empty: all addresses of the mgr's host.", None, None),
    "web_port": (
        "Port of the web page, by mgr if need be (mgr/wcache/ID/web_port).", 1, 65535),
    "web_metrics": (
        "Whether anybody who reaches the web page may read its /metrics without a login, as with "
        "Ceph's own prometheus module. It names drive models, but no hosts and no OSDs.", None,
        None),
}

# Options that take one of a few words.
CHOICES: Dict[str, Tuple[str, ...]] = {"web": ("off", "loopback", "tls")}
# Options that a mgr may have a value of its own for: mgr/wcache/ID/NAME.
OF_EACH_MGR = ("web_addr", "web_port")

_TYPE_NAMES = {"bool": "bool", "int": "int", "float": "float", "str": "str"}


def module_options() -> List[Dict[str, Any]]:
    """The options as keyword arguments for Ceph's `Option`."""
    return [
        {
            "name": item.name, "type": _TYPE_NAMES[str(item.type)], "default": item.default,
            "desc": text, "runtime": True,
            **({} if low is None else {"min": low, "max": high}),
            **({"enum_allowed": list(CHOICES[item.name])} if item.name in CHOICES else {}),
        }
        for item in fields(Options) for text, low, high in [DESCRIPTIONS[item.name]]
    ]


def read_options(values: Mapping[str, Any]) -> Options:
    """Options from raw values; what is missing or out of bounds keeps its default.

    Ceph checks the type but, in 16, not the bounds.
    """
    kept: Dict[str, Any] = {}
    for item in fields(Options):
        value = values.get(item.name)
        if value is None:
            continue
        kind = type(item.default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        _, low, high = DESCRIPTIONS[item.name]
        good = type(value) is kind and (low is None or low <= value <= high)
        good = good and value in CHOICES.get(item.name, (value,))
        if good:
            kept[item.name] = value
    return Options(**kept)
